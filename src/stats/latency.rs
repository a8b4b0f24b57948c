use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text that is not an HdrHistogram.
#[derive(Debug, thiserror::Error)]
pub enum BadHistogram {
    /// Not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Base64 of something else.
    #[error("the histogram is not in HdrHistogram's V2 encoding: {0}")]
    Encoding(String),
}

/// Reads an HdrHistogram in its V2 encoding (plain or compressed), in base64.
pub fn decode_histogram(text: &str) -> Result<Histogram<u64>, BadHistogram> {
    Latency::default().decode(text)
}

/// Writes an HdrHistogram in its plain V2 encoding, in base64.
pub fn encode_histogram(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(histogram, &mut bytes).expect("writing to memory cannot fail");
    STANDARD.encode(bytes)
}

/// Latencies pooled from any number of histograms, read one after the other: only the sum is kept.
#[derive(Default)]
pub struct Latency {
    pool: Option<Histogram<u64>>,
    reader: Option<Deserializer>,
    bytes: Vec<u8>,
}

impl Latency {
    /// Nothing yet.
    pub fn new() -> Self {
        Latency::default()
    }

    fn decode(&mut self, text: &str) -> Result<Histogram<u64>, BadHistogram> {
        self.bytes.clear();
        STANDARD.decode_vec(text, &mut self.bytes)?;
        self.reader
            .get_or_insert_with(Deserializer::new)
            .deserialize(&mut Cursor::new(&self.bytes))
            .map_err(|error| BadHistogram::Encoding(format!("{error:?}")))
    }

    /// Adds the histogram that `text` holds.
    pub fn add(&mut self, text: &str) -> Result<(), BadHistogram> {
        let read = self.decode(text)?;
        match &mut self.pool {
            None => {
                let mut first = read;
                // Later ones may reach further.
                first.auto(true);
                self.pool = Some(first);
            }
            Some(pool) => pool.add(&read).map_err(|error| BadHistogram::Encoding(format!("{error:?}")))?,
        }
        Ok(())
    }

    /// The figures of the pool, which is then empty again; none of nothing.
    pub fn take_figures(&mut self) -> Option<LatencyFigures> {
        let pool = self.pool.take().filter(|pool| !pool.is_empty())?;
        // One scan for all of them: reports read many thousands of histograms.
        let mut at = pool.value_at_quantiles([0.5, 0.9, 0.99, 0.999]);
        let mut next = || at.next().unwrap_or_default();
        Some(LatencyFigures {
            count: pool.len(),
            p50_ns: next(),
            p90_ns: next(),
            p99_ns: next(),
            p999_ns: next(),
            max_ns: pool.max(),
            mean_ns: pool.mean(),
        })
    }
}

/// Figures of pooled latencies, in nanoseconds. A percentile is the upper end of the bucket that holds the value of nearest
/// rank, so it is never too low and too high by at most the histogram's precision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyFigures {
    /// Round trips.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        for value in values {
            histogram.record(*value).unwrap();
        }
        histogram
    }

    #[test]
    fn bad_texts_are_errors() {
        assert!(matches!(decode_histogram("not base64!"), Err(BadHistogram::Base64(_))));
        assert!(matches!(decode_histogram("AAAAAAAAAAAA"), Err(BadHistogram::Encoding(_))));
        assert!(matches!(decode_histogram(""), Err(BadHistogram::Encoding(_))));
        let whole = encode_histogram(&histogram(&[1, 10, 100]));
        assert!(decode_histogram(&whole[..whole.len() - 8]).is_err());
    }

    #[test]
    fn a_pool_of_nothing_has_no_figures() {
        let mut latency = Latency::new();
        assert_eq!(latency.take_figures(), None);
        latency.add(&encode_histogram(&histogram(&[]))).unwrap();
        assert_eq!(latency.take_figures(), None);
    }

    #[test]
    fn a_narrow_histogram_takes_in_a_wider_one() {
        let mut latency = Latency::new();
        let mut narrow = Histogram::<u64>::new_with_max(1_000, 3).unwrap();
        narrow.record(10).unwrap();
        latency.add(&encode_histogram(&narrow)).unwrap();
        latency.add(&encode_histogram(&histogram(&[5_000_000_000]))).unwrap();
        let figures = latency.take_figures().unwrap();
        assert_eq!((figures.count, figures.p50_ns), (2, 10));
        assert!(figures.max_ns >= 5_000_000_000);
    }

    proptest! {
        #[test]
        fn pooling_is_recording_together(
            a in prop::collection::vec(1..10_000_000u64, 1..50), b in prop::collection::vec(1..10_000_000u64, 1..50),
        ) {
            let mut latency = Latency::new();
            latency.add(&encode_histogram(&histogram(&a))).unwrap();
            latency.add(&encode_histogram(&histogram(&b))).unwrap();
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            let together = histogram(&all);
            let figures = latency.take_figures().unwrap();
            prop_assert_eq!(figures.count, all.len() as u64);
            prop_assert_eq!(figures.p50_ns, together.value_at_quantile(0.5));
            prop_assert_eq!(figures.p99_ns, together.value_at_quantile(0.99));
            let (exact, read) = (*all.iter().max().unwrap() as f64, figures.max_ns as f64);
            prop_assert!(read >= exact && read <= exact * 1.001 + 1.0);
        }
    }
}
