use std::collections::BTreeMap;

use super::{CellSummary, PassFigures, Summary};
use crate::manifest::Metric;
use crate::record::CONTENDED;
use crate::verdict::{Measured, MeasuredCell, Values};

impl Summary {
    /// What a comparison with a baseline needs of a run. `narrowed` says whether only some of the manifest's cells were selected.
    pub fn measured(&self, narrowed: bool) -> Measured {
        let cells = self.groups.iter().flat_map(|group| &group.cells);
        Measured {
            run_id: self.run.run_id.clone(),
            manifest: self.run.manifest.clone(),
            started_at: self.run.started_at,
            host_classes: self.hosts.iter().map(|host| host.class.clone()).collect(),
            control: self.control.as_ref().map(|control| control.id.clone()),
            narrowed,
            runner_version: self.run.runner_version.clone(),
            servers: self.servers.clone(),
            cells: cells.map(|cell| (cell.id.clone(), self.measured_cell(cell))).collect(),
        }
    }

    fn measured_cell(&self, cell: &CellSummary) -> MeasuredCell {
        let mut metrics = BTreeMap::new();
        for metric in [Metric::Rate, Metric::P50, Metric::P99, Metric::ServerCpu] {
            let values: Values =
                cell.passes.iter().filter_map(|pass| Some((pass.pass, value(pass, metric)?))).collect();
            if !values.is_empty() {
                metrics.insert(metric, values);
            }
        }
        let client = self.clients.get(&cell.id.client).map(|versions| {
            let parts: Vec<String> =
                versions.iter().map(|(program, version)| format!("{program} {version}")).collect();
            parts.join(", ")
        });
        MeasuredCell {
            content_id: cell.content_id.clone(),
            client: client.unwrap_or_default(),
            metrics,
            unusable: cell.counts.void + cell.counts.failed,
            contended: cell
                .flags
                .iter()
                .find(|flag| flag.name == CONTENDED)
                .map_or(0, |flag| flag.records),
            trouble: cell.trouble.clone(),
        }
    }
}

/// A metric of a pass, in its unit of the baseline.
fn value(pass: &PassFigures, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Rate => Some(pass.rate_per_s),
        Metric::P50 => pass.latency.map(|latency| latency.p50_ns as f64),
        Metric::P99 => pass.latency.map(|latency| latency.p99_ns as f64),
        Metric::ServerCpu => pass.server_ns_per_message,
    }
}

#[cfg(test)]
mod tests {
    use crate::record::CONTENDED;
    use crate::report::Summary;
    use crate::report::test_support::{Made, meta};

    #[test]
    fn a_pass_of_the_control_with_another_program_on_its_cores_is_counted_once() {
        let (calm, node) = (Made::pingpong("relay"), Made::pingpong("ws@node-24"));
        let crowded =
            calm.clone().flag(CONTENDED, "the server waited").flag(CONTENDED, "the client waited");
        let run = |first: &Made| {
            let mut records = vec![first.record(1), calm.record(2), calm.record(3)];
            // A server's threads wait for one another: of another cell it says nothing.
            records.extend(node.clone().flag(CONTENDED, "the server waited").passes(&[28e3, 29e3, 30e3]));
            Summary::of(&meta(3, &[calm.id(), node.id()]), records).measured(false)
        };
        assert_eq!(run(&crowded).disturbed(), Some((1, 3)));
        assert_eq!(run(&calm).disturbed(), None);
    }
}
