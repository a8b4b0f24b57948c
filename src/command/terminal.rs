use std::io::{self, IsTerminal, Write};

use crate::exit::{Exit, UserError};

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How a verb prints what it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

/// Where output goes and what it may look like.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Whether stdout shows colour.
    pub stdout_color: bool,
    /// Whether stderr shows colour.
    pub stderr_color: bool,
    /// Whether stderr is a terminal, on which progress may be redrawn.
    pub stderr_is_terminal: bool,
    /// Columns of stdout's terminal; none when it is not one.
    pub columns: Option<u16>,
}

impl Terminal {
    /// Looks at the standard streams and at `NO_COLOR`.
    pub fn detect(choice: ColorChoice) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let shows = |is_terminal: bool| match choice {
            ColorChoice::Auto => is_terminal && !no_color && !dumb,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let columns = rustix::termios::tcgetwinsize(&stdout)
            .ok()
            .map(|size| size.ws_col)
            .filter(|columns| *columns > 0);
        Terminal {
            stdout_color: shows(stdout.is_terminal()),
            stderr_color: shows(stderr.is_terminal()),
            stderr_is_terminal: stderr.is_terminal() && !dumb,
            columns,
        }
    }

    /// Writes results to stdout. A reader that went away ends the printing quietly.
    pub fn print(&self, text: &str) -> Result<(), UserError> {
        self.write(|stdout| stdout.write_all(text.as_bytes()))
    }

    /// Lets `write` write results to stdout piece by piece, buffered. A reader that went away ends the printing
    /// quietly.
    pub fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), UserError> {
        let mut stdout = io::BufWriter::new(io::stdout().lock());
        match write(&mut stdout).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // What is left in the buffer has no reader either; dropping it would try once more.
                let _ = stdout.into_parts();
                Ok(())
            }
            Err(error) => {
                Err(UserError::new(Exit::Unwritable, format!("stdout could not be written: {error}")))
            }
            Ok(()) => Ok(()),
        }
    }
}
