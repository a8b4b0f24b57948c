use std::path::{Path, PathBuf};

use super::at::At;
use super::matrix::{Resolver, check_duplicates};
use super::names::Names;
use super::problem::{Look, Place, Problem, Problems};
use super::read::{SourceFile, read_all};
use super::wire::WorkloadTable;
use super::workloads::{Declared, check_defaults, expand_workload};
use super::{Manifest, MatrixRow, Tolerance};
use crate::exit::UserError;
use crate::plan::{CellId, Pattern, Selection, expand};
use crate::workload::Kind;

/// The control where a manifest names none.
pub const DEFAULT_CONTROL: &str = "pingpong-16/relay/native";

/// Reads a manifest with its includes and checks everything in it that does not depend on this machine.
///
/// The error shows each fault with file, line, caret and hint, without colour; [`load_problems`] leaves the look to
/// its caller.
pub fn load(path: &Path, names: &dyn Names) -> Result<Manifest, UserError> {
    load_problems(path, names).map_err(|problems| problems.into_error(Look::default()))
}

/// [`load`] with the faults as they were found.
pub fn load_problems(path: &Path, names: &dyn Names) -> Result<Manifest, Problems> {
    let mut list = Vec::new();
    let files = read_all(path, &mut list);
    let manifest =
        if list.is_empty() { Loader { files: &files, names, problems: &mut list }.load() } else { None };
    let sources: Vec<(PathBuf, String)> = files.into_iter().map(|file| (file.path, file.text)).collect();
    match manifest {
        Some(manifest) if list.is_empty() => Ok(Manifest { sources, ..manifest }),
        _ => Err(Problems { files: sources, list }),
    }
}

/// Most cells that the rows of a manifest may stand for.
const MOST_CELLS: usize = 1_000_000;

