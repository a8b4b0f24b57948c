use std::collections::BTreeMap;

use crate::catalog::{Catalog, Ready};
use crate::plan::{ClientSpec, Program, Role, ServerSpec};

pub(super) fn server_spec(
    catalog: &Catalog,
    name: &str,
    fake: bool,
    ready: &Ready,
    skipped: &mut Option<String>,
) -> ServerSpec {
    let blank = || {
        let (implementation, runtime) =
            name.split_once('@').map_or((name, None), |(name, on)| (name, Some(on)));
        ServerSpec {
            name: implementation.to_owned(),
            runtime: runtime.map(str::to_owned),
            role: Role::Relay,
            program: Program::default(),
            settings: BTreeMap::new(),
            max_payload: None,
        }
    };
    if fake {
        return blank();
    }
    let resolved = match ready.servers.get(name) {
        Some(Err(reason)) => Err(reason.clone()),
        _ => catalog.resolve_server(name, Role::Relay),
    };
    resolved.unwrap_or_else(|reason| {
        skipped.get_or_insert(reason);
        blank()
    })
}

pub(super) fn client_spec(
    catalog: &Catalog,
    name: &str,
    fake: bool,
    ready: &Ready,
    skipped: &mut Option<String>,
) -> ClientSpec {
    let blank = || {
        let (generator, runtime) = name.split_once('@').map_or((name, None), |(name, on)| (name, Some(on)));
        ClientSpec {
            name: generator.to_owned(),
            runtime: runtime.map(str::to_owned),
            program: Program::default(),
        }
    };
    if fake {
        return blank();
    }
    let resolved = match ready.clients.get(name) {
        Some(Err(reason)) => Err(reason.clone()),
        _ => catalog.resolve_client(name),
    };
    resolved.unwrap_or_else(|reason| {
        skipped.get_or_insert(reason);
        blank()
    })
}
