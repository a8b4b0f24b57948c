use std::path::{Path, PathBuf};

use crate::catalog::Catalog;
use crate::exit::{Ending, Exit, UserError, say};
use crate::host::Host;
use crate::plan::{Job, ResolvedCell};
use crate::record::Record;
use crate::report::{self, Comparison, Judgement, Measured, Style};
use crate::schedule::{Cancel, Event, Executor, Local};
use crate::stats::median;

/// Arguments of `runner rerun`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A record that a run left under `cells/`
    #[arg(value_name = "RECORD.json")]
    record: PathBuf,
    /// How often to measure it again
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    passes: u32,
}

/// Columns of a table that no terminal shows.
const DEFAULT_WIDTH: usize = 100;

/// Measures a recorded cell again and judges whether its figure was found again.
pub fn run(args: Args, terminal: &super::Terminal) -> Result<Ending, UserError> {
    let target = Target::read(&args.record)?;
    let catalog = super::catalog(&args.record)?;
    let online = Host::here().topology().online();
    let mut notes = Vec::new();
    let cell = here(&target.asked.cell, &catalog, &online, &mut notes)?;
    let control = match target.control.first() {
        Some(control) => Some(here(&control.cell, &catalog, &online, &mut notes)?),
        None => None,
    };
    notes.dedup();
    for note in notes {
        say(format_args!("note: {note}"));
    }

    let cancel = Cancel::default();
    let mut executor = executor(&cancel)?;
    let Some(comparison) =
        again(target, &cell, control.as_ref(), args.passes, executor.as_mut(), &cancel, &mut |line| {
            say(line)
        })
    else {
        return Ok(Ending::new(Exit::Interrupted, "interrupted: too little was measured to judge"));
    };
    let style =
        Style { color: terminal.stdout_color, width: terminal.columns.map_or(DEFAULT_WIDTH, usize::from) };
    terminal.print(&comparison.render(&style))?;
    Ok(ending(&comparison.judge()))
}

fn executor(cancel: &Cancel) -> Result<Box<dyn Executor>, UserError> {
    let started = cancel.on_signals().and_then(|()| Local::new());
    match started {
        Ok(local) => Ok(Box::new(local)),
        Err(error) => Err(UserError::new(Exit::Internal, format!("no process can be started: {error}"))),
    }
}

/// The cell as it is started on this machine: programs as the catalogue has them here, since the record may be of another
/// checkout; cores as recorded where they exist.
fn here(
    recorded: &ResolvedCell,
    catalog: &Catalog,
    online: &[u32],
    notes: &mut Vec<String>,
) -> Result<ResolvedCell, UserError> {
    let mut cell = recorded.clone();
    match catalog.resolve_server(&cell.id.server, cell.server.role) {
        Ok(server) => cell.server = server,
        Err(why) => notes.push(format!("{} is started as it was recorded: {why}", cell.id.server)),
    }
    match catalog.resolve_client(&cell.id.client) {
        Ok(client) => cell.client = client,
        Err(why) => notes.push(format!("client {} is started as it was recorded: {why}", cell.id.client)),
    }
    let cores = &mut cell.cores;
    if !cores.server.iter().chain(&cores.client).all(|core| online.contains(core)) {
        let needed = cores.server.len() + cores.client.len();
        if needed > online.len() {
            let have = online.len();
            let message = format!("`{}` needs {needed} cores; this machine has {have} online", cell.id);
            return Err(
                UserError::new(Exit::Undecided, message).hint("run it again on a machine with more cores")
            );
        }
        let (server, client) = online[..needed].split_at(cores.server.len());
        notes.push(format!(
            "the recorded cores do not exist here: server on {server:?}, client on {client:?}"
        ));
        (cores.server, cores.client) = (server.to_vec(), client.to_vec());
    }
    Ok(cell)
}

/// A record with what its run knows beside it.
#[derive(Debug)]
struct Target {
    asked: Record,
    /// All passes of its cell, itself included.
    siblings: Vec<Record>,
    /// All passes of the control; empty when the run has none, or when the cell is the control.
    control: Vec<Record>,
}

