use std::path::PathBuf;

use super::nights::{Compared, ending};
use super::report::{DEFAULT_WIDTH, write};
use crate::exit::{Ending, Exit, UserError};
use crate::report::{NightFormat, Style, render_across, render_night, summary_markdown};

/// Arguments of `runner diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run, or `latest`
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The baseline; that of the run's manifest and class of host by default
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// How to write it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: NightFormat,
    /// Write to a file instead of stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only look: ratios and orders beside a baseline of another host, never red or green
    #[arg(long)]
    across_hosts: bool,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

/// Compares a run with its baseline; measures nothing.
pub fn run(args: Args, terminal: &super::Terminal) -> Result<Ending, UserError> {
    let compared = Compared::read(&args.run, &args.out, args.baseline.as_deref())?;
    let style = Style {
        color: terminal.stdout_color && args.output.is_none(),
        width: terminal.columns.map_or(DEFAULT_WIDTH, usize::from),
    };
    let (text, end) = if args.across_hosts {
        let Some(baseline) = &compared.baseline else { return Ok(compared.nothing_to_compare_with()) };
        (render_across(&compared.measured, baseline, args.format, &style), Ending::done())
    } else {
        let night = match compared.night() {
            Ok(night) => night,
            Err(end) => return Ok(end),
        };
        if args.format == NightFormat::Github
            && let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY")
        {
            append(&PathBuf::from(path), &summary_markdown(&night))?;
        }
        (render_night(&night, args.format, &style), ending(&night))
    };
    match &args.output {
        None => terminal.print(&text)?,
        Some(path) => write(path, text.as_bytes()).map_err(|error| {
            UserError::new(Exit::Unwritable, format!("`{}` could not be written: {error}", path.display()))
        })?,
    }
    Ok(end)
}

fn append(path: &std::path::Path, text: &str) -> Result<(), UserError> {
    use std::io::Write;
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| {
            UserError::new(Exit::Unwritable, format!("`{}` could not be written: {error}", path.display()))
        })
}
