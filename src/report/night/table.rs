use owo_colors::OwoColorize;

use super::line::{interval, median, metric_with_unit, shift, signed, tolerance, values};
use crate::report::Style;
use crate::report::format::{count, wrap};
use crate::report::grid::{Field, Grid};
use crate::report::markdown::escaped;
use crate::verdict::{Finding, Night, NightVerdict, Verdict};

/// Findings of one verdict that a table shows; what is the same is shown in full, and of what cannot be compared the first say it all.
const MOST: usize = 40;

/// A table for people: the verdict first, then the control, then what is graver before what is not.
pub(super) fn render(night: &Night, style: &Style) -> String {
    let mut lines = vec![headline(night, style), about(night), control(night)];
    lines.retain(|line| !line.is_empty());
    let mut lines: Vec<String> = lines.into_iter().map(|line| wrap(&line, style.width, "  ")).collect();
    if !night.findings.is_empty() {
        lines.push(String::new());
        lines.extend(grid(night).lines(style));
    }
    let mut said = Vec::new();
    for finding in night.findings.iter().filter(|finding| !matches!(finding.verdict, Verdict::Same)) {
        said.push(format!("- {} {} is {}: {}", finding.cell, finding.metric, finding.verdict, finding.why));
    }
    let more = said.len().saturating_sub(MOST);
    said.truncate(MOST);
    if more > 0 {
        said.push(format!("- and {more} more: `--format json` has them all"));
    }
    said.extend(versions(night).into_iter().map(|line| format!("- {line}")));
    said.extend(softened(night).into_iter().map(|line| format!("- {line}")));
    said.extend(narrower(night).into_iter().map(|line| format!("- {line}")));
    said.extend(night.notes.iter().map(|note| format!("- {note}")));
    if !said.is_empty() {
        lines.push(String::new());
        lines.extend(said.iter().map(|line| wrap(line, style.width, "  ")));
    }
    lines.push(String::new());
    lines.push(wrap(&legend(night), style.width, "  "));
    lines.join("\n") + "\n"
}

/// The same for a comment.
pub(super) fn markdown(night: &Night) -> String {
    let mut text =
        format!("### {}\n\n{}\n\n", escaped(&headline(night, &Style::default())), escaped(&about(night)));
    if !control(night).is_empty() {
        text.push_str(&format!("{}\n\n", escaped(&control(night))));
    }
    if !night.findings.is_empty() {
        text.push_str(&grid(night).markdown());
        text.push('\n');
    }
    let open = night.findings.iter().filter(|finding| !matches!(finding.verdict, Verdict::Same));
    let mut said: Vec<String> = open
        .map(|finding| {
            format!("{} {} is **{}**: {}", finding.cell, finding.metric, finding.verdict, finding.why)
        })
        .collect();
    said.extend(versions(night));
    said.extend(softened(night));
    said.extend(narrower(night));
    said.extend(night.notes.iter().cloned());
    for line in &said {
        text.push_str(&format!("- {}\n", line.replace('|', "\\|")));
    }
    text.push_str(&format!("\n{}\n", escaped(&legend(night))));
    text
}

fn headline(night: &Night, style: &Style) -> String {
    let word = night.verdict.to_string();
    let shown = match night.verdict {
        _ if !style.color => word,
        NightVerdict::Red => word.red().bold().to_string(),
        NightVerdict::Green => word.green().bold().to_string(),
        _ => word.yellow().bold().to_string(),
    };
    format!("{shown}: {}", night.why)
}

fn about(night: &Night) -> String {
    format!(
        "run {} of `{}` against {}",
        night.run_id,
        night.manifest,
        count(night.baseline_runs, "accepted run", "accepted runs")
    )
}

fn control(night: &Night) -> String {
    let Some(control) = &night.control else {
        return "no control: a move of the machine looks like a move of the servers".to_owned();
    };
    let finding = &control.finding;
    let Some(moved) = &finding.shift else {
        return format!("control {}: {}", finding.cell, finding.why);
    };
    format!(
        "control {}: {} now, {} before, {} ({}), {}",
        finding.cell,
        median(finding.metric, finding.now),
        median(finding.metric, finding.baseline),
        signed(moved.estimate),
        interval(moved),
        if control.moved { "it moved" } else { "no move beyond doubt" }
    )
}

fn grid(night: &Night) -> Grid {
    let heads = ["cell", "metric", "baseline", "now", "shift (interval)", "may move", "verdict"];
    let row = |finding: &Finding| {
        let fields = vec![
            Field::plain(metric_with_unit(finding.metric)),
            Field::plain(values(finding.metric, finding.baseline)),
            Field::plain(values(finding.metric, finding.now)),
            Field::plain(shift(finding)),
            Field::plain(tolerance(finding)),
            Field { text: finding.verdict.to_string(), heat: heat(finding.verdict) },
        ];
        (finding.cell.to_string(), fields)
    };
    Grid { heads: heads.map(str::to_owned).to_vec(), rows: night.findings.iter().map(row).collect() }
}

fn heat(verdict: Verdict) -> Option<f64> {
    match verdict {
        Verdict::Regressed | Verdict::Void | Verdict::Missing => Some(0.0),
        Verdict::Improved | Verdict::Same => Some(1.0),
        _ => Some(0.5),
    }
}

fn versions(night: &Night) -> Vec<String> {
    night
        .versions
        .iter()
        .map(|(server, lines)| format!("{server} has changed: {}", lines.join(", ")))
        .collect()
}

/// Tolerances that the manifest sets, each with its reason, once.
fn softened(night: &Night) -> Vec<String> {
    let mut sources: Vec<String> = night
        .findings
        .iter()
        .filter(|finding| tolerance(finding).ends_with('*'))
        .map(|finding| {
            format!(
                "* {} of {}: {}",
                tolerance(finding).trim_end_matches('*'),
                finding.metric,
                finding.limit.source
            )
        })
        .collect();
    sources.sort();
    sources.dedup();
    sources
}

/// Tolerances that no number of passes could keep to.
fn narrower(night: &Night) -> Vec<String> {
    let narrow = night.findings.iter().filter(|finding| {
        finding.noise.as_ref().is_some_and(|noise| {
            noise.between_room(0.05, finding.baseline_runs) > finding.limit.within.ln_1p()
        })
    });
    narrow
        .map(|finding| {
            format!(
                "the tolerance of {} {} ({}) is narrower than what its runs differ by: widen it, with a reason, or calibrate",
                finding.cell,
                finding.metric,
                tolerance(finding).trim_end_matches('*')
            )
        })
        .take(MOST)
        .collect()
}

fn legend(night: &Night) -> String {
    format!(
        "shift: of the median against the baseline, the control's move taken off, with its interval at the night's error rate ({} of nights red without cause, over {}); docs/NIGHTLY.md defines each verdict, `runner explain {} CELL` shows how one came about.",
        signed(night.error_rate).trim_start_matches('+'),
        count(night.judged, "metric", "metrics"),
        night.run_id
    )
}
