//! What a run says, from its records alone: a summary (each figure defined in `docs/METHODOLOGY.md`), and the same
//! summary as table, markdown, CSV and JSON.

mod beside;
mod calibration;
mod columns;
mod coverage;
mod csv;
mod difference;
mod digest;
mod figures;
mod folder;
mod format;
mod grid;
mod limit;
mod markdown;
mod matrix;
mod measured;
mod night;
mod prose;
mod published;
mod reading;
mod render;
mod rerun;
mod summary;
mod table;
#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod tests;
mod trends;

pub use beside::{BESIDE_SCHEMA, Beside, BesideColumn, BesideRow, Discordant, Reference};
pub use calibration::{render_calibration, render_simulated};
pub use coverage::{Coverage, Problem, Status};
pub use difference::Difference;
pub use figures::PassFigures;
pub use folder::{find_run, read_meta, read_record, record_files, summarize};
pub use limit::LimitedBy;
pub use night::{NightFormat, explain, render_across, render_night, summary_markdown};
pub use published::{ColumnKey, PUBLISHED, PublishedFigure, PublishedMetric, published};
pub use reading::{FEWEST_PASSES, cannot_be_ordered, ordered_tiers};
pub use render::{Format, Style, render};
pub use rerun::{Comparison, Judgement, Measured, expected};
pub use summary::{CellSummary, ControlFacts, FlagCount, Group, REPORT_SCHEMA, RunFacts, Summary};
pub use trends::{otava_csv, render_trends};
