use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::CoreChoice;
use super::at::{At, CoreList};
use super::load::Loader;
use super::problem::{Place, Problem};
use super::quantity::{SIZE_UNITS, parse_bytes};
use super::read::SourceFile;
use super::workloads::MAX_REPEATS;
use crate::plan::Limits;

/// More cores than a machine has; the bound keeps the search for doubles short.
const MOST_CORES: usize = 4_096;

/// Settings that stand alone: each is checked by itself.
impl Loader<'_> {
    /// Sweeps over all cells.
    pub(super) fn passes(&mut self) -> u32 {
        let Some((place, at)) = self.setting(|file| file.wire.passes.as_ref()) else { return 1 };
        let passes = at.value;
        if passes == 0 {
            self.problems.push(
                Problem::at(place, "`passes` is 0", "at least 1").hint("a run of no passes measures nothing"),
            );
        } else if passes > MAX_REPEATS {
            self.problems.push(
                Problem::at(place, format!("`passes` is {passes}"), format!("at most {MAX_REPEATS}"))
                    .hint("three to ten passes show how much a figure varies"),
            );
        }
        passes.min(MAX_REPEATS) as u32
    }

    /// The port of every server.
    pub(super) fn port(&mut self) -> Option<u16> {
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

    /// The cores of one side, each with its place.
    pub(super) fn cores(
        &mut self,
        get: impl Fn(&SourceFile) -> Option<&At<CoreList>>,
    ) -> (CoreChoice, Vec<(u32, Place)>) {
        let Some((place, at)) = self.setting(get) else { return (CoreChoice::Auto, Vec::new()) };
        let CoreList::These(list) = at.value.clone() else { return (CoreChoice::Auto, Vec::new()) };
        let file = place.file;
        if list.is_empty() {
            self.problems.push(
                Problem::at(place.clone(), "an empty list of cores", "no core")
                    .hint("name at least one core, or write \"auto\""),
            );
        }
        let cores: Vec<(u32, Place)> =
            list.iter().map(|core| (core.value, Place::new(file, &core.span))).collect();
        if cores.len() > MOST_CORES {
            self.problems.push(
                Problem::at(
                    place,
                    format!("a list of {} cores", cores.len()),
                    format!("at most {MOST_CORES}"),
                )
                .hint("name the cores that one side shall have, or write \"auto\""),
            );
            return (CoreChoice::Auto, Vec::new());
        }
        for (index, (core, place)) in cores.iter().enumerate() {
            if cores[..index].iter().any(|(other, _)| other == core) {
                self.problems.push(
                    Problem::at(place.clone(), format!("core {core} is listed twice"), "again here")
                        .hint("name each core once"),
                );
            }
        }
        (CoreChoice::These(cores.iter().map(|(core, _)| *core).collect()), cores)
    }

    /// No core is given to both sides.
    pub(super) fn check_overlap(
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

    /// Limits on every server.
    pub(super) fn limits(&mut self) -> Option<Limits> {
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
                self.problems.push(
                    Problem::at(place, "`memory` is 0", "more than nothing")
                        .hint("e.g. `memory = \"1GiB\"`; without it there is no limit"),
                );
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

    /// The user's executables.
    pub(super) fn runtimes(&mut self) -> BTreeMap<String, PathBuf> {
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
}
