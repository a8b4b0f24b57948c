use std::collections::BTreeMap;

use super::format::{figure, percent};
use super::grid::{Field, Grid};
use super::{CellSummary, Group, LimitedBy, Summary};
use crate::plan::CellId;
use crate::stats::Spread;
use crate::workload::Kind;

/// Servers by clients of one workload, as the published comparison lays it out.
pub(super) struct Matrix<'a> {
    /// Name of the workload.
    pub(super) workload: &'a str,
    clients: Vec<&'a Group>,
    servers: Vec<&'a str>,
}

/// What marks a field whose client used up its core.
pub(super) const HIDDEN: &str = "†";

/// What the mark means.
pub(super) const HIDES: &str = "the client used up its core and so hid the server";

/// A matrix for each workload that several clients measured.
pub(super) fn matrices(summary: &Summary) -> Vec<Matrix<'_>> {
    let mut matrices: Vec<Matrix<'_>> = Vec::new();
    for group in &summary.groups {
        let at = matrices.iter().position(|matrix| matrix.workload == group.workload).unwrap_or_else(|| {
            matrices.push(Matrix { workload: &group.workload, clients: Vec::new(), servers: Vec::new() });
            matrices.len() - 1
        });
        matrices[at].clients.push(group);
    }
    matrices.retain(|matrix| matrix.clients.len() > 1);
    for matrix in &mut matrices {
        let mut servers: Vec<&str> = Vec::new();
        for cell in matrix.clients.iter().flat_map(|group| &group.cells) {
            if !servers.contains(&cell.id.server.as_str()) {
                servers.push(&cell.id.server);
            }
        }
        // Names keep a table comparable from one run to the next; rates would shuffle it.
        servers.sort_unstable();
        matrix.servers = servers;
    }
    matrices
}

