//! The cross product: cells and their ids, filters, order, time estimate. Nothing here does I/O.

mod braces;
mod budget;
mod cell;
mod estimate;
mod expand;
mod order;
mod pattern;
mod resolve;
mod time;

pub use braces::{BracesError, MAX_ALTERNATIVES, expand_braces};
pub use budget::{Fit, fit};
pub use cell::{
    CellId, ClientSpec, Cores, Job, Limits, Program, ResolvedCell, Role, ServerSpec, Timeouts, Workload,
};
pub use estimate::{NoRates, Rates, estimate, estimate_pass, nominal_rate};
pub use expand::{Excluded, Plan, Planned, Selection, expand};
pub use order::{Step, order};
pub use pattern::{PartGlob, Pattern, PatternError, is_glob};
pub use resolve::resolve;
pub use time::human_time;
