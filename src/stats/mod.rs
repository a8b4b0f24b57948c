//! Pure statistics: each function names its source and is checked against an independent implementation
//! (`tests/stats_reference/`). Nothing here does I/O or reads a clock; what is random takes its seed.
//! A file for each family: order statistics, spread, shift of location, resampling, rank,
//! components of variance, clusters, change points, latency.

mod bootstrap;
mod change_points;
mod clusters;
mod components;
mod differences;
mod distributions;
mod latency;
mod little;
mod order;
mod rank;
mod rank_sum;
mod shift;
mod spread;
mod widen;

pub use bootstrap::{Interval, bootstrap_interval};
pub use change_points::{ChangePoint, ChangeRules, best_split, change_points};
pub use clusters::{TwoClusters, two_clusters};
pub use components::{Components, moderated, variance_components};
pub use differences::Differences;
pub use distributions::{normal_cdf, normal_quantile, student_quantile};
pub use latency::{BadHistogram, Latency, LatencyFigures, decode_histogram, encode_histogram};
pub use little::{mean_in_flight, mean_latency_s};
pub use order::{QuantileRule, Spread, median, min_max, quantile};
pub use rank::{discordant_pairs, kendall_tau_b};
pub use rank_sum::{rank_sum_cut, rank_sum_p, rank_sum_reaches, rank_sum_shift, rank_sum_tail};
pub use shift::{hodges_lehmann, hodges_lehmann_shift};
pub use spread::{coefficient_of_variation, geometric_mean, mean};
pub use widen::{ShiftNoise, widened};
