use crate::exit::{Ending, Exit, UserError};

/// Arguments of `runner cell`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Not built yet.
pub fn run(_args: Args) -> Result<Ending, UserError> {
    Err(UserError::new(Exit::Internal, "`cell` is not built yet"))
}
