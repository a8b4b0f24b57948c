use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Report, Severity,
};

use super::near::nearest;
use crate::exit::{Exit, UserError};

/// A place in one of the files of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Index into the files.
    pub(super) file: usize,
    /// Bytes of its text.
    pub(super) span: (usize, usize),
}

impl Place {
    pub(super) fn new(file: usize, span: &Range<usize>) -> Self {
        Place { file, span: (span.start, span.end) }
    }
}

/// One thing that is wrong with a manifest.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    message: String,
    /// The place to mend first, then others that explain it, each with a few words.
    labels: Vec<(Place, String)>,
    hint: Option<String>,
}

impl Problem {
    /// A problem of no certain place.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Problem { message: message.into(), labels: Vec::new(), hint: None }
    }

    /// A problem at a place, which gets a caret and a few words.
    pub(super) fn at(place: Place, message: impl Into<String>, label: impl Into<String>) -> Self {
        Problem::new(message).label(place, label)
    }

    pub(super) fn label(mut self, place: Place, label: impl Into<String>) -> Self {
        self.labels.push((place, label.into()));
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Hints at the nearest of the names that would have been right, or lists them when they are few.
    pub(super) fn near<S: AsRef<str>>(self, word: &str, names: &[S], what: &str) -> Self {
        const FEW: usize = 8;
        const SOME: usize = 16;
        let near = nearest(word, names).map(|near| format!("did you mean `{near}`?"));
        let list = (!names.is_empty() && names.len() <= if near.is_some() { FEW } else { SOME }).then(|| {
            let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
            format!("{what}: {}", names.join(", "))
        });
        match (near, list) {
            (Some(near), Some(list)) => self.hint(format!("{near} {list}")),
            (Some(only), None) | (None, Some(only)) => self.hint(only),
            (None, None) => self,
        }
    }
}

/// How rendered excerpts look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether to colour.
    pub color: bool,
    /// Columns to fill at most.
    pub width: usize,
}

impl Default for Look {
    fn default() -> Self {
        Look { color: false, width: 100 }
    }
}

/// Everything that is wrong with a manifest, with the texts to show it in.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    pub(super) files: Vec<(PathBuf, String)>,
    pub(super) list: Vec<Problem>,
}

/// Further problems are counted, not shown: the first ones are to be mended first anyway.
const MOST_SHOWN: usize = 20;

impl Problems {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// One error that shows them all, in the order of the files.
    pub fn into_error(self, look: Look) -> UserError {
        let mut list: Vec<&Problem> = self.list.iter().collect();
        list.sort_by_key(|problem| problem.labels.first().map(|(place, _)| place.clone()));
        let path = self.files.first().map_or_else(String::new, |(path, _)| path.display().to_string());
        if let [only] = list.as_slice()
            && only.labels.is_empty()
        {
            let error = UserError::new(Exit::Usage, only.message.clone());
            return match &only.hint {
                Some(hint) => error.hint(hint.clone()),
                None => error,
            };
        }
        let mut message = match list.len() {
            1 => format!("`{path}` has a fault\n"),
            count => format!("`{path}` has {count} faults\n"),
        };
        for problem in list.iter().take(MOST_SHOWN) {
            message.push('\n');
            message.push_str(&self.render(problem, look));
        }
        if list.len() > MOST_SHOWN {
            let _ = write!(message, "\n  and {} more", list.len() - MOST_SHOWN);
        }
        let lines: Vec<&str> = message.trim_end().lines().map(str::trim_end).collect();
        UserError::new(Exit::Usage, lines.join("\n"))
    }

    fn render(&self, problem: &Problem, look: Look) -> String {
        let mut groups: Vec<(usize, Vec<LabeledSpan>, &str)> = Vec::new();
        for (place, label) in &problem.labels {
            let length = self.files[place.file].1.len();
            let (start, end) = (place.span.0.min(length), place.span.1.min(length));
            let span = LabeledSpan::new(Some(label.clone()), start, end.saturating_sub(start));
            match groups.iter_mut().find(|(file, _, _)| *file == place.file) {
                Some((_, spans, _)) => spans.push(span),
                None => groups.push((place.file, vec![span], label)),
            }
        }
        let mut text = String::new();
        for (index, (file, labels, label)) in groups.into_iter().enumerate() {
            // Places in further files follow as notes, since an excerpt is of one file.
            let diagnostic = match index {
                0 => MietteDiagnostic::new(problem.message.clone()),
                _ => MietteDiagnostic::new(label).with_severity(Severity::Advice),
            };
            let (path, content) = &self.files[file];
            let source = NamedSource::new(path.display().to_string(), content.clone());
            let report = Report::new(diagnostic.with_labels(labels)).with_source_code(source);
            if handler(look).render_report(&mut text, report.as_ref()).is_err() {
                let _ = writeln!(text, "  × {} ({})", problem.message, path.display());
            }
        }
        if problem.labels.is_empty() {
            let _ = writeln!(text, "  × {}", problem.message);
        }
        if let Some(hint) = &problem.hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
        text
    }
}

fn handler(look: Look) -> GraphicalReportHandler {
    let theme = if look.color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    GraphicalReportHandler::new_themed(theme).with_width(look.width).with_links(false).with_context_lines(1)
}
