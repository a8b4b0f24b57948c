use super::line::{interval, metric_with_unit, signed, values};
use crate::report::Style;
use crate::report::format::{count, wrap};
use crate::verdict::{Finding, Night, Verdict};

/// How a cell's verdicts came about: values, formulas with the numbers in them, thresholds, the control, the files, and the commands
/// that measure it again. `files` are the raw records, `manifest` the file that the run was made from.
pub fn explain(
    night: &Night,
    findings: &[&Finding],
    files: &[String],
    manifest: &str,
    style: &Style,
) -> String {
    let mut lines =
        vec![format!("run {} of `{}`: {}: {}", night.run_id, night.manifest, night.verdict, night.why)];
    if let Some(control) = &night.control {
        lines.push(String::new());
        lines.push(format!("control {}", control.finding.cell));
        lines.extend(one(&control.finding).into_iter().map(|line| format!("  {line}")));
        lines.push(format!(
            "  so the machine {}",
            if control.moved { "moved: nothing is said of the servers" } else { "did not move beyond doubt" }
        ));
    }
    for finding in findings {
        lines.push(String::new());
        lines.push(format!("{} {}", finding.cell, metric_with_unit(finding.metric)));
        lines.extend(one(finding).into_iter().map(|line| format!("  {line}")));
    }
    if let Some(cell) = findings.first().map(|finding| &finding.cell) {
        if let Some(changed) = night.versions.get(&cell.server) {
            lines.push(String::new());
            lines.push(format!(
                "{} has changed since the last accepted run: {}",
                cell.server,
                changed.join(", ")
            ));
        }
        lines.push(String::new());
        lines.push("raw records:".to_owned());
        lines.extend(files.iter().map(|file| format!("  {file}")));
        lines.push("measure it again:".to_owned());
        if let Some(first) = files.first() {
            lines.push(format!("  runner rerun {first}"));
        }
        lines.push(format!("  runner run {manifest} --cell '{cell}' --against auto"));
    }
    let wrapped: Vec<String> = lines.iter().map(|line| wrap(line, style.width, "  ")).collect();
    wrapped.join("\n") + "\n"
}

fn one(finding: &Finding) -> Vec<String> {
    let mut lines = vec![
        format!(
            "baseline {} over {}; now {} over {}",
            values(finding.metric, finding.baseline),
            count(finding.baseline.map_or(0, |of| of.n), "pass", "passes")
                + &format!(" of {}", count(finding.baseline_runs, "run", "runs")),
            values(finding.metric, finding.now),
            count(finding.now.map_or(0, |of| of.n), "pass", "passes")
        ),
        format!(
            "may move {} either way: {}",
            signed(finding.limit.within).trim_start_matches('+'),
            finding.limit.source
        ),
    ];
    if let Some(floor) = finding.limit.floor_ns {
        lines.push(format!("a difference below {} µs counts for nothing", floor / 1e3));
    }
    if let Some(noise) = &finding.noise {
        lines.push(format!(
            "noise, of logarithms: {:.4} from pass to pass, {:.4} from run to run, learned from {}; a pass alone varies by {:.4} before the control is taken off",
            noise.within,
            noise.between,
            count(noise.runs, "run", "runs"),
            noise.raw
        ));
        lines.push(match noise.weight {
            weight if weight > 0.0 => format!(
                "value of a pass: ln({}) {} {weight:.2} ln(control's rate in that pass)",
                finding.metric,
                if finding.metric.more_is_better() { "-" } else { "+" }
            ),
            _ => format!("value of a pass: ln({}); the control is not taken off", finding.metric),
        });
        if let (Some(shift), Some(now)) = (&finding.shift, finding.now) {
            lines.push(format!(
                "shift = exp(median of all differences now - before) - 1 = {}",
                signed(shift.estimate)
            ));
            let room = noise.between_room(finding.error_rate / 2.0, finding.baseline_runs);
            lines.push(format!(
                "interval at {:.4} %: {}; its sides are the roots of the squares of the rank-sum interval of {} against {} passes and of {:.4} for what runs differ by",
                (1.0 - finding.error_rate) * 100.0,
                interval(shift),
                now.n,
                finding.baseline.map_or(0, |of| of.n),
                room
            ));
            if let Some(ninety) = shift.interval_90 {
                lines.push(format!("interval at 90 %: {} to {}", signed(ninety.low), signed(ninety.high)));
            }
        }
    }
    lines.push(format!("{}: {}", finding.verdict, finding.why));
    if let (Some(more), Verdict::Inconclusive | Verdict::TooFew) = (finding.more_passes, finding.verdict) {
        lines.push(format!("needs {more} more passes, if the estimate stays where it is"));
    }
    if let Some(detectable) = finding.detectable {
        lines.push(format!(
            "with the passes that a run may take, a shift of {} is found four times out of five",
            signed(detectable).trim_start_matches('+')
        ));
    }
    lines
}
