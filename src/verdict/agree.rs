use super::judge::percent;
use super::measured::Values;
use super::noise::adjusted;
use super::{Baseline, Measured, Noise};
use crate::manifest::Metric;
use crate::plan::CellId;
use crate::stats::median;

/// Standard errors that two runs may be apart: a run in a thousand, over some tens of cells.
const APART: f64 = 4.0;

/// A cell of which two runs differ by more than its noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Disagreement {
    /// Which cell.
    pub cell: CellId,
    /// One run.
    pub one: String,
    /// The other.
    pub other: String,
    /// The other's rate over the one's, less 1, the control taken off.
    pub shift: f64,
    /// How far they may be apart.
    pub allowed: f64,
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.shift < 0.0 { "-" } else { "+" };
        write!(
            f,
            "{}: {} is at {sign}{} of {}, and may be {} apart",
            self.cell,
            self.other,
            percent(self.shift.abs()),
            self.one,
            percent(self.allowed)
        )
    }
}

/// Where some runs that are to be accepted together disagree: the medians of their rates, the control taken off, are further apart
/// than four standard errors of what is known of the noise beforehand. The runs themselves may not say how noisy they are.
pub fn disagreements(baseline: &Baseline, runs: &[Measured]) -> Vec<Disagreement> {
    let mut found = Vec::new();
    for (index, one) in runs.iter().enumerate() {
        for other in &runs[index + 1..] {
            for cell in one.cells.keys().filter(|cell| other.cells.contains_key(*cell)) {
                let control = one.control.as_ref().filter(|control| *control != cell);
                let noise = match baseline.noise.get(cell).and_then(|metrics| metrics.get(&Metric::Rate)) {
                    Some(noise) if control.is_some() || noise.weight == 0.0 => noise.clone(),
                    _ => Noise::unknown(Metric::Rate),
                };
                let weight = if control.is_some() { noise.weight } else { 0.0 };
                let centre = |run: &Measured| {
                    let nothing = Values::new();
                    let rates = run.values(cell, Metric::Rate)?;
                    let control =
                        control.and_then(|control| run.values(control, Metric::Rate)).unwrap_or(&nothing);
                    let values = adjusted(Metric::Rate, rates, control, weight);
                    Some((median(&values)?, values.len() as f64))
                };
                let (Some((a, n)), Some((b, m))) = (centre(one), centre(other)) else { continue };
                // Without its control, a cell moves as the machine does: by the usual noise of a whole machine.
                let between = if control.is_some() { noise.between } else { noise.between.max(UNCONTROLLED) };
                let error = (2.0 * between.powi(2)
                    + std::f64::consts::FRAC_PI_2 * noise.within.powi(2) * (1.0 / n + 1.0 / m))
                    .sqrt();
                if (b - a).abs() > APART * error {
                    found.push(Disagreement {
                        cell: cell.clone(),
                        one: one.run_id.clone(),
                        other: other.run_id.clone(),
                        shift: (b - a).exp_m1(),
                        allowed: (APART * error).exp_m1(),
                    });
                }
            }
        }
    }
    found
}

/// What a shared virtual machine's own pace differs from night to night: the standard deviation of the control there.
const UNCONTROLLED: f64 = 0.15;
