use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::coverage::{Coverage, Gathering, said};
use super::digest::Digest;
use super::{LimitedBy, PassFigures, reading};
use crate::host::Fingerprint;
use crate::plan::CellId;
use crate::record::store::RunMeta;
use crate::record::{Counts, Record};
use crate::stats::{Latency, Spread, TwoClusters, median, two_clusters};
use crate::workload::Params;

/// The schema of a report in JSON.
pub const REPORT_SCHEMA: &str = "runner.report/1";

/// What a run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Always [`REPORT_SCHEMA`].
    pub schema: String,
    /// Which run.
    pub run: RunFacts,
    /// The control over the passes: whether the machine moved.
    pub control: Option<ControlFacts>,
    /// What was planned and what became of it.
    pub coverage: Coverage,
    /// Cells by workload and client, in the order of the manifest.
    pub groups: Vec<Group>,
    /// Machines that it was measured on; more than one when a run was resumed elsewhere.
    pub hosts: Vec<Fingerprint>,
    /// Versions of each server, as its programs say them.
    pub servers: BTreeMap<String, BTreeMap<String, String>>,
    /// Versions of each client.
    pub clients: BTreeMap<String, BTreeMap<String, String>>,
    /// What of the records could not be used, at most 20 of it.
    pub notes: Vec<String>,
}

const MOST_NOTES: usize = 20;

/// Which run a report is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFacts {
    /// Id of the run.
    pub run_id: String,
    /// Name of the manifest.
    pub manifest: String,
    /// Heading.
    pub title: String,
    /// The command line.
    pub argv: Vec<String>,
    /// Seed of the order.
    pub seed: u64,
    /// Passes.
    pub passes: u32,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended; none when it was killed or still runs.
    pub finished_at: Option<DateTime<Utc>>,
    /// Whether the user interrupted it.
    pub interrupted: bool,
    /// Version of the program that measured.
    pub runner_version: String,
}

/// The control cell over the passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlFacts {
    /// The cell.
    pub id: CellId,
    /// Its rate in round trips per second; none when no pass of it may be used.
    pub rate_per_s: Option<Spread>,
}

/// The cells of one workload and one client: what may be ranked against one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Name of the workload.
    pub workload: String,
    /// Name of the client.
    pub client: String,
    /// Parameters of the workload; none when no cell of it left a record.
    pub params: Option<Params>,
    /// The cell that [`CellSummary::ratio`] is relative to.
    pub reference: Option<CellId>,
    /// The cells, the fastest first, those without a figure last.
    pub cells: Vec<CellSummary>,
    /// What can be said of them, in sentences.
    pub reading: Vec<String>,
}

/// One cell over all passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellSummary {
    /// The cell.
    pub id: CellId,
    /// Identity of what was measured; none when it was skipped before it could be resolved.
    pub content_id: Option<String>,
    /// Executions by how they ended.
    pub counts: Counts,
    /// Round trips per second: median and range of the passes.
    pub rate_per_s: Option<Spread>,
    /// Rate over that of the group's reference in the same pass.
    pub ratio: Option<Spread>,
    /// Rate over that of the control in the same pass.
    pub control_ratio: Option<Spread>,
    /// Median latency of a pass, in nanoseconds.
    pub p50_ns: Option<Spread>,
    /// 99th percentile of a pass, in nanoseconds.
    pub p99_ns: Option<Spread>,
    /// 99.9th percentile of a pass, in nanoseconds.
    pub p999_ns: Option<Spread>,
    /// Largest latency of a pass, in nanoseconds.
    pub max_ns: Option<Spread>,
    /// CPU time of the server, in cores.
    pub server_cores: Option<Spread>,
    /// CPU time of the client, in cores.
    pub client_cores: Option<Spread>,
    /// Share of time that the busiest client thread spent on messages.
    pub client_busy: Option<Spread>,
    /// CPU time of the server per message that it received or sent (four a round trip), in nanoseconds.
    pub server_ns_per_message: Option<Spread>,
    /// What kept the rate from being higher, in most passes.
    pub limited_by: Option<LimitedBy>,
    /// The two clusters that passes fall into, in round trips per second.
    pub bimodal_passes: Option<TwoClusters>,
    /// The two clusters that trials fall into, of at least two each, relative to the median of their pass.
    pub bimodal_trials: Option<TwoClusters>,
    /// Flags of its records.
    pub flags: Vec<FlagCount>,
    /// Why it has no figures, or fewer than planned: the reason of the first pass that has one.
    pub trouble: Option<String>,
    /// The figures of each pass.
    pub passes: Vec<PassFigures>,
}

/// A flag and how often it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlagCount {
    /// Name, in kebab case.
    pub name: String,
    /// Records that have it.
    pub records: u32,
    /// What was seen in the first pass that has it.
    pub detail: String,
}

/// What programs say of their versions, by server or client.
type Versions = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Default)]
struct Gathered {
    content_id: Option<String>,
    skipped: Option<String>,
    params: Option<Params>,
    counts: Counts,
    seen: BTreeSet<u32>,
    passes: BTreeMap<u32, PassFigures>,
    flags: BTreeMap<String, (u32, FlagCount)>,
    trouble: BTreeMap<u32, String>,
}

