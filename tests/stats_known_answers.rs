//! The statistics against answers of NumPy, SciPy and the Python HdrHistogram, see `stats_reference/generate.py`.

#![expect(clippy::unwrap_used, reason = "a test ends at a wrong answer file")]

use runner::stats::{
    self, Latency, QuantileRule, best_split, bootstrap_interval, coefficient_of_variation, geometric_mean,
    hodges_lehmann, hodges_lehmann_shift, kendall_tau_b, mean, median, normal_cdf, normal_quantile, quantile,
    rank_sum_p, rank_sum_shift, student_quantile, variance_components,
};
use serde_json::Value;

fn answers(part: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("stats_reference/answers.json")).unwrap();
    let cases = all[part].as_array().unwrap().clone();
    assert!(cases.len() >= 2, "too few cases of {part}");
    cases
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn near(what: &str, ours: Option<f64>, theirs: &Value) {
    match (ours, theirs.as_f64()) {
        (Some(ours), Some(theirs)) => {
            assert!((ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0), "{what}: {ours} is not {theirs}");
        }
        (None, None) => {}
        (ours, theirs) => panic!("{what}: {ours:?} is not {theirs:?}"),
    }
}

#[test]
fn of_one_sample() {
    for case in answers("one_sample") {
        let values = numbers(&case["values"]);
        near("median", median(&values), &case["median"]);
        near("mean", mean(&values), &case["mean"]);
        near("variation", coefficient_of_variation(&values), &case["coefficient_of_variation"]);
        near("geometric mean", geometric_mean(&values), &case["geometric_mean"]);
        near("Hodges-Lehmann", hodges_lehmann(&values), &case["hodges_lehmann"]);
        for row in case["quantiles"].as_array().unwrap() {
            let q = row["percent"].as_f64().unwrap() / 100.0;
            for rule in [
                QuantileRule::NearestRank,
                QuantileRule::Linear,
                QuantileRule::FloorOfCount,
                QuantileRule::FloorOfLast,
            ] {
                let name = serde_json::to_value(rule).unwrap();
                let name = name.as_str().unwrap();
                near(&format!("{name} {q} of {values:?}"), quantile(&values, q, rule), &row[name]);
            }
        }
    }
}

#[test]
fn of_two_samples() {
    for case in answers("two_samples") {
        let shift = hodges_lehmann_shift(&numbers(&case["before"]), &numbers(&case["after"]));
        near("shift", shift, &case["shift"]);
    }
}

#[test]
fn of_rankings() {
    for case in answers("rankings") {
        near("tau-b", kendall_tau_b(&numbers(&case["a"]), &numbers(&case["b"])), &case["tau_b"]);
    }
}

#[test]
fn random_resampling_comes_near_to_all_resamples() {
    for case in answers("bootstraps") {
        let values = numbers(&case["values"]);
        let level = case["level"].as_f64().unwrap();
        let ours = bootstrap_interval(&values, mean, level, 100_000, 42).unwrap();
        let (low, high) = (case["low"].as_f64().unwrap(), case["high"].as_f64().unwrap());
        // The means of a few values are few: the quantile may fall on a neighbour of the exact one.
        let step = 0.02 * (high - low);
        assert!((ours.low - low).abs() <= step, "{ours:?} is not from {low}");
        assert!((ours.high - high).abs() <= step, "{ours:?} is not to {high}");
    }
}

#[test]
fn of_rank_sums_and_the_intervals_that_they_leave() {
    for case in answers("rank_sums") {
        let (before, after) = (numbers(&case["before"]), numbers(&case["after"]));
        near("p", rank_sum_p(&before, &after), &case["p"]);
        for row in case["intervals"].as_array().unwrap() {
            let level = row["level"].as_f64().unwrap();
            let interval = rank_sum_shift(&before, &after, level).unwrap().1;
            let ends = &row["interval"];
            near(&format!("low end at {level}"), interval.map(|interval| interval.low), &ends[0]);
            near(&format!("high end at {level}"), interval.map(|interval| interval.high), &ends[1]);
        }
    }
}

#[test]
fn of_normal_and_student_tails() {
    for case in answers("tails") {
        let p = case["p"].as_f64().unwrap();
        near("z", Some(normal_quantile(p)), &case["z"]);
        near("p", Some(normal_cdf(case["z"].as_f64().unwrap())), &case["p"]);
        let student = student_quantile(p, case["freedom"].as_f64().unwrap()).unwrap();
        assert!((student / case["t"].as_f64().unwrap() - 1.0).abs() < 1e-5, "{student} is not {}", case["t"]);
    }
}

#[test]
fn of_components_of_variance() {
    for case in answers("components") {
        let groups: Vec<Vec<f64>> = case["groups"].as_array().unwrap().iter().map(numbers).collect();
        let ours = variance_components(&groups).unwrap();
        near("within", Some(ours.within), &case["within"]);
        near("between", Some(ours.between), &case["between"]);
    }
}

#[test]
fn of_the_best_split_by_energy() {
    for case in answers("energy_splits") {
        let least = case["minimum_segment"].as_u64().unwrap() as usize;
        let ours = best_split(&numbers(&case["values"]), least);
        assert_eq!(ours.map(|(at, _)| at as u64), case["at"].as_u64());
        near("energy", ours.map(|(_, energy)| energy), &case["energy"]);
    }
}

#[test]
fn of_histograms_that_another_implementation_wrote() {
    for case in answers("histograms") {
        let mut latency = Latency::new();
        latency.add(case["base64"].as_str().unwrap()).unwrap();
        let figures = latency.take_figures().unwrap();
        let is = |name: &str| case[name].as_u64().unwrap();
        assert_eq!(figures.count, is("count"));
        assert_eq!(figures.p50_ns, is("p50_ns"));
        assert_eq!(figures.p90_ns, is("p90_ns"));
        assert_eq!(figures.p99_ns, is("p99_ns"));
        let precision = 10f64.powi(-case["precision"].as_i64().unwrap() as i32);
        for (ours, exact) in [
            (figures.p50_ns, is("exact_p50_ns")),
            (figures.p99_ns, is("exact_p99_ns")),
            (figures.max_ns, is("max_ns")),
        ] {
            let error = ours as f64 / exact as f64 - 1.0;
            assert!((0.0..=precision).contains(&error), "{ours} is not within {precision} above {exact}");
        }
    }
    assert!(stats::decode_histogram("HISTFAAAAA").is_err());
}
