use super::Style;
use super::format::{count, figure, wrap};
use crate::verdict::Trend;

/// From low to high.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Runs that a sparkline shows: the last ones.
const SHOWN: usize = 40;

/// Trends for people: a line for each cell, and its change points below.
pub fn render_trends(manifest: &str, class: Option<&str>, trends: &[Trend], style: &Style) -> String {
    let runs = trends.iter().map(|trend| trend.runs.len()).max().unwrap_or(0);
    let head = format!(
        "{manifest}: {} on hosts of class {}",
        count(runs as u64, "run", "runs"),
        class.unwrap_or("unknown")
    );
    let mut lines = vec![wrap(&head, style.width, "  "), String::new()];
    let width = trends.iter().map(|trend| trend.cell.to_string().len()).max().unwrap_or(0);
    for trend in trends {
        let values: Vec<f64> = trend
            .runs
            .iter()
            .map(|run| run.to_control.filter(|_| trend.to_control).unwrap_or(run.rate_per_s))
            .collect();
        let (first, last) = (&trend.runs[0], &trend.runs[trend.runs.len() - 1]);
        lines.push(format!(
            "{:width$}  {}  {} -> {} krt/s, {:+.1} %{}",
            trend.cell.to_string(),
            sparkline(&values),
            figure(first.rate_per_s / 1e3),
            figure(last.rate_per_s / 1e3),
            trend.change * 100.0,
            if trend.to_control { " to the control" } else { "" }
        ));
        for change in &trend.changes {
            let versions = if change.versions.is_empty() {
                "no version changed".to_owned()
            } else {
                change.versions.join(", ")
            };
            let line = format!(
                "    changed by {:+.1} % at {} (run {}, p = {:.3}): {versions}",
                change.change * 100.0,
                change.at.format("%Y-%m-%d %H:%M"),
                change.run_id,
                change.p
            );
            lines.push(wrap(&line, style.width, "  "));
        }
        if trend.other_parameters > 0 {
            let left_out = count(trend.other_parameters, "run", "runs");
            lines.push(format!("    {left_out} with other parameters left out"));
        }
    }
    lines.join("\n") + "\n"
}

/// The last values between the smallest and the largest of them.
fn sparkline(values: &[f64]) -> String {
    let values = &values[values.len().saturating_sub(SHOWN)..];
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    let bar = |value: &f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    };
    values.iter().map(bar).collect()
}

/// The series as comma-separated values for Apache Otava: `time`, `run`, and a column for each cell, the rate or the
/// ratio to the control. A run without a cell leaves its field empty.
pub fn otava_csv(trends: &[Trend]) -> String {
    let mut runs: Vec<(i64, &str)> = trends
        .iter()
        .flat_map(|trend| &trend.runs)
        .map(|run| (run.at.timestamp(), run.run_id.as_str()))
        .collect();
    runs.sort_unstable();
    runs.dedup();
    let names: Vec<String> = trends.iter().map(|trend| trend.cell.to_string()).collect();
    let mut text = format!("time,run,{}\n", names.join(","));
    for (time, id) in runs {
        let fields: Vec<String> = trends
            .iter()
            .map(|trend| {
                let run = trend.runs.iter().find(|run| run.run_id == id);
                run.map_or_else(String::new, |run| {
                    run.to_control.filter(|_| trend.to_control).unwrap_or(run.rate_per_s).to_string()
                })
            })
            .collect();
        text.push_str(&format!("{time},{id},{}\n", fields.join(",")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_reaches_from_its_lowest_to_its_highest_value() {
        assert_eq!(sparkline(&[1.0, 2.0, 3.0]), "▁▅█");
        assert_eq!(sparkline(&[2.0, 2.0]), "▅▅");
        assert_eq!(sparkline(&[1.0; 100]).chars().count(), SHOWN);
    }
}
