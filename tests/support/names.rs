use runner::manifest::Names;

/// A catalogue that no file describes, for manifests that are only loaded.
pub struct FakeNames;

impl Names for FakeNames {
    fn server_names(&self) -> Vec<String> {
        ["relay", "relay-spin", "ws@node-24", "ws@node-26", "bun-serve@bun", "small@bun"]
            .map(str::to_owned)
            .to_vec()
    }

    fn knows_server(&self, name: &str) -> bool {
        name == "faulty-echo" || self.server_names().iter().any(|known| known == name)
    }

    fn client_names(&self) -> Vec<String> {
        ["native", "tungstenite"].map(str::to_owned).to_vec()
    }

    fn knows_client(&self, name: &str) -> bool {
        self.client_names().iter().any(|known| known == name)
    }

    fn max_payload(&self, server: &str) -> Option<u64> {
        (server == "small@bun").then_some(16_384)
    }
}
