use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

/// The longest latency that is told apart, in nanoseconds. Longer ones count as this.
const LONGEST_NS: u64 = 60_000_000_000;

/// Significant decimal digits.
const DIGITS: u8 = 3;

/// Latencies of round trips, in a histogram of fixed size: recording never allocates.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    /// Nothing shorter can be told from nothing by the clock, so nothing shorter is claimed.
    resolution_ns: u64,
}

impl Latency {
    /// An empty one. `resolution_ns` is the clock's.
    pub fn new(resolution_ns: u64) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
            .expect("the bounds are constants that are legal");
        Latency { histogram, resolution_ns: resolution_ns.max(1) }
    }

    /// Adds one round trip.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns.max(self.resolution_ns));
    }

    /// Adds all of another one.
    pub fn add(&mut self, other: &Latency) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// In HdrHistogram's V2 encoding, in base64.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.histogram, &mut bytes)
            .expect("a vector takes any number of bytes");
        BASE64.encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;

    use super::*;

    fn decoded(latency: &Latency) -> Histogram<u64> {
        let bytes = BASE64.decode(latency.encode()).unwrap();
        Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn what_is_recorded_can_be_read_back() {
        let (mut one, mut two) = (Latency::new(1), Latency::new(1));
        (1..=1000).for_each(|us| one.record(us * 1000));
        two.record(u64::MAX);
        one.add(&two);
        let histogram = decoded(&one);
        assert_eq!((histogram.len(), one.count()), (1001, 1001));
        let median = histogram.value_at_quantile(0.5) as f64;
        assert!((median / 501_000.0 - 1.0).abs() < 0.001, "{median}");
        assert!((histogram.max() as f64 / LONGEST_NS as f64 - 1.0).abs() < 0.001);
        one.clear();
        assert_eq!(decoded(&one).len(), 0);
    }

    #[test]
    fn nothing_is_reported_below_the_resolution_of_the_clock() {
        let mut latency = Latency::new(40);
        latency.record(0);
        latency.record(39);
        assert_eq!(decoded(&latency).min(), 40);
    }
}
