use crate::embedded::{self, ServeError};
use crate::exit::{Ending, Exit, UserError};

/// Arguments of `runner serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which built-in server
    pub name: String,
}

/// Serves until SIGTERM, on `HOST` and `PORT` in the role `ROLE`, all from the environment.
pub fn run(args: Args) -> Result<Ending, UserError> {
    embedded::serve(&args.name).map(|()| Ending::done()).map_err(|error| {
        let (exit, hint) = match &error {
            ServeError::Unknown(_) => {
                (Exit::Usage, Some(format!("there are: {}", embedded::visible_names().join(", "))))
            }
            ServeError::Environment { .. } => {
                (Exit::Usage, Some("set ROLE=relay HOST=127.0.0.1 PORT=9001".to_owned()))
            }
            ServeError::Listen { .. } => (Exit::Incomplete, Some("choose a free port".to_owned())),
            ServeError::Io(_) => (Exit::Internal, None),
        };
        UserError { exit, message: error.to_string(), hint }
    })
}
