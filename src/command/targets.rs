use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use globset::Glob;

use super::{SelectionArgs, Terminal, catalog, load_manifest};
use crate::catalog::Catalog;
use crate::exit::{Ending, Exit, UserError};
use crate::manifest::nearest;

/// Which servers: those of a manifest's selected cells, or those that are named.
#[derive(Clone, Debug, clap::Args)]
pub struct TargetArgs {
    /// The manifest whose servers are meant
    #[arg(required_unless_present = "server")]
    pub manifest: Option<PathBuf>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// A server, whether a manifest names it or not, e.g. `ws@node-24` or `ws@*`; may be given more than once
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
}

/// What was chosen.
#[derive(Debug)]
pub struct Targets {
    /// What exists, with the user's own runtimes.
    pub catalog: Catalog,
    /// Names of servers, each once, in the order in which they were chosen.
    pub servers: Vec<String>,
    /// Names of clients.
    pub clients: Vec<String>,
    /// Whether the manifest lets skipped servers leave the exit code alone.
    pub allow_skips: bool,
}

impl TargetArgs {
    /// Looks up what is meant; `Err` of the inner result is how to end when it is nothing.
    pub fn targets(&self, terminal: &Terminal) -> Result<Result<Targets, Ending>, UserError> {
        let near = self.manifest.as_deref().unwrap_or(Path::new("."));
        let catalog = catalog(near)?;
        let mut targets = Targets { catalog, servers: Vec::new(), clients: Vec::new(), allow_skips: false };
        let mut runtimes = Vec::new();
        if let Some(path) = &self.manifest {
            let manifest = load_manifest(path, &targets.catalog, terminal)?;
            runtimes.extend(self.selection.runtimes(&manifest, &targets.catalog)?);
            let plan = self.selection.plan(&manifest)?;
            if plan.cells.is_empty() {
                return Ok(Err(self.selection.nothing_selected(&manifest, &plan)));
            }
            targets.allow_skips = manifest.allow_skips;
            targets.servers.extend(plan.cells.iter().map(|cell| cell.id.server.clone()));
            targets.clients.extend(plan.cells.iter().map(|cell| cell.id.client.clone()));
        } else {
            for text in &self.selection.runtime {
                let (name, path) = text.split_once('=').ok_or_else(|| {
                    UserError::new(Exit::Usage, format!("`--runtime {text}` is not of the form NAME=PATH"))
                        .hint("e.g. `--runtime node-26=/usr/bin/node`")
                })?;
                runtimes.push((name.to_owned(), PathBuf::from(path)));
            }
        }
        for (name, path) in runtimes {
            targets.catalog.with_runtime(&name, &path)?;
        }
        for text in &self.server {
            targets.servers.extend(named(&targets.catalog, text)?);
        }
        for names in [&mut targets.servers, &mut targets.clients] {
            let mut seen = BTreeSet::new();
            names.retain(|name| seen.insert(name.clone()));
        }
        Ok(Ok(targets))
    }
}

/// The servers that a name or glob means.
fn named(catalog: &Catalog, text: &str) -> Result<Vec<String>, UserError> {
    if catalog.knows_server(text) {
        return Ok(vec![text.to_owned()]);
    }
    let names = catalog.server_names();
    let matcher = Glob::new(text)
        .map_err(|error| UserError::new(Exit::Usage, format!("`--server {text}` is no pattern: {error}")))?
        .compile_matcher();
    let matching: Vec<String> = names.iter().filter(|name| matcher.is_match(name)).cloned().collect();
    if matching.is_empty() {
        let near = nearest(text, &names).map(|near| format!("did you mean `{near}`? "));
        return Err(UserError::new(Exit::Usage, format!("`--server`: unknown server `{text}`"))
            .hint(format!("{}servers: {}", near.unwrap_or_default(), names.join(", "))));
    }
    Ok(matching)
}
