use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::past::newest_runs;
use super::report::DEFAULT_WIDTH;
use super::{Format, Terminal, baselines, catalog, load_manifest};
use crate::exit::{Ending, Exit, UserError, say};
use crate::manifest::{Manifest, Metric};
use crate::plan::{CellId, human_time};
use crate::report::{self, Style, render_calibration, render_simulated};
use crate::verdict::{Baseline, Measured, Scenario, Shape, SimulatedRow, calibrate, simulate};

/// Arguments of `runner calibrate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The manifest
    manifest: PathBuf,
    /// Nights of unchanged servers; those that an earlier calibration measured count
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=400))]
    nights: u32,
    /// Passes of each night, in place of the manifest's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1_000))]
    passes: Option<u32>,
    /// Measure nothing: simulate so many nights with the noise of the baseline, and say what a comparison finds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    simulate: Option<u32>,
    /// Cells of a simulated night
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cells: u32,
    /// How far a rate may move in a simulated night, relative; the default tolerance where it is left out
    #[arg(long, value_name = "SHARE")]
    within: Option<f64>,
    /// Seed of simulated nights
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The baseline; that of the manifest and this class of host by default
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Folder of the nights
    #[arg(long, value_name = "DIR", default_value = "out/calibration")]
    out: PathBuf,
    /// Run no cell but answer as this script says
    #[arg(long, value_name = "SCRIPT", hide = true)]
    fake: Option<PathBuf>,
}

/// Measures nights of unchanged servers and keeps what they tell in the baseline; or simulates nights with what is kept.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let catalog = catalog(&args.manifest)?;
    let manifest = load_manifest(&args.manifest, &catalog, terminal)?;
    if args.simulate.is_some() {
        return simulated(&args, &manifest, terminal);
    }
    if manifest.control.is_none() {
        return Err(UserError::new(Exit::Usage, format!("`{}` has no control", args.manifest.display()))
            .hint(
                "without one, a move of the machine and a move of a server look alike; name one by `control`",
            ));
    }
    let nights = measure(&args, &manifest)?;
    if nights.len() < 2 {
        return Ok(Ending::new(
            Exit::Undecided,
            format!("{} usable nights; what differs between nights takes at least 2", nights.len()),
        ));
    }
    let last = nights.last().expect("there are two");
    let class = baselines::class_of(last)?;
    let path =
        args.baseline.clone().unwrap_or_else(|| baselines::file(&args.manifest, &manifest.name, &class));
    let mut baseline = baselines::read(&path)?
        .unwrap_or_else(|| Baseline::new(&manifest.name, &class, manifest.control.clone()));
    baseline.control.clone_from(&manifest.control);
    let found = calibrate(&mut baseline, &nights, &manifest.rules, chrono::Utc::now().date_naive());
    baselines::write(&path, &baseline)?;
    print(terminal, args.format, &found, |style| render_calibration(&found, style))?;
    say(format_args!("noise and {} nights kept in {}", baseline.run.len(), path.display()));
    Ok(Ending::done())
}

fn print(
    terminal: &Terminal,
    format: Format,
    value: &impl serde::Serialize,
    table: impl Fn(&Style) -> String,
) -> Result<(), UserError> {
    let style =
        Style { color: terminal.stdout_color, width: terminal.columns.map_or(DEFAULT_WIDTH, usize::from) };
    match format {
        Format::Table => terminal.print(&table(&style)),
        Format::Json => terminal.write(|out| {
            serde_json::to_writer_pretty(&mut *out, value)?;
            out.write_all(b"\n")
        }),
    }
}

