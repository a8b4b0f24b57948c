use super::line::{metric_with_unit, shift, tolerance, values};
use crate::verdict::{Finding, Night, NightVerdict, Verdict};

/// A test suite: a case for the control and one for each metric of each cell. A regression is a failure, what is void or missing an
/// error, and what could not be told is skipped, so that it never looks like a pass.
pub(super) fn render(night: &Night) -> String {
    let drift = night.verdict == NightVerdict::HostDrift;
    let cases: Vec<(String, Kind)> = night
        .control
        .iter()
        .map(|control| {
            let kind = if control.moved { Kind::Skipped } else { Kind::Passed };
            (case("control", &control.finding, kind), kind)
        })
        .chain(night.findings.iter().map(|finding| {
            let kind = if drift { Kind::Skipped } else { Kind::of(finding.verdict) };
            (case(&finding.cell.to_string(), finding, kind), kind)
        }))
        .collect();
    let number = |kind: Kind| cases.iter().filter(|(_, of)| *of == kind).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n    <properties>\n      <property name=\"run\" value=\"{}\"/>\n      <property name=\"verdict\" value=\"{}\"/>\n    </properties>\n",
        escaped(&night.manifest),
        cases.len(),
        number(Kind::Failed),
        number(Kind::Error),
        number(Kind::Skipped),
        escaped(&night.run_id),
        night.verdict
    );
    for (case, _) in &cases {
        text.push_str(case);
    }
    text.push_str(&format!(
        "    <system-out>{}</system-out>\n  </testsuite>\n</testsuites>\n",
        escaped(&night.why)
    ));
    text
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Passed,
    Failed,
    Error,
    Skipped,
}

impl Kind {
    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Same | Verdict::Improved => Kind::Passed,
            Verdict::Regressed => Kind::Failed,
            Verdict::Void | Verdict::Missing => Kind::Error,
            Verdict::Inconclusive
            | Verdict::Noisy
            | Verdict::TooFew
            | Verdict::NotComparable
            | Verdict::New => Kind::Skipped,
        }
    }
}

fn case(class: &str, finding: &Finding, kind: Kind) -> String {
    let head = format!(
        "    <testcase classname=\"{}\" name=\"{}\"",
        escaped(class),
        escaped(&metric_with_unit(finding.metric))
    );
    let message = escaped(&format!("{}: {}", finding.verdict, finding.why));
    let detail = escaped(&format!(
        "baseline {}, now {}, shift {}, may move {}",
        values(finding.metric, finding.baseline),
        values(finding.metric, finding.now),
        shift(finding),
        tolerance(finding)
    ));
    match kind {
        Kind::Passed => format!("{head}/>\n"),
        Kind::Failed => {
            format!("{head}>\n      <failure message=\"{message}\">{detail}</failure>\n    </testcase>\n")
        }
        Kind::Error => {
            format!("{head}>\n      <error message=\"{message}\">{detail}</error>\n    </testcase>\n")
        }
        Kind::Skipped => format!("{head}>\n      <skipped message=\"{message}\"/>\n    </testcase>\n"),
    }
}

/// Text of an XML document: what it may not hold at all is left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(letter),
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}
