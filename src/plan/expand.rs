use std::collections::{HashMap, HashSet};

use super::{CellId, PartGlob, Pattern};
use crate::manifest::{Exclusion, Manifest, MatrixRow};

/// Which cells of a manifest are wanted.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only cells that match one of these; all when empty.
    pub cell: Vec<Pattern>,
    /// No cells that match one of these.
    pub not: Vec<Pattern>,
    /// Also cells of workloads that run only when asked for.
    pub include_opt_in: bool,
}

/// The cells of a run, in the order of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is measured in each pass; the control first when nothing else asked for it.
    pub cells: Vec<Planned>,
    /// Index of the control among the cells.
    pub control: Option<usize>,
    /// Selected cells that the manifest excludes, each with its reason.
    pub excluded: Vec<Excluded>,
    /// Selected cells that are left out because their workload runs only when asked for.
    pub opt_in_left_out: Vec<CellId>,
    /// Patterns of the selection that match no cell of the manifest.
    pub unmatched_patterns: Vec<String>,
}

/// A cell that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its id.
    pub id: CellId,
    /// Index of its workload in [`Manifest::workloads`].
    pub workload: usize,
    /// Whether its workload runs only when asked for.
    pub opt_in: bool,
}

/// A cell that the manifest excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// Its id.
    pub id: CellId,
    /// Why, in the manifest's words.
    pub reason: String,
}

/// The cross product of a manifest, reduced to a selection. A cell of several rows appears once, and one that is
/// excluded in a row but not in another is measured. The control is part of the plan whatever is selected, unless
/// nothing is.
pub fn expand(manifest: &Manifest, selection: &Selection) -> Plan {
    let all = cross_product(manifest);
    let mut plan = Plan::default();

    let mut seen = vec![false; selection.cell.len() + selection.not.len()];
    for planned in all.cells {
        let is_selected = selected(&planned, selection, &mut seen);
        match is_selected {
            Choice::No => {}
            Choice::OptInOnly => plan.opt_in_left_out.push(planned.id),
            Choice::Yes => plan.cells.push(planned),
        }
    }
    for cell in all.excluded {
        if let (true, false) = note_matches(&cell.id, selection, &mut seen) {
            plan.excluded.push(cell);
        }
    }
    if let Some(control) = &manifest.control {
        note_matches(control, selection, &mut seen);
    }
    plan.unmatched_patterns = selection
        .cell
        .iter()
        .chain(&selection.not)
        .zip(&seen)
        .filter(|(_, seen)| !**seen)
        .map(|(pattern, _)| pattern.to_string())
        .collect();
    add_control(manifest, selection, &mut plan);
    plan
}

struct CrossProduct {
    cells: Vec<Planned>,
    excluded: Vec<Excluded>,
}

fn cross_product(manifest: &Manifest) -> CrossProduct {
    let index: HashMap<&str, usize> =
        manifest.workloads.iter().enumerate().map(|(index, workload)| (&*workload.name, index)).collect();
    let mut cells = Vec::new();
    let mut excluded: Vec<Excluded> = Vec::new();
    let mut planned_ids: HashSet<CellId> = HashSet::new();
    for row in &manifest.matrix {
        let exclusions: Vec<CompiledExclusion> =
            row.exclude.iter().map(|exclusion| CompiledExclusion::new(exclusion, row)).collect();
        for (w, workload) in row.workloads.iter().enumerate() {
            let Some(&workload_index) = index.get(&**workload) else { continue };
            for (s, server) in row.servers.iter().enumerate() {
                for (c, client) in row.clients.iter().enumerate() {
                    let id = CellId::new(workload, server, client);
                    match exclusions.iter().find(|exclusion| exclusion.covers(w, s, c)) {
                        Some(exclusion) => {
                            excluded.push(Excluded { id, reason: exclusion.reason.to_owned() })
                        }
                        None => {
                            if planned_ids.insert(id.clone()) {
                                let opt_in = manifest.workloads[workload_index].opt_in;
                                cells.push(Planned { id, workload: workload_index, opt_in });
                            }
                        }
                    }
                }
            }
        }
    }
    let mut excluded_ids = HashSet::new();
    excluded.retain(|cell| !planned_ids.contains(&cell.id) && excluded_ids.insert(cell.id.clone()));
    CrossProduct { cells, excluded }
}

