use std::ops::Range;

use super::NamedWorkload;
use super::at::{At, CountOrTime, OneOrMany};
use super::axes::{Axes, Axis};
use super::problem::{Place, Problem};
use super::quantity::{QuantityError, TIME_UNITS, parse_time_ns};
use super::timeouts::GivenTimeouts;
use super::wire::WorkloadTable;
use crate::workload::{Extent, Kind, MIN_PAYLOAD, Mask, Opcode, Params, Wait};

/// Largest payload that a manifest may ask for, in bytes.
pub const MAX_PAYLOAD: u64 = 64 << 20;

/// Most workloads that the axes of one may stand for.
const MAX_AXIS_PRODUCT: usize = 10_000;

/// Most trials of a cell, and most passes of a run.
pub(super) const MAX_REPEATS: u64 = 10_000;

/// A workload with the places that later messages point at.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) workload: NamedWorkload,
    pub(super) name: Place,
    pub(super) payload: Place,
}

/// Most round trips per second that may be asked for: beyond what a clock tells apart.
const MAX_RATE: u64 = 50_000_000;

/// What a file says where its workload says nothing.
const BUILT_IN_PAYLOAD: u64 = 16;
const BUILT_IN_LOAD_PAIRS: u64 = 64;
const BUILT_IN_WARMUP: u64 = 20_000;
const BUILT_IN_ROUNDS: u64 = 50_000;
const BUILT_IN_TRIALS: u64 = 5;

/// Expands one table to its workloads, one for each combination of its axes, in their canonical order: payload,
/// pairs, in_flight, threads, rate, opcode, mask, wait, rounds or duration.
pub(super) fn expand_workload(
    file: usize,
    name: &At<String>,
    table: &WorkloadTable,
    defaults: &WorkloadTable,
    problems: &mut Vec<Problem>,
) -> Vec<Declared> {
    let before = problems.len();
    let here = Place::new(file, &name.span);
    check_name(name, &here, problems);
    let kind = table.kind.as_ref().or(defaults.kind.as_ref()).map(|kind| kind.value);
    let Some(kind) = kind else {
        problems.push(
            Problem::at(here, format!("workload `{}` has no `kind`", name.value), "this one")
                .hint("add `kind = \"pingpong\"` or `kind = \"load\"`"),
        );
        return Vec::new();
    };
    let mut reader = Reader { file, name: &name.value, here: &here, kind, problems };
    let axes = reader.axes(table, defaults);
    let warmup = reader.warmup(table, defaults);
    let trials = reader.trials(table, defaults);
    let timeouts = reader.timeouts(table, defaults);
    let opt_in = table.opt_in.as_ref().or(defaults.opt_in.as_ref()).is_some_and(|flag| flag.value);
    if problems.len() > before {
        return Vec::new();
    }
    let product = axes.lengths().iter().fold(1usize, |product, length| product.saturating_mul(*length));
    if product > MAX_AXIS_PRODUCT {
        problems.push(
            Problem::at(
                here,
                format!(
                    "the axes of `{}` stand for {product} workloads; {MAX_AXIS_PRODUCT} is the most",
                    name.value
                ),
                "this one",
            )
            .hint("shorten its lists, or split it into workloads that vary one thing each"),
        );
        return Vec::new();
    }
    let mut all = Vec::with_capacity(product);
    for index in 0..product {
        let point = axes.point(index);
        let params = Params {
            kind,
            payload: point.payload.0,
            opcode: point.opcode,
            pairs: point.pairs.0 as u32,
            in_flight: point.in_flight.0 as u32,
            rate_per_s: (point.rate.0 != 0).then_some(point.rate.0),
            threads: point.threads.0 as u32,
            warmup,
            trial: point.trial,
            trials,
            mask: point.mask,
            wait: point.wait,
        };
        if params.threads > params.pairs {
            problems.push(
                Problem::at(
                    point.threads.1,
                    format!(
                        "`{}` has {} threads for {} pair{}; a thread without a pair has nothing to do",
                        name.value,
                        params.threads,
                        params.pairs,
                        if params.pairs == 1 { "" } else { "s" }
                    ),
                    "more threads than pairs",
                )
                .hint(format!("use at most `threads = {}`", params.pairs)),
            );
            break;
        }
        let timeouts = timeouts.fill(&params);
        let workload = NamedWorkload {
            name: format!("{}{}", name.value, point.suffix),
            family: name.value.clone(),
            params,
            timeouts,
            opt_in,
        };
        all.push(Declared { workload, name: here.clone(), payload: point.payload.1 });
    }
    if problems.len() > before { Vec::new() } else { all }
}

