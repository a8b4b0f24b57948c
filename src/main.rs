//! Parses the command line, calls one command, maps its ending to an exit code.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use runner::command::Cli;
use runner::exit::{Exit, say};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A reader that went away changes nothing about the exit code.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(Exit::Usage.code()),
            };
        }
    };
    match cli.run() {
        Ok(ending) => {
            if !ending.why.is_empty() {
                say(format_args!("runner: {}", ending.why));
            }
            ExitCode::from(ending.exit.code())
        }
        Err(error) => {
            say(format_args!("error: {}", error.message));
            if let Some(hint) = &error.hint {
                say(format_args!("hint: {hint}"));
            }
            ExitCode::from(error.exit.code())
        }
    }
}
