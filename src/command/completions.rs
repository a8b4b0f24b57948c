use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Terminal};
use crate::exit::{Ending, UserError};

/// Arguments of `runner completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints a completion script.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "runner", &mut script);
    terminal.write(|out| out.write_all(&script))?;
    Ok(Ending::done())
}
