//! `runner run`: `mod` is the verb, the others are its parts: what an earlier part of the run has finished, what is run,
//! who is told, what is kept about the run, and how it ends.

mod consumers;
mod decide;
mod earlier;
mod ending;
mod meta;
mod specs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::consumers::Consumers;
use self::decide::decide;
use self::earlier::Earlier;
use self::ending::{Trouble, ending};
use self::meta::{first_meta, planned_cell};
use self::specs::{client_spec, server_spec};
use super::history::keep;
use super::nights::{self, Compared};
use super::past::PastRates;
use super::selection::{fit_lines, load_manifest, parse_budget};
use super::setup::SetupProgress;
use super::{SelectionArgs, Terminal};
use crate::catalog::{self, Catalog, Ready};
use crate::exit::{Ending, Exit, UserError, say};
use crate::host::Host;
use crate::manifest::{Manifest, cores_from_flags};
use crate::plan::{Cores, Job, Plan, Step, estimate, fit, order, resolve};
use crate::record::Outcome;
use crate::record::store::{RunMeta, Store, StoreError, new_run_id};
use crate::report::{self, NightFormat, Style};
use crate::schedule::{Cancel, Event, Executor, Fake, Local, Planned, run_passes};
use crate::verdict::{HistoryEntry, Looks, Night};

/// Arguments of `runner run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The manifest
    pub manifest: PathBuf,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Sweeps over all cells, in place of the manifest's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    passes: Option<u32>,
    /// Seed of the order, in place of the manifest's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Time that the run may take, e.g. `20m`: counts and times are scaled down to fit, no cell is dropped
    #[arg(long, value_name = "TIME", value_parser = parse_budget)]
    budget: Option<Duration>,
    /// Go on with a run that did not finish: its folder, or the newest one of this manifest
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest")]
    resume: Option<PathBuf>,
    /// Compare with a baseline, and measure what is not decided again until it is: a file, or `auto` for that of the manifest
    /// and this class of host
    #[arg(long, value_name = "FILE|auto")]
    against: Option<PathBuf>,
    /// Cores of a side, in place of the manifest's, e.g. `server=0` and `client=1,2`
    #[arg(long, value_name = "SIDE=CORES")]
    cores: Vec<String>,
    /// Folder of runs
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Install nothing: what is missing is skipped
    #[arg(long)]
    no_setup: bool,
    /// Cells that are skipped leave the exit code alone
    #[arg(long)]
    allow_skips: bool,
    /// What to print: a table, or every event as a line of JSON
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Run no cell but answer as this script says
    #[arg(long, value_name = "SCRIPT", hide = true)]
    fake: Option<PathBuf>,
}

/// What a run prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Progress, then a table
    #[default]
    Human,
    /// The event stream, one line of JSON each
    Json,
}

