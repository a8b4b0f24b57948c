use std::collections::HashMap;

use super::problem::{Place, Problem};
use crate::plan::{PartGlob, expand_braces, is_glob};

/// What a pattern may hold.
pub(super) const PATTERN_HINT: &str =
    "`*` stands for any text, `?` for a character, `[ab]` for either, `{x,y}` for x or y";

/// Names of one kind that a pattern ranges over.
pub(super) struct Pool<'a> {
    /// In the singular, for messages.
    pub(super) what: &'static str,
    pub(super) visible: Vec<String>,
    /// Whether a name exists that patterns do not range over.
    pub(super) knows: Box<dyn Fn(&str) -> bool + 'a>,
}

impl Pool<'_> {
    fn knows(&self, name: &str) -> bool {
        self.visible.iter().any(|visible| visible == name) || (self.knows)(name)
    }

    pub(super) fn check(&self, name: &str, place: &Place, problems: &mut Vec<Problem>) {
        if !self.knows(name) {
            problems.push(
                Problem::at(place.clone(), format!("unknown {} `{name}`", self.what), "not known").near(
                    name,
                    &self.candidates(name),
                    &format!("{}s", self.what),
                ),
            );
        }
    }

    /// Names to suggest: those on other runtimes where the implementation is right, else all.
    fn candidates(&self, name: &str) -> Vec<String> {
        let same: Vec<String> = match name.split_once('@') {
            Some((implementation, _)) => self
                .visible
                .iter()
                .filter(|other| other.split_once('@').is_some_and(|(own, _)| own == implementation))
                .cloned()
                .collect(),
            None => Vec::new(),
        };
        if same.is_empty() { self.visible.clone() } else { same }
    }

    /// The names that a pattern stands for; each alternative of its braces must stand for something.
    pub(super) fn resolve(
        &self,
        pattern: &str,
        place: &Place,
        families: &HashMap<String, Vec<String>>,
        problems: &mut Vec<Problem>,
    ) -> Vec<String> {
        let alternatives = match expand_braces(pattern) {
            Ok(alternatives) => alternatives,
            Err(error) => {
                problems.push(
                    Problem::at(place.clone(), format!("`{pattern}` is not a pattern"), error.to_string())
                        .hint(PATTERN_HINT),
                );
                return Vec::new();
            }
        };
        let mut names = Vec::new();
        for alternative in alternatives {
            if let Some(family) = families.get(&alternative) {
                names.extend(family.iter().cloned());
            } else if is_glob(&alternative) {
                names.extend(self.matching(&alternative, place, problems));
            } else if self.knows(&alternative) {
                names.push(alternative);
            } else {
                self.check(&alternative, place, problems);
            }
        }
        names
    }

    fn matching(&self, glob: &str, place: &Place, problems: &mut Vec<Problem>) -> Vec<String> {
        let compiled: PartGlob = match glob.parse() {
            Ok(compiled) => compiled,
            Err(error) => {
                problems.push(
                    Problem::at(place.clone(), format!("`{glob}` is not a pattern"), error.to_string())
                        .hint(PATTERN_HINT),
                );
                return Vec::new();
            }
        };
        let names: Vec<String> = self.visible.iter().filter(|name| compiled.matches(name)).cloned().collect();
        if names.is_empty() {
            problems.push(nothing_matches(glob, self.what, &self.visible, place));
        }
        names
    }
}

fn nothing_matches(glob: &str, what: &str, visible: &[String], place: &Place) -> Problem {
    Problem::at(place.clone(), format!("`{glob}` matches no {what}"), "matches nothing").near(
        glob,
        visible,
        &format!("{what}s"),
    )
}