impl Target {
    /// Reads a record and, where it lies in a run's folder, its siblings and the control.
    fn read(path: &Path) -> Result<Self, UserError> {
        let asked = report::read_record(path).map_err(|wrong| {
            UserError::new(Exit::Usage, format!("`{}` {wrong}", path.display()))
                .hint("give a file `cells/<workload>/<server>/<client>/pass-<n>.json` of a run's folder")
        })?;
        let siblings = passes_in(path.parent().unwrap_or(Path::new("")), &asked);
        // <run>/cells/<workload>/<server>/<client>/pass-<n>.json
        let run = path
            .ancestors()
            .nth(5)
            .filter(|run| run.join("run.json").is_file() || run.as_os_str().is_empty());
        let control = run
            .and_then(|run| {
                let run = if run.as_os_str().is_empty() { Path::new(".") } else { run };
                let meta = report::read_meta(run).ok()?;
                let id = meta.control.filter(|id| *id != asked.cell.id)?;
                let folder = run.join("cells").join(&id.workload).join(&id.server).join(&id.client);
                Some(passes_in(&folder, &asked))
            })
            .unwrap_or_default();
        let control = if control.iter().any(Record::is_ok) { control } else { Vec::new() };
        let siblings = if siblings.is_empty() { vec![asked.clone()] } else { siblings };
        Ok(Target { asked, siblings, control })
    }
}

/// The records of one cell's folder that belong to the run of `asked`, by pass.
fn passes_in(folder: &Path, asked: &Record) -> Vec<Record> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut records: Vec<Record> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| report::read_record(&path).ok())
        .filter(|record| record.run_id == asked.run_id)
        .collect();
    records.sort_by_key(|record| record.pass);
    records.dedup_by_key(|record| record.pass);
    records
}

/// Measures the cell, and the control beside it, `passes` times; which of the two is first alternates. None when
/// interrupted.
fn again(
    target: Target,
    cell: &ResolvedCell,
    control: Option<&ResolvedCell>,
    passes: u32,
    executor: &mut dyn Executor,
    cancel: &Cancel,
    say: &mut dyn FnMut(&str),
) -> Option<Comparison> {
    let (mut new, mut control_new) = (Vec::new(), Vec::new());
    for pass in 1..=passes {
        let mut turns: Vec<(&ResolvedCell, &mut Vec<Record>)> = vec![(cell, &mut new)];
        if let Some(control) = control {
            turns.push((control, &mut control_new));
        }
        if pass % 2 == 1 {
            turns.reverse();
        }
        for (order, (cell, records)) in (0..).zip(turns) {
            let job = Job {
                run_id: "rerun".to_owned(),
                manifest: target.asked.manifest.clone(),
                pass,
                order,
                seed: target.asked.seed,
                cell: cell.clone(),
                log_dir: None,
                runner: None,
            };
            let record = executor.execute(&job, &mut |_: Event| {}, cancel);
            if cancel.is_set() {
                return None;
            }
            say(&format!("pass {pass}/{passes}  {}  {}", cell.id, outcome_in_brief(&record)));
            records.push(record);
        }
    }
    Some(Comparison {
        asked: target.asked,
        old: Measured::of(target.siblings),
        new: Measured::of(new),
        control: control.map(|_| (Measured::of(target.control), Measured::of(control_new))),
    })
}

fn outcome_in_brief(record: &Record) -> String {
    use crate::record::Outcome;
    let rates: Vec<f64> = record
        .trials
        .iter()
        .filter(|trial| trial.batch.elapsed_ns > 0)
        .map(|trial| trial.batch.rounds as f64 * 1e9 / trial.batch.elapsed_ns as f64)
        .collect();
    match (&record.outcome, median(&rates)) {
        (Outcome::Ok, Some(rate)) => format!("{:.1} krt/s", rate / 1e3),
        (Outcome::Ok, None) => "no timed trial".to_owned(),
        (Outcome::Void { reason, detail }, _) => format!("void: {reason}: {detail}"),
        (Outcome::Failed { stage, message, .. }, _) => format!("failed: {stage}: {message}"),
        (Outcome::Skipped { reason }, _) => format!("skipped: {reason}"),
    }
}