impl Summary {
    /// Of a run and its records, in any order. Each record is dropped before the next is taken, so that memory does
    /// not grow with histograms. A second record of one cell and pass is noted and left out.
    pub fn of(meta: &RunMeta, records: impl IntoIterator<Item = Record>) -> Self {
        let mut latency = Latency::new();
        Self::of_digests(meta, records.into_iter().map(|record| Digest::of(record, &mut latency)))
    }

    pub(super) fn of_digests(meta: &RunMeta, digests: impl IntoIterator<Item = Digest>) -> Self {
        let mut order: Vec<CellId> = Vec::new();
        let mut cells: BTreeMap<CellId, Gathered> = BTreeMap::new();
        for planned in &meta.cells {
            order.push(planned.id.clone());
            let cell = cells.entry(planned.id.clone()).or_default();
            cell.content_id.clone_from(&planned.content_id);
            cell.skipped.clone_from(&planned.skipped);
        }

        let mut coverage = Gathering::default();
        let mut hosts: Vec<Fingerprint> = Vec::new();
        let (mut servers, mut clients) = (Versions::new(), Versions::new());
        let mut notes = Vec::new();
        for mut digest in digests {
            let id = digest.id.clone();
            let cell = cells.entry(id.clone()).or_insert_with(|| {
                order.push(id.clone());
                Gathered::default()
            });
            if !cell.seen.insert(digest.pass) {
                notes.push(format!("{id} pass {}: a second record of it was left out", digest.pass));
                continue;
            }
            coverage.outcome(&id, digest.pass, &digest.outcome);
            if !hosts.contains(&digest.fingerprint) && digest.fingerprint != Fingerprint::default() {
                hosts.push(std::mem::take(&mut digest.fingerprint));
            }
            if !digest.versions.is_empty() {
                servers.entry(id.server.clone()).or_default().append(&mut digest.versions);
            }
            if !digest.client_versions.is_empty() {
                clients.entry(id.client.clone()).or_default().append(&mut digest.client_versions);
            }
            notes.extend(digest.note.take());
            cell.take(digest);
        }
        for id in &order {
            let cell = cells.get_mut(id).expect("every id of the order has its cell");
            let absent = meta.passes.saturating_sub(u32::try_from(cell.seen.len()).unwrap_or(u32::MAX));
            coverage.absent(id, cell.skipped.as_deref(), absent);
            if let (Some(reason), true) = (&cell.skipped, absent > 0) {
                cell.counts.skipped += absent;
                cell.trouble.insert(u32::MAX, format!("skipped: {reason}"));
            } else if absent > 0 {
                cell.trouble.insert(u32::MAX, "missing".to_owned());
            }
            // A run that went on until its cells were decided has more passes of some than were planned.
            cell.counts.planned = meta.passes.max(u32::try_from(cell.seen.len()).unwrap_or(u32::MAX));
        }

        let planned = cells.values().map(|cell| cell.counts.planned).sum();
        let rates = rates_by_pass(&cells);
        let control = meta.control.as_ref().map(|id| ControlFacts {
            id: id.clone(),
            rate_per_s: rates.get(id).and_then(|rates| Spread::of_some(rates.values().copied().map(Some))),
        });
        let mut summary = Summary {
            schema: REPORT_SCHEMA.to_owned(),
            run: RunFacts::of(meta),
            coverage: coverage.finish(meta, &order, planned),
            groups: groups(&order, cells, &rates, meta.control.as_ref()),
            control,
            hosts,
            servers,
            clients,
            notes: Vec::new(),
        };
        summary.note_all(notes);
        summary
    }

    /// Adds notes, and only the number of those that are too many.
    pub(super) fn note_all(&mut self, notes: Vec<String>) {
        let room = MOST_NOTES.saturating_sub(self.notes.len());
        let more = notes.len().saturating_sub(room);
        self.notes.extend(notes.into_iter().take(room));
        if more > 0 {
            self.notes.push(format!("{more} more of the kind"));
        }
    }
}

impl RunFacts {
    fn of(meta: &RunMeta) -> Self {
        RunFacts {
            run_id: meta.run_id.clone(),
            manifest: meta.manifest.clone(),
            title: meta.title.clone(),
            argv: meta.argv.clone(),
            seed: meta.seed,
            passes: meta.passes,
            started_at: meta.started_at,
            finished_at: meta.finished_at,
            interrupted: meta.interrupted,
            runner_version: meta.runner_version.clone(),
        }
    }
}

