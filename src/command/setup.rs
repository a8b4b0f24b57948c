use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::Terminal;
use super::targets::TargetArgs;
use crate::catalog::{self, SetupEvent};
use crate::exit::{Ending, Exit, UserError, say};
use crate::plan::human_time;

/// Arguments of `runner setup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    targets: TargetArgs,
}

/// Installs and builds what the selected servers and clients need.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let targets = match args.targets.targets(terminal)? {
        Ok(targets) => targets,
        Err(ending) => return Ok(ending),
    };
    let mut progress = SetupProgress::new(terminal);
    let results = catalog::setup(&targets.catalog, &targets.servers, &targets.clients, &mut |event| {
        progress.show(event);
    });
    progress.finish();

    let servers = targets.servers.iter().map(|name| (name.clone(), &results.servers[name]));
    let clients = targets.clients.iter().map(|name| (format!("client {name}"), &results.clients[name]));
    let all: Vec<_> = servers.chain(clients).collect();
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut failed = Vec::new();
    for (name, result) in &all {
        match result {
            Ok(()) => text.push_str(&format!("{name:width$}  ready\n")),
            Err(reason) => {
                text.push_str(&format!("{name:width$}  not installed: {reason}\n"));
                failed.push(name.as_str());
            }
        }
    }
    terminal.print(&text)?;
    if failed.is_empty() {
        return Ok(Ending::done());
    }
    let why = format!("{} of {} not installed: {}", failed.len(), all.len(), failed.join(", "));
    Ok(Ending::new(Exit::Incomplete, why))
}

/// Shows a setup on stderr: spinners on a terminal, a line for each thing that is installed elsewhere. What is up to
/// date is not worth a word.
#[derive(Debug)]
pub struct SetupProgress {
    bars: Option<MultiProgress>,
    running: BTreeMap<String, ProgressBar>,
}

impl SetupProgress {
    /// Nothing is shown yet.
    pub fn new(terminal: &Terminal) -> Self {
        let bars = terminal.stderr_is_terminal.then(MultiProgress::new);
        SetupProgress { bars, running: BTreeMap::new() }
    }

    /// Shows what happened.
    pub fn show(&mut self, event: SetupEvent) {
        match event {
            SetupEvent::UpToDate { .. } => {}
            SetupEvent::Started { what } => match &self.bars {
                None => say(format_args!("installing {what}")),
                Some(bars) => {
                    let style = ProgressStyle::with_template("{spinner} installing {msg}  {elapsed}")
                        .expect("a constant template");
                    let bar =
                        bars.add(ProgressBar::new_spinner().with_style(style).with_message(what.clone()));
                    bar.enable_steady_tick(Duration::from_millis(100));
                    self.running.insert(what, bar);
                }
            },
            SetupEvent::Installed { what, took } => {
                self.say(&what, format!("installed {what} in {}", human_time(took)));
            }
            SetupEvent::Failed { what, reason } => {
                let reason = reason.strip_prefix(&format!("{what}: ")).unwrap_or(&reason);
                self.say(&what, format!("could not install {what}: {reason}"));
            }
        }
    }

    /// Removes what is still drawn.
    pub fn finish(&mut self) {
        for bar in std::mem::take(&mut self.running).into_values() {
            bar.finish_and_clear();
        }
    }

    fn say(&mut self, what: &str, line: String) {
        if let Some(bar) = self.running.remove(what) {
            bar.finish_and_clear();
        }
        match &self.bars {
            // Above the spinners. A terminal that went away ends no setup.
            Some(bars) => drop(bars.println(line)),
            None => say(line),
        }
    }
}