/// An exclusion with the answer of each of its globs for each name of the row, so that a large product costs a
/// look-up for each cell and not three matches.
struct CompiledExclusion<'a> {
    reason: &'a str,
    workloads: Vec<bool>,
    servers: Vec<bool>,
    clients: Vec<bool>,
}

impl<'a> CompiledExclusion<'a> {
    fn new(exclusion: &'a Exclusion, row: &MatrixRow) -> Self {
        let matches = |glob: &str, names: &[String]| match glob.parse::<PartGlob>() {
            Ok(glob) => names.iter().map(|name| glob.matches(name)).collect(),
            Err(_) => vec![false; names.len()],
        };
        CompiledExclusion {
            reason: &exclusion.reason,
            workloads: matches(&exclusion.workload, &row.workloads),
            servers: matches(&exclusion.server, &row.servers),
            clients: matches(&exclusion.client, &row.clients),
        }
    }

    fn covers(&self, workload: usize, server: usize, client: usize) -> bool {
        self.workloads[workload] && self.servers[server] && self.clients[client]
    }
}

enum Choice {
    Yes,
    No,
    OptInOnly,
}

/// Decides on one cell and notes which patterns match it.
fn selected(planned: &Planned, selection: &Selection, seen: &mut [bool]) -> Choice {
    let (wanted, unwanted) = note_matches(&planned.id, selection, seen);
    if !wanted || unwanted {
        return Choice::No;
    }
    let named = || selection.cell.iter().any(|pattern| pattern.names_workload_of(&planned.id));
    if planned.opt_in && !selection.include_opt_in && !named() { Choice::OptInOnly } else { Choice::Yes }
}

/// Whether a cell is wanted by `--cell` and unwanted by `--not`; patterns that match are marked as seen.
fn note_matches(id: &CellId, selection: &Selection, seen: &mut [bool]) -> (bool, bool) {
    let mut any = |patterns: &[Pattern], offset: usize| {
        let mut any = false;
        for (index, pattern) in patterns.iter().enumerate() {
            if pattern.matches(id) {
                seen[offset + index] = true;
                any = true;
            }
        }
        any
    };
    let wanted = any(&selection.cell, 0) || selection.cell.is_empty();
    let unwanted = any(&selection.not, selection.cell.len());
    (wanted, unwanted)
}