/// How the command ends after a judgement.
fn ending(judgement: &Judgement) -> Ending {
    match judgement {
        Judgement::Inside => Ending::done(),
        Judgement::Outside => Ending::new(Exit::Regressed, "outside the range of the record"),
        Judgement::NotComparable(why) => Ending::new(Exit::Undecided, format!("not comparable: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::fs;
    use std::time::Duration;

    use chrono::{DateTime, Utc};

    use super::*;
    use crate::record::store::record_path;
    use crate::record::{Outcome, Stage};
    use crate::report::test_support::{Made, meta};

    /// Gives each job the next rate of its cell, or a failure where there is none left.
    #[derive(Default)]
    struct Scripted {
        cells: Vec<(Made, VecDeque<f64>)>,
        jobs: Vec<String>,
        cancel_after: Option<usize>,
    }

    impl Executor for Scripted {
        fn execute(&mut self, job: &Job, _: &mut dyn FnMut(Event), cancel: &Cancel) -> Record {
            self.jobs.push(format!("{} {} {}", job.pass, job.order, job.cell.id.server));
            if self.cancel_after.is_some_and(|after| self.jobs.len() >= after) {
                cancel.set();
            }
            let (made, rates) = self
                .cells
                .iter_mut()
                .find(|(made, _)| made.id() == job.cell.id)
                .expect("the cell is scripted");
            match rates.pop_front() {
                Some(rate) => made.clone().rates(&[rate]).record(job.pass),
                None => {
                    let message = "the server ended at once".to_owned();
                    let failed = Outcome::Failed { stage: Stage::Start, message, log_tail: Vec::new() };
                    made.clone().outcome(failed).record(job.pass)
                }
            }
        }

        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }

        fn now(&self) -> DateTime<Utc> {
            DateTime::UNIX_EPOCH
        }
    }

    fn write(run: &Path, records: &[Record]) {
        for record in records {
            let path = record_path(run, &record.cell.id, record.pass);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, serde_json::to_vec(record).unwrap()).unwrap();
        }
    }

    /// A run of the control and of `ws@node-24`, and the path of the latter's first record.
    fn run_in(folder: &Path) -> PathBuf {
        let (relay, node) = (Made::pingpong("relay"), Made::pingpong("ws@node-24"));
        write(folder, &relay.passes(&[32e3, 33e3, 31e3]));
        write(folder, &node.passes(&[28e3, 29e3, 30e3]));
        let meta = serde_json::to_vec(&meta(3, &[relay.id(), node.id()])).unwrap();
        fs::write(folder.join("run.json"), meta).unwrap();
        record_path(folder, &node.id(), 1)
    }

    fn scripted(cells: &[(&str, &[f64])]) -> Scripted {
        let cells =
            cells.iter().map(|(server, rates)| (Made::pingpong(server), rates.iter().copied().collect()));
        Scripted { cells: cells.collect(), ..Scripted::default() }
    }

    fn rerun(record: &Path, executor: &mut Scripted) -> Option<(Ending, String, Vec<String>)> {
        let target = Target::read(record).unwrap();
        let cell = target.asked.cell.clone();
        let control = target.control.first().map(|control| control.cell.clone());
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let comparison = again(target, &cell, control.as_ref(), 3, executor, &Cancel::default(), &mut say)?;
        Some((ending(&comparison.judge()), comparison.render(&Style::default()), said))
    }

    #[test]
    fn the_control_is_measured_beside_the_cell_in_turns() {
        let folder = tempfile::tempdir().unwrap();
        let record = run_in(folder.path());
        let mut executor = scripted(&[("relay", &[31e3; 3]), ("ws@node-24", &[27e3, 28e3, 29e3])]);
        let (ending, text, said) = rerun(&record, &mut executor).unwrap();
        assert_eq!(ending, Ending::done());
        assert_eq!(
            executor.jobs,
            ["1 0 relay", "1 1 ws@node-24", "2 0 ws@node-24", "2 1 relay", "3 0 relay", "3 1 ws@node-24"]
        );
        assert_eq!(said[1], "pass 1/3  pingpong-16/ws@node-24/native  27.0 krt/s");
        assert!(text.contains("then (3 passes)") && text.contains("x control"), "{text}");
    }

    #[test]
    fn outside_is_1_and_what_cannot_be_compared_is_4() {
        let folder = tempfile::tempdir().unwrap();
        let record = run_in(folder.path());
        let slower =
            rerun(&record, &mut scripted(&[("relay", &[31e3; 3]), ("ws@node-24", &[20e3; 3])])).unwrap();
        assert_eq!(slower.0.exit, Exit::Regressed);
        let moved =
            rerun(&record, &mut scripted(&[("relay", &[21e3; 3]), ("ws@node-24", &[20e3; 3])])).unwrap();
        assert_eq!(moved.0.exit, Exit::Undecided);
        assert!(moved.0.why.contains("the machine moved"), "{}", moved.0.why);
        let failed =
            rerun(&record, &mut scripted(&[("relay", &[31e3; 3]), ("ws@node-24", &[28e3])])).unwrap();
        assert_eq!(failed.0.exit, Exit::Undecided);
        assert!(failed.2.iter().any(|line| line.ends_with("failed: start: the server ended at once")));
    }

    #[test]
    fn a_record_on_its_own_is_judged_by_its_trials() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doubted.json");
        let record = Made::pingpong("ws@node-24").rates(&[27e3, 28e3, 29e3]).record(2);
        fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
        let mut executor = scripted(&[("ws@node-24", &[28e3; 3])]);
        let (ending, text, _) = rerun(&path, &mut executor).unwrap();
        assert_eq!(ending, Ending::done());
        assert!(text.contains("from the trials of its only pass"), "{text}");
        assert_eq!(executor.jobs.len(), 3);
    }

    #[test]
    fn the_control_itself_has_no_control() {
        let folder = tempfile::tempdir().unwrap();
        run_in(folder.path());
        let control = record_path(folder.path(), &Made::pingpong("relay").id(), 2);
        let mut executor = scripted(&[("relay", &[32e3; 3])]);
        assert_eq!(rerun(&control, &mut executor).unwrap().0, Ending::done());
        assert_eq!(executor.jobs.len(), 3);
    }

    #[test]
    fn an_interrupt_ends_it_without_a_judgement() {
        let folder = tempfile::tempdir().unwrap();
        let record = run_in(folder.path());
        let mut executor = scripted(&[("relay", &[31e3; 3]), ("ws@node-24", &[28e3; 3])]);
        executor.cancel_after = Some(2);
        assert!(rerun(&record, &mut executor).is_none());
        assert_eq!(executor.jobs.len(), 2);
    }

    #[test]
    fn what_is_no_record_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        fs::write(&path, "{\"schema\": \"runner.run/1\"}").unwrap();
        let wrong = Target::read(&path).unwrap_err();
        assert_eq!(wrong.exit, Exit::Usage);
        assert!(wrong.message.ends_with("is of schema `runner.run/1`; this version reads `runner.record/1`"));
        assert!(wrong.hint.is_some());
    }

    #[test]
    fn cores_that_do_not_exist_here_are_replaced_and_said() {
        let catalog = Catalog::default();
        let mut recorded = Made::pingpong("relay").record(1).cell;
        (recorded.cores.server, recorded.cores.client) = (vec![8], vec![10, 12]);
        let mut notes = Vec::new();
        let cell = here(&recorded, &catalog, &[0, 1, 2, 3], &mut notes).unwrap();
        assert_eq!((cell.cores.server.clone(), cell.cores.client.clone()), (vec![0], vec![1, 2]));
        assert_eq!(notes, ["the recorded cores do not exist here: server on [0], client on [1, 2]"]);
        // The program is this machine's own, and the cell is still the same one.
        assert_eq!(cell.server.program.argv, ["{runner}", "serve", "relay"]);
        assert_eq!(cell.content_id(), recorded.content_id());

        let few = here(&recorded, &catalog, &[0, 1], &mut notes).unwrap_err();
        assert_eq!(few.exit, Exit::Undecided);
        let mut there = recorded.clone();
        (there.cores.server, there.cores.client) = (vec![3], vec![1]);
        assert_eq!(here(&there, &catalog, &[0, 1, 2, 3], &mut notes).unwrap().cores, there.cores);
    }

    #[test]
    fn a_server_that_is_unknown_here_is_started_as_it_was_recorded() {
        let mut recorded = Made::pingpong("mine@node-24").record(1).cell;
        recorded.server.program.argv = vec!["/opt/mine".to_owned()];
        let mut notes = Vec::new();
        let cell = here(&recorded, &Catalog::default(), &[0, 1], &mut notes).unwrap();
        assert_eq!(cell.server.program.argv, ["/opt/mine"]);
        assert_eq!(notes, ["mine@node-24 is started as it was recorded: there is no server `mine@node-24`"]);
    }
}