/// Measures the selected cells of a manifest and prints the table.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let mut catalog = super::catalog(&args.manifest)?;
    let mut manifest = load_manifest(&args.manifest, &catalog, terminal)?;
    for (name, path) in args.selection.runtimes(&manifest, &catalog)? {
        catalog.with_runtime(&name, &path)?;
    }
    if !args.cores.is_empty() {
        (manifest.server_cores, manifest.client_cores) =
            cores_from_flags(&args.cores, (&manifest.server_cores, &manifest.client_cores)).map_err(
                |why| UserError::new(Exit::Usage, why).hint("e.g. `--cores server=0 --cores client=1`"),
            )?;
    }
    let plan = args.selection.plan(&manifest)?;
    if plan.cells.is_empty() {
        return Ok(args.selection.nothing_selected(&manifest, &plan));
    }
    let earlier =
        args.resume.as_deref().map(|named| Earlier::find(named, &manifest, &args.out)).transpose()?;
    let passes = args.passes.or(earlier.as_ref().map(|run| run.meta.passes)).unwrap_or(manifest.passes);
    let seed = args.seed.or(earlier.as_ref().map(|run| run.meta.seed)).or(manifest.seed);
    let seed = seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let host = Host::here();
    let rates = PastRates::read(&args.out, &manifest.name, Some(&host.fingerprint().class));
    if let Some(budget) = args.budget {
        for line in fit_lines(&fit(&mut manifest, &plan, passes, budget, &rates)) {
            say(line);
        }
    }

    let mut executor: Box<dyn Executor> = match &args.fake {
        Some(script) => Box::new(Fake::load(script)?),
        None => Box::new(Local::new().map_err(|error| {
            UserError::new(Exit::Internal, format!("no process can be started: {error}"))
        })?),
    };
    let ready = if args.fake.is_some() || args.no_setup {
        Ready::default()
    } else {
        install(&catalog, &plan, terminal)
    };
    let run_id = match &earlier {
        Some(run) => run.meta.run_id.clone(),
        None => new_run_id(executor.now(), rand::random()),
    };
    let folder = args.out.join(&manifest.name).join(&run_id);
    let mut cells = Vec::new();
    for planned in &plan.cells {
        let params = &manifest.workloads[planned.workload].params;
        let cores = pick_cores(&args, &manifest, &host, params.threads)?;
        let mut skipped = None;
        let server = server_spec(&catalog, &planned.id.server, args.fake.is_some(), &ready, &mut skipped);
        let client = client_spec(&catalog, &planned.id.client, args.fake.is_some(), &ready, &mut skipped);
        let cell = resolve(&manifest, planned, server, client, cores);
        cells.push(Planned {
            estimate: estimate(&cell.id, params, &rates),
            job: Job {
                run_id: run_id.clone(),
                manifest: manifest.name.clone(),
                pass: 0,
                order: 0,
                seed,
                cell,
                log_dir: None,
                runner: None,
            },
            skipped,
        });
    }

    let steps = order(cells.len(), passes, seed);
    let looks = args.against.as_ref().map(|_| Looks::new(passes, manifest.rules.max_passes));
    let mut meta = RunMeta {
        passes,
        until_decided: looks.as_ref().map(|_| manifest.rules.max_passes),
        cells: cells.iter().map(planned_cell).collect(),
        finished_at: None,
        interrupted: false,
        ..first_meta(&args, &manifest, &plan, &run_id, seed, executor.now())
    };
    if let Some(run) = &earlier {
        meta.started_at = run.meta.started_at;
        for changed in run.changed(&cells) {
            say(format_args!("warning: {changed}"));
        }
    }
    let unwritable = |error: StoreError| match &error {
        StoreError::InUse { .. } => UserError::new(Exit::Usage, error.to_string())
            .hint("wait for it, or write elsewhere by `--out DIR`"),
        StoreError::Io { .. } => {
            UserError::new(Exit::Unwritable, error.to_string()).hint("write elsewhere by `--out DIR`")
        }
    };
    let mut store = match &earlier {
        Some(run) => Store::open(&run.folder),
        None => Store::create(&args.out, &meta),
    }
    .map_err(unwritable)?;
    store.write_meta(&meta).map_err(unwritable)?;
    for planned in &mut cells {
        // Each cell's own folder is added by pass when it is executed.
        planned.job.log_dir =
            Some(std::path::absolute(store.folder()).unwrap_or_else(|_| folder.clone()).join("log"));
    }

    let cancel = Cancel::default();
    cancel
        .on_signals()
        .map_err(|error| UserError::new(Exit::Internal, format!("signals cannot be handled: {error}")))?;
    let finished = |planned: &Planned, pass: u32| earlier.as_ref()?.finished(planned, pass);
    let mut consumers = Consumers::new(&args, terminal);
    let resumed = steps.iter().filter(|step| finished(&cells[step.cell], step.pass).is_some()).count() as u32;
    let estimate_s = time_of(&cells, &steps, &finished).as_secs_f64();
    consumers.show(&Event::RunStarted {
        run_id: run_id.clone(),
        manifest: manifest.name.clone(),
        seed,
        passes,
        cells: cells.len() as u32,
        resumed,
        estimate_s,
    });
    let mut unkept: Option<String> = None;
    let mut sink = |event: Event, consumers: &mut Consumers, store: &mut Store| {
        consumers.show(&event);
        if let Event::CellDone { record, .. } = event
            && let Err(error) = store.keep(*record)
        {
            unkept.get_or_insert(error.to_string());
        }
        unkept.is_none()
    };
    let mut ran = run_passes(
        &cells,
        &steps,
        0,
        executor.as_mut(),
        &finished,
        &mut |event| sink(event, &mut consumers, &mut store),
        &cancel,
    );
    // What is not decided is measured again, until it is or until there are passes enough.
    let mut night = None;
    let mut last_pass = passes;
    while let (Some(against), Some(looks)) = (&args.against, &looks)
        && !ran.interrupted
        && !ran.gave_up
    {
        let Some(decision) = decide(store.folder(), against, &cells, looks, last_pass, seed)? else { break };
        if !decision.steps.is_empty() {
            consumers.show(&Event::MorePasses {
                cells: decision.cells(&cells),
                from: decision.from,
                to: decision.to,
                most: manifest.rules.max_passes,
                executions: decision.steps.len() as u32,
                estimate_s: decision.estimate(&cells).as_secs_f64(),
            });
            let more = run_passes(
                &cells,
                &decision.steps,
                ran.counts.planned,
                executor.as_mut(),
                &finished,
                &mut |event| sink(event, &mut consumers, &mut store),
                &cancel,
            );
            ran = ran.and(more);
        }
        last_pass = decision.to;
        let done = decision.steps.is_empty();
        night = Some(decision.night);
        if done {
            break;
        }
    }
    consumers.show(&Event::RunDone { counts: ran.counts, interrupted: ran.interrupted });
    for line in store.finish(&std::env::temp_dir()) {
        say(format_args!("warning: {line}"));
    }
    meta.counts = ran.counts;
    meta.interrupted = ran.interrupted;
    meta.finished_at = (!ran.interrupted && !ran.gave_up).then(|| executor.now());
    if let Err(error) = store.write_meta(&meta) {
        unkept.get_or_insert(error.to_string());
    }

    if ran.counts.ok > 0
        && !ran.interrupted
        && let Ok(summary) = report::summarize(store.folder())
        && let Err(error) =
            keep(&args.out, &manifest.name, &HistoryEntry::of(&summary.measured(meta.narrowed)))
    {
        say(format_args!("warning: the history of `{}` could not be written: {error}", manifest.name));
    }

    let mut unprinted = consumers.trouble();
    if args.format == Format::Human && ran.counts.ok + ran.counts.void + ran.counts.failed > 0 {
        let style = Style { color: terminal.stdout_color, width: terminal.columns.map_or(100, usize::from) };
        let printed = report::summarize(store.folder())
            .and_then(|summary| terminal.print(&report::render(&summary, report::Format::Table, &style)));
        let printed = printed.and_then(|()| match &night {
            Some(night) => {
                terminal.print(&format!("\n{}", report::render_night(night, NightFormat::Table, &style)))
            }
            None => Ok(()),
        });
        unprinted = printed.err().map(|error| error.message);
        if let Some(why) = &unprinted {
            say(format_args!("warning: {why}"));
        }
        say(format_args!("records: {}", store.folder().display()));
    }
    let trouble = Trouble { unkept, unprinted };
    let may_skip = args.allow_skips || manifest.allow_skips;
    let end = ending(&ran, trouble, may_skip, night.is_some(), store.folder(), &args.manifest);
    Ok(match (&args.against, &night) {
        (Some(against), _) if end.exit != Exit::Interrupted && end.exit != Exit::Unwritable => {
            graver(end, judged(store.folder(), against, night.as_ref())?)
        }
        _ => end,
    })
}

