use std::collections::{HashMap, HashSet};

use super::at::At;
use super::names::Names;
use super::near::nearest;
use super::pool::{PATTERN_HINT, Pool};
use super::problem::{Place, Problem};
use super::wire::{ExcludeTable, MatrixTable};
use super::workloads::Declared;
use super::{Exclusion, MatrixRow};
use crate::plan::PartGlob;

/// What rows are resolved against.
pub(super) struct Resolver<'a> {
    names: &'a dyn Names,
    servers: Pool<'a>,
    clients: Pool<'a>,
}

/// A pattern of a row with the names that it stands for.
struct Resolved {
    names: Vec<String>,
    /// For each name, where it was asked for.
    places: HashMap<String, Place>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(names: &'a dyn Names) -> Self {
        Resolver {
            names,
            servers: Pool {
                what: "server",
                visible: names.server_names(),
                knows: Box::new(|name| names.knows_server(name)),
            },
            clients: Pool {
                what: "client",
                visible: names.client_names(),
                knows: Box::new(|name| names.knows_client(name)),
            },
        }
    }

    /// A name that stands for itself, e.g. in the control.
    pub(super) fn check_server(&self, name: &str, place: &Place, problems: &mut Vec<Problem>) {
        self.servers.check(name, place, problems);
    }

    /// A name that stands for itself, e.g. in the control.
    pub(super) fn check_client(&self, name: &str, place: &Place, problems: &mut Vec<Problem>) {
        self.clients.check(name, place, problems);
    }

    /// One row, its patterns resolved. `declared` are the workloads that the row's file can see.
    pub(super) fn row(
        &self,
        file: usize,
        row: &At<MatrixTable>,
        declared: &[&Declared],
        problems: &mut Vec<Problem>,
    ) -> Option<MatrixRow> {
        let before = problems.len();
        let workload_pool = workload_pool(declared);
        let families = families(declared);
        let here = Place::new(file, &row.span);
        let table = &row.value;
        let workloads =
            required(file, "workloads", &table.workloads, &here, problems, |pattern, place, problems| {
                match families.get(pattern) {
                    Some(family) => family.clone(),
                    None => workload_pool.resolve(pattern, place, &families, problems),
                }
            });
        let servers =
            required(file, "servers", &table.servers, &here, problems, |pattern, place, problems| {
                self.servers.resolve(pattern, place, &HashMap::new(), problems)
            });
        let clients = match &table.clients {
            None => Some(Resolved {
                names: vec!["native".to_owned()],
                places: HashMap::from([("native".to_owned(), here.clone())]),
            }),
            given => required(file, "clients", given, &here, problems, |pattern, place, problems| {
                self.clients.resolve(pattern, place, &HashMap::new(), problems)
            }),
        };
        let (workloads, servers, clients) = (workloads?, servers?, clients?);
        if problems.len() > before {
            return None;
        }
        let exclude: Vec<Exclusion> = table
            .exclude
            .iter()
            .filter_map(|table| {
                exclusion(
                    file,
                    table,
                    &families,
                    [&workloads.names, &servers.names, &clients.names],
                    problems,
                )
            })
            .collect();
        if problems.len() > before {
            return None;
        }
        let row = MatrixRow {
            workloads: workloads.names,
            servers: servers.names.clone(),
            clients: clients.names,
            exclude,
        };
        self.check_cells(&row, &here, &servers, declared, problems);
        (problems.len() == before).then_some(row)
    }

    /// What can only be said of cells: something is left, and no server gets more than it takes.
    fn check_cells(
        &self,
        row: &MatrixRow,
        here: &Place,
        servers: &Resolved,
        declared: &[&Declared],
        problems: &mut Vec<Problem>,
    ) {
        let excluded = compile(&row.exclude);
        let is_excluded = |workload: &str, server: &str, client: &str| {
            excluded.iter().any(|[w, s, c]| w.matches(workload) && s.matches(server) && c.matches(client))
        };
        let by_name: HashMap<&str, &Declared> =
            declared.iter().map(|declared| (declared.workload.name.as_str(), *declared)).collect();
        let mut any = false;
        for server in &row.servers {
            let max = self.names.max_payload(server);
            for workload in &row.workloads {
                if !row.clients.iter().any(|client| !is_excluded(workload, server, client)) {
                    continue;
                }
                any = true;
                let (Some(max), Some(declared)) = (max, by_name.get(workload.as_str())) else { continue };
                let payload = declared.workload.params.payload;
                if payload > max {
                    problems.push(
                        Problem::at(
                            declared.payload.clone(),
                            format!("`{server}` accepts messages of {max} bytes at most; `{workload}` sends {payload}"),
                            format!("{payload} bytes"),
                        )
                        .label(servers.places[server].clone(), format!("crossed with `{server}` here"))
                        .hint(format!(
                            "use a payload of at most {max}, or leave the pair out: `exclude = [{{ server = \"{server}\", workload = \"{workload}\", reason = \"…\" }}]`"
                        )),
                    );
                }
            }
        }
        if !any {
            problems.push(
                Problem::at(
                    here.clone(),
                    "this row is empty: everything in it is excluded",
                    "no cell is left",
                )
                .hint("remove the row, or narrow its `exclude`"),
            );
        }
    }
}

