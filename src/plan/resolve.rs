use super::{ClientSpec, Cores, Planned, ResolvedCell, ServerSpec, Workload};
use crate::manifest::Manifest;

/// A planned cell with everything filled in that is needed to run it anywhere.
pub fn resolve(
    manifest: &Manifest,
    planned: &Planned,
    server: ServerSpec,
    client: ClientSpec,
    cores: Cores,
) -> ResolvedCell {
    let workload = &manifest.workloads[planned.workload];
    ResolvedCell {
        id: planned.id.clone(),
        workload: Workload { name: workload.name.clone(), params: workload.params.clone() },
        server,
        client,
        cores,
        limits: manifest.limits.clone(),
        timeouts: workload.timeouts.clone(),
        port: manifest.port,
    }
}
