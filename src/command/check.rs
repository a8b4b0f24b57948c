use std::path::{Path, PathBuf};

use super::Terminal;
use super::past::PastRates;
use super::selection::{load_manifest, shown};
use crate::exit::{Ending, UserError};
use crate::host::Host;
use crate::manifest::{check_cores, check_descriptors, check_runtimes};
use crate::plan::human_time;
use crate::plan::{Selection, estimate_pass, expand};

/// Arguments of `runner check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The manifest
    pub manifest: PathBuf,
}

/// Validates a manifest and what it names, on this machine; measures nothing.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let catalog = super::catalog(&args.manifest)?;
    let manifest = load_manifest(&args.manifest, &catalog, terminal)?;
    let host = Host::here();
    check_cores(&manifest, &host.topology().online()).map_err(|problems| shown(problems, terminal))?;
    let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    check_descriptors(&manifest, open_files.unwrap_or(u64::MAX))
        .map_err(|problems| shown(problems, terminal))?;
    check_runtimes(&manifest).map_err(|problems| shown(problems, terminal))?;

    let rates = PastRates::read(Path::new("out"), &manifest.name, Some(&host.fingerprint().class));
    let plan = expand(&manifest, &Selection::default());
    let time = estimate_pass(&manifest, &plan, &rates).saturating_mul(manifest.passes);
    let plural = |number: usize, one, many| if number == 1 { one } else { many };
    let mut line = format!(
        "ok: {} {}, {} {}, about {}",
        plan.cells.len(),
        plural(plan.cells.len(), "cell", "cells"),
        manifest.passes,
        plural(manifest.passes as usize, "pass", "passes"),
        human_time(time)
    );
    if !plan.opt_in_left_out.is_empty() {
        line.push_str(&format!("; {} more when asked for", plan.opt_in_left_out.len()));
    }
    terminal.print(&format!("{line}\n"))?;
    Ok(Ending::done())
}
