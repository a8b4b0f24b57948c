use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::plan::{CellId, Rates, nominal_rate};
use crate::record::Record;
use crate::report::{read_meta, read_record, record_files};
use crate::stats::{geometric_mean, median};
use crate::workload::{Extent, Params};

/// What earlier runs of a manifest tell of the time that its cells take.
#[derive(Clone, Debug, Default)]
pub struct PastRates {
    cells: HashMap<(CellId, Params), Past>,
    host_factor: f64,
}

#[derive(Clone, Debug)]
struct Past {
    rate_per_s: f64,
    beside: Duration,
}

/// Runs that are read: enough for a median that one bad night does not move.
const RUNS: usize = 3;

impl PastRates {
    /// Reads the newest runs of a manifest under the folder of runs. Records of another class of host than `class`
    /// are passed over, and so is what cannot be read: an estimate is no place to complain.
    pub fn read(out: &Path, manifest: &str, class: Option<&str>) -> Self {
        let records = newest_runs(&out.join(manifest), RUNS)
            .into_iter()
            .flat_map(|run| record_files(&run).unwrap_or_default())
            .filter_map(|path| read_record(&path).ok())
            .filter(|record| class.is_none_or(|class| record.host.fingerprint.class == class));
        PastRates::of(records)
    }

    /// What some records tell.
    pub fn of(records: impl IntoIterator<Item = Record>) -> Self {
        let mut seen: HashMap<(CellId, Params), (Vec<f64>, Vec<f64>)> = HashMap::new();
        for record in records.into_iter().filter(Record::is_ok) {
            let rounds: u64 = record.trials.iter().map(|trial| trial.batch.rounds).sum();
            let elapsed_ns: u64 = record.trials.iter().map(|trial| trial.batch.elapsed_ns).sum();
            if rounds == 0 || elapsed_ns == 0 {
                continue;
            }
            let batches_ns = record.timings.warm_up_ns + record.timings.trials_ns;
            let (rates, besides) =
                seen.entry((record.cell.id, exchange(&record.cell.workload.params))).or_default();
            rates.push(rounds as f64 / (elapsed_ns as f64 / 1e9));
            besides.push(record.timings.total_ns.saturating_sub(batches_ns) as f64);
        }
        let mut cells = HashMap::new();
        for (key, (rates, besides)) in seen {
            if let (Some(rate_per_s), Some(beside_ns)) = (median(&rates), median(&besides)) {
                cells.insert(key, Past { rate_per_s, beside: Duration::from_nanos(beside_ns as u64) });
            }
        }
        let mut against_nominal: Vec<f64> =
            cells.iter().map(|((cell, params), past)| past.rate_per_s / nominal_rate(cell, params)).collect();
        // The order of a map is not the same twice, and the last digit of a sum depends on it.
        against_nominal.sort_by(f64::total_cmp);
        PastRates { host_factor: geometric_mean(&against_nominal).unwrap_or(1.0), cells }
    }

    fn past(&self, cell: &CellId, params: &Params) -> Option<&Past> {
        self.cells.get(&(cell.clone(), exchange(params)))
    }
}

impl Rates for PastRates {
    fn rate(&self, cell: &CellId, params: &Params) -> Option<f64> {
        self.past(cell, params).map(|past| past.rate_per_s)
    }

    fn beside(&self, cell: &CellId, params: &Params) -> Option<Duration> {
        self.past(cell, params).map(|past| past.beside)
    }

    fn host_factor(&self) -> f64 {
        self.host_factor
    }
}

/// The parameters that a rate depends on: how long was measured is not one of them.
fn exchange(params: &Params) -> Params {
    Params { warmup: Extent::Rounds(0), trial: Extent::Rounds(0), trials: 0, ..params.clone() }
}

