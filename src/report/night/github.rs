use super::line::{metric_with_unit, shift};
use super::table;
use crate::verdict::{Night, NightVerdict, Verdict};

/// Workflow commands: an error for what is red or missing, a warning for what could not be told.
pub(super) fn render(night: &Night) -> String {
    let level = match night.verdict {
        NightVerdict::Red | NightVerdict::Incomplete => "error",
        NightVerdict::HostDrift | NightVerdict::CouldNotTell => "warning",
        NightVerdict::Green => "notice",
    };
    let mut text = command(level, &format!("{}: {}", night.manifest, night.verdict), &night.why);
    for finding in &night.findings {
        let level = match finding.verdict {
            // The machine moved: what the cells show is its move.
            _ if night.verdict == NightVerdict::HostDrift => continue,
            Verdict::Same => continue,
            Verdict::Regressed | Verdict::Void | Verdict::Missing => "error",
            Verdict::Improved => "notice",
            _ => "warning",
        };
        let title = format!("{} {} {}", finding.cell, metric_with_unit(finding.metric), finding.verdict);
        text.push_str(&command(level, &title, &format!("{}; shift {}", finding.why, shift(finding))));
    }
    text
}

/// The markdown of a step's summary.
pub fn summary_markdown(night: &Night) -> String {
    table::markdown(night)
}

fn command(level: &str, title: &str, message: &str) -> String {
    let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={}::{}\n", property(title), data(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_may_not_hold_is_escaped() {
        assert_eq!(command("error", "a: b, c", "50 %\nmore"), "::error title=a%3A b%2C c::50 %25%0Amore\n");
    }
}