/// Refuses lists in `[defaults]`: an axis belongs to a workload, whose names its values make.
pub(super) fn check_defaults(file: usize, defaults: &WorkloadTable, problems: &mut Vec<Problem>) {
    fn list<T>(key: &Option<At<OneOrMany<T>>>) -> Option<&Range<usize>> {
        key.as_ref().filter(|at| matches!(at.value, OneOrMany::Many(_))).map(|at| &at.span)
    }
    let lists = [
        list(&defaults.payload),
        list(&defaults.pairs),
        list(&defaults.in_flight),
        list(&defaults.threads),
        list(&defaults.rate),
        list(&defaults.opcode),
        list(&defaults.mask),
        list(&defaults.wait),
        list(&defaults.rounds),
        list(&defaults.duration),
    ];
    for span in lists.into_iter().flatten() {
        problems.push(
            Problem::at(Place::new(file, span), "a list in `[defaults]`", "an axis belongs to a workload")
                .hint("write the list in each workload that it is for"),
        );
    }
    if let (Some(_), Some(duration)) = (&defaults.rounds, &defaults.duration) {
        problems.push(both_extents(Place::new(file, &duration.span)));
    }
}

fn both_extents(place: Place) -> Problem {
    Problem::at(place, "both `rounds` and `duration`", "which of the two ends a trial?")
        .hint("a trial ends after a count or after a time; remove one")
}

/// A name is one part of a cell id and of a path.
fn check_name(name: &At<String>, here: &Place, problems: &mut Vec<Problem>) {
    const LONGEST: usize = 100;
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.value.is_empty()
        || name.value.len() > LONGEST
        || name.value.starts_with('.')
        || !name.value.chars().all(fine)
    {
        let shown: String = name.value.chars().take(LONGEST).collect();
        problems.push(
            Problem::at(here.clone(), format!("`{shown}` cannot be the name of a workload"), "this name")
                .hint("letters, digits, `-`, `_` and `.` make a name, which becomes part of ids and paths"),
        );
    }
}

