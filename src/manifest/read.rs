use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::problem::{Place, Problem};
use super::wire::ManifestFile;

/// One file of a manifest.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) wire: ManifestFile,
    /// Indices of the files that it includes.
    pub(super) includes: Vec<usize>,
}

/// Files larger than this are no manifests; the bound keeps a slip such as `/dev/zero` from filling memory.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Most files that one manifest may be made of.
const MAX_FILES: usize = 1_000;

/// Reads a manifest and all that it includes, the named file first, each file once. A file that cannot be read or
/// understood is still there, as far as it was.
pub(super) fn read_all(path: &Path, problems: &mut Vec<Problem>) -> Vec<SourceFile> {
    let mut reader = Reader { files: Vec::new(), canonical: Vec::new(), problems };
    match open(path) {
        Ok((text, canonical)) => {
            reader.add(path.to_owned(), text, canonical, &mut Vec::new());
        }
        Err(problem) => reader.problems.push(problem),
    }
    reader.files
}

struct Reader<'a> {
    files: Vec<SourceFile>,
    canonical: Vec<PathBuf>,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    /// Adds one file and what it includes; `chain` holds the files that led here.
    fn add(&mut self, path: PathBuf, text: String, canonical: PathBuf, chain: &mut Vec<usize>) -> usize {
        let index = self.files.len();
        let wire = parse(index, &text, self.problems);
        let included = wire.include.clone().map(|list| list.value).unwrap_or_default();
        self.files.push(SourceFile { path: path.clone(), text, wire, includes: Vec::new() });
        self.canonical.push(canonical);
        chain.push(index);
        for name in included {
            let place = Place::new(index, &name.span);
            let target = path.parent().unwrap_or(Path::new("")).join(&name.value);
            match open(&target) {
                Err(problem) => self.problems.push(problem.label(place, "included here")),
                Ok((text, canonical)) => {
                    if let Some(included) = self.follow(target, text, canonical, place, chain) {
                        self.files[index].includes.push(included);
                    }
                }
            }
        }
        chain.pop();
        index
    }

    fn follow(
        &mut self,
        path: PathBuf,
        text: String,
        canonical: PathBuf,
        place: Place,
        chain: &mut Vec<usize>,
    ) -> Option<usize> {
        if let Some(known) = self.canonical.iter().position(|other| *other == canonical) {
            if let Some(start) = chain.iter().position(|index| *index == known) {
                let mut circle: Vec<String> = chain[start..]
                    .iter()
                    .map(|index| format!("`{}`", self.files[*index].path.display()))
                    .collect();
                circle.push(circle[0].clone());
                self.problems.push(
                    Problem::at(
                        place,
                        format!("manifests include each other in a circle: {}", circle.join(" -> ")),
                        "closes the circle",
                    )
                    .hint("move what they share into a file that includes nothing"),
                );
                return None;
            }
            return Some(known);
        }
        if self.files.len() >= MAX_FILES {
            self.problems.push(
                Problem::at(
                    place,
                    format!("a manifest is made of more than {MAX_FILES} files"),
                    "one too many",
                )
                .hint("put what belongs together into one file"),
            );
            return None;
        }
        Some(self.add(path, text, canonical, chain))
    }
}

/// A file's text and the one path that stands for it.
fn open(path: &Path) -> Result<(String, PathBuf), Problem> {
    let shown = path.display();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Problem::new(format!("`{shown}` does not exist"))
            .hint("a manifest is a TOML file; the ones that come along are in `manifests/`"),
        io::ErrorKind::IsADirectory => {
            Problem::new(format!("`{shown}` is a directory, not a manifest")).hint("name a TOML file in it")
        }
        _ => Problem::new(format!("`{shown}` cannot be read: {error}")),
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Problem::new(format!("`{shown}` is larger than {} MiB", MAX_FILE_BYTES >> 20))
            .hint("a manifest is a TOML file of some pages at most"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        Problem::new(format!(
            "`{shown}` is not UTF-8: byte {} is no part of a character",
            error.utf8_error().valid_up_to()
        ))
        .hint("save it as UTF-8; a manifest is a TOML file")
    })?;
    Ok((text, path.canonicalize().unwrap_or_else(|_| path.to_owned())))
}

