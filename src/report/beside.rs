use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{count, figure, list, wrap};
use super::grid::{Field, Grid};
use super::published::{ColumnKey, PublishedFigure, PublishedMetric};
use super::{CellSummary, Format, Style, Summary};
use crate::stats::{Spread, discordant_pairs, geometric_mean, kendall_tau_b};

/// The schema of a comparison in JSON.
pub const BESIDE_SCHEMA: &str = "runner.beside/1";

/// Our figures beside published ones: as ratios, because the machines differ, and as orders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    /// Always [`BESIDE_SCHEMA`].
    pub schema: String,
    /// Name of the published comparison.
    pub published: String,
    /// Id of our run.
    pub run_id: String,
    /// Columns of which two or more servers are in both.
    pub columns: Vec<BesideColumn>,
    /// Columns that were published and that our run has too little of.
    pub absent: Vec<ColumnKey>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BesideColumn {
    /// What it is.
    pub key: ColumnKey,
    /// What both sides are divided by.
    pub reference: Reference,
    /// The servers that both have, the fastest published first.
    pub rows: Vec<BesideRow>,
    /// Kendall's tau-b of the two orders, -1 to 1; none when one side has no order at all.
    pub tau_b: Option<f64>,
    /// Pairs of servers that the two put in opposite order.
    pub differs: Vec<Discordant>,
}

/// What the figures of a column are divided by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// The figure of this server on either side: the published relay in C.
    Server(String),
    /// The geometric mean of the servers that both sides have.
    GeometricMean,
}

/// A server in a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BesideRow {
    /// The server.
    pub server: String,
    /// Our figure in the unit of the column.
    pub ours: Spread,
    /// The published figure.
    pub published: f64,
    /// Ours over our reference.
    pub our_ratio: f64,
    /// Theirs over their reference.
    pub published_ratio: f64,
}

/// Two servers in opposite order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Discordant {
    /// The better one here.
    pub better_here: String,
    /// The better one as published.
    pub better_there: String,
    /// Whether our ranges have no value in common, over three passes or more; else our order may be chance.
    pub parted_here: bool,
}

/// The server that stands for the control where it was measured: the published control is a relay in C.
const CONTROL: &str = "wsrelay@native";

impl Beside {
    /// Lays a run beside published figures.
    pub fn of(summary: &Summary, name: &str, figures: &[PublishedFigure]) -> Self {
        let mut columns: BTreeMap<&ColumnKey, Vec<&PublishedFigure>> = BTreeMap::new();
        for figure in figures {
            columns.entry(&figure.column).or_default().push(figure);
        }
        let (mut found, mut absent) = (Vec::new(), Vec::new());
        for (key, figures) in columns {
            match column(summary, key, &figures) {
                Some(column) => found.push(column),
                None => absent.push(key.clone()),
            }
        }
        Beside {
            schema: BESIDE_SCHEMA.to_owned(),
            published: name.to_owned(),
            run_id: summary.run.run_id.clone(),
            columns: found,
            absent,
        }
    }

    /// As text in one of the formats.
    pub fn render(&self, format: Format, style: &Style) -> String {
        match format {
            Format::Table => {
                let line = |line: &str| wrap(line, style.width, "  ");
                self.text(|grid| grid.lines(style).join("\n"), line, &line)
            }
            Format::Markdown => self.text(Grid::markdown, |title| format!("## {title}\n"), &str::to_owned),
            Format::Csv => self.csv(),
            Format::Json => {
                let mut text = serde_json::to_string_pretty(self).expect("plain data always serialises");
                text.push('\n');
                text
            }
        }
    }