fn add_control(manifest: &Manifest, selection: &Selection, plan: &mut Plan) {
    let Some(control) = &manifest.control else { return };
    if let Some(index) = plan.cells.iter().position(|planned| planned.id == *control) {
        plan.control = Some(index);
        return;
    }
    // Asking for the control by name is asking for something, even where no row of the matrix holds it.
    let asked_for = selection.cell.iter().any(|pattern| pattern.matches(control))
        && !selection.not.iter().any(|pattern| pattern.matches(control));
    if plan.cells.is_empty() && !asked_for {
        return;
    }
    let Some(workload) = manifest.workloads.iter().position(|workload| workload.name == control.workload)
    else {
        return;
    };
    let opt_in = manifest.workloads[workload].opt_in;
    plan.cells.insert(0, Planned { id: control.clone(), workload, opt_in });
    plan.control = Some(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::load_text;

    fn manifest() -> Manifest {
        load_text(
            r#"
            [workloads.pingpong-16]
            kind = "pingpong"

            [workloads.load]
            kind = "load"
            payload = [16, 4096]

            [workloads.heavy]
            kind = "load"
            opt_in = true

            [[matrix]]
            workloads = ["pingpong-16", "load"]
            servers = ["relay-spin", "ws@*"]
            exclude = [
                { workload = "load-4096", server = "ws@*", reason = "slow" },
                { workload = "load-16", server = "ws@node-26", reason = "again below" },
            ]

            [[matrix]]
            workloads = ["load-16", "heavy"]
            servers = ["relay-spin", "ws@node-26"]
            clients = ["native", "tungstenite"]
            "#,
        )
        .unwrap()
    }

    fn select(cell: &[&str], not: &[&str]) -> Selection {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Selection { cell: parse(cell), not: parse(not), include_opt_in: false }
    }

    fn ids(plan: &Plan) -> Vec<String> {
        plan.cells.iter().map(|planned| planned.id.to_string()).collect()
    }

    #[test]
    fn rows_add_up_and_a_cell_appears_once() {
        let plan = expand(&manifest(), &Selection::default());
        assert_eq!(
            ids(&plan),
            [
                "pingpong-16/relay/native",
                "pingpong-16/relay-spin/native",
                "pingpong-16/ws@node-24/native",
                "pingpong-16/ws@node-26/native",
                "load-16/relay-spin/native",
                "load-16/ws@node-24/native",
                "load-4096/relay-spin/native",
                "load-16/relay-spin/tungstenite",
                "load-16/ws@node-26/native",
                "load-16/ws@node-26/tungstenite",
            ]
        );
        assert_eq!(plan.control, Some(0));
    }

    #[test]
    fn what_one_row_excludes_another_may_measure() {
        let excluded: Vec<String> = expand(&manifest(), &Selection::default())
            .excluded
            .iter()
            .map(|cell| format!("{}: {}", cell.id, cell.reason))
            .collect();
        assert_eq!(excluded, ["load-4096/ws@node-24/native: slow", "load-4096/ws@node-26/native: slow"]);
    }

    #[test]
    fn the_control_comes_along_unless_nothing_is_selected() {
        assert_eq!(
            ids(&expand(&manifest(), &select(&["load-4096"], &[]))),
            ["pingpong-16/relay/native", "load-4096/relay-spin/native"]
        );
        let without = expand(&manifest(), &select(&["load-4096"], &["*relay*"]));
        assert_eq!((ids(&without), without.control), (Vec::new(), None));
        assert_eq!(ids(&expand(&manifest(), &select(&["relay"], &[]))), ["pingpong-16/relay/native"]);
        let unwanted = expand(&manifest(), &select(&["*/ws@node-24/*"], &["*/relay/*"]));
        assert_eq!(unwanted.control, Some(0), "the control is not the selection's to leave out");
    }

    #[test]
    fn an_opt_in_runs_when_it_is_named() {
        let count = |selection: &Selection| {
            let plan = expand(&manifest(), selection);
            let opt_in = plan.cells.iter().filter(|planned| planned.opt_in).count();
            (opt_in, plan.opt_in_left_out.len())
        };
        assert_eq!(count(&Selection::default()), (0, 4));
        assert_eq!(count(&select(&["*"], &[])), (0, 4));
        assert_eq!(count(&select(&["tungstenite"], &[])), (0, 2));
        assert_eq!(count(&select(&["heavy"], &[])), (4, 0));
        assert_eq!(count(&select(&["heavy/*/native", "tungstenite"], &[])), (2, 2));
        assert_eq!(count(&Selection { include_opt_in: true, ..Selection::default() }), (4, 0));
    }

    #[test]
    fn patterns_that_match_nothing_are_named() {
        let plan = expand(&manifest(), &select(&["pingpong-*", "pinpong", "relay"], &["*/ws@bun/*"]));
        assert_eq!(plan.unmatched_patterns, ["pinpong", "*/ws@bun/*"]);
        let excluded = expand(&manifest(), &select(&["load-4096/ws@*/*"], &[]));
        assert_eq!(excluded.unmatched_patterns, Vec::<String>::new(), "an excluded cell is one that exists");
        assert_eq!(excluded.excluded.len(), 2);
        assert_eq!(ids(&excluded), Vec::<String>::new());
    }

    #[test]
    fn a_plan_of_a_hundred_thousand_cells_is_whole() {
        let manifest = large(100, 250, 4);
        let plan = expand(&manifest, &select(&["*/server-1*/*"], &["*/*/client-3"]));
        // server-1, server-10 to 19 and server-100 to 199, with three clients.
        assert_eq!(plan.cells.len(), 100 * 111 * 3);
        let all = expand(&manifest, &Selection::default());
        assert_eq!(all.cells.len() + all.excluded.len(), 100_000);
        assert_eq!(all.excluded.len(), 100 * 4);
    }

    fn large(workloads: usize, servers: usize, clients: usize) -> Manifest {
        let mut manifest = manifest();
        let template = manifest.workloads[0].clone();
        let names = |what: &str, count: usize| (0..count).map(|n| format!("{what}-{n}")).collect::<Vec<_>>();
        manifest.control = None;
        manifest.workloads = names("workload", workloads)
            .into_iter()
            .map(|name| crate::manifest::NamedWorkload { name, ..template.clone() })
            .collect();
        manifest.matrix = vec![MatrixRow {
            workloads: names("workload", workloads),
            servers: names("server", servers),
            clients: names("client", clients),
            exclude: vec![Exclusion {
                workload: "*".to_owned(),
                server: "server-249".to_owned(),
                client: "*".to_owned(),
                reason: "the last".to_owned(),
            }],
        }];
        manifest
    }
}
