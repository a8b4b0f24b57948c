use chrono::{DateTime, Utc};
use hdrhistogram::Histogram;

use crate::host::Fingerprint;
use crate::manifest::Rules;
use crate::plan::{
    CellId, ClientSpec, Cores, Job, Program, ResolvedCell, Role, ServerSpec, Timeouts, Workload,
};
use crate::record::store::{PlannedCell, RUN_SCHEMA, RunMeta};
use crate::record::{Counts, Flag, Outcome, Record, Trial};
use crate::stats::encode_histogram;
use crate::workload::protocol::Batch;
use crate::workload::{Extent, Kind, Mask, Opcode, Params, Wait};

/// Microseconds in nanoseconds.
pub(crate) fn ns(us: u64) -> u64 {
    us * 1_000
}

/// A made-up record, described by what a test is about.
#[derive(Clone)]
pub(crate) struct Made {
    id: CellId,
    params: Params,
    rates: Vec<f64>,
    server_cores: f64,
    client_cores: f64,
    busy: Option<f64>,
    latency: Vec<u64>,
    server_on: Vec<u32>,
    outcome: Outcome,
    flags: Vec<Flag>,
}

const TRIAL_ROUNDS: u64 = 40_000;

impl Made {
    pub(crate) fn pingpong(server: &str) -> Self {
        let params = Params {
            kind: Kind::Pingpong,
            payload: 16,
            opcode: Opcode::Binary,
            pairs: 1,
            in_flight: 1,
            rate_per_s: None,
            threads: 1,
            warmup: Extent::Rounds(20_000),
            trial: Extent::Rounds(TRIAL_ROUNDS),
            trials: 5,
            mask: Mask::Zero,
            wait: Wait::Spin,
        };
        Made {
            id: CellId::new("pingpong-16", server, "native"),
            params,
            rates: vec![30e3],
            server_cores: 0.54,
            client_cores: 1.0,
            busy: Some(0.4),
            latency: vec![ns(28), ns(30), ns(45)],
            server_on: vec![0],
            outcome: Outcome::Ok,
            flags: Vec::new(),
        }
    }

    pub(crate) fn load(server: &str) -> Self {
        let mut made = Made::pingpong(server);
        made.id.workload = "load-16".to_owned();
        made.params.kind = Kind::Load;
        made.params.pairs = 64;
        made
    }

    pub(crate) fn client(mut self, client: &str) -> Self {
        self.id.client = client.to_owned();
        self
    }

    pub(crate) fn rates(mut self, rates: &[f64]) -> Self {
        self.rates = rates.to_vec();
        self
    }

    pub(crate) fn server_cores(mut self, cores: f64) -> Self {
        self.server_cores = cores;
        self
    }

    pub(crate) fn client_cores(mut self, cores: f64) -> Self {
        self.client_cores = cores;
        self
    }

    pub(crate) fn busy(mut self, busy: f64) -> Self {
        self.busy = Some(busy);
        self
    }

    pub(crate) fn no_polls(mut self) -> Self {
        self.busy = None;
        self
    }

    pub(crate) fn latency(mut self, latency: &[u64]) -> Self {
        self.latency = latency.to_vec();
        self
    }

    pub(crate) fn server_on(mut self, cores: &[u32]) -> Self {
        self.server_on = cores.to_vec();
        self
    }

    pub(crate) fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    pub(crate) fn flag(mut self, name: &str, detail: &str) -> Self {
        self.flags.push(Flag { name: name.to_owned(), detail: detail.to_owned() });
        self
    }

    pub(crate) fn id(&self) -> CellId {
        self.id.clone()
    }

