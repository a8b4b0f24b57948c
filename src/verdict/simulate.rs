use std::f64::consts::TAU;
use std::thread;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::{Sides, judge};
use super::measured::Values;
use super::noise::adjusted;
use super::{Baseline, Looks, Noise, Verdict, learn_noise};
use crate::manifest::Metric;
use crate::plan::CellId;
use crate::stats::mean;

/// What happens in simulated nights.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What the noise is like.
    pub shape: Shape,
    /// Nights.
    pub nights: u32,
    /// Cells of a night, the control not counted.
    pub cells: u32,
    /// By how much one of the cells is slower, relative: each night is judged once for each.
    pub slowdowns: Vec<f64>,
    /// Nights that the noise is learned from beforehand; the last 20 of them are the baseline.
    pub calibration: u32,
    /// Passes of each of them.
    pub calibration_passes: u32,
    /// Passes of a night before any is added.
    pub passes: u32,
    /// Passes of a cell at most.
    pub max_passes: u32,
    /// How far a rate may move.
    pub within: f64,
    /// Share of nights that may be red without cause.
    pub error_rate: f64,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

/// What the noise of simulated nights is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// As recorded.
    Recorded,
    /// As recorded, and three passes in ten are a quarter faster.
    Bimodal,
    /// As recorded, and the machine's pace wanders: by 15 % from night to night and by 3 % from pass to pass.
    Drifting,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Shape::Recorded => "recorded",
            Shape::Bimodal => "bimodal",
            Shape::Drifting => "drifting",
        })
    }
}

/// What came of simulated nights, as shares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Simulated {
    /// Nights.
    pub nights: u32,
    /// Nights in which a cell regressed and none was slower.
    pub red_without_cause: f64,
    /// For each slowdown of one cell.
    pub slower: Vec<SimulatedSlowdown>,
    /// Cells that came out as `same`, when none was slower.
    pub same: f64,
    /// Cells that stayed undecided, when none was slower.
    pub undecided: f64,
    /// Passes of a cell, on average.
    pub passes: f64,
}

/// How often a slowdown was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulatedSlowdown {
    /// By how much a message took longer, relative.
    pub by: f64,
    /// Share of nights in which the slower cell regressed.
    pub found: f64,
}

/// A scenario and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulatedRow {
    /// What the noise is like.
    pub shape: Shape,
    /// Cells of a night.
    pub cells: u32,
    /// How far a rate may move.
    pub within: f64,
    /// What came of it.
    pub result: Simulated,
}

/// Noise as it was recorded: of a cell, within and between the runs of a baseline.
#[derive(Clone, Debug)]
struct Recorded {
    /// How much of the control's own moves it shares.
    weight: f64,
    /// Deviations of passes from their run, so much of the control taken off.
    within: Vec<f64>,
    /// Standard deviation between runs.
    between: f64,
}

impl Recorded {
    /// Of the cells of a baseline, the control first.
    fn of(baseline: &Baseline) -> Option<Vec<Recorded>> {
        let control = baseline.control.as_ref()?;
        let others = baseline.cells().into_iter().filter(|cell| *cell != control);
        let cells: Vec<Recorded> = std::iter::once(control)
            .chain(others)
            .filter_map(|cell| Recorded::of_cell(baseline, cell))
            .collect();
        (cells.len() > 1).then_some(cells)
    }

    fn of_cell(baseline: &Baseline, cell: &CellId) -> Option<Recorded> {
        let control = baseline.control.as_ref().filter(|control| *control != cell);
        let noise = baseline.noise(cell, Metric::Rate);
        let weight = if control.is_some() { noise.weight } else { 0.0 };
        let runs: Vec<Vec<f64>> = baseline
            .run
            .iter()
            .filter_map(|run| run.pair(cell, Metric::Rate, control))
            .map(|(values, control)| adjusted(Metric::Rate, &values, &control, weight))
            .filter(|values| values.len() > 1)
            .collect();
        // A deviation from a mean of n values is smaller than one from the truth.
        let within: Vec<f64> = runs
            .iter()
            .flat_map(|values| {
                let n = values.len() as f64;
                let centre = mean(values).unwrap_or(0.0);
                values.iter().map(move |value| (value - centre) * (n / (n - 1.0)).sqrt())
            })
            .collect();
        (within.len() > 5).then_some(Recorded { weight, within, between: noise.between })
    }
}

