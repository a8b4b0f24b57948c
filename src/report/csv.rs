use super::{CellSummary, Group, Summary};
use crate::stats::Spread;

const HEAD: [&str; 16] = [
    "run_id",
    "workload",
    "server",
    "client",
    "content_id",
    "planned",
    "ok",
    "void",
    "failed",
    "skipped",
    "reference",
    "limited_by",
    "bimodal",
    "flags",
    "trouble",
    "passes",
];

type Metric = (&'static str, fn(&CellSummary) -> Option<Spread>);

/// Each becomes three columns: the median over the passes, the smallest and the largest.
const METRICS: [Metric; 11] = [
    ("rate_per_s", |cell| cell.rate_per_s),
    ("ratio_to_reference", |cell| cell.ratio),
    ("ratio_to_control", |cell| cell.control_ratio),
    ("p50_ns", |cell| cell.p50_ns),
    ("p99_ns", |cell| cell.p99_ns),
    ("p999_ns", |cell| cell.p999_ns),
    ("max_ns", |cell| cell.max_ns),
    ("server_cores", |cell| cell.server_cores),
    ("client_cores", |cell| cell.client_cores),
    ("client_busy", |cell| cell.client_busy),
    ("server_ns_per_message", |cell| cell.server_ns_per_message),
];

/// A row for each cell (RFC 4180): base units, full precision, empty where there is no figure.
pub(super) fn render(summary: &Summary) -> String {
    let mut head: Vec<String> = HEAD.iter().map(|name| (*name).to_owned()).collect();
    for (name, _) in METRICS {
        head.extend([name.to_owned(), format!("{name}_min"), format!("{name}_max")]);
    }
    let mut text = row(&head);
    for group in &summary.groups {
        for cell in &group.cells {
            text.push_str(&row(&fields(summary, group, cell)));
        }
    }
    text
}

fn fields(summary: &Summary, group: &Group, cell: &CellSummary) -> Vec<String> {
    let mut fields = vec![
        summary.run.run_id.clone(),
        cell.id.workload.clone(),
        cell.id.server.clone(),
        cell.id.client.clone(),
        cell.content_id.clone().unwrap_or_default(),
        cell.counts.planned.to_string(),
        cell.counts.ok.to_string(),
        cell.counts.void.to_string(),
        cell.counts.failed.to_string(),
        cell.counts.skipped.to_string(),
        group.reference.as_ref().map(ToString::to_string).unwrap_or_default(),
        cell.limited_by.map(|limit| limit.to_string()).unwrap_or_default(),
        (cell.bimodal_passes.is_some() || cell.bimodal_trials.is_some()).to_string(),
        cell.flags.iter().map(|flag| flag.name.as_str()).collect::<Vec<_>>().join(";"),
        cell.trouble.clone().unwrap_or_default(),
        cell.passes.len().to_string(),
    ];
    for (_, of) in METRICS {
        match of(cell) {
            Some(spread) => {
                fields.extend([spread.median, spread.min, spread.max].map(|value| value.to_string()))
            }
            None => fields.extend([String::new(), String::new(), String::new()]),
        }
    }
    fields
}

fn row(fields: &[String]) -> String {
    let quoted: Vec<String> = fields
        .iter()
        .map(|field| {
            if field.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", field.replace('"', "\"\""))
            } else {
                field.clone()
            }
        })
        .collect();
    format!("{}\n", quoted.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_commas_quotes_or_lines_is_quoted() {
        let fields = ["a".to_owned(), "b,c".to_owned(), "d\"e".to_owned(), "f\ng".to_owned()];
        assert_eq!(row(&fields), "a,\"b,c\",\"d\"\"e\",\"f\ng\"\n");
    }
}