impl Gathered {
    fn take(&mut self, digest: Digest) {
        let pass = digest.pass;
        self.counts.add(&digest.outcome);
        if let Some((status, reason, _)) = said(&digest.outcome) {
            self.trouble.insert(pass, format!("{status}: {reason}"));
        }
        let mut seen = BTreeSet::new();
        for flag in digest.flags {
            // Of both sides of a cell, it is one record still.
            let is_another = seen.insert(flag.name.clone());
            let (first, count) = self.flags.entry(flag.name.clone()).or_insert_with(|| {
                (u32::MAX, FlagCount { name: flag.name, records: 0, detail: String::new() })
            });
            count.records += u32::from(is_another);
            if pass < *first {
                (*first, count.detail) = (pass, flag.detail);
            }
        }
        if let Some(figures) = digest.figures {
            self.passes.insert(pass, figures);
        }
        self.content_id.get_or_insert(digest.content_id);
        self.params.get_or_insert(digest.params);
    }

    fn summary(self, id: CellId, reference: Option<&Rates>, control: Option<&Rates>) -> CellSummary {
        let passes: Vec<PassFigures> = self.passes.into_values().collect();
        let spread = |of: &dyn Fn(&PassFigures) -> Option<f64>| Spread::of_some(passes.iter().map(of));
        let latency = |of: fn(&crate::stats::LatencyFigures) -> u64| {
            spread(&|pass| pass.latency.as_ref().map(|latency| of(latency) as f64))
        };
        let ratio = |rates: Option<&Rates>| {
            spread(&|pass| {
                rates?.get(&pass.pass).filter(|rate| **rate > 0.0).map(|rate| pass.rate_per_s / rate)
            })
        };
        let rates: Vec<f64> = passes.iter().map(|pass| pass.rate_per_s).collect();
        // Relative to the pass, or the passes' own differences would look like clusters of trials.
        let trials: Vec<f64> = passes
            .iter()
            .flat_map(|pass| {
                let middle = median(&pass.trial_rates_per_s).unwrap_or(f64::NAN);
                pass.trial_rates_per_s.iter().map(move |rate| rate / middle)
            })
            .collect();
        CellSummary {
            id,
            content_id: self.content_id,
            counts: self.counts,
            rate_per_s: spread(&|pass| Some(pass.rate_per_s)),
            ratio: ratio(reference),
            control_ratio: ratio(control),
            p50_ns: latency(|latency| latency.p50_ns),
            p99_ns: latency(|latency| latency.p99_ns),
            p999_ns: latency(|latency| latency.p999_ns),
            max_ns: latency(|latency| latency.max_ns),
            server_cores: spread(&|pass| pass.server_cores),
            client_cores: spread(&|pass| pass.client_cores),
            client_busy: spread(&|pass| pass.client_busy),
            server_ns_per_message: spread(&|pass| pass.server_ns_per_message),
            limited_by: (!passes.is_empty())
                .then(|| LimitedBy::of_most(passes.iter().map(|pass| pass.limited_by))),
            bimodal_passes: two_clusters(&rates),
            // One odd trial among many is an outlier, not a mode.
            bimodal_trials: two_clusters(&trials).filter(|clusters| clusters.low_n.min(clusters.high_n) > 1),
            flags: self.flags.into_values().map(|(_, count)| count).collect(),
            trouble: self.trouble.into_values().next(),
            passes,
        }
    }
}

type Rates = BTreeMap<u32, f64>;

fn rates_by_pass(cells: &BTreeMap<CellId, Gathered>) -> BTreeMap<CellId, Rates> {
    cells
        .iter()
        .filter(|(_, cell)| !cell.passes.is_empty())
        .map(|(id, cell)| {
            let rates = cell.passes.iter().map(|(pass, figures)| (*pass, figures.rate_per_s)).collect();
            (id.clone(), rates)
        })
        .collect()
}

/// The cell that the ratios of a group are relative to: the control's server in the same workload by the same client; else that
/// server in the same workload by the control's client; else the control itself; each only if it has figures.
fn reference(
    control: Option<&CellId>,
    workload: &str,
    client: &str,
    rates: &BTreeMap<CellId, Rates>,
) -> Option<CellId> {
    let control = control?;
    let near = CellId::new(workload, &control.server, client);
    let nearer_to_control = CellId::new(workload, &control.server, &control.client);
    [near, nearer_to_control, control.clone()].into_iter().find(|id| rates.contains_key(id))
}

fn groups(
    order: &[CellId],
    mut cells: BTreeMap<CellId, Gathered>,
    rates: &BTreeMap<CellId, Rates>,
    control: Option<&CellId>,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut index: BTreeMap<(String, String), usize> = BTreeMap::new();
    for id in order {
        let Some(cell) = cells.remove(id) else { continue };
        let at = *index.entry((id.workload.clone(), id.client.clone())).or_insert_with(|| {
            groups.push(Group {
                workload: id.workload.clone(),
                client: id.client.clone(),
                params: None,
                reference: reference(control, &id.workload, &id.client, rates),
                cells: Vec::new(),
                reading: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        if group.params.is_none() {
            group.params.clone_from(&cell.params);
        }
        let of = |id: Option<&CellId>| id.and_then(|id| rates.get(id));
        group.cells.push(cell.summary(id.clone(), of(group.reference.as_ref()), of(control)));
    }
    for group in &mut groups {
        let rate = |cell: &CellSummary| cell.rate_per_s.map_or(-1.0, |rate| rate.median);
        group.cells.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        group.reading = reading::of(group);
    }
    groups
}