/// Nights that are there already, and as many more as are asked for, each a run of its own.
fn measure(args: &Args, manifest: &Manifest) -> Result<Vec<Measured>, UserError> {
    let runner = std::env::current_exe()
        .map_err(|error| UserError::new(Exit::Internal, format!("this program cannot be found: {error}")))?;
    let (mut nights, mut disturbed) = kept(&args.out, &manifest.name);
    let there = nights.len() as u32;
    let missing = args.nights.saturating_sub(there);
    if there > 0 {
        say(format_args!("{there} nights are there already in {}", args.out.display()));
    }
    let began = Instant::now();
    for night in 0..missing {
        let mut command = vec![
            "run".to_owned(),
            args.manifest.display().to_string(),
            "--out".to_owned(),
            args.out.display().to_string(),
            "--seed".to_owned(),
            u64::from(there + night + 1).to_string(),
            "--allow-skips".to_owned(),
            "--format".to_owned(),
            "json".to_owned(),
        ];
        if let Some(passes) = args.passes {
            command.extend(["--passes".to_owned(), passes.to_string()]);
        }
        if let Some(script) = &args.fake {
            command.extend(["--fake".to_owned(), script.display().to_string()]);
        }
        let ended = duct::cmd(&runner, &command)
            .stdin_null()
            .stdout_null()
            .stderr_capture()
            .unchecked()
            .run()
            .map_err(|error| UserError::new(Exit::Internal, format!("a night cannot be started: {error}")))?;
        match ended.status.code() {
            // A night with a void cell is a night as they come.
            Some(0 | 3) => {}
            Some(130) | None => {
                return Err(UserError::new(
                    Exit::Interrupted,
                    "interrupted; nights that were finished are kept",
                )
                .hint("the same command goes on"));
            }
            Some(code) => {
                let said = String::from_utf8_lossy(&ended.stderr).trim_end().to_owned();
                return Err(UserError::new(
                    Exit::Internal,
                    format!("a night ended with exit code {code}:\n{said}"),
                ));
            }
        }
        let each = began.elapsed() / (night + 1);
        say(format_args!(
            "night {}/{}  {} each  about {} left",
            there + night + 1,
            args.nights.max(there),
            human_time(each),
            human_time(each * (missing - night - 1))
        ));
    }
    if missing > 0 {
        (nights, disturbed) = kept(&args.out, &manifest.name);
    }
    if !disturbed.is_empty() {
        let runs: Vec<&str> = disturbed.iter().map(|night| night.run_id.as_str()).collect();
        say(format_args!(
            "left out, as another program ran on the control's cores in most of their passes: {}",
            runs.join(", ")
        ));
    }
    Ok(nights)
}

/// Whether something else than the servers moved, and is known to have.
fn is_disturbed(night: &Measured) -> bool {
    let control = night.control.as_ref().and_then(|control| night.values(control, Metric::Rate));
    night.disturbed.len() > control.map_or(0, BTreeMap::len)
}

/// Finished nights of the manifest as the newest one had it, the oldest first; and those of them that were disturbed.
fn kept(out: &Path, manifest: &str) -> (Vec<Measured>, Vec<Measured>) {
    const MOST: usize = 400;
    let mut nights: Vec<Measured> = newest_runs(&out.join(manifest), MOST)
        .into_iter()
        .filter_map(|folder| {
            let meta = report::read_meta(&folder).ok()?;
            meta.finished_at?;
            Some(report::summarize(&folder).ok()?.measured(meta.narrowed))
        })
        .collect();
    let contents = |night: &Measured| -> BTreeMap<CellId, Option<String>> {
        night.cells.iter().map(|(id, cell)| (id.clone(), cell.content_id.clone())).collect()
    };
    if let Some(newest) = nights.first().map(contents) {
        nights.retain(|night| contents(night) == newest);
    }
    nights.reverse();
    nights.into_iter().partition(|night| !is_disturbed(night))
}

fn simulated(args: &Args, manifest: &Manifest, terminal: &Terminal) -> Result<Ending, UserError> {
    let path = match &args.baseline {
        Some(path) => path.clone(),
        None => {
            let class = crate::host::Host::here().fingerprint().class.clone();
            baselines::file(&args.manifest, &manifest.name, &class)
        }
    };
    let Some(baseline) = baselines::read(&path)? else {
        return Ok(Ending::new(
            Exit::Undecided,
            format!(
                "there is no `{}` with noise to draw from; `runner calibrate {}` measures it",
                path.display(),
                args.manifest.display()
            ),
        ));
    };
    let nights = args.simulate.unwrap_or(1);
    let mut rows: Vec<SimulatedRow> = Vec::new();
    for shape in [Shape::Recorded, Shape::Bimodal, Shape::Drifting] {
        let began = Instant::now();
        let facts = baseline.calibration.as_ref();
        let scenario = Scenario {
            shape,
            nights,
            cells: args.cells,
            slowdowns: vec![0.05, 0.10],
            calibration: facts.map_or(baseline.run.len() as u32, |facts| facts.nights),
            calibration_passes: facts.map_or(manifest.passes, |facts| facts.passes.max(2)),
            passes: args.passes.unwrap_or(manifest.passes),
            max_passes: manifest.rules.max_passes,
            within: args.within.unwrap_or_else(|| Metric::Rate.default_within()),
            error_rate: manifest.rules.error_rate,
            seed: args.seed,
        };
        let Some(result) = simulate(&baseline, &scenario) else {
            return Ok(Ending::new(
                Exit::Undecided,
                format!("`{}` has too few runs, or no control, to draw from", path.display()),
            ));
        };
        say(format_args!("{shape} noise: {nights} nights in {}", human_time(began.elapsed())));
        rows.push(SimulatedRow { shape, cells: args.cells, within: scenario.within, result });
    }
    print(terminal, args.format, &rows, |style| render_simulated(&rows, style))?;
    Ok(Ending::done())
}
