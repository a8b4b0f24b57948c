use super::{Summary, csv, markdown, table};

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for people
    #[default]
    Table,
    /// Tables for a README
    Markdown,
    /// A row for each cell, in base units
    Csv,
    /// Everything, with the figures of each pass
    Json,
}

/// What the output may look like.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether to colour.
    pub color: bool,
    /// Columns that a line should keep within where it can.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Style { color: false, width: 100 }
    }
}

/// The summary as text, with a line break at its end.
pub fn render(summary: &Summary, format: Format, style: &Style) -> String {
    match format {
        Format::Table => table::render(summary, style),
        Format::Markdown => markdown::render(summary),
        Format::Csv => csv::render(summary),
        Format::Json => {
            let mut text = serde_json::to_string_pretty(summary).expect("plain data always serialises");
            text.push('\n');
            text
        }
    }
}
