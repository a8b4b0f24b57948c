use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Terminal;
use crate::catalog::Catalog;
use crate::exit::{Ending, Exit, UserError, say};
use crate::manifest::{self, Look, Manifest, Names, Problems, TIME_UNITS, nearest};
use crate::plan::human_time;
use crate::plan::{Fit, Pattern, Plan, Role, Selection, expand};

/// Which cells of a manifest; shared by every verb that takes a manifest.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SelectionArgs {
    /// Only cells that match; may be given more than once
    ///
    /// A pattern is three globs, `workload/server/client`; without a slash it may match any one of the three.
    #[arg(long, value_name = "GLOB")]
    pub cell: Vec<String>,
    /// No cells that match; may be given more than once
    #[arg(long, value_name = "GLOB")]
    pub not: Vec<String>,
    /// Also cells that run only when asked for
    #[arg(long)]
    pub include_opt_in: bool,
    /// Executable of a runtime, in place of the installed one, e.g. `node-26=/usr/bin/node`
    #[arg(long, value_name = "NAME=PATH")]
    pub runtime: Vec<String>,
}

impl SelectionArgs {
    /// The patterns, parsed.
    pub fn selection(&self) -> Result<Selection, UserError> {
        let parse = |flag: &str, texts: &[String]| {
            let parse_one = |text: &String| {
                text.parse::<Pattern>().map_err(|error| {
                    UserError::new(Exit::Usage, format!("`{flag} {text}`: {error}")).hint(
                        "e.g. `--cell 'pingpong-*/relay/*'`, `--cell relay` or `--not 'ws@node-{24,26}'`",
                    )
                })
            };
            texts.iter().map(parse_one).collect::<Result<Vec<Pattern>, UserError>>()
        };
        Ok(Selection {
            cell: parse("--cell", &self.cell)?,
            not: parse("--not", &self.not)?,
            include_opt_in: self.include_opt_in,
        })
    }

    /// The user's own executables by runtime: those of the manifest, replaced by those of `--runtime`.
    pub fn runtimes(
        &self,
        manifest: &Manifest,
        names: &dyn Names,
    ) -> Result<BTreeMap<String, PathBuf>, UserError> {
        let mut runtimes = manifest.runtimes.clone();
        let known = names.runtime_names();
        for text in &self.runtime {
            let (name, path) = text
                .split_once('=')
                .filter(|(name, path)| !name.is_empty() && !path.is_empty())
                .ok_or_else(|| {
                    UserError::new(Exit::Usage, format!("`--runtime {text}` is not of the form NAME=PATH"))
                        .hint("e.g. `--runtime node-26=/usr/bin/node`")
                })?;
            if !known.iter().any(|known| known == name) {
                let near = nearest(name, &known).map(|near| format!("did you mean `{near}`? "));
                return Err(UserError::new(Exit::Usage, format!("`--runtime`: unknown runtime `{name}`"))
                    .hint(format!("{}runtimes: {}", near.unwrap_or_default(), known.join(", "))));
            }
            if !Path::new(path).is_file() {
                return Err(UserError::new(
                    Exit::Usage,
                    format!("`--runtime {name}`: `{path}` is not an executable file"),
                )
                .hint("name the executable itself, not its folder"));
            }
            runtimes.insert(name.to_owned(), PathBuf::from(path));
        }
        Ok(runtimes)
    }

    /// Whether only some cells are selected.
    pub fn narrows(&self) -> bool {
        !self.cell.is_empty() || !self.not.is_empty()
    }

    /// The cells of a manifest that are selected. Patterns that match nothing are named on stderr.
    pub fn plan(&self, manifest: &Manifest) -> Result<Plan, UserError> {
        let selection = self.selection()?;
        let plan = expand(manifest, &selection);
        for line in unmatched(manifest, &plan) {
            say(format_args!("warning: {line}"));
        }
        Ok(plan)
    }

    /// How to end when nothing is selected.
    pub fn nothing_selected(&self, manifest: &Manifest, plan: &Plan) -> Ending {
        let flags = self.cell.iter().map(|text| format!("`--cell {text}`"));
        let flags: Vec<String> = flags.chain(self.not.iter().map(|text| format!("`--not {text}`"))).collect();
        let mut why = format!("nothing selected of `{}`", manifest.path.display());
        if !flags.is_empty() {
            why.push_str(&format!(" by {}", flags.join(", ")));
        }
        if !plan.opt_in_left_out.is_empty() {
            why.push_str("; what is left runs only when asked for: `--include-opt-in`");
        }
        Ending::new(Exit::NothingSelected, why)
    }
}

/// What exists around a manifest, or around the current folder where a manifest lies elsewhere.
pub fn catalog(manifest: &Path) -> Result<Catalog, UserError> {
    let root = Catalog::find_root(manifest).or_else(|| Catalog::find_root(Path::new(".")));
    Catalog::load(root.as_deref())
}

