use std::fmt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};

use super::CellId;
use super::braces::{BracesError, expand_braces};

/// A pattern of cells: three globs, `workload/server/client`. `*` stays within a part, braces list alternatives, and
/// a pattern without `/` matches a cell when it matches any one of the three parts.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    globs: Globs,
}

#[derive(Clone, Debug)]
enum Globs {
    AnyPart(PartGlob),
    Parts(Box<[PartGlob; 3]>),
}

/// A text that is no pattern of cells.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing was written.
    #[error("the pattern is empty")]
    Empty,
    /// Neither one part nor three.
    #[error("`{pattern}` has {parts} parts; a pattern has three, `workload/server/client`, or one")]
    Parts {
        /// As it was written.
        pattern: String,
        /// How many parts it has.
        parts: usize,
    },
    /// A part is not a glob.
    #[error("`{pattern}` is not a glob: {why}")]
    Glob {
        /// As it was written.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Pattern {
    /// Whether the cell is meant.
    pub fn matches(&self, cell: &CellId) -> bool {
        match &self.globs {
            Globs::AnyPart(glob) => parts(cell).iter().any(|part| glob.matches(part)),
            Globs::Parts(globs) => globs.iter().zip(parts(cell)).all(|(glob, part)| glob.matches(part)),
        }
    }

    /// Whether the cell is meant and its workload is named, not just covered by a `*`: what wakes a workload that
    /// is opt-in.
    pub fn names_workload_of(&self, cell: &CellId) -> bool {
        match &self.globs {
            Globs::AnyPart(glob) => !glob.is_any() && glob.matches(&cell.workload),
            Globs::Parts(globs) => !globs[0].is_any() && self.matches(cell),
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn parts(cell: &CellId) -> [&str; 3] {
    [&cell.workload, &cell.server, &cell.client]
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        let parts: Vec<&str> = text.split('/').collect();
        let globs = match parts.as_slice() {
            [one] => Globs::AnyPart(one.parse()?),
            [workload, server, client] => {
                Globs::Parts(Box::new([workload.parse()?, server.parse()?, client.parse()?]))
            }
            other => return Err(PatternError::Parts { pattern: text.to_owned(), parts: other.len() }),
        };
        Ok(Pattern { text: text.to_owned(), globs })
    }
}

/// A glob over one part of a cell id, or over the names of one kind.
#[derive(Clone, Debug)]
pub struct PartGlob {
    text: String,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    Any,
    Exactly(String),
    Glob(GlobMatcher),
}

impl PartGlob {
    /// Whether the name is meant.
    pub fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Any => true,
            Matcher::Exactly(text) => text == name,
            Matcher::Glob(glob) => glob.is_match(name),
        }
    }

    /// Whether it is `*`, which every name matches.
    pub fn is_any(&self) -> bool {
        matches!(self.matcher, Matcher::Any)
    }
}

/// Whether a text, its braces expanded, stands for more than itself.
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', ']', '\\'])
}

impl FromStr for PartGlob {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let refused = |why: String| PatternError::Glob { pattern: text.to_owned(), why };
        if text.is_empty() {
            return Err(refused("a part is empty; `*` stands for every name".to_owned()));
        }
        // Braces are checked here for a message that says which one is wrong, and for a bound on their number.
        expand_braces(text).map_err(|error: BracesError| refused(error.to_string()))?;
        let matcher = if text == "*" {
            Matcher::Any
        } else if !is_glob(text) && !text.contains('{') {
            Matcher::Exactly(text.to_owned())
        } else {
            let glob = GlobBuilder::new(text)
                .literal_separator(true)
                .empty_alternates(true)
                .build()
                .map_err(|error| refused(error.kind().to_string()))?;
            Matcher::Glob(glob.compile_matcher())
        };
        Ok(PartGlob { text: text.to_owned(), matcher })
    }
}

impl fmt::Display for PartGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, cell: &str) -> bool {
        pattern.parse::<Pattern>().unwrap().matches(&cell.parse().unwrap())
    }

    #[test]
    fn a_star_stays_within_its_part() {
        assert!(matches("pingpong-*/relay/native", "pingpong-16/relay/native"));
        assert!(!matches("pingpong-*/native/native", "pingpong-16/relay/native"));
        assert!(matches("*/*/*", "load-16/ws@node-24/native"));
        assert!(!matches("*/relay/*", "load-16/relay-spin/native"));
    }

    #[test]
    fn a_pattern_without_slash_matches_any_one_part() {
        assert!(matches("relay", "pingpong-16/relay/native"));
        assert!(matches("native", "pingpong-16/relay/native"));
        assert!(matches("ping*", "pingpong-16/relay/native"));
        assert!(!matches("ping", "pingpong-16/relay/native"));
        assert!(!matches("pingpong-16relay", "pingpong-16/relay/native"));
    }

    #[test]
    fn braces_list_alternatives() {
        assert!(matches("*/ws@node-{24,26}/*", "load-16/ws@node-26/native"));
        assert!(!matches("*/ws@node-{24,26}/*", "load-16/ws@node-25/native"));
        assert!(matches("*/relay{,-spin}/*", "load-16/relay/native"));
    }

    #[test]
    fn case_matters_and_dots_are_plain() {
        assert!(!matches("RELAY", "pingpong-16/relay/native"));
        assert!(!matches("a.b", "axb/relay/native"));
    }

    #[test]
    fn a_text_that_is_no_pattern_says_why() {
        let why = |text: &str| text.parse::<Pattern>().unwrap_err().to_string();
        assert_eq!(why(""), "the pattern is empty");
        assert_eq!(why("a/b"), "`a/b` has 2 parts; a pattern has three, `workload/server/client`, or one");
        assert_eq!(why("a//c"), "`` is not a glob: a part is empty; `*` stands for every name");
        assert_eq!(why("ws@{a"), "`ws@{a` is not a glob: a `{` is never closed");
        assert!(why("[a").contains("is not a glob"), "{}", why("[a"));
    }

    #[test]
    fn only_a_pattern_that_names_the_workload_wakes_an_opt_in() {
        let cell: CellId = "idle/relay/native".parse().unwrap();
        let names = |text: &str| text.parse::<Pattern>().unwrap().names_workload_of(&cell);
        assert!(names("idle"));
        assert!(names("idle/*/*"));
        assert!(names("id*/relay/*"));
        assert!(!names("*"));
        assert!(!names("relay"));
        assert!(!names("*/relay/native"));
        assert!(!names("idle/other/native"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-c{},*?\\[\\]!\\\\/@-]{0,24}") {
            if let Ok(pattern) = text.parse::<Pattern>() {
                pattern.matches(&CellId::new("a", "b@c", "c"));
            }
        }

        #[test]
        fn a_cell_matches_its_own_id(id in "[a-z0-9.-]{1,8}/[a-z@0-9-]{1,8}/[a-z]{1,8}") {
            prop_assert!(matches(&id, &id));
        }
    }
}
