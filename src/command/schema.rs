use schemars::{Schema, schema_for};

use super::Terminal;
use crate::exit::{Ending, UserError};
use crate::plan::Job;
use crate::record::Record;
use crate::record::store::RunMeta;
use crate::verdict::{Baseline, Night};

/// Arguments of `runner schema`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which format
    #[arg(value_enum)]
    format: Format,
}

/// A file format, or a stream.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// A manifest, as TOML maps to JSON
    Manifest,
    /// The record of one execution of one cell
    Record,
    /// What is known of a run besides its records: `run.json`
    Run,
    /// What `runner cell` reads on stdin
    Cell,
    /// Accepted runs of a manifest, as TOML maps to JSON
    Baseline,
    /// A run beside its baseline: `runner diff --format json`
    Night,
}

/// Prints a JSON Schema.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let schema = args.format.schema();
    terminal.write(|out| {
        serde_json::to_writer_pretty(&mut *out, &schema)?;
        out.write_all(b"\n")
    })?;
    Ok(Ending::done())
}

impl Format {
    fn schema(self) -> Schema {
        match self {
            Format::Manifest => crate::manifest::json_schema(),
            Format::Record => schema_for!(Record),
            Format::Run => schema_for!(RunMeta),
            Format::Cell => schema_for!(Job),
            Format::Baseline => schema_for!(Baseline),
            Format::Night => schema_for!(Night),
        }
    }
}
