use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workload::Kind;

/// Names of the published comparisons that figures can be laid beside.
pub const PUBLISHED: [&str; 1] = ["lemire-2026"];

/// One figure of a published table.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedFigure {
    /// Column that it stands in.
    pub column: ColumnKey,
    /// The server, by the name that it has here.
    pub server: String,
    /// The figure, in the unit of its column.
    pub value: f64,
    /// The range over its passes, where it was published.
    pub range: Option<(f64, f64)>,
}

/// What figures of one column have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ColumnKey {
    /// The client, by the name that it has here.
    pub client: String,
    /// Whether it is of ping-pong; else of load.
    pub pingpong: bool,
    /// Payload, in bytes.
    pub payload: u64,
    /// What is measured.
    pub metric: PublishedMetric,
}

impl ColumnKey {
    pub(super) fn kind(&self) -> Kind {
        if self.pingpong { Kind::Pingpong } else { Kind::Load }
    }
}

impl std::fmt::Display for ColumnKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.pingpong { "ping-pong" } else { "load" };
        let metric = match self.metric {
            PublishedMetric::Rate => "krt/s",
            PublishedMetric::P50 => "p50 µs",
            PublishedMetric::P99 => "p99 µs",
        };
        write!(f, "{kind} {} B, client {}, {metric}", self.payload, self.client)
    }
}

/// What a published column measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedMetric {
    /// Thousand round trips per second.
    Rate,
    /// Median latency, in microseconds.
    P50,
    /// 99th percentile of latency, in microseconds.
    P99,
}

/// The figures of a published comparison; none of an unknown name.
pub fn published(name: &str) -> Option<Vec<PublishedFigure>> {
    if name != "lemire-2026" {
        return None;
    }
    let native = include_str!("../../baselines/published/lemire-2026-native-client.csv");
    let scripts = include_str!("../../baselines/published/lemire-2026-js-clients.csv");
    let rows = |text: &'static str| text.lines().skip(1).map(|line| line.split(',').collect::<Vec<&str>>());
    Some(
        rows(native)
            .filter_map(|row| of_native(&row))
            .chain(rows(scripts).filter_map(|row| of_script(&row)))
            .collect(),
    )
}

/// `server,workload,metric,unit,value,min,max`
fn of_native(row: &[&str]) -> Option<PublishedFigure> {
    let [server, workload, metric, _unit, value, min, max] = row else { return None };
    let (kind, payload) = workload.rsplit_once('-')?;
    let (runtime, name) = server.split_once(' ')?;
    Some(PublishedFigure {
        column: ColumnKey {
            client: "native".to_owned(),
            pingpong: kind == "pingpong",
            payload: payload.parse().ok()?,
            metric: match *metric {
                "rate" => PublishedMetric::Rate,
                "p50" => PublishedMetric::P50,
                "p99" => PublishedMetric::P99,
                _ => return None,
            },
        },
        server: server_here(runtime, name),
        value: value.parse().ok()?,
        range: min.parse().ok().zip(max.parse().ok()),
    })
}

/// `server_runtime,server,client_runtime,client,kilo_round_trips_per_s,min,max`
fn of_script(row: &[&str]) -> Option<PublishedFigure> {
    let [server_runtime, server, client_runtime, client, value, min, max] = row else { return None };
    // The published `native` is the WebSocket that the runtime has built in.
    let client = if *client == "native" { "builtin" } else { client };
    Some(PublishedFigure {
        column: ColumnKey {
            client: format!("{client}@{}", runtime_here(client_runtime)),
            pingpong: true,
            payload: 16,
            metric: PublishedMetric::Rate,
        },
        server: server_here(server_runtime, server),
        value: value.parse().ok()?,
        range: min.parse().ok().zip(max.parse().ok()),
    })
}

fn server_here(runtime: &str, name: &str) -> String {
    let name = match name {
        "Bun.serve" => "bun-serve",
        "Deno.serve" => "deno-serve",
        other => other,
    };
    // The published relay in C.
    if runtime == "C" { "wsrelay@native".to_owned() } else { format!("{name}@{}", runtime_here(runtime)) }
}

/// `node-24.21.0` is `node-24` here; of Bun and Deno there is one version.
fn runtime_here(runtime: &str) -> String {
    match runtime.split_once('-') {
        Some(("node", version)) => format!("node-{}", version.split('.').next().unwrap_or(version)),
        Some((name, _)) => name.to_owned(),
        None => runtime.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_published_figure_is_read() {
        let figures = published("lemire-2026").unwrap();
        let lines = |text: &str| text.lines().count() - 1;
        let native = lines(include_str!("../../baselines/published/lemire-2026-native-client.csv"));
        let scripts = lines(include_str!("../../baselines/published/lemire-2026-js-clients.csv"));
        assert_eq!(figures.len(), native + scripts);
        assert_eq!(figures.len(), 50 + 90);
        let servers: BTreeSet<&str> = figures.iter().map(|figure| figure.server.as_str()).collect();
        let expected = [
            "bun-serve@bun",
            "deno-serve@deno",
            "uws@node-24",
            "uws@node-26",
            "ws@bun",
            "ws@deno",
            "ws@node-24",
            "ws@node-25",
            "ws@node-26",
            "wsrelay@native",
        ];
        assert_eq!(servers.into_iter().collect::<Vec<_>>(), expected);
        let columns: BTreeSet<&ColumnKey> = figures.iter().map(|figure| &figure.column).collect();
        // Rate, p50 and p99 of ping-pong, two loads, and ten clients.
        assert_eq!(columns.len(), 3 + 2 + 10);
        for name in PUBLISHED {
            assert!(published(name).is_some());
        }
        assert_eq!(published("lemire-2023"), None);
    }

    #[test]
    fn a_figure_keeps_its_value_and_range() {
        let figures = published("lemire-2026").unwrap();
        let bun = figures
            .iter()
            .find(|figure| figure.server == "uws@node-24" && figure.column.client == "ws@bun")
            .unwrap();
        assert_eq!((bun.value, bun.range), (39.0, Some((29.0, 39.0))));
        let p50 = figures
            .iter()
            .find(|figure| figure.server == "wsrelay@native" && figure.column.metric == PublishedMetric::P50)
            .unwrap();
        assert_eq!((p50.value, p50.range), (18.4, None));
    }

    #[test]
    fn the_published_baseline_holds_the_same_figures() {
        use crate::manifest::Metric;
        use crate::plan::CellId;
        use crate::verdict::Baseline;

        let text = include_str!("../../baselines/published/lemire-2026.toml");
        let baseline = Baseline::parse(text).unwrap();
        let figures = published("lemire-2026").unwrap();
        let values: usize = baseline.run[0].cells.values().map(|cell| cell.metrics.len()).sum();
        assert_eq!(values, figures.len());
        for figure in figures {
            let column = &figure.column;
            let workload = match (column.client.as_str(), column.pingpong) {
                ("native", true) => "pingpong-16".to_owned(),
                ("native", false) => format!("load-{}", column.payload),
                _ => "script-16".to_owned(),
            };
            let cell = CellId::new(workload, figure.server, column.client.clone());
            let metric = match column.metric {
                PublishedMetric::Rate => Metric::Rate,
                PublishedMetric::P50 => Metric::P50,
                PublishedMetric::P99 => Metric::P99,
            };
            let value = baseline.run[0].values(&cell, metric).unwrap()[&1];
            assert!((value / (figure.value * 1e3) - 1.0).abs() < 1e-9, "{cell} {metric}: {value}");
        }
    }
}
