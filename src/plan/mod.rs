//! The cross product: cells and their ids, filters, order, time estimate. Nothing here does I/O.

mod cell;

pub use cell::{
    CellId, ClientSpec, Cores, Job, Limits, Program, ResolvedCell, Role, ServerSpec, Timeouts, Workload,
};