    fn text(
        &self,
        grid: impl Fn(&Grid) -> String,
        title: impl Fn(&str) -> String,
        line: &dyn Fn(&str) -> String,
    ) -> String {
        let mut parts = Vec::new();
        for native in [true, false] {
            let columns: Vec<&BesideColumn> =
                self.columns.iter().filter(|column| (column.key.client == "native") == native).collect();
            if columns.is_empty() {
                continue;
            }
            let heading = if native { "native client" } else { "JavaScript clients, ping-pong 16 B" };
            let what = format!(
                "run {} beside {}, {heading}: here | published, each over its reference",
                self.run_id, self.published
            );
            parts.push(format!("{}\n{}", title(&what), grid(&side_by_side(&columns, native)).trim_end()));
            let mut said: Vec<String> = columns.iter().flat_map(|column| said_of(column)).collect();
            said.dedup();
            parts.push(said.iter().map(|said| line(&format!("- {said}"))).collect::<Vec<_>>().join("\n"));
        }
        if self.columns.is_empty() {
            let nothing = "have no two servers of one column in common";
            parts.push(line(&format!("run {} and {} {nothing}", self.run_id, self.published)));
        }
        if !self.absent.is_empty() {
            let absent: Vec<String> = self.absent.iter().map(ToString::to_string).collect();
            parts.push(line(&format!("published and not in this run: {}", absent.join("; "))));
        }
        parts.join("\n\n") + "\n"
    }

    fn csv(&self) -> String {
        let mut text =
            "client,kind,payload,metric,server,ours,ours_min,ours_max,published,our_ratio,published_ratio,tau_b\n".to_owned();
        for column in &self.columns {
            let key = &column.key;
            let metric = serde_json::to_value(key.metric).unwrap_or_default();
            let kind = if key.pingpong { "pingpong" } else { "load" };
            for row in &column.rows {
                text.push_str(&format!(
                    "{},{kind},{},{},{},{},{},{},{},{},{},{}\n",
                    key.client,
                    key.payload,
                    metric.as_str().unwrap_or_default(),
                    row.server,
                    row.ours.median,
                    row.ours.min,
                    row.ours.max,
                    row.published,
                    row.our_ratio,
                    row.published_ratio,
                    column.tau_b.map(|tau| tau.to_string()).unwrap_or_default()
                ));
            }
        }
        text
    }
}

fn column(summary: &Summary, key: &ColumnKey, figures: &[&PublishedFigure]) -> Option<BesideColumn> {
    let groups = summary.groups.iter().filter(|group| {
        let fits = group
            .params
            .as_ref()
            .is_some_and(|params| params.kind == key.kind() && params.payload == key.payload);
        fits && group.client == key.client
    });
    // Of several workloads that fit, the first.
    let group = groups.max_by_key(|group| std::cmp::Reverse(group.workload.len()))?;
    let ours = |server: &str| {
        let cell = group.cells.iter().find(|cell| cell.id.server == server)?;
        of_metric(cell, key.metric)
    };
    let mut both: Vec<(&PublishedFigure, Spread)> =
        figures.iter().filter_map(|figure| Some((*figure, ours(&figure.server)?))).collect();
    if both.len() < 2 {
        return None;
    }
    let higher_is_better = key.metric == PublishedMetric::Rate;
    both.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
    if higher_is_better {
        both.reverse();
    }
    let (here, there): (Vec<f64>, Vec<f64>) =
        both.iter().map(|(figure, ours)| (ours.median, figure.value)).unzip();
    let control = both.iter().find(|(figure, _)| figure.server == CONTROL);
    let (reference, our_one, their_one) = match control {
        Some((figure, ours)) => (Reference::Server(CONTROL.to_owned()), ours.median, figure.value),
        None => (Reference::GeometricMean, geometric_mean(&here)?, geometric_mean(&there)?),
    };
    let rows = both.iter().map(|(figure, ours)| BesideRow {
        server: figure.server.clone(),
        ours: *ours,
        published: figure.value,
        our_ratio: ours.median / our_one,
        published_ratio: figure.value / their_one,
    });
    let differs = discordant_pairs(&here, &there).into_iter().map(|(i, j)| {
        // Sorted by what was published, the better first.
        let (a, b) = (&both[i], &both[j]);
        Discordant {
            better_here: b.0.server.clone(),
            better_there: a.0.server.clone(),
            parted_here: a.1.n >= super::FEWEST_PASSES
                && b.1.n >= super::FEWEST_PASSES
                && !a.1.overlaps(&b.1),
        }
    });
    Some(BesideColumn {
        key: key.clone(),
        reference,
        rows: rows.collect(),
        tau_b: kendall_tau_b(&here, &there),
        differs: differs.collect(),
    })
}