impl<'a> Matrix<'a> {
    fn cell(&self, server: &str, group: &'a Group) -> Option<&'a CellSummary> {
        group.cells.iter().find(|cell| cell.id.server == server)
    }

    /// Thousand round trips per second, median (range).
    pub(super) fn grid(&self) -> Grid {
        let rates: Vec<f64> = self
            .clients
            .iter()
            .flat_map(|group| &group.cells)
            .filter_map(|cell| cell.rate_per_s.map(|rate| rate.median.ln()))
            .collect();
        let coldest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let hottest = rates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let heat =
            |rate: f64| if hottest > coldest { (rate.ln() - coldest) / (hottest - coldest) } else { 1.0 };
        let field = |cell: Option<&CellSummary>| match cell {
            None => Field::plain(""),
            Some(cell) => match cell.rate_per_s {
                None => {
                    Field::plain(cell.trouble.as_deref().and_then(|why| why.split(':').next()).unwrap_or("-"))
                }
                Some(rate) => Field {
                    text: format!("{}{}", thousands(&rate), if hidden(cell) { HIDDEN } else { "" }),
                    heat: Some(heat(rate.median)),
                },
            },
        };
        let mut heads = vec!["server".to_owned()];
        heads.extend(self.clients.iter().map(|group| group.client.clone()));
        let rows = self.servers.iter().map(|server| {
            let fields = self.clients.iter().map(|group| field(self.cell(server, group))).collect();
            ((*server).to_owned(), fields)
        });
        let mut rows: Vec<(String, Vec<Field>)> = rows.collect();
        let spreads = self.clients.iter().map(|group| {
            let ratio = fastest_over_slowest(&self.rates(group));
            Field::plain(ratio.map_or("-".to_owned(), |ratio| format!("{}x", figure(ratio))))
        });
        rows.push(("fastest / slowest".to_owned(), spreads.collect()));
        Grid { heads, rows }
    }

    /// The median of each server that a client has a figure of.
    fn rates(&self, group: &'a Group) -> BTreeMap<&'a str, f64> {
        let cells = group.cells.iter();
        cells.filter_map(|cell| Some((cell.id.server.as_str(), cell.rate_per_s?.median))).collect()
    }

    /// What the matrix says of its clients, in sentences. `main` is the client that the others are measured by.
    pub(super) fn reading(&self, main: Option<&str>) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(main) = self.clients.iter().find(|group| Some(group.client.as_str()) == main) {
            let all = self.rates(main);
            let kept: Vec<String> = self
                .clients
                .iter()
                .filter(|group| group.client != main.client)
                .filter_map(|group| {
                    let mut mine = self.rates(group);
                    mine.retain(|server, _| all.contains_key(server));
                    let mut theirs = all.clone();
                    theirs.retain(|server, _| mine.contains_key(server));
                    let (seen, true_one) = (fastest_over_slowest(&mine)?, fastest_over_slowest(&theirs)?);
                    let left = if true_one > 1.0 { seen.ln() / true_one.ln() } else { 1.0 };
                    Some(format!(
                        "`{}` {}x for {}x, {} left",
                        group.client,
                        figure(seen),
                        figure(true_one),
                        percent(left)
                    ))
                })
                .collect();
            if !kept.is_empty() {
                said.push(format!(
                    "The fastest server over the slowest, as each client sees it for what `{}` sees of the same servers, and how much of \
                     the difference is left in logarithms: {}.",
                    main.client,
                    kept.join("; ")
                ));
            }
        }
        let all: usize = self.clients.iter().map(|group| group.cells.len()).sum();
        let hidden = self.clients.iter().flat_map(|group| &group.cells).filter(|cell| hidden(cell)).count();
        if hidden > 0 {
            said.push(format!("{HIDDEN} {hidden} of {all} cells: {HIDES}."));
        }
        said
    }
}

/// None of fewer than two servers.
fn fastest_over_slowest(rates: &BTreeMap<&str, f64>) -> Option<f64> {
    let spread = Spread::of(&rates.values().copied().collect::<Vec<_>>())?;
    (spread.n > 1 && spread.min > 0.0).then(|| spread.max / spread.min)
}

/// Whether the client was the limit, so that the server's own rate cannot be seen.
fn hidden(cell: &CellSummary) -> bool {
    cell.limited_by == Some(LimitedBy::Client)
}

/// `20 (20–21)`, in thousands, as the published tables have it; one decimal below ten.
fn thousands(rate: &Spread) -> String {
    let shown = |value: f64| {
        if value < 9.95e3 { format!("{:.1}", value / 1e3) } else { format!("{:.0}", value / 1e3) }
    };
    match rate.n {
        1 => shown(rate.median),
        _ => format!("{} ({}–{})", shown(rate.median), shown(rate.min), shown(rate.max)),
    }
}

/// Servers by what one client measured of them: ping-pong with p50 and p99, and each load; none when the client measured
/// one workload only.
pub(super) fn overview(summary: &Summary) -> Option<(String, Grid)> {
    let client = main_client(summary)?;
    let groups: Vec<&Group> = summary.groups.iter().filter(|group| group.client == client).collect();
    if groups.len() < 2 {
        return None;
    }
    let mut heads = vec!["server".to_owned()];
    let mut rows: BTreeMap<&str, Vec<Field>> = BTreeMap::new();
    for cell in groups.iter().flat_map(|group| &group.cells) {
        rows.entry(&cell.id.server).or_default();
    }
    for group in groups {
        let latency = group.params.as_ref().is_some_and(|params| params.kind == Kind::Pingpong);
        heads.push(format!("{} krt/s", group.workload));
        if latency {
            heads.extend([format!("{} p50 µs", group.workload), format!("{} p99 µs", group.workload)]);
        }
        let us = |ns: Option<Spread>| {
            Field::plain(ns.map_or("-".to_owned(), |ns| format!("{:.1}", ns.median / 1e3)))
        };
        for (server, fields) in &mut rows {
            let cell = group.cells.iter().find(|cell| cell.id.server == *server);
            let rate = cell.and_then(|cell| cell.rate_per_s);
            let mark = if cell.is_some_and(hidden) { HIDDEN } else { "" };
            fields.push(Field::plain(
                rate.map_or("-".to_owned(), |rate| format!("{}{mark}", thousands(&rate))),
            ));
            if latency {
                fields.extend([us(cell.and_then(|cell| cell.p50_ns)), us(cell.and_then(|cell| cell.p99_ns))]);
            }
        }
    }
    let rows = rows.into_iter().map(|(server, fields)| (server.to_owned(), fields)).collect();
    Some((client.to_owned(), Grid { heads, rows }))
}

/// The client of the control; without one that of the first group.
pub(super) fn main_client(summary: &Summary) -> Option<&str> {
    let of_control =
        summary.control.as_ref().map(|control| &control.id).map(|id: &CellId| id.client.as_str());
    of_control
        .filter(|client| summary.groups.iter().any(|group| group.client == *client))
        .or_else(|| summary.groups.first().map(|group| group.client.as_str()))
}

/// The groups that have a table of their own: where a matrix shows a workload, only that of the main client.
pub(super) fn detailed<'a>(summary: &'a Summary, matrices: &[Matrix<'a>]) -> impl Iterator<Item = &'a Group> {
    let main = main_client(summary);
    let in_matrix: Vec<&str> = matrices.iter().map(|matrix| matrix.workload).collect();
    summary.groups.iter().filter(move |group| {
        !in_matrix.contains(&group.workload.as_str()) || Some(group.client.as_str()) == main
    })
}
