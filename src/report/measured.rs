use std::collections::{BTreeMap, BTreeSet};

use super::{CellSummary, PassFigures, Summary};
use crate::manifest::Metric;
use crate::verdict::{Measured, MeasuredCell, Values};

impl Summary {
    /// What a comparison with a baseline needs of a run. `narrowed` says whether only some of the manifest's cells were selected.
    pub fn measured(&self, narrowed: bool) -> Measured {
        let cells = || self.groups.iter().flat_map(|group| &group.cells);
        let control = self.control.as_ref().map(|control| control.id.clone());
        let disturbed: BTreeSet<u32> = cells()
            .filter(|cell| Some(&cell.id) == control.as_ref())
            .flat_map(|cell| &cell.passes)
            .filter(|pass| pass.contended)
            .map(|pass| pass.pass)
            .collect();
        Measured {
            run_id: self.run.run_id.clone(),
            manifest: self.run.manifest.clone(),
            started_at: self.run.started_at,
            host_classes: self.hosts.iter().map(|host| host.class.clone()).collect(),
            control,
            narrowed,
            runner_version: self.run.runner_version.clone(),
            servers: self.servers.clone(),
            cells: cells().map(|cell| (cell.id.clone(), self.measured_cell(cell, &disturbed))).collect(),
            disturbed,
        }
    }

    fn measured_cell(&self, cell: &CellSummary, disturbed: &BTreeSet<u32>) -> MeasuredCell {
        let mut metrics = BTreeMap::new();
        let mut left_out = BTreeSet::new();
        for metric in [Metric::Rate, Metric::P50, Metric::P99, Metric::ServerCpu] {
            let mut values: Values =
                cell.passes.iter().filter_map(|pass| Some((pass.pass, value(pass, metric)?))).collect();
            let measured = values.len();
            values.retain(|pass, _| !disturbed.contains(pass));
            if values.len() < measured {
                left_out.insert(metric);
            }
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
            left_out,
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
    use super::*;
    use crate::record::CONTENDED;
    use crate::report::test_support::{Made, meta};

    #[test]
    fn a_pass_of_the_control_with_another_program_on_its_cores_counts_for_nothing() {
        let (calm, node) = (Made::pingpong("relay"), Made::pingpong("ws@node-24"));
        let crowded = calm.clone().flag(CONTENDED, "the server waited").flag(CONTENDED, "the client waited");
        let run = |second: &Made| {
            let mut records = vec![calm.record(1), second.record(2), calm.record(3)];
            // A server's threads wait for one another: of another cell it says nothing.
            records.extend(node.clone().flag(CONTENDED, "the server waited").passes(&[28e3, 29e3, 30e3]));
            Summary::of(&meta(3, &[calm.id(), node.id()]), records).measured(false)
        };
        let rates = |run: &Measured, of: &Made| {
            run.values(&of.id(), Metric::Rate)
                .unwrap()
                .values()
                .map(|rate| rate.round())
                .collect::<Vec<f64>>()
        };
        let disturbed = run(&crowded);
        assert_eq!(disturbed.disturbed, [2].into());
        assert_eq!((rates(&disturbed, &calm).len(), rates(&disturbed, &node)), (2, vec![28e3, 30e3]));
        let quiet = run(&calm);
        assert!(quiet.disturbed.is_empty());
        assert_eq!(rates(&quiet, &node), [28e3, 29e3, 30e3]);
    }
}
