use std::collections::BTreeMap;
use std::fmt;

use super::coverage::said;
use super::difference::{Difference, differences};
use super::format::{count, figure, spread};
use super::{PassFigures, Style};
use crate::record::Record;
use crate::stats::{Interval, Latency, Spread, coefficient_of_variation};
use crate::workload::Kind;

/// What measuring a recorded cell again says of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The new median lies where the record lets expect it.
    Inside,
    /// It does not.
    Outside,
    /// The two may not be compared, for this reason.
    NotComparable(String),
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Judgement::Inside => f.write_str("inside"),
            Judgement::Outside => f.write_str("outside"),
            Judgement::NotComparable(why) => write!(f, "not comparable: {why}"),
        }
    }
}

/// Records of one cell: those that a run left, or those of measuring it again.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// All of them, whatever their outcome.
    pub records: Vec<Record>,
    figures: Vec<PassFigures>,
}

impl Measured {
    /// Of some records of one cell.
    pub fn of(records: Vec<Record>) -> Self {
        let mut latency = Latency::new();
        let usable = records.iter().filter(|record| record.is_ok());
        let figures = usable.filter_map(|record| PassFigures::of(record, &mut latency).0).collect();
        Measured { records, figures }
    }

    fn rates(&self) -> Vec<f64> {
        self.figures.iter().map(|pass| pass.rate_per_s).collect()
    }

    fn spread(&self, of: impl Fn(&PassFigures) -> Option<f64>) -> Option<Spread> {
        Spread::of_some(self.figures.iter().map(of))
    }
}

/// A recorded cell beside the same cell measured again.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The record that was asked about.
    pub asked: Record,
    /// What the run has of its cell: the record and its siblings of other passes.
    pub old: Measured,
    /// The cell measured again.
    pub new: Measured,
    /// The control then and now, when the run has one and it is another cell.
    pub control: Option<(Measured, Measured)>,
}

/// Spread of a cell's rate from pass to pass that is taken for granted, as coefficient of variation: what ten fresh servers
/// each gave on a shared virtual machine (docs/METHODOLOGY.md).
fn usual_noise(kind: Kind) -> f64 {
    match kind {
        Kind::Pingpong => 0.07,
        Kind::Load => 0.13,
    }
}

/// Standard errors on either side: 95 % of a normal distribution.
const WITHIN: f64 = 1.96;

/// Where the median of `new` further passes is expected: the range of the old values (of the passes; of its trials when
/// there is one pass only), widened where it is narrower to the old median times or over `exp(1.96 c sqrt(v(old) + v(new)))`.
/// `c` is the usual noise of the kind, or that of three or more old passes when it is larger; `v(n) = min(1, pi / 2n)`
/// is the variance of the median of `n` values in units of theirs (Laplace 1818).
pub fn expected(kind: Kind, passes: &[f64], trials: &[f64], new: usize) -> Option<Interval> {
    let seen = Spread::of(if passes.len() == 1 { trials } else { passes })?;
    let centre = Spread::of(passes)?.median;
    let own = coefficient_of_variation(passes).filter(|_| passes.len() >= 3).unwrap_or(0.0);
    let noise = own.max(usual_noise(kind));
    let variance = |n: usize| (std::f64::consts::PI / (2.0 * n as f64)).min(1.0);
    let room = (WITHIN * noise * (variance(passes.len()) + variance(new.max(1))).sqrt()).exp();
    Some(Interval { low: seen.min.min(centre / room), high: seen.max.max(centre * room) })
}

fn expected_of(old: &Measured, new: &Measured) -> Option<Interval> {
    let kind = old.records.first()?.cell.workload.params.kind;
    let trials: Vec<f64> =
        old.figures.iter().flat_map(|pass| pass.trial_rates_per_s.iter().copied()).collect();
    expected(kind, &old.rates(), &trials, new.figures.len())
}

fn is_within(old: &Measured, new: &Measured) -> Option<bool> {
    let expected = expected_of(old, new)?;
    let median = Spread::of(&new.rates())?.median;
    Some((expected.low..=expected.high).contains(&median))
}

impl Comparison {
    /// Whether the record's figure was found again.
    pub fn judge(&self) -> Judgement {
        let not = |why: String| Judgement::NotComparable(why);
        if let Some((status, reason, _)) = said(&self.asked.outcome) {
            return not(format!("the record is {status} ({reason}), so it has no figure"));
        }
        let Some(first) = self.new.records.first() else {
            return not("it was not measured again".to_owned());
        };
        if let Some((status, reason, _)) = self.new.records.iter().find_map(|record| said(&record.outcome)) {
            return not(format!("measured again it is {status} ({reason})"));
        }
        let (then, now) = (&self.asked.host.fingerprint.class, &first.host.fingerprint.class);
        if then != now {
            return not(format!("the record is of a host of class `{then}`, this one is of class `{now}`"));
        }
        if self.asked.content_id != first.content_id {
            return not(format!(
                "the cell is another one: content id {} then, {} now",
                self.asked.content_id, first.content_id
            ));
        }
        if let Some((then, now)) = &self.control
            && is_within(then, now) != Some(true)
        {
            return not(match (Spread::of(&then.rates()), Spread::of(&now.rates())) {
                (Some(then), Some(now)) => format!(
                    "the machine moved: the control is at {} krt/s now and was at {}",
                    figure(now.median / 1e3),
                    spread(&then.times(1e-3))
                ),
                _ => "the control has no figure to tell whether the machine moved".to_owned(),
            });
        }
        match is_within(&self.old, &self.new) {
            Some(true) => Judgement::Inside,
            Some(false) => Judgement::Outside,
            None => not("one of the two has no timed trial".to_owned()),
        }
    }