struct Reader<'a> {
    file: usize,
    name: &'a str,
    here: &'a Place,
    kind: Kind,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn axes(&mut self, table: &WorkloadTable, defaults: &WorkloadTable) -> Axes {
        // A default number of pairs is meant for the workloads that have pairs.
        let none = WorkloadTable::default();
        let of_many = if self.kind == Kind::Pingpong { &none } else { defaults };
        let pairs = if self.kind == Kind::Pingpong { 1 } else { BUILT_IN_LOAD_PAIRS };
        Axes {
            payload: self.payload(table, defaults),
            pairs: self.multiple("pairs", &table.pairs, &of_many.pairs, pairs),
            in_flight: self.multiple("in_flight", &table.in_flight, &of_many.in_flight, 1),
            threads: self.multiple("threads", &table.threads, &of_many.threads, 1),
            rate: self.rate(table, of_many),
            opcode: self.axis("opcode", &table.opcode, &defaults.opcode, Opcode::Binary),
            mask: self.axis("mask", &table.mask, &defaults.mask, Mask::Zero),
            wait: self.axis("wait", &table.wait, &defaults.wait, Wait::Spin),
            trial: self.trial(table, defaults),
        }
    }

    fn place<T>(&self, at: &At<T>) -> Place {
        Place::new(self.file, &at.span)
    }

    fn axis<T: Clone + PartialEq>(
        &mut self,
        key: &str,
        own: &Option<At<OneOrMany<T>>>,
        default: &Option<At<OneOrMany<T>>>,
        built_in: T,
    ) -> Axis<T> {
        let Some(at) = own.as_ref().or(default.as_ref()) else {
            return Axis { values: vec![(built_in, self.here.clone())], listed: false };
        };
        match &at.value {
            OneOrMany::One(value) => Axis { values: vec![(value.clone(), self.place(at))], listed: false },
            OneOrMany::Many(list) => {
                if list.is_empty() {
                    self.problems.push(
                        Problem::at(self.place(at), format!("`{key}` is an empty list"), "no value")
                            .hint("a list makes one workload for each value; name at least one"),
                    );
                }
                // Beyond the bound of the product the values are not looked at: it is refused anyway.
                for (index, element) in list.iter().enumerate().take(MAX_AXIS_PRODUCT) {
                    if let Some(first) = list[..index].iter().find(|other| other.value == element.value) {
                        self.problems.push(
                            Problem::at(
                                self.place(element),
                                format!("`{key}` lists a value twice"),
                                "again here",
                            )
                            .label(self.place(first), "first here")
                            .hint("remove one of the two: they would make two workloads of one name"),
                        );
                    }
                }
                let values =
                    list.iter().map(|element| (element.value.clone(), self.place(element))).collect();
                Axis { values, listed: true }
            }
        }
    }

    fn payload(&mut self, table: &WorkloadTable, defaults: &WorkloadTable) -> Axis<u64> {
        let axis = self.axis("payload", &table.payload, &defaults.payload, BUILT_IN_PAYLOAD);
        for (payload, place) in &axis.values {
            if *payload < MIN_PAYLOAD {
                self.problems.push(
                    Problem::at(
                        place.clone(),
                        format!("a payload of {payload} bytes cannot be checked"),
                        format!("at least {MIN_PAYLOAD}"),
                    )
                    .hint(format!(
                        "each message carries direction, pair and sequence number, which take {MIN_PAYLOAD} bytes"
                    )),
                );
            } else if *payload > MAX_PAYLOAD {
                self.problems.push(
                    Problem::at(
                        place.clone(),
                        format!("a payload of {payload} bytes is too large"),
                        format!("at most {MAX_PAYLOAD}, which is {} MiB", MAX_PAYLOAD >> 20),
                    )
                    .hint("it is a number of bytes"),
                );
            }
        }
        axis
    }

    /// Pairs, messages in flight and threads: from 1, and only 1 in ping-pong.
    fn multiple(
        &mut self,
        key: &str,
        own: &Option<At<OneOrMany<u64>>>,
        default: &Option<At<OneOrMany<u64>>>,
        built_in: u64,
    ) -> Axis<u64> {
        let axis = self.axis(key, own, default, built_in);
        for (value, place) in &axis.values {
            if *value == 0 {
                self.problems.push(
                    Problem::at(place.clone(), format!("`{key}` is 0"), "at least 1")
                        .hint(format!("`{}` would exchange nothing", self.name)),
                );
            } else if self.kind == Kind::Pingpong && *value > 1 {
                self.problems.push(
                    Problem::at(
                        place.clone(),
                        format!("`{key}` is {value} in a ping-pong"),
                        "always 1 in `pingpong`",
                    )
                    .hint("a ping-pong is one pair, one message in flight, one thread; `kind = \"load\"` has more"),
                );
            } else if u32::try_from(*value).is_err() {
                self.problems.push(
                    Problem::at(
                        place.clone(),
                        format!("`{key}` is too large"),
                        format!("at most {}", u32::MAX),
                    )
                    .hint("each pair takes two connections, of which a process has some thousands"),
                );
            }
        }
        axis
    }

    /// The rate of an open loop; 0 for a closed one.
    fn rate(&mut self, table: &WorkloadTable, defaults: &WorkloadTable) -> Axis<u64> {
        let given = table.rate.is_some() || defaults.rate.is_some();
        let axis = self.axis("rate", &table.rate, &defaults.rate, 0);
        for (rate, place) in axis.values.iter().filter(|_| given) {
            if self.kind == Kind::Pingpong {
                self.problems.push(
                    Problem::at(place.clone(), "`rate` in a ping-pong", "only in `load`")
                        .hint("a ping-pong waits for each answer; `kind = \"load\"` can send on a schedule"),
                );
            } else if !(1..=MAX_RATE).contains(rate) {
                self.problems.push(
                    Problem::at(place.clone(), format!("`rate` is {rate}"), format!("1 to {MAX_RATE}"))
                        .hint("it is a number of round trips per second, over all pairs"),
                );
            }
        }
        axis
    }

    /// What ends a trial: the workload's own count or time, else the default one.
    fn trial(&mut self, table: &WorkloadTable, defaults: &WorkloadTable) -> Axis<(Extent, String)> {
        if let (Some(_), Some(duration)) = (&table.rounds, &table.duration) {
            let place = self.place(duration);
            self.problems.push(both_extents(place));
        }
        let own = table.rounds.is_some() || table.duration.is_some();
        let source = if own { table } else { defaults };
        if let Some(_given) = &source.duration {
            let texts = self.axis("duration", &source.duration, &None, String::new());
            let values = texts
                .values
                .into_iter()
                .filter_map(|(text, place)| {
                    let ns = self.time("duration", &text, &place)?;
                    Some(((Extent::DurationNs(ns), text.replace(char::is_whitespace, "")), place))
                })
                .collect();
            return Axis { values, listed: texts.listed };
        }
        let counts = self.axis("rounds", &source.rounds, &None, BUILT_IN_ROUNDS);
        for (rounds, place) in &counts.values {
            if *rounds == 0 {
                self.problems.push(
                    Problem::at(place.clone(), "`rounds` is 0", "at least 1")
                        .hint("a trial of no round trips has no rate"),
                );
            }
        }
        let values = counts
            .values
            .into_iter()
            .map(|(rounds, place)| ((Extent::Rounds(rounds), rounds.to_string()), place))
            .collect();
        Axis { values, listed: counts.listed }
    }

    fn warmup(&mut self, table: &WorkloadTable, defaults: &WorkloadTable) -> Extent {
        let Some(at) = table.warmup.as_ref().or(defaults.warmup.as_ref()) else {
            return Extent::Rounds(BUILT_IN_WARMUP);
        };
        match &at.value {
            CountOrTime::Count(rounds) => Extent::Rounds(*rounds),
            CountOrTime::Time(text) => {
                let place = self.place(at);
                match parse_time_ns(text) {
                    // No warm-up may be asked for in either way.
                    Ok(ns) => Extent::DurationNs(ns),
                    Err(error) => {
                        self.problems.push(not_a_time("warmup", text, &error, place));
                        Extent::Rounds(0)
                    }
                }
            }
        }
    }

    fn trials(&mut self, table: &WorkloadTable, defaults: &WorkloadTable) -> u32 {
        let Some(at) = table.trials.as_ref().or(defaults.trials.as_ref()) else {
            return BUILT_IN_TRIALS as u32;
        };
        let place = self.place(at);
        if at.value == 0 {
            self.problems.push(
                Problem::at(place, "`trials` is 0", "at least 1")
                    .hint("a cell without a timed trial measures nothing"),
            );
        } else if at.value > MAX_REPEATS {
            self.problems.push(
                Problem::at(place, format!("`trials` is {}", at.value), format!("at most {MAX_REPEATS}"))
                    .hint("a longer measurement has longer trials: `rounds` or `duration`"),
            );
        }
        at.value.min(MAX_REPEATS) as u32
    }

    fn timeouts(&mut self, table: &WorkloadTable, defaults: &WorkloadTable) -> GivenTimeouts {
        let mut read = |key: &str, own: &Option<At<String>>, default: &Option<At<String>>| {
            let at = own.as_ref().or(default.as_ref())?;
            let place = Place::new(self.file, &at.span);
            self.time(key, &at.value, &place)
        };
        GivenTimeouts {
            start_ns: read("start_timeout", &table.start_timeout, &defaults.start_timeout),
            stall_ns: read("stall", &table.stall, &defaults.stall),
            deadline_ns: read("deadline", &table.deadline, &defaults.deadline),
            grace_ns: read("grace", &table.grace, &defaults.grace),
        }
    }

    /// A time above zero.
    fn time(&mut self, key: &str, text: &str, place: &Place) -> Option<u64> {
        match parse_time_ns(text) {
            Ok(0) => {
                self.problems.push(
                    Problem::at(place.clone(), format!("`{key}` is no time at all"), "longer than 0")
                        .hint("a time reads `500ms`, `5s` or `2 min`"),
                );
                None
            }
            Ok(ns) => Some(ns),
            Err(error) => {
                self.problems.push(not_a_time(key, text, &error, place.clone()));
                None
            }
        }
    }
}

fn not_a_time(key: &str, text: &str, error: &QuantityError, place: Place) -> Problem {
    Problem::at(place, format!("`{key}` is not a time: `{text}`"), error.to_string())
        .hint(format!("a time is a number with a unit, e.g. `5s`; units: {TIME_UNITS}"))
}
