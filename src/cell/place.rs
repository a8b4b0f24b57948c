use super::life::Life;
use super::{Hashes, ports};
use crate::host::ServerCgroup;
use crate::plan::Program;
use crate::record::{Outcome, Stage};

impl Life<'_> {
    /// Port, limits, and what both programs are made of.
    pub(super) async fn place(&mut self) -> Result<(), Outcome> {
        self.enter(Stage::Place);
        let cell = &self.job.cell;
        self.record.server.cores_asked = cell.cores.server.clone();
        self.record.client.cores_asked = cell.cores.client.clone();
        self.record.server.limits_asked = cell.limits.clone();
        self.record.server.versions = cell.server.program.versions.clone();
        self.record.client.versions = cell.client.program.versions.clone();
        let mut hashes = Hashes::default();
        let mut hash = |program: &Program| {
            let mut program = program.clone();
            hashes.fill(&mut program);
            program.sha256
        };
        self.record.server.sha256 = hash(&cell.server.program);
        self.record.client.sha256 = hash(&cell.client.program);
        self.record.runner = self.job.runner.clone().unwrap_or_else(|| hashes.runner());
        self.port = match cell.port {
            None => match ports::free_port() {
                Ok(port) => port,
                Err(error) => return Err(self.failed(format!("no port is free: {error}")).await),
            },
            Some(port) if ports::is_free(port) => port,
            Some(port) => {
                let holder =
                    ports::holder(port).unwrap_or_else(|| "a process that we may not see".to_owned());
                let message = format!(
                    "port {port} of 127.0.0.1 is in use by {holder}; end it, or leave `port` out of the manifest"
                );
                return Err(self.failed(message).await);
            }
        };
        if let Some(limits) = &cell.limits {
            let name = ServerCgroup::name(std::process::id(), self.job.order);
            match ServerCgroup::create(&name, limits) {
                Ok(cgroup) => {
                    self.record.server.limits_seen = Some(cgroup.read_back());
                    self.cgroup = Some(cgroup);
                }
                Err(why) => return Err(self.failed(why).await),
            }
        }
        Ok(())
    }
}