    /// What differs between the record and its first rerun: host, versions, programs, cores.
    pub fn differences(&self) -> Vec<Difference> {
        match self.new.records.first() {
            Some(new) => differences(&self.asked, new),
            None => Vec::new(),
        }
    }

    /// Old and new side by side, the judgement, and what differs.
    pub fn render(&self, style: &Style) -> String {
        let mut text = format!("{}\n", self.asked.cell.id);
        let rows = self.rows();
        let widths: Vec<usize> = (0..4)
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        for row in &rows {
            let line = format!(
                "  {:<w0$}  {:>w1$}  {:>w2$}  {:>w3$}",
                row[0],
                row[1],
                row[2],
                row[3],
                w0 = widths[0],
                w1 = widths[1],
                w2 = widths[2],
                w3 = widths[3]
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if let Some(expected) = expected_of(&self.old, &self.new) {
            text.push_str(&format!(
                "  expected: a median of {}–{} krt/s, from {}\n",
                figure(expected.low / 1e3),
                figure(expected.high / 1e3),
                match self.old.figures.len() {
                    1 => "the trials of its only pass".to_owned(),
                    n => format!("its {n} passes"),
                }
            ));
        }
        for difference in self.differences() {
            text.push_str(&format!("  differs: {difference}\n"));
        }
        let judgement = self.judge();
        let shown = if style.color { colored(&judgement) } else { judgement.to_string() };
        text.push_str(&super::format::wrap(&shown, style.width, "  "));
        text.push('\n');
        text
    }

    fn rows(&self) -> Vec<[String; 4]> {
        let head = |measured: &Measured, word: &str| {
            format!("{word} ({})", count(measured.figures.len() as u64, "pass", "passes"))
        };
        let mut rows =
            vec![[String::new(), head(&self.old, "then"), head(&self.new, "now"), "now/then".to_owned()]];
        let mut row = |name: &str, old: Option<Spread>, new: Option<Spread>, scale: f64| {
            if old.is_none() && new.is_none() {
                return;
            }
            let shown =
                |value: Option<Spread>| value.map_or("-".to_owned(), |value| spread(&value.times(scale)));
            let ratio = match (old, new) {
                (Some(old), Some(new)) if old.median > 0.0 => format!("{}x", figure(new.median / old.median)),
                _ => "-".to_owned(),
            };
            rows.push([name.to_owned(), shown(old), shown(new), ratio]);
        };
        let both = |of: &dyn Fn(&PassFigures) -> Option<f64>| (self.old.spread(of), self.new.spread(of));
        let (old, new) = both(&|pass| Some(pass.rate_per_s));
        row("krt/s", old, new, 1e-3);
        let (old, new) = both(&|pass| pass.latency.map(|latency| latency.p50_ns as f64));
        row("p50 µs", old, new, 1e-3);
        let (old, new) = both(&|pass| pass.latency.map(|latency| latency.p99_ns as f64));
        row("p99 µs", old, new, 1e-3);
        let (old, new) = both(&|pass| pass.server_cores);
        row("server CPU %", old, new, 100.0);
        let (old, new) = both(&|pass| pass.server_ns_per_message);
        row("server µs/msg", old, new, 1e-3);
        if let Some((then, now)) = &self.control {
            row("control krt/s", Spread::of(&then.rates()), Spread::of(&now.rates()), 1e-3);
            row("x control", paired(&self.old, then), paired(&self.new, now), 1.0);
        }
        rows
    }
}

/// The ratio to the control within the same pass.
fn paired(cell: &Measured, control: &Measured) -> Option<Spread> {
    let by_pass: BTreeMap<u32, f64> =
        control.figures.iter().map(|pass| (pass.pass, pass.rate_per_s)).collect();
    cell.spread(|pass| by_pass.get(&pass.pass).map(|control| pass.rate_per_s / control))
}

fn colored(judgement: &Judgement) -> String {
    use owo_colors::OwoColorize;
    match judgement {
        Judgement::Inside => judgement.green().to_string(),
        Judgement::Outside => judgement.red().to_string(),
        Judgement::NotComparable(_) => judgement.yellow().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcome, VoidReason};
    use crate::report::test_support::Made;

    fn comparison(old: &[f64], new: &[f64]) -> Comparison {
        let made = Made::pingpong("ws@node-24");
        let old = made.passes(old);
        Comparison {
            asked: old[0].clone(),
            old: Measured::of(old),
            new: Measured::of(made.passes(new)),
            control: None,
        }
    }

    #[test]
    fn usual_noise_is_inside_and_a_fifth_is_outside() {
        assert_eq!(comparison(&[30e3; 3], &[27e3, 26e3, 33e3]).judge(), Judgement::Inside);
        assert_eq!(comparison(&[30e3; 3], &[24e3; 3]).judge(), Judgement::Outside);
        assert_eq!(comparison(&[30e3; 3], &[37e3; 3]).judge(), Judgement::Outside);
        // A noisy record says less.
        assert_eq!(comparison(&[24e3, 30e3, 38e3], &[24e3; 3]).judge(), Judgement::Inside);
    }

    #[test]
    fn the_room_is_that_of_the_formula() {
        let room = |passes: &[f64], new| {
            let interval = expected(Kind::Pingpong, passes, passes, new).unwrap();
            (interval.low, interval.high)
        };
        // exp(1.96 * 0.07 * sqrt(1 + pi / 6)) = 1.1845
        let (low, high) = room(&[100.0], 3);
        assert!((high - 118.45).abs() < 0.01 && (low - 84.43).abs() < 0.01, "{low} {high}");
        let (low, high) = room(&[100.0; 3], 3);
        assert!((high - 115.07).abs() < 0.01 && (low - 86.90).abs() < 0.01, "{low} {high}");
        let load = expected(Kind::Load, &[100.0], &[60.0, 100.0, 101.0], 3).unwrap();
        assert_eq!(load.low, 60.0);
        assert!((load.high - 136.95).abs() < 0.01, "{load:?}");
        assert_eq!(expected(Kind::Load, &[], &[], 3), None);
    }

    #[test]
    fn what_may_not_be_compared_says_why() {
        let why = |comparison: &Comparison| match comparison.judge() {
            Judgement::NotComparable(why) => why,
            other => panic!("{other}"),
        };
        let mut case = comparison(&[30e3; 3], &[30e3; 3]);
        case.asked.outcome = Outcome::Void { reason: VoidReason::Echoed, detail: String::new() };
        assert_eq!(why(&case), "the record is void (echoed), so it has no figure");

        let mut case = comparison(&[30e3; 3], &[30e3; 3]);
        case.new.records[1].outcome = Outcome::Skipped { reason: "no npm".to_owned() };
        assert_eq!(why(&case), "measured again it is skipped (no npm)");

        let mut case = comparison(&[30e3; 3], &[30e3; 3]);
        case.new.records[0].host.fingerprint.class = "other".to_owned();
        assert!(why(&case).contains("class `testium-2c-kvm-6`, this one is of class `other`"));

        let mut case = comparison(&[30e3; 3], &[30e3; 3]);
        case.asked.content_id = "0".repeat(16);
        assert!(why(&case).starts_with("the cell is another one: content id 0000000000000000 then"));
        assert_eq!(why(&comparison(&[30e3], &[])), "it was not measured again");
    }

    #[test]
    fn a_moved_control_takes_the_verdict_away() {
        let control = Made::pingpong("relay");
        let mut case = comparison(&[30e3; 3], &[20e3; 3]);
        case.control =
            Some((Measured::of(control.passes(&[32e3; 3])), Measured::of(control.passes(&[21e3; 3]))));
        assert_eq!(
            case.judge().to_string(),
            "not comparable: the machine moved: the control is at 21.0 krt/s now and was at 32.0 (32.0–32.0)"
        );
        case.control =
            Some((Measured::of(control.passes(&[32e3; 3])), Measured::of(control.passes(&[31e3; 3]))));
        assert_eq!(case.judge(), Judgement::Outside);
    }

    #[test]
    fn old_and_new_are_printed_side_by_side_with_what_differs() {
        let control = Made::pingpong("relay");
        let mut case = comparison(&[30e3, 31e3, 29e3], &[27e3, 28e3, 27.5e3]);
        case.control = Some((
            Measured::of(control.passes(&[32e3, 33e3, 31e3])),
            Measured::of(control.passes(&[31e3; 3])),
        ));
        let new = &mut case.new.records[0];
        new.host.fingerprint.kernel = "6.18.0".to_owned();
        new.host.fingerprint.governor = Some("performance".to_owned());
        new.server.versions.insert("ws".to_owned(), "8.23.0".to_owned());
        new.server.sha256.insert("/somewhere/else/server.js".to_owned(), "ab".repeat(32));
        insta::assert_snapshot!("rerun", case.render(&Style::default()));
        assert!(case.render(&Style { color: true, width: 100 }).contains("\u{1b}[32minside"));
    }

    #[test]
    fn where_a_file_lies_is_no_difference() {
        let mut case = comparison(&[30e3], &[30e3]);
        case.asked.server.sha256.insert("/a/server.js".to_owned(), "cd".repeat(32));
        case.new.records[0].server.sha256.insert("/b/server.js".to_owned(), "cd".repeat(32));
        assert_eq!(case.differences(), []);
    }
}
