/// What a manifest may name: the part of the catalogue that loading one needs.
pub trait Names {
    /// Servers that patterns range over; hidden ones are left out.
    fn server_names(&self) -> Vec<String>;
    /// Whether a server exists, hidden or not.
    fn knows_server(&self, name: &str) -> bool;
    /// Clients that patterns range over.
    fn client_names(&self) -> Vec<String>;
    /// Whether a client exists, hidden or not.
    fn knows_client(&self, name: &str) -> bool;
    /// Largest message that a server accepts, in bytes; none when unlimited.
    fn max_payload(&self, server: &str) -> Option<u64>;

    /// Runtimes that execute some server or client.
    fn runtime_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .server_names()
            .into_iter()
            .chain(self.client_names())
            .filter_map(|name| name.split_once('@').map(|(_, runtime)| runtime.to_owned()))
            .collect();
        names.sort();
        names.dedup();
        names
    }
}