/// Servers and clients of a plan that cannot be run as things are, each with the reason.
pub(super) fn not_ready(catalog: &Catalog, plan: &Plan) -> BTreeMap<String, String> {
    let mut reasons = BTreeMap::new();
    let servers: BTreeSet<&str> = plan.cells.iter().map(|planned| planned.id.server.as_str()).collect();
    for server in servers {
        if let Err(reason) = catalog.resolve_server(server, Role::Relay) {
            reasons.insert(server.to_owned(), reason);
        }
    }
    let clients: BTreeSet<&str> = plan.cells.iter().map(|planned| planned.id.client.as_str()).collect();
    for client in clients {
        if let Err(reason) = catalog.resolve_client(client) {
            reasons.insert(client.to_owned(), reason);
        }
    }
    reasons
}

/// Loads a manifest, its faults shown in the terminal's colour and width.
pub fn load_manifest(path: &Path, names: &dyn Names, terminal: &Terminal) -> Result<Manifest, UserError> {
    manifest::load_problems(path, names).map_err(|problems| shown(problems, terminal))
}

/// Reads the value of `--budget`, e.g. `90s` or `20m`.
pub fn parse_budget(text: &str) -> Result<Duration, String> {
    match manifest::parse_time_ns(text) {
        Ok(0) => Err("a budget of no time".to_owned()),
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(error) => Err(format!("{error}; a time is a number with a unit, e.g. `20m`: {TIME_UNITS}")),
    }
}

/// What was done to fit a run into a budget, as lines for stderr.
pub fn fit_lines(fit: &Fit) -> Vec<String> {
    let (budget, before, after) = (human_time(fit.budget), human_time(fit.before), human_time(fit.after));
    if !fit.scaled() {
        return vec![format!("budget {budget}: nothing scaled; the run takes about {before} as it is")];
    }
    let mut lines = vec![format!(
        "budget {budget}: counts and times scaled to {:.1} %, from about {before} to about {after}",
        fit.factor * 100.0
    )];
    if !fit.timed.is_empty() {
        lines.push(format!(
            "budget {budget}: times in place of counts, since their rates here are not known yet: {}",
            fit.timed.join(", ")
        ));
    }
    if !fit.at_floor.is_empty() {
        lines.push(format!(
            "budget {budget}: at its floor, below which it is not scaled: {}",
            fit.at_floor.join(", ")
        ));
    }
    if !fit.fits() {
        lines.push(format!(
            "warning: the run does not fit into {budget}: start-up and floors alone take {after}; select fewer cells or passes"
        ));
    }
    lines
}

/// A hint at the cells of a run that a pattern may have meant.
pub(super) fn near_cell(pattern: &str, cells: &[String]) -> String {
    const SOME: usize = 12;
    match nearest(pattern, cells) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "it has: {}{}",
            cells.iter().take(SOME).map(String::as_str).collect::<Vec<_>>().join(", "),
            if cells.len() > SOME { ", …" } else { "" }
        ),
    }
}

/// Faults of a manifest as the terminal shows them.
pub fn shown(problems: Problems, terminal: &Terminal) -> UserError {
    const WIDEST: usize = 100;
    let width = terminal.columns.map_or(WIDEST, usize::from).clamp(40, WIDEST);
    problems.into_error(Look { color: terminal.stderr_color, width })
}

/// A sentence for each pattern that matches no cell of the manifest.
fn unmatched(manifest: &Manifest, plan: &Plan) -> Vec<String> {
    plan.unmatched_patterns
        .iter()
        .map(|pattern| {
            let hint = near_pattern(manifest, pattern)
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            format!("`{pattern}` matches no cell of `{}`{hint}", manifest.path.display())
        })
        .collect()
}

/// The pattern with each part replaced by the nearest name, where that changes anything.
fn near_pattern(manifest: &Manifest, pattern: &str) -> Option<String> {
    let mut names: [Vec<&str>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    for row in &manifest.matrix {
        for (names, of_row) in names.iter_mut().zip([&row.workloads, &row.servers, &row.clients]) {
            names.extend(of_row.iter().map(String::as_str));
        }
    }
    let parts: Vec<&str> = pattern.split('/').collect();
    if let [one] = parts.as_slice() {
        return nearest(one, &names.concat()).map(str::to_owned);
    }
    let mended: Vec<&str> = parts
        .iter()
        .zip(&names)
        .map(|(part, names)| {
            let is_plain = !part.contains(['*', '?', '[', '{']);
            if is_plain && !names.contains(part) { nearest(part, names).unwrap_or(part) } else { part }
        })
        .collect();
    let mended = mended.join("/");
    (mended != pattern).then_some(mended)
}
