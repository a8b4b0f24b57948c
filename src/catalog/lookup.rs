use super::types::{Catalog, Runtime, Server, Setting};
use crate::embedded;
use crate::manifest::Names;
use crate::plan::Role;
use crate::workload::BUILT_IN_CLIENTS;

impl Catalog {
    /// Servers that patterns range over, e.g. `relay` and `ws@node-24`; those that exist to prove the checks are left
    /// out.
    pub fn server_names(&self) -> Vec<String> {
        let built_in = embedded::visible_names().iter().map(|name| (*name).to_owned());
        let described = self.servers.iter().flat_map(|server| {
            server.runtimes.iter().map(move |runtime| format!("{}@{runtime}", server.name))
        });
        built_in.chain(described).collect()
    }

    /// Whether a server exists, hidden or not.
    pub fn knows_server(&self, name: &str) -> bool {
        embedded::is_built_in(name) || self.described(name).is_some()
    }

    /// Clients that patterns range over.
    pub fn client_names(&self) -> Vec<String> {
        let built_in = BUILT_IN_CLIENTS.iter().map(|name| (*name).to_owned());
        let described = self.clients.iter().flat_map(|client| {
            client.runtimes.iter().map(move |runtime| format!("{}@{runtime}", client.name))
        });
        built_in.chain(described).collect()
    }

    /// Whether a client exists.
    pub fn knows_client(&self, name: &str) -> bool {
        BUILT_IN_CLIENTS.contains(&name) || self.described_client(name).is_some()
    }

    /// Roles that a server plays; none of an unknown one.
    pub fn roles(&self, name: &str) -> &[Role] {
        match self.described(name) {
            Some((server, _)) => &server.roles,
            None if embedded::is_built_in(name) => &[Role::Relay],
            None => &[],
        }
    }

    /// Largest message that a server accepts, in bytes; none when unlimited.
    pub fn max_payload(&self, name: &str) -> Option<u64> {
        match self.described(name) {
            Some((server, _)) => server.max_payload,
            None => embedded::is_built_in(name).then(embedded::max_payload),
        }
    }

    /// Settings of a server that differ from its library's defaults, with their reasons.
    pub fn settings(&self, name: &str) -> Vec<&Setting> {
        self.described(name).map_or_else(Vec::new, |(server, runtime)| {
            server.settings.iter().filter(|setting| setting.applies_to(&runtime.name)).collect()
        })
    }

    /// The server and runtime of a name of the form `server@runtime`.
    pub(super) fn described(&self, name: &str) -> Option<(&Server, &Runtime)> {
        self.among(&self.servers, name)
    }

    /// The client and runtime of a name of the form `client@runtime`.
    pub(super) fn described_client(&self, name: &str) -> Option<(&Server, &Runtime)> {
        self.among(&self.clients, name)
    }

    fn among<'a>(&'a self, all: &'a [Server], name: &str) -> Option<(&'a Server, &'a Runtime)> {
        let (name, runtime) = name.split_once('@')?;
        let found = all.iter().find(|known| known.name == name)?;
        found.runtimes.iter().find(|known| *known == runtime)?;
        Some((found, self.runtimes.get(runtime)?))
    }
}

impl Names for Catalog {
    fn server_names(&self) -> Vec<String> {
        Catalog::server_names(self)
    }

    fn knows_server(&self, name: &str) -> bool {
        Catalog::knows_server(self, name)
    }

    fn client_names(&self) -> Vec<String> {
        Catalog::client_names(self)
    }

    fn knows_client(&self, name: &str) -> bool {
        Catalog::knows_client(self, name)
    }

    fn max_payload(&self, server: &str) -> Option<u64> {
        Catalog::max_payload(self, server)
    }

    fn runtime_names(&self) -> Vec<String> {
        self.runtimes.keys().cloned().collect()
    }
}