/// What turns files into a manifest.
pub(super) struct Loader<'a> {
    pub(super) files: &'a [SourceFile],
    pub(super) names: &'a dyn Names,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl Loader<'_> {
    fn load(&mut self) -> Option<Manifest> {
        let path = self.files[0].path.clone();
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let resolver = Resolver::new(self.names);

        // First what stands alone: later checks would only repeat what is wrong there.
        let order = self.include_order();
        let mut declared = self.workloads(&order);
        check_duplicates(&declared, self.problems);
        let passes = self.passes();
        let port = self.port();
        let server_cores = self.cores(|file| file.wire.cores.as_ref()?.server.as_ref());
        let client_cores = self.cores(|file| file.wire.cores.as_ref()?.client.as_ref());
        self.check_overlap(&server_cores, &client_cores);
        let limits = self.limits();
        let runtimes = self.runtimes();
        let tolerances: Vec<(Tolerance, Pattern, Place)> = order
            .iter()
            .flat_map(|file| self.files[*file].wire.tolerance.iter().map(move |table| (*file, table)))
            .filter_map(|(file, table)| self.tolerance(file, table))
            .collect();
        let mut rules = self.judge();
        rules.tolerances = tolerances.iter().map(|(tolerance, _, _)| tolerance.clone()).collect();
        if !self.problems.is_empty() {
            return None;
        }

        // Then what refers to it.
        let (control, built_in) = self.control(&declared, &resolver);
        let matrix = self.matrix(&order, &declared, &resolver);
        declared.extend(built_in);
        if matrix.is_empty() && self.problems.is_empty() {
            self.problems.push(empty_selection(&self.files[0]));
        }
        self.check_size(&matrix);
        if !self.problems.is_empty() {
            return None;
        }
        let manifest = Manifest {
            title: self
                .setting(
                    |file| if std::ptr::eq(file, &self.files[0]) { file.wire.title.as_ref() } else { None },
                )
                .map_or_else(|| name.clone(), |(_, title)| title.value.clone()),
            path,
            name,
            passes,
            seed: self.setting(|file| file.wire.seed.as_ref()).map(|(_, seed)| seed.value),
            control,
            allow_skips: self
                .setting(|file| file.wire.allow_skips.as_ref())
                .is_some_and(|(_, flag)| flag.value),
            server_cores: server_cores.0,
            client_cores: client_cores.0,
            workloads: declared.into_iter().map(|declared| declared.workload).collect(),
            matrix,
            limits,
            rules,
            port,
            runtimes,
            sources: Vec::new(),
        };
        self.check_tolerances(&manifest, &tolerances);
        Some(manifest)
    }

    /// The files in the order in which their workloads and rows count: what is included comes before what includes.
    fn include_order(&self) -> Vec<usize> {
        fn visit(files: &[SourceFile], file: usize, seen: &mut [bool], order: &mut Vec<usize>) {
            if std::mem::replace(&mut seen[file], true) {
                return;
            }
            for included in &files[file].includes {
                visit(files, *included, seen, order);
            }
            order.push(file);
        }
        let mut order = Vec::new();
        visit(self.files, 0, &mut vec![false; self.files.len()], &mut order);
        order
    }

    /// The files that a file can see: itself and what it includes, however deep.
    fn visible(&self, file: usize) -> Vec<bool> {
        let mut seen = vec![false; self.files.len()];
        let mut open = vec![file];
        while let Some(file) = open.pop() {
            if !std::mem::replace(&mut seen[file], true) {
                open.extend(&self.files[file].includes);
            }
        }
        seen
    }

    /// A setting of the first file that has it; files stand in the order in which they were named.
    pub(super) fn setting<T>(&self, get: impl Fn(&SourceFile) -> Option<&At<T>>) -> Option<(Place, &At<T>)> {
        self.files.iter().enumerate().find_map(|(index, file)| {
            let at = get(file)?;
            // The lifetime is that of `self.files`, not of the borrowed argument.
            Some((Place::new(index, &at.span), at))
        })
    }

    fn workloads(&mut self, order: &[usize]) -> Vec<Declared> {
        let none = WorkloadTable::default();
        let mut all = Vec::new();
        for file in order {
            let wire = &self.files[*file].wire;
            let defaults = wire.defaults.as_ref().unwrap_or(&none);
            check_defaults(*file, defaults, self.problems);
            let mut tables: Vec<(&At<String>, &WorkloadTable)> = wire.workloads.iter().collect();
            tables.sort_by_key(|(name, _)| name.span.start);
            for (name, table) in tables {
                all.extend(expand_workload(*file, name, table, defaults, self.problems));
            }
        }
        all
    }

    /// The control, and its workload where it is the built-in one.
    fn control(
        &mut self,
        declared: &[Declared],
        resolver: &Resolver<'_>,
    ) -> (Option<CellId>, Option<Declared>) {
        let given =
            self.setting(|file| file.wire.control.as_ref()).map(|(place, at)| (place, at.value.clone()));
        let Some((place, text)) = given else {
            let control: CellId = DEFAULT_CONTROL.parse().expect("the default control is a cell id");
            let known = declared.iter().any(|declared| declared.workload.name == control.workload);
            let built_in = if known { None } else { self.built_in_control(&control) };
            return (Some(control), built_in);
        };
        if text == "none" {
            return (None, None);
        }
        let control: CellId = match text.parse() {
            Ok(control) => control,
            Err(error) => {
                self.problems.push(
                    Problem::at(place, format!("`control`: {error}"), "not a cell id")
                        .hint(format!("e.g. `{DEFAULT_CONTROL}`, or `none`")),
                );
                return (None, None);
            }
        };
        let names: Vec<&str> = declared.iter().map(|declared| declared.workload.name.as_str()).collect();
        let built_in = if names.contains(&control.workload.as_str()) {
            None
        } else if DEFAULT_CONTROL.starts_with(&format!("{}/", control.workload)) {
            self.built_in_control(&control)
        } else {
            self.problems.push(
                Problem::at(
                    place.clone(),
                    format!("the control names an unknown workload `{}`", control.workload),
                    "no such workload",
                )
                .near(&control.workload, &names, "workloads"),
            );
            None
        };
        resolver.check_server(&control.server, &place, self.problems);
        resolver.check_client(&control.client, &place, self.problems);
        (Some(control), built_in)
    }

    /// The control's workload where no file defines it: a ping-pong of 16 bytes under the defaults of the named file.
    fn built_in_control(&mut self, control: &CellId) -> Option<Declared> {
        let none = WorkloadTable::default();
        let defaults = self.files[0].wire.defaults.as_ref().unwrap_or(&none);
        let nowhere = 0..0;
        let name = At { value: control.workload.clone(), span: nowhere.clone() };
        let table = WorkloadTable {
            kind: Some(At { value: Kind::Pingpong, span: nowhere.clone() }),
            payload: Some(At { value: super::at::OneOrMany::One(16), span: nowhere }),
            ..WorkloadTable::default()
        };
        expand_workload(0, &name, &table, defaults, self.problems).pop()
    }

    fn matrix(&mut self, order: &[usize], declared: &[Declared], resolver: &Resolver<'_>) -> Vec<MatrixRow> {
        let mut rows = Vec::new();
        for file in order {
            let visible = self.visible(*file);
            let declared: Vec<&Declared> =
                declared.iter().filter(|declared| visible[declared.name.file]).collect();
            for row in &self.files[*file].wire.matrix {
                rows.extend(resolver.row(*file, row, &declared, self.problems));
            }
        }
        rows
    }

    /// More cells than anyone can measure are a slip of the pen, and would fill memory.
    fn check_size(&mut self, matrix: &[MatrixRow]) {
        let cells = matrix.iter().fold(0usize, |sum, row| {
            let product =
                row.workloads.len().saturating_mul(row.servers.len()).saturating_mul(row.clients.len());
            sum.saturating_add(product)
        });
        if cells > MOST_CELLS {
            self.problems.push(
                Problem::new(format!(
                    "`{}` stands for {cells} cells; {MOST_CELLS} are the most",
                    self.files[0].path.display()
                ))
                .hint("shorten the lists of the axes, or narrow the patterns of `[[matrix]]`"),
            );
        }
    }

    /// A tolerance that holds for no cell is a slip of the pen.
    fn check_tolerances(&mut self, manifest: &Manifest, tolerances: &[(Tolerance, Pattern, Place)]) {
        if tolerances.is_empty() {
            return;
        }
        let plan = expand(manifest, &Selection { include_opt_in: true, ..Selection::default() });
        for (_, pattern, place) in tolerances {
            if !plan.cells.iter().any(|planned| pattern.matches(&planned.id)) {
                self.problems.push(
                    Problem::at(
                        place.clone(),
                        format!("`{pattern}` matches no cell"),
                        "a tolerance for nothing",
                    )
                    .hint(
                        "`runner plan` lists the cells; a pattern is three globs, `workload/server/client`",
                    ),
                );
            }
        }
    }
}

fn empty_selection(file: &SourceFile) -> Problem {
    let hint =
        "add a row: `[[matrix]]` with `workloads`, `servers` and `clients`; docs/MANIFEST.md shows one";
    if file.text.trim().is_empty() {
        return Problem::new(format!("`{}` is empty", file.path.display())).hint(hint);
    }
    Problem::new(format!("`{}` selects nothing: it has no `[[matrix]]`", file.path.display())).hint(hint)
}