/// Faulty entries that are looked for in one file; a file with more has other faults than single entries.
const MOST_TURNS: usize = 100;

/// Reads one text as far as it can be understood; what cannot is a problem and left out.
pub(super) fn parse(file: usize, text: &str, problems: &mut Vec<Problem>) -> ManifestFile {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        // What the parser made of the rest is guesswork; further errors would mislead.
        problems.extend(errors.iter().map(|error| syntax_problem(file, text, error)));
        return ManifestFile::default();
    }
    let span = table.span();
    let mut root = DeValue::Table(table.into_inner());
    // Each turn takes one faulty entry out.
    for _ in 0..MOST_TURNS {
        let DeValue::Table(table) = root.clone() else { break };
        match ManifestFile::deserialize(Deserializer::from(Spanned::new(span.clone(), table))) {
            Ok(wire) => return wire,
            Err(error) => {
                problems.push(structure_problem(file, &error));
                match error.span() {
                    Some(span) if remove(&mut root, &span) => {}
                    _ => break,
                }
            }
        }
    }
    ManifestFile::default()
}

/// Removes the innermost entry that a span touches.
fn remove(value: &mut DeValue<'_>, span: &Range<usize>) -> bool {
    let covers = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    match value {
        DeValue::Table(table) => {
            let mut found = None;
            for (key, value) in table.iter_mut() {
                if remove(value.get_mut(), span) {
                    return true;
                }
                if covers(&key.span()) || covers(&value.span()) {
                    found = Some(key.clone());
                }
            }
            found.is_some_and(|key| table.remove(&key).is_some())
        }
        DeValue::Array(array) => {
            // A list is removed as a whole: half of it would be misread, and only an entry can be taken out of a
            // list of tables.
            array.iter_mut().any(|element| element.get_ref().is_table() && remove(element.get_mut(), span))
        }
        _ => false,
    }
}

fn syntax_problem(file: usize, text: &str, error: &toml::de::Error) -> Problem {
    let span = error.span().unwrap_or(text.len()..text.len());
    Problem::at(Place::new(file, &span), format!("not TOML: {}", error.message()), "here")
        .hint("texts stand in quotes, lists in `[…]`, tables begin with `[name]`; docs/MANIFEST.md shows a whole one")
}

fn structure_problem(file: usize, error: &toml::de::Error) -> Problem {
    let place = Place::new(file, &error.span().unwrap_or(0..0));
    let message = error.message();
    let ticked: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (Some((word, names)), true) = (ticked.split_first(), message.starts_with("unknown field")) {
        return Problem::at(place, format!("unknown key `{word}`"), "not a key here").near(
            word,
            names,
            "keys here",
        );
    }
    if let (Some((word, names)), true) = (ticked.split_first(), message.starts_with("unknown variant")) {
        return Problem::at(place, format!("unknown value `{word}`"), "not a value of this key")
            .near(word, names, "values");
    }
    Problem::at(place, plain_words(message), "not possible here")
        .hint("docs/MANIFEST.md lists every key with its type")
}

/// Type names of Rust in the words of a manifest.
fn plain_words(message: &str) -> String {
    [
        ("expected u64", "expected a whole number that is not negative"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("sequence", "list"),
        ("map", "table"),
        ("floating point", "fraction"),
        ("expected struct ", "expected table "),
        ("invalid type: ", "of a wrong type: "),
        ("invalid value: ", "not a possible value: "),
    ]
    .iter()
    .fold(message.to_owned(), |message, (from, to)| message.replace(from, to))
}
