use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Baseline, Measured};
use crate::manifest::Metric;
use crate::plan::CellId;
use crate::stats::{geometric_mean, kendall_tau_b, median};

/// Servers of one workload and client here and on another host: as ratios and as orders, never as a pass or fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcrossGroup {
    /// Name of the workload.
    pub workload: String,
    /// Name of the client.
    pub client: String,
    /// What both sides are divided by.
    pub reference: String,
    /// The servers that both have, the fastest there first.
    pub rows: Vec<AcrossRow>,
    /// Kendall's tau-b of the two orders, -1 to 1; none of fewer than two servers.
    pub tau_b: Option<f64>,
}

/// A server here and there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcrossRow {
    /// The server.
    pub server: String,
    /// Its median rate here over the reference's.
    pub here: f64,
    /// Its median rate there over the reference's.
    pub there: f64,
}

/// Lays a run beside a baseline of whatever host: every workload and client of which both have two servers. Each side is divided by
/// its control where the group holds it, else by the geometric mean of the servers that both have.
pub fn across(measured: &Measured, baseline: &Baseline) -> Vec<AcrossGroup> {
    let there = |cell: &CellId| {
        let values: Vec<f64> = baseline
            .run
            .iter()
            .filter_map(|run| run.values(cell, Metric::Rate))
            .flat_map(|values| values.into_values())
            .collect();
        median(&values)
    };
    /// Server, its median rate here, and there.
    type Row = (String, f64, f64);
    let mut groups: BTreeMap<(String, String), Vec<Row>> = BTreeMap::new();
    for cell in measured.cells.keys() {
        let here = measured
            .values(cell, Metric::Rate)
            .and_then(|values| median(&values.values().copied().collect::<Vec<_>>()));
        if let (Some(here), Some(there)) = (here, there(cell)) {
            let group = groups.entry((cell.workload.clone(), cell.client.clone())).or_default();
            group.push((cell.server.clone(), here, there));
        }
    }
    groups
        .into_iter()
        .filter(|(_, servers)| servers.len() > 1)
        .filter_map(|((workload, client), mut servers)| {
            servers.sort_by(|a, b| b.2.total_cmp(&a.2));
            let control = servers.iter().find(|(server, _, _)| {
                measured.control.as_ref().is_some_and(|control| control.server == *server)
            });
            let column = |of: fn(&Row) -> f64| servers.iter().map(of).collect::<Vec<f64>>();
            let (here, there) = (column(|row| row.1), column(|row| row.2));
            let (reference, by_here, by_there) = match control {
                Some((server, here, there)) => (format!("`{server}`"), *here, *there),
                None => ("the geometric mean".to_owned(), geometric_mean(&here)?, geometric_mean(&there)?),
            };
            let tau_b = kendall_tau_b(&here, &there);
            let rows = servers
                .into_iter()
                .map(|(server, here, there)| AcrossRow {
                    server,
                    here: here / by_here,
                    there: there / by_there,
                })
                .collect();
            Some(AcrossGroup { workload, client, reference, rows, tau_b })
        })
        .collect()
}