/// Folders of the newest runs of a manifest, by the time at which they began.
pub(super) fn newest_runs(folder: &Path, most: usize) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut runs: Vec<_> = entries
        .map(|entry| entry.path())
        // The link to the newest run is no run of its own.
        .filter(|path| path.is_dir() && !path.is_symlink())
        .filter_map(|path| Some((read_meta(&path).ok()?.started_at, path)))
        .collect();
    runs.sort();
    runs.into_iter().rev().take(most).map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::plan::{
        ClientSpec, Cores, Job, NoRates, Program, ResolvedCell, Role, ServerSpec, Timeouts, Workload,
        estimate,
    };
    use crate::record::store::{RUN_SCHEMA, RunMeta, record_path};
    use crate::record::{Counts, Outcome, Trial, VoidReason};
    use crate::workload::protocol::Batch;
    use crate::workload::{Kind, Mask, Opcode, Wait};

    fn params(payload: u64) -> Params {
        Params {
            kind: Kind::Pingpong,
            payload,
            opcode: Opcode::Binary,
            pairs: 1,
            in_flight: 1,
            rate_per_s: None,
            threads: 1,
            warmup: Extent::Rounds(1_000),
            trial: Extent::Rounds(10_000),
            trials: 2,
            mask: Mask::Zero,
            wait: Wait::Spin,
        }
    }

    fn id(server: &str) -> CellId {
        CellId::new("x", server, "native")
    }

    /// A record of two trials at a rate, with 300 ms beside its batches.
    fn record(server: &str, rate_per_s: u64, pass: u32) -> Record {
        let name = |name: &str| (name.to_owned(), None, Program::default());
        let (name, runtime, program) = name(server);
        let job = Job {
            run_id: "r".to_owned(),
            manifest: "m".to_owned(),
            pass,
            order: 0,
            seed: 0,
            cell: ResolvedCell {
                id: id(server),
                workload: Workload { name: "x".to_owned(), params: params(16) },
                server: ServerSpec {
                    name,
                    runtime,
                    role: Role::Relay,
                    program: program.clone(),
                    settings: Default::default(),
                    max_payload: None,
                },
                client: ClientSpec { name: "native".to_owned(), runtime: None, program },
                cores: Cores::default(),
                limits: None,
                timeouts: Timeouts::default(),
                port: None,
            },
            log_dir: None,
            runner: None,
        };
        let mut record = Record::blank(&job, Outcome::Ok, DateTime::<Utc>::UNIX_EPOCH);
        let elapsed_ns = 10_000 * 1_000_000_000 / rate_per_s;
        let batch = Batch { rounds: 10_000, elapsed_ns, ..Batch::default() };
        record.trials = vec![Trial { batch, ..Trial::default() }; 2];
        record.timings.warm_up_ns = elapsed_ns / 10;
        record.timings.trials_ns = 2 * elapsed_ns;
        record.timings.total_ns = record.timings.warm_up_ns + record.timings.trials_ns + 300_000_000;
        record
    }

    #[test]
    fn a_cell_that_was_measured_is_known_by_the_median_of_its_records() {
        let rates = PastRates::of([record("a", 1_000, 1), record("a", 2_000, 2), record("a", 50_000, 3)]);
        assert_eq!(rates.rate(&id("a"), &params(16)), Some(2_000.0));
        assert_eq!(rates.rate(&id("b"), &params(16)), None);
        assert_eq!(rates.rate(&id("a"), &params(32)), None, "another payload is another cell");
        let longer = Params { trial: Extent::Rounds(20_000), trials: 3, ..params(16) };
        let expected = Duration::from_secs_f64(0.3 + 1_000.0 / 2_000.0 + 3.0 * 20_000.0 / 2_000.0);
        assert_eq!(estimate(&id("a"), &longer, &rates), expected);
    }

    #[test]
    fn records_without_usable_numbers_tell_nothing() {
        let mut void = record("a", 1_000, 1);
        void.outcome = Outcome::Void { reason: VoidReason::Echoed, detail: String::new() };
        let mut empty = record("b", 1_000, 1);
        empty.trials.clear();
        let rates = PastRates::of([void, empty]);
        assert_eq!((rates.cells.len(), rates.host_factor()), (0, 1.0));
    }

    #[test]
    fn a_cell_that_was_not_measured_is_scaled_like_the_others() {
        let twice = (nominal_rate(&id("relay"), &params(16)) * 2.0).round() as u64;
        let rates = PastRates::of([record("relay", twice, 1)]);
        assert!((rates.host_factor() - 2.0).abs() < 0.01, "{}", rates.host_factor());
        let unseen = |rates: &dyn Rates| estimate(&id("ws@node-24"), &params(16), rates).as_secs_f64() - 0.15;
        assert!((unseen(&NoRates) / unseen(&rates) - 2.0).abs() < 0.02);
    }

    #[test]
    fn only_the_newest_runs_of_this_class_of_host_are_read() {
        let out = tempfile::tempdir().unwrap();
        for (day, rate) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 5_000)] {
            let run = out.path().join("m").join(format!("run-{day}"));
            let meta = RunMeta {
                schema: RUN_SCHEMA.to_owned(),
                run_id: format!("run-{day}"),
                manifest: "m".to_owned(),
                title: String::new(),
                started_at: DateTime::<Utc>::UNIX_EPOCH + chrono::TimeDelta::days(day),
                finished_at: None,
                interrupted: false,
                argv: Vec::new(),
                seed: 0,
                passes: 1,
                control: None,
                rules: Default::default(),
                narrowed: false,
                until_decided: None,
                cells: Vec::new(),
                excluded: Vec::new(),
                counts: Counts::default(),
                runner_version: String::new(),
                sources: Vec::new(),
            };
            let mut record = record("a", rate, 1);
            record.host.fingerprint.class = if day == 4 { "other" } else { "this" }.to_owned();
            let path = record_path(&run, &id("a"), 1);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, serde_json::to_vec(&record).unwrap()).unwrap();
            fs::write(run.join("run.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
        }
        std::os::unix::fs::symlink("run-1", out.path().join("m/latest")).unwrap();
        let rate = |class| PastRates::read(out.path(), "m", class).rate(&id("a"), &params(16));
        assert_eq!(rate(None), Some(4_000.0), "of days 2, 3 and 4");
        assert_eq!(rate(Some("this")), Some(3_000.0), "of days 2 and 3");
        assert_eq!(rate(Some("third")), None);
        assert_eq!(PastRates::read(out.path(), "n", None).rate(&id("a"), &params(16)), None);
    }
}