/// Globs of each exclusion; those that are none were reported before.
fn compile(exclude: &[Exclusion]) -> Vec<[PartGlob; 3]> {
    exclude
        .iter()
        .filter_map(|exclusion| {
            let [w, s, c] =
                [&exclusion.workload, &exclusion.server, &exclusion.client].map(|glob| glob.parse().ok());
            Some([w?, s?, c?])
        })
        .collect()
}

/// Resolves a list of patterns that must be there and name something.
fn required(
    file: usize,
    key: &str,
    list: &Option<At<Vec<At<String>>>>,
    here: &Place,
    problems: &mut Vec<Problem>,
    resolve: impl Fn(&str, &Place, &mut Vec<Problem>) -> Vec<String>,
) -> Option<Resolved> {
    let Some(list) = list else {
        problems.push(
            Problem::at(here.clone(), format!("a row has no `{key}`"), "this row")
                .hint(format!("add `{key} = [\"…\"]`; `*` and braces stand for several")),
        );
        return None;
    };
    if list.value.is_empty() {
        problems.push(
            Problem::at(Place::new(file, &list.span), format!("`{key}` is empty"), "names nothing")
                .hint("name at least one, or remove the row"),
        );
        return None;
    }
    let mut resolved = Resolved { names: Vec::new(), places: HashMap::new() };
    for pattern in &list.value {
        let place = Place::new(file, &pattern.span);
        for name in resolve(&pattern.value, &place, problems) {
            if resolved.places.insert(name.clone(), place.clone()).is_none() {
                resolved.names.push(name);
            }
        }
    }
    Some(resolved)
}

fn workload_pool<'a>(declared: &[&'a Declared]) -> Pool<'a> {
    Pool {
        what: "workload",
        visible: declared.iter().map(|declared| declared.workload.name.clone()).collect(),
        knows: Box::new(|_| false),
    }
}

/// The expanded names of each workload of the file.
fn families(declared: &[&Declared]) -> HashMap<String, Vec<String>> {
    let mut families: HashMap<String, Vec<String>> = HashMap::new();
    for declared in declared {
        families.entry(declared.workload.family.clone()).or_default().push(declared.workload.name.clone());
    }
    families
}

/// One exclusion, if it has a reason and leaves something out.
fn exclusion(
    file: usize,
    table: &At<ExcludeTable>,
    families: &HashMap<String, Vec<String>>,
    names: [&Vec<String>; 3],
    problems: &mut Vec<Problem>,
) -> Option<Exclusion> {
    let here = Place::new(file, &table.span);
    let reason = table.value.reason.as_ref().map(|reason| reason.value.trim()).unwrap_or_default();
    if reason.is_empty() {
        problems.push(
            Problem::at(here.clone(), "an exclusion without a reason", "why is this left out?")
                .hint("add `reason = \"…\"`; it is shown in every report"),
        );
    }
    let given = [&table.value.workload, &table.value.server, &table.value.client];
    let mut fine = true;
    for ((glob, names), what) in given.into_iter().zip(names).zip(["workload", "server", "client"]) {
        let Some(glob) = glob else { continue };
        let place = Place::new(file, &glob.span);
        if what == "workload" && families.contains_key(&glob.value) {
            continue;
        }
        match glob.value.parse::<PartGlob>() {
            Err(error) => {
                fine = false;
                problems.push(
                    Problem::at(place, format!("`{}` is not a pattern", glob.value), error.to_string())
                        .hint(PATTERN_HINT),
                );
            }
            Ok(compiled) if !names.iter().any(|name| compiled.matches(name)) => {
                fine = false;
                let mut problem = Problem::at(
                    place,
                    format!("`{}` excludes nothing: no {what} of this row matches it", glob.value),
                    "matches nothing",
                );
                problem = match nearest(&glob.value, names) {
                    Some(near) => {
                        problem.hint(format!("did you mean `{near}`? Otherwise remove the exclusion"))
                    }
                    None => problem.hint("remove the exclusion, or correct the pattern"),
                };
                problems.push(problem);
            }
            Ok(_) => {}
        }
    }
    if reason.is_empty() || !fine {
        return None;
    }
    let text =
        |glob: &Option<At<String>>| glob.as_ref().map_or_else(|| "*".to_owned(), |glob| glob.value.clone());
    let workload = text(&table.value.workload);
    Some(Exclusion {
        // A workload with axes is named by the workloads that it stands for, since cells have only those names.
        workload: families.get(&workload).map_or(workload, |family| match family.as_slice() {
            [one] => one.clone(),
            many => format!("{{{}}}", many.join(",")),
        }),
        server: text(&table.value.server),
        client: text(&table.value.client),
        reason: reason.to_owned(),
    })
}

/// Workloads that stand in two places under one name, each reported once.
pub(super) fn check_duplicates(declared: &[Declared], problems: &mut Vec<Problem>) {
    let mut first: HashMap<&str, &Declared> = HashMap::new();
    let mut reported: HashSet<&str> = HashSet::new();
    for declared in declared {
        let name = declared.workload.name.as_str();
        match first.get(name) {
            None => {
                first.insert(name, declared);
            }
            Some(other) => {
                if reported.insert(name) {
                    problems.push(
                        Problem::at(
                            declared.name.clone(),
                            format!("two workloads are called `{name}`"),
                            "again here",
                        )
                        .label(other.name.clone(), "first here")
                        .hint("give one of them another name; the values of an axis are part of a name"),
                    );
                }
            }
        }
    }
}
