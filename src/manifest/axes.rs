use super::problem::Place;
use crate::workload::{Extent, Mask, Opcode, Wait};

/// The values of one parameter.
#[derive(Clone, Debug)]
pub(super) struct Axis<T> {
    pub(super) values: Vec<(T, Place)>,
    /// Whether it was written as a list, so that the values go into the name.
    pub(super) listed: bool,
}

/// Every parameter that may be an axis, in the canonical order.
pub(super) struct Axes {
    pub(super) payload: Axis<u64>,
    pub(super) pairs: Axis<u64>,
    pub(super) in_flight: Axis<u64>,
    pub(super) threads: Axis<u64>,
    /// Round trips per second; 0 for a closed loop.
    pub(super) rate: Axis<u64>,
    pub(super) opcode: Axis<Opcode>,
    pub(super) mask: Axis<Mask>,
    pub(super) wait: Axis<Wait>,
    pub(super) trial: Axis<(Extent, String)>,
}

/// One combination of values.
pub(super) struct Point {
    pub(super) payload: (u64, Place),
    pub(super) pairs: (u64, Place),
    pub(super) in_flight: (u64, Place),
    pub(super) threads: (u64, Place),
    pub(super) rate: (u64, Place),
    pub(super) opcode: Opcode,
    pub(super) mask: Mask,
    pub(super) wait: Wait,
    pub(super) trial: Extent,
    pub(super) suffix: String,
}

impl Axes {
    pub(super) fn lengths(&self) -> [usize; 9] {
        [
            self.payload.values.len(),
            self.pairs.values.len(),
            self.in_flight.values.len(),
            self.threads.values.len(),
            self.rate.values.len(),
            self.opcode.values.len(),
            self.mask.values.len(),
            self.wait.values.len(),
            self.trial.values.len(),
        ]
    }

    /// The combination of a number in mixed radix, the last axis being the fastest.
    pub(super) fn point(&self, mut index: usize) -> Point {
        let lengths = self.lengths();
        let mut digits = [0; 9];
        for (digit, length) in digits.iter_mut().zip(lengths).rev() {
            *digit = index % length;
            index /= length;
        }
        let mut suffix = String::new();
        fn take<T: Clone>(
            axis: &Axis<T>,
            digit: usize,
            suffix: &mut String,
            show: impl Fn(&T) -> String,
        ) -> (T, Place) {
            let (value, place) = axis.values[digit].clone();
            if axis.listed {
                suffix.push('-');
                suffix.push_str(&show(&value));
            }
            (value, place)
        }
        let payload = take(&self.payload, digits[0], &mut suffix, u64::to_string);
        let pairs = take(&self.pairs, digits[1], &mut suffix, u64::to_string);
        let in_flight = take(&self.in_flight, digits[2], &mut suffix, u64::to_string);
        let threads = take(&self.threads, digits[3], &mut suffix, u64::to_string);
        let rate = take(&self.rate, digits[4], &mut suffix, u64::to_string);
        let opcode = take(&self.opcode, digits[5], &mut suffix, variant).0;
        let mask = take(&self.mask, digits[6], &mut suffix, variant).0;
        let wait = take(&self.wait, digits[7], &mut suffix, variant).0;
        let trial = take(&self.trial, digits[8], &mut suffix, |(_, text)| text.clone()).0.0;
        Point { payload, pairs, in_flight, threads, rate, opcode, mask, wait, trial, suffix }
    }
}

/// The name of a variant as a manifest writes it.
fn variant<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("a unit variant serialises to its name, not to {other:?}"),
    }
}