/// Installs what the plan's cells need.
fn install(catalog: &Catalog, plan: &Plan, terminal: &Terminal) -> Ready {
    let mut servers: Vec<String> = plan.cells.iter().map(|cell| cell.id.server.clone()).collect();
    let mut clients: Vec<String> = plan.cells.iter().map(|cell| cell.id.client.clone()).collect();
    for names in [&mut servers, &mut clients] {
        names.sort();
        names.dedup();
    }
    let mut progress = SetupProgress::new(terminal);
    let ready = catalog::setup(catalog, &servers, &clients, &mut |event| progress.show(event));
    progress.finish();
    ready
}

/// How a run ends that was compared with a baseline.
fn judged(folder: &Path, against: &Path, night: Option<&Night>) -> Result<Ending, UserError> {
    match night {
        Some(night) => Ok(nights::ending(night)),
        None => Ok(Compared::of_folder(folder.to_owned(), Some(against))?.nothing_to_compare_with()),
    }
}

/// The graver of two endings; what the other has to say stays beside it.
fn graver(one: Ending, other: Ending) -> Ending {
    let exit = one.exit.or(other.exit);
    let (first, second) = if exit == one.exit && exit != other.exit { (one, other) } else { (other, one) };
    let why = if second.why.is_empty() { first.why } else { format!("{}; {}", first.why, second.why) };
    Ending::new(exit, why)
}

fn pick_cores(args: &Args, manifest: &Manifest, host: &Host, threads: u32) -> Result<Cores, UserError> {
    let picked = host.topology().pick(&manifest.server_cores, &manifest.client_cores, threads);
    match picked {
        Ok(cores) => Ok(cores),
        // Nothing is placed: any machine will do.
        Err(_) if args.fake.is_some() => Ok(Cores { server: vec![0], client: vec![1] }),
        Err(why) => Err(UserError::new(Exit::Usage, why).hint("`runner doctor` says what this host has")),
    }
}

fn time_of(
    cells: &[Planned],
    steps: &[Step],
    finished: &dyn Fn(&Planned, u32) -> Option<Outcome>,
) -> Duration {
    steps
        .iter()
        .filter(|step| cells[step.cell].skipped.is_none() && finished(&cells[step.cell], step.pass).is_none())
        .map(|step| cells[step.cell].estimate)
        .fold(Duration::ZERO, Duration::saturating_add)
}
