use std::fmt;
use std::io::Write;

/// How the process ends. [`Exit::code`] gives the number that the shell sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; nothing regressed.
    Done,
    /// A regression, or a rerun outside the range of its record.
    Regressed,
    /// Wrong use: arguments or manifest.
    Usage,
    /// Some cells failed, were void, skipped or missing.
    Incomplete,
    /// No verdict was possible.
    Undecided,
    /// The selection is empty.
    NothingSelected,
    /// Output could not be written; what was measured is kept where it could be.
    Unwritable,
    /// A fault of our own.
    Internal,
    /// Interrupted by the user; what was finished is kept.
    Interrupted,
}

impl Exit {
    /// Every exit, the one that wins over all later ones first.
    pub const BY_PRECEDENCE: [Exit; 9] = [
        Exit::Internal,
        Exit::Interrupted,
        Exit::Usage,
        Exit::NothingSelected,
        Exit::Unwritable,
        Exit::Regressed,
        Exit::Incomplete,
        Exit::Undecided,
        Exit::Done,
    ];

    /// The process exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Regressed => 1,
            Exit::Usage => 2,
            Exit::Incomplete => 3,
            Exit::Undecided => 4,
            Exit::NothingSelected => 5,
            Exit::Unwritable => 6,
            Exit::Internal => 70,
            Exit::Interrupted => 130,
        }
    }

    /// The one of the two that is reported when both apply.
    pub fn or(self, other: Exit) -> Exit {
        Self::BY_PRECEDENCE.into_iter().find(|exit| *exit == self || *exit == other).unwrap_or(self)
    }
}

/// A command's ending: the exit and, in a clause, why. It becomes the last line of stderr unless the exit is
/// [`Exit::Done`] without a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Which exit code the process returns.
    pub exit: Exit,
    /// Why, as a clause for the last line of stderr; empty when there is nothing to say.
    pub why: String,
}

impl Ending {
    /// An ending with its reason.
    pub fn new(exit: Exit, why: impl Into<String>) -> Self {
        Ending { exit, why: why.into() }
    }

    /// Done, with nothing to add.
    pub fn done() -> Self {
        Ending::new(Exit::Done, "")
    }
}

/// Writes a line of talk to stderr. Whoever no longer reads it changes nothing: the macros of the standard library would
/// end the program.
pub fn say(line: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// An error that a user can meet: what was wrong and where, the exit code it leads to, and what to do next.
#[derive(Debug)]
pub struct UserError {
    /// Which exit code the error leads to.
    pub exit: Exit,
    /// What was wrong and where, as a lower-case fragment with offending values in backticks. May span lines when
    /// it holds a rendered excerpt of a file.
    pub message: String,
    /// What to do next, printed as a `hint:` line.
    pub hint: Option<String>,
}

impl UserError {
    /// An error of the given kind without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        UserError { exit, message: message.into(), hint: None }
    }

    /// The same error with a hint about what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UserError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_in_precedence_wins_whatever_the_order_of_the_two() {
        assert_eq!(Exit::Incomplete.or(Exit::Regressed), Exit::Regressed);
        assert_eq!(Exit::Regressed.or(Exit::Incomplete), Exit::Regressed);
        assert_eq!(Exit::Done.or(Exit::Undecided), Exit::Undecided);
        assert_eq!(Exit::Usage.or(Exit::Internal), Exit::Internal);
    }
}
