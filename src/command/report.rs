use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::{Ending, Exit, UserError};
use crate::record::store::write_atomically;
use crate::report::{self, Beside, Format, Style};

/// Arguments of `runner report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run, or `latest`
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// How to write it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Write to a file instead of stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Lay the figures beside published ones, as ratios and orders
    #[arg(long, value_name = "NAME", value_parser = report::PUBLISHED)]
    compare_published: Option<String>,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

/// Columns of a table that no terminal shows.
pub(super) const DEFAULT_WIDTH: usize = 100;

/// Prints the results of a run from its records; measures nothing.
pub fn run(args: Args, terminal: &super::Terminal) -> Result<Ending, UserError> {
    let folder = report::find_run(&args.run, &args.out)?;
    let summary = report::summarize(&folder)?;
    let style = Style {
        color: terminal.stdout_color && args.output.is_none(),
        width: match (terminal.columns, &args.output) {
            (Some(columns), None) => usize::from(columns),
            _ => DEFAULT_WIDTH,
        },
    };
    let text = match &args.compare_published {
        None => report::render(&summary, args.format, &style),
        Some(name) => {
            let figures = report::published(name).expect("the argument takes known names only");
            Beside::of(&summary, name, &figures).render(args.format, &style)
        }
    };
    match &args.output {
        None => terminal.print(&text)?,
        Some(path) => write(path, text.as_bytes()).map_err(|error| {
            UserError::new(Exit::Unwritable, format!("`{}` could not be written: {error}", path.display()))
        })?,
    }
    Ok(Ending::done())
}

/// Whole or not at all, but for a device or a pipe, which must not be replaced by a file.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => fs::write(path, content),
        _ => write_atomically(path, content),
    }
}
