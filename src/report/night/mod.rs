//! A run beside its baseline, as text: `table` for people and for a comment, `explain` for whoever doubts a verdict, `github` and
//! `junit` for the programs that watch a nightly job.

mod across;
mod explain;
mod github;
mod junit;
mod line;
mod table;

pub use across::render_across;
pub use explain::explain;
pub use github::summary_markdown;

use super::Style;
use crate::verdict::Night;

/// How a comparison is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum NightFormat {
    /// A table for people
    #[default]
    Table,
    /// Tables for a comment
    Markdown,
    /// Everything
    Json,
    /// A test suite for a build server
    Junit,
    /// Annotations of a workflow on GitHub
    Github,
}

/// The comparison as text, with a line break at its end.
pub fn render_night(night: &Night, format: NightFormat, style: &Style) -> String {
    match format {
        NightFormat::Table => table::render(night, style),
        NightFormat::Markdown => table::markdown(night),
        NightFormat::Json => {
            let mut text = serde_json::to_string_pretty(night).expect("plain data always serialises");
            text.push('\n');
            text
        }
        NightFormat::Junit => junit::render(night),
        NightFormat::Github => github::render(night),
    }
}
