use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::at::{At, CoreList};
use super::matrix::{Resolver, check_duplicates};
use super::names::Names;
use super::problem::{Look, Place, Problem, Problems};
use super::quantity::{SIZE_UNITS, parse_bytes};
use super::read::{SourceFile, read_all};
use super::wire::{ToleranceTable, WorkloadTable};
use super::workloads::{Declared, MAX_REPEATS, check_defaults, expand_workload};
use super::{CoreChoice, Manifest, MatrixRow, Tolerance};
use crate::exit::UserError;
use crate::plan::{CellId, Limits, Pattern, Selection, expand};
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

struct Loader<'a> {
    files: &'a [SourceFile],
    names: &'a dyn Names,
    problems: &'a mut Vec<Problem>,
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
            tolerances: tolerances.iter().map(|(tolerance, _, _)| tolerance.clone()).collect(),
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
    fn setting<T>(&self, get: impl Fn(&SourceFile) -> Option<&At<T>>) -> Option<(Place, &At<T>)> {
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

    fn passes(&mut self) -> u32 {
        let Some((place, at)) = self.setting(|file| file.wire.passes.as_ref()) else { return 1 };
        let passes = at.value;
        if passes == 0 {
            self.problems.push(
                Problem::at(place, "`passes` is 0", "at least 1").hint("a run of no passes measures nothing"),
            );
        } else if passes > MAX_REPEATS {
            self.problems.push(Problem::at(
                place,
                format!("`passes` is {passes}"),
                format!("at most {MAX_REPEATS}"),
            ));
        }
        passes.min(MAX_REPEATS) as u32
    }

    fn port(&mut self) -> Option<u16> {
        let (place, at) = self.setting(|file| file.wire.port.as_ref())?;
        match u16::try_from(at.value) {
            Ok(port) if port > 0 => Some(port),
            _ => {
                let port = at.value;
                self.problems.push(
                    Problem::at(place, format!("`port` is {port}"), "from 1 to 65535")
                        .hint("without `port`, each cell takes a free one"),
                );
                None
            }
        }
    }

    fn cores(
        &mut self,
        get: impl Fn(&SourceFile) -> Option<&At<CoreList>>,
    ) -> (CoreChoice, Vec<(u32, Place)>) {
        let Some((place, at)) = self.setting(get) else { return (CoreChoice::Auto, Vec::new()) };
        let CoreList::These(list) = at.value.clone() else { return (CoreChoice::Auto, Vec::new()) };
        let file = place.file;
        if list.is_empty() {
            self.problems.push(
                Problem::at(place, "an empty list of cores", "no core")
                    .hint("name at least one core, or write \"auto\""),
            );
        }
        let cores: Vec<(u32, Place)> =
            list.iter().map(|core| (core.value, Place::new(file, &core.span))).collect();
        for (index, (core, place)) in cores.iter().enumerate() {
            if cores[..index].iter().any(|(other, _)| other == core) {
                self.problems.push(Problem::at(
                    place.clone(),
                    format!("core {core} is listed twice"),
                    "again here",
                ));
            }
        }
        (CoreChoice::These(cores.iter().map(|(core, _)| *core).collect()), cores)
    }

    fn check_overlap(
        &mut self,
        server: &(CoreChoice, Vec<(u32, Place)>),
        client: &(CoreChoice, Vec<(u32, Place)>),
    ) {
        for (core, place) in &client.1 {
            if let Some((_, other)) = server.1.iter().find(|(other, _)| other == core) {
                self.problems.push(
                    Problem::at(place.clone(), format!("core {core} is given to both sides"), "the client's")
                        .label(other.clone(), "the server's")
                        .hint("the two sides must not share a core, or each measures the other"),
                );
            }
        }
    }

    fn limits(&mut self) -> Option<Limits> {
        let cpus = self.setting(|file| file.wire.limits.as_ref()?.cpus.as_ref()).map(|(p, at)| (p, at.value));
        let memory = self
            .setting(|file| file.wire.limits.as_ref()?.memory.as_ref())
            .map(|(p, at)| (p, at.value.clone()));
        let cpus = cpus.and_then(|(place, cpus)| {
            const SMALLEST: f64 = 0.01;
            if cpus.is_finite() && cpus >= SMALLEST {
                return Some(cpus);
            }
            self.problems.push(
                Problem::at(place, format!("`cpus` is {cpus}"), format!("a number from {SMALLEST}"))
                    .hint("`cpus = 2.0` grants two cores' worth of CPU time"),
            );
            None
        });
        let memory_bytes = memory.and_then(|(place, text)| match parse_bytes(&text) {
            Ok(bytes) if bytes > 0 => Some(bytes),
            Ok(_) => {
                self.problems.push(Problem::at(place, "`memory` is 0", "more than nothing"));
                None
            }
            Err(error) => {
                self.problems.push(
                    Problem::at(place, format!("`memory` is not a size: `{text}`"), error.to_string())
                        .hint(format!("a size is a number with a unit, e.g. `1GiB`; units: {SIZE_UNITS}")),
                );
                None
            }
        });
        (cpus.is_some() || memory_bytes.is_some()).then_some(Limits { cpus, memory_bytes })
    }

    fn runtimes(&mut self) -> BTreeMap<String, PathBuf> {
        let known = self.names.runtime_names();
        let mut runtimes = BTreeMap::new();
        for (index, file) in self.files.iter().enumerate() {
            for (name, table) in &file.wire.runtimes {
                let place = Place::new(index, &name.span);
                if !known.contains(&name.value) {
                    self.problems.push(
                        Problem::at(place, format!("unknown runtime `{}`", name.value), "not known").near(
                            &name.value,
                            &known,
                            "runtimes",
                        ),
                    );
                    continue;
                }
                match &table.path {
                    Some(path) if !path.value.is_empty() => {
                        let folder = file.path.parent().unwrap_or(Path::new(""));
                        runtimes.entry(name.value.clone()).or_insert_with(|| folder.join(&path.value));
                    }
                    _ => self.problems.push(
                        Problem::at(place, format!("runtime `{}` has no `path`", name.value), "this one")
                            .hint("add `path = \"/path/to/executable\"`, or remove the table"),
                    ),
                }
            }
        }
        runtimes
    }

    fn tolerance(&mut self, file: usize, table: &At<ToleranceTable>) -> Option<(Tolerance, Pattern, Place)> {
        let before = self.problems.len();
        let here = Place::new(file, &table.span);
        let ToleranceTable { cells, metric, within, reason } = &table.value;
        let mut missing = |key: &str, hint: &str| {
            self.problems.push(
                Problem::at(here.clone(), format!("a tolerance without `{key}`"), "this one").hint(hint),
            );
        };
        if reason.as_ref().is_none_or(|reason| reason.value.trim().is_empty()) {
            missing("reason", "add `reason = \"…\"`: whoever reads a verdict must know why it was softened");
        }
        if metric.is_none() {
            missing("metric", "add `metric = \"…\"`: `rate`, `p50`, `p99` or `server-cpu`");
        }
        if within.is_none() {
            missing("within", "add `within = 0.10` for 10 %");
        }
        if cells.is_none() {
            missing("cells", "add `cells = \"workload/server/client\"`; `*` stands for any");
        }
        if let Some(within) = within
            && !(within.value.is_finite() && within.value > 0.0 && within.value <= 10.0)
        {
            self.problems.push(
                Problem::at(
                    Place::new(file, &within.span),
                    format!("`within` is {}", within.value),
                    "above 0, at most 10",
                )
                .hint("it is relative: `within = 0.10` is 10 %"),
            );
        }
        let pattern = cells.as_ref().and_then(|cells| match cells.value.parse::<Pattern>() {
            Ok(pattern) => Some((pattern, Place::new(file, &cells.span))),
            Err(error) => {
                self.problems.push(Problem::at(
                    Place::new(file, &cells.span),
                    error.to_string(),
                    "not a pattern of cells",
                ));
                None
            }
        });
        if self.problems.len() > before {
            return None;
        }
        let (pattern, place) = pattern?;
        let tolerance = Tolerance {
            cells: pattern.as_str().to_owned(),
            metric: metric.as_ref()?.value,
            within: within.as_ref()?.value,
            reason: reason.as_ref()?.value.trim().to_owned(),
        };
        Some((tolerance, pattern, place))
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
