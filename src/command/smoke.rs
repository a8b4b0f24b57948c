use crate::exit::{Ending, Exit, UserError};

/// Arguments of `runner smoke`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Not built yet.
pub fn run(_args: Args, _terminal: &super::Terminal) -> Result<Ending, UserError> {
    Err(UserError::new(Exit::Internal, "`smoke` is not built yet"))
}
