use crate::manifest::Metric;
use crate::report::format::{figure, spread};
use crate::stats::{Interval, Spread};
use crate::verdict::{Finding, Shift};

/// Unit of a metric in a table, and how many of it a base unit is.
fn unit(metric: Metric) -> (&'static str, f64) {
    match metric {
        Metric::Rate => ("krt/s", 1e-3),
        Metric::P50 | Metric::P99 => ("µs", 1e-3),
        Metric::ServerCpu => ("µs/msg", 1e-3),
    }
}

/// `28.1 (27.0–29.3)`, of a metric.
pub(super) fn values(metric: Metric, of: Option<Spread>) -> String {
    of.map_or("-".to_owned(), |of| spread(&of.times(unit(metric).1)))
}

/// `rate krt/s`.
pub(super) fn metric_with_unit(metric: Metric) -> String {
    format!("{metric} {}", unit(metric).0)
}

/// `28.1 krt/s`.
pub(super) fn median(metric: Metric, of: Option<Spread>) -> String {
    let (name, factor) = unit(metric);
    of.map_or("-".to_owned(), |of| format!("{} {name}", figure(of.median * factor)))
}

/// `-9.8 %`.
pub(super) fn signed(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 99.95 { format!("{percent:+.0} %") } else { format!("{percent:+.1} %") }
}

/// `(-12.1 % to -7.4 %)`; the one at the night's error rate, else the one at 90 %.
pub(super) fn interval(shift: &Shift) -> String {
    let shown = |interval: Interval| format!("{} to {}", signed(interval.low), signed(interval.high));
    match (shift.interval, shift.interval_90) {
        (Some(interval), _) => shown(interval),
        (None, Some(interval)) => format!("{} at 90 %", shown(interval)),
        (None, None) => "too few passes for one".to_owned(),
    }
}

/// How far a finding moved, with its interval.
pub(super) fn shift(finding: &Finding) -> String {
    match &finding.shift {
        Some(shift) => format!("{} ({})", signed(shift.estimate), interval(shift)),
        None => "-".to_owned(),
    }
}

/// The tolerance, and whether the manifest set it.
pub(super) fn tolerance(finding: &Finding) -> String {
    let within = signed(finding.limit.within).replace('+', "±").replace(".0 %", " %");
    let mark = if finding.limit.source.starts_with("the default") { "" } else { "*" };
    format!("{within}{mark}")
}