/// Simulates nights with the noise of a baseline's runs, each through the rule of judgement as it is shipped: looks, further
/// passes for what is undecided, and noise that is learned from nights beforehand. None where the baseline has too few runs to
/// draw from.
pub fn simulate(baseline: &Baseline, scenario: &Scenario) -> Option<Simulated> {
    let recorded = Recorded::of(baseline)?;
    let threads = thread::available_parallelism().map_or(1, usize::from).clamp(1, 64) as u32;
    let share = scenario.nights.div_ceil(threads).max(1);
    let tallies: Vec<Tally> = thread::scope(|scope| {
        let workers: Vec<_> = (0..scenario.nights)
            .step_by(share as usize)
            .map(|first| {
                let nights = first..(first + share).min(scenario.nights);
                let recorded = &recorded;
                scope.spawn(move || nights_of(recorded, scenario, nights))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a simulation does not panic")).collect()
    });
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>() as f64;
    let (nights, cells) = (f64::from(scenario.nights.max(1)), sum(|tally| tally.cells).max(1.0));
    let slower = (0..).zip(&scenario.slowdowns).map(|(index, by)| {
        let found: u64 = tallies.iter().map(|tally| tally.found[index]).sum();
        SimulatedSlowdown { by: *by, found: found as f64 / nights }
    });
    Some(Simulated {
        nights: scenario.nights,
        red_without_cause: sum(|tally| tally.red_without_cause) / nights,
        slower: slower.collect(),
        same: sum(|tally| tally.same) / cells,
        undecided: sum(|tally| tally.undecided) / cells,
        passes: sum(|tally| tally.passes) / cells,
    })
}

#[derive(Default)]
struct Tally {
    red_without_cause: u64,
    /// By slowdown.
    found: Vec<u64>,
    cells: u64,
    same: u64,
    undecided: u64,
    passes: u64,
}

/// A baseline is used for so many nights before another is drawn: drawing one costs as much as many nights.
const NIGHTS_OF_A_BASELINE: u32 = 100;

fn nights_of(recorded: &[Recorded], scenario: &Scenario, nights: std::ops::Range<u32>) -> Tally {
    let looks = Looks::new(scenario.passes, scenario.max_passes);
    let error_rate = scenario.error_rate / f64::from(scenario.cells.max(1));
    let mut tally = Tally { found: vec![0; scenario.slowdowns.len()], ..Tally::default() };
    let mut world = None;
    for night in nights.clone() {
        let mut random = ChaCha8Rng::seed_from_u64(scenario.seed ^ (u64::from(night) << 20));
        if (night - nights.start).is_multiple_of(NIGHTS_OF_A_BASELINE) {
            world = None;
        }
        let cells: &Vec<Known> = world.get_or_insert_with(|| learned(recorded, scenario, &mut random));
        let machine = Machine::new(recorded, scenario.shape, scenario.max_passes, &mut random);
        let slow = night as usize % cells.len().max(1);
        let mut red = false;
        for (index, known) in cells.iter().enumerate() {
            let of = &recorded[1 + index % (recorded.len() - 1)];
            let values = machine.series(of, scenario.shape, &mut random);
            let (verdict, passes) = decide(known, &values, &machine.control, scenario, &looks, error_rate);
            red |= verdict == Verdict::Regressed;
            tally.cells += 1;
            tally.passes += u64::from(passes);
            tally.same += u64::from(verdict == Verdict::Same);
            tally.undecided += u64::from(verdict.exit() == crate::exit::Exit::Undecided);
            if index == slow {
                for (found, by) in tally.found.iter_mut().zip(&scenario.slowdowns) {
                    let slower: Vec<f64> = values.iter().map(|value| value - by.ln_1p()).collect();
                    let (verdict, _) = decide(known, &slower, &machine.control, scenario, &looks, error_rate);
                    *found += u64::from(verdict == Verdict::Regressed);
                }
            }
        }
        tally.red_without_cause += u64::from(red);
    }
    tally
}

/// What is known of a cell beforehand.
struct Known {
    noise: Noise,
    before: Vec<f64>,
    runs: u32,
}

/// Nights of unchanged servers: from all of them the noise is learned, the last are the baseline.
fn learned(recorded: &[Recorded], scenario: &Scenario, random: &mut ChaCha8Rng) -> Vec<Known> {
    let nights: Vec<(Machine, Values)> = (0..scenario.calibration)
        .map(|_| {
            let machine = Machine::new(recorded, scenario.shape, scenario.calibration_passes, random);
            let control = as_values(&machine.control);
            (machine, control)
        })
        .collect();
    (0..scenario.cells as usize)
        .map(|index| {
            let of = &recorded[1 + index % (recorded.len() - 1)];
            let runs: Vec<(Values, Values)> = nights
                .iter()
                .map(|(machine, control)| {
                    (as_values(&machine.series(of, scenario.shape, random)), control.clone())
                })
                .collect();
            let noise = learn_noise(Metric::Rate, &runs);
            let kept = &runs[runs.len().saturating_sub(super::KEPT_RUNS)..];
            let before = kept
                .iter()
                .flat_map(|(values, control)| adjusted(Metric::Rate, values, control, noise.weight))
                .collect();
            Known { noise, before, runs: kept.len() as u32 }
        })
        .collect()
}

/// Measures a cell until it is decided, as `run --against` does.
fn decide(
    known: &Known,
    values: &[f64],
    control: &[f64],
    scenario: &Scenario,
    looks: &Looks,
    error_rate: f64,
) -> (Verdict, u32) {
    let mut verdict = Verdict::TooFew;
    let mut passes = 0;
    for look in looks.passes() {
        passes = *look;
        let upto = passes as usize;
        let now: Vec<f64> = values[..upto]
            .iter()
            .zip(control)
            .map(|(value, control)| value - known.noise.weight * control)
            .collect();
        let judged = judge(&Sides {
            metric: Metric::Rate,
            before: &known.before,
            runs: known.runs,
            now: &now,
            noise: &known.noise,
            within: scenario.within,
            scale: 1.0,
            floor: None,
            error_rate: error_rate * looks.share(passes),
            most_passes: scenario.max_passes,
        });
        verdict = judged.verdict;
        let first = passes == looks.passes()[0];
        if !verdict.wants_more() || (verdict == Verdict::Regressed && !first) {
            break;
        }
    }
    (verdict, passes)
}

/// A machine in one night.
struct Machine {
    /// Its pace in each pass, which everything shares.
    pace: Vec<f64>,
    /// What the control's recording moved by, which each cell shares by its weight.
    own: Vec<f64>,
    /// The logarithms of the control's rates.
    control: Vec<f64>,
}

impl Machine {
    fn new(recorded: &[Recorded], shape: Shape, passes: u32, random: &mut ChaCha8Rng) -> Self {
        let pace = pace(shape, passes, random);
        // The control has one mode: it is chosen for that.
        let own = moves(&recorded[0], Shape::Recorded, pace.len(), random);
        let control = pace.iter().zip(&own).map(|(pace, own)| pace + own).collect();
        Machine { pace, own, control }
    }

    /// The logarithms of a cell's rates over the passes.
    fn series(&self, of: &Recorded, shape: Shape, random: &mut ChaCha8Rng) -> Vec<f64> {
        let moves = moves(of, shape, self.pace.len(), random);
        let shared = self.pace.iter().zip(&self.own).map(|(pace, own)| pace + of.weight * own);
        shared.zip(moves).map(|(shared, own)| shared + own).collect()
    }
}

/// The machine's pace in each pass of a night.
fn pace(shape: Shape, passes: u32, random: &mut ChaCha8Rng) -> Vec<f64> {
    let mut pace = if shape == Shape::Drifting { 0.15 * normal(random) } else { 0.0 };
    (0..passes)
        .map(|_| {
            if shape == Shape::Drifting {
                pace += 0.03 * normal(random);
            }
            pace
        })
        .collect()
}

/// What a recording moves by over the passes of a night.
fn moves(of: &Recorded, shape: Shape, passes: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
    let night = of.between * normal(random);
    (0..passes)
        .map(|_| {
            let own = of.within[random.random_range(0..of.within.len())];
            let mode =
                if shape == Shape::Bimodal && random.random_bool(0.3) { 0.25_f64.ln_1p() } else { 0.0 };
            night + own + mode
        })
        .collect()
}

fn as_values(logs: &[f64]) -> Values {
    (1..).zip(logs.iter().map(|log| log.exp())).collect()
}

/// A draw from the standard normal distribution (Box and Muller 1958).
pub(super) fn normal(random: &mut impl Rng) -> f64 {
    let (a, b): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (TAU * b).cos()
}
