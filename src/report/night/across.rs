use super::NightFormat;
use crate::report::Style;
use crate::report::format::{figure, wrap};
use crate::report::grid::{Field, Grid};
use crate::verdict::{AcrossGroup, Baseline, Measured, across};

/// A run beside a baseline of another host, as text with a line break at its end.
pub fn render_across(measured: &Measured, baseline: &Baseline, format: NightFormat, style: &Style) -> String {
    let groups = across(measured, baseline);
    if format == NightFormat::Json {
        let mut text = serde_json::to_string_pretty(&groups).expect("plain data always serialises");
        text.push('\n');
        return text;
    }
    let is_markdown = format == NightFormat::Markdown;
    let head = format!(
        "run {} here, `{}` on `{}` there: rates as ratios, and orders; hosts differ, so nothing is red or green",
        measured.run_id, baseline.manifest, baseline.host_class
    );
    let mut parts = vec![wrap(&head, style.width, "  ")];
    for group in &groups {
        let title = format!("{} · client {}, over {}", group.workload, group.client, group.reference);
        let grid = grid(group);
        let table = if is_markdown { grid.markdown() } else { grid.lines(style).join("\n") };
        let tau = group.tau_b.map_or("-".to_owned(), |tau| format!("{tau:.2}"));
        let heading = if is_markdown { format!("### {title}\n\n") } else { format!("{title}\n") };
        parts.push(format!("{heading}{}\nKendall's tau-b of the two orders: {tau}", table.trim_end()));
    }
    if groups.is_empty() {
        parts.push("no two servers of one workload and client are in both".to_owned());
    }
    parts.join("\n\n") + "\n"
}

fn grid(group: &AcrossGroup) -> Grid {
    let rows = group.rows.iter().map(|row| {
        (row.server.clone(), vec![Field::plain(figure(row.here)), Field::plain(figure(row.there))])
    });
    Grid { heads: ["server", "here", "there"].map(str::to_owned).to_vec(), rows: rows.collect() }
}