    /// The record of one pass.
    pub(crate) fn record(&self, pass: u32) -> Record {
        let cell = ResolvedCell {
            id: self.id.clone(),
            workload: Workload { name: self.id.workload.clone(), params: self.params.clone() },
            server: ServerSpec {
                name: self.id.server.split('@').next().unwrap_or_default().to_owned(),
                runtime: self.id.server.split('@').nth(1).map(str::to_owned),
                role: Role::Relay,
                program: Program::default(),
                settings: Default::default(),
                max_payload: None,
            },
            client: ClientSpec { name: self.id.client.clone(), runtime: None, program: Program::default() },
            cores: Cores { server: self.server_on.clone(), client: vec![1] },
            limits: None,
            timeouts: Timeouts::default(),
            port: None,
        };
        let job = Job {
            run_id: "20261010-120000-abcd".to_owned(),
            manifest: "quick".to_owned(),
            pass,
            order: 0,
            seed: 20_261_010,
            cell,
            log_dir: None,
            runner: None,
        };
        let mut record = Record::blank(&job, self.outcome.clone(), at(pass));
        record.flags.clone_from(&self.flags);
        record.host.fingerprint = fingerprint();
        record.server.versions.insert(job.cell.server.name.clone(), "1.0.0".to_owned());
        if record.is_ok() {
            record.trials = self.rates.iter().map(|rate| self.trial(*rate)).collect();
        }
        record
    }

    /// A record of each pass, each pass of trials at one rate.
    pub(crate) fn passes(&self, rates: &[f64]) -> Vec<Record> {
        (1..).zip(rates).map(|(pass, rate)| self.clone().rates(&[*rate; 5]).record(pass)).collect()
    }

    fn trial(&self, rate: f64) -> Trial {
        let elapsed_ns = (TRIAL_ROUNDS as f64 / rate * 1e9) as u64;
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for value in &self.latency {
            histogram.record(*value).unwrap();
        }
        let mut trial = Trial {
            batch: Batch {
                rounds: TRIAL_ROUNDS,
                elapsed_ns,
                latency: Some(encode_histogram(&histogram)),
                empty_polls: self.busy.map(|_| 1_000_000),
                busy: self.busy,
                ..Batch::default()
            },
            window_ns: elapsed_ns,
            ..Trial::default()
        };
        trial.server.cpu_ns = (self.server_cores * elapsed_ns as f64) as u64;
        trial.client.cpu_ns = (self.client_cores * elapsed_ns as f64) as u64;
        trial
    }
}

fn at(second: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(1_791_633_600 + i64::from(second), 0).unwrap()
}

fn fingerprint() -> Fingerprint {
    Fingerprint {
        class: "testium-2c-kvm-6".to_owned(),
        kernel: "6.1.0-test".to_owned(),
        os: "Testix 12".to_owned(),
        arch: "x86_64".to_owned(),
        cpu_model: "Testium 9000".to_owned(),
        cpus: 2,
        physical_cores: 2,
        numa_nodes: 1,
        virtualisation: "kvm".to_owned(),
        memory_bytes: 24 << 30,
        ..Fingerprint::default()
    }
}

/// `run.json` of a run of these cells.
pub(crate) fn meta(passes: u32, cells: &[CellId]) -> RunMeta {
    RunMeta {
        schema: RUN_SCHEMA.to_owned(),
        run_id: "20261010-120000-abcd".to_owned(),
        manifest: "quick".to_owned(),
        title: "Relay servers, native client".to_owned(),
        started_at: at(0),
        finished_at: Some(at(52)),
        interrupted: false,
        argv: ["runner", "run", "manifests/quick.toml"].map(str::to_owned).to_vec(),
        seed: 20_261_010,
        passes,
        control: Some(CellId::new("pingpong-16", "relay", "native")),
        rules: Rules::default(),
        narrowed: false,
        until_decided: None,
        cells: cells
            .iter()
            .map(|id| PlannedCell { id: id.clone(), content_id: None, skipped: None })
            .collect(),
        excluded: Vec::new(),
        counts: Counts::default(),
        runner_version: "0.1.0".to_owned(),
        sources: Vec::new(),
    }
}