fn of_metric(cell: &CellSummary, metric: PublishedMetric) -> Option<Spread> {
    match metric {
        PublishedMetric::Rate => cell.rate_per_s,
        PublishedMetric::P50 => cell.p50_ns,
        PublishedMetric::P99 => cell.p99_ns,
    }
    .map(|spread| spread.times(1e-3))
}

/// A row for each server and, at the end, each column's correlation.
fn side_by_side(columns: &[&BesideColumn], native: bool) -> Grid {
    let mut servers: Vec<&str> = Vec::new();
    for row in columns.iter().flat_map(|column| &column.rows) {
        if !servers.contains(&row.server.as_str()) {
            servers.push(&row.server);
        }
    }
    let mut heads = vec!["server".to_owned()];
    heads.extend(columns.iter().map(|column| head(&column.key, native)));
    let field = |column: &BesideColumn, server: &str| {
        let row = column.rows.iter().find(|row| row.server == server);
        Field::plain(row.map_or("-".to_owned(), |row| {
            format!("{} | {}", figure(row.our_ratio), figure(row.published_ratio))
        }))
    };
    let mut rows: Vec<(String, Vec<Field>)> = servers
        .iter()
        .map(|server| ((*server).to_owned(), columns.iter().map(|column| field(column, server)).collect()))
        .collect();
    let correlations = columns
        .iter()
        .map(|column| Field::plain(column.tau_b.map_or("-".to_owned(), |tau| format!("{tau:.2}"))));
    rows.push(("Kendall's tau-b".to_owned(), correlations.collect()));
    Grid { heads, rows }
}

fn head(key: &ColumnKey, native: bool) -> String {
    let kind = if key.pingpong { "ping-pong" } else { "load" };
    match (native, key.metric) {
        (false, _) => key.client.clone(),
        (true, PublishedMetric::Rate) => format!("{kind} {} B", key.payload),
        (true, PublishedMetric::P50) => "p50".to_owned(),
        (true, PublishedMetric::P99) => "p99".to_owned(),
    }
}

/// The pairs that differ, the reference, and how many servers the column has.
fn said_of(column: &BesideColumn) -> Vec<String> {
    let reference = match &column.reference {
        Reference::Server(server) => format!("`{server}`"),
        Reference::GeometricMean => "the geometric mean of the column".to_owned(),
    };
    let all = column.rows.len() * (column.rows.len() - 1) / 2;
    let ahead = |parted: bool| {
        let mut servers: Vec<(&str, Vec<String>)> = Vec::new();
        for pair in column.differs.iter().filter(|pair| pair.parted_here == parted) {
            let behind = format!("`{}`", pair.better_there);
            match servers.iter_mut().find(|(server, _)| *server == pair.better_here) {
                Some((_, all)) => all.push(behind),
                None => servers.push((&pair.better_here, vec![behind])),
            }
        }
        let clauses =
            servers.iter().map(|(server, behind)| format!("`{server}` is ahead of {}", list(behind, "and")));
        clauses.collect::<Vec<String>>()
    };
    let (clear, near) = (ahead(true), ahead(false));
    let mut text = format!(
        "{}: over {reference}; {} of {} in opposite order",
        column.key,
        column.differs.len(),
        count(all as u64, "pair", "pairs")
    );
    if !clear.is_empty() {
        text.push_str(&format!("; here {}", clear.join(", ")));
    }
    if !near.is_empty() {
        text.push_str(&format!("; here, but within the noise, {}", near.join(", ")));
    }
    text.push('.');
    vec![text]
}
