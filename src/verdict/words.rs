use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// What a comparison says of one metric of one cell. The first is the gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Worse, beyond the tolerance and beyond doubt.
    Regressed,
    /// It has values, but its numbers may not be used.
    Void,
    /// The baseline has it and the run has not.
    Missing,
    /// It cannot be told, and more passes might.
    Inconclusive,
    /// It cannot be told, and no number of passes would: its noise is larger than its tolerance.
    Noisy,
    /// There are too few passes on one side to say anything.
    TooFew,
    /// The two may not be compared.
    NotComparable,
    /// The baseline has nothing of it.
    New,
    /// Better, beyond the tolerance and beyond doubt.
    Improved,
    /// Within the tolerance, beyond reasonable doubt.
    Same,
}

impl Verdict {
    /// Every verdict, the gravest first.
    pub const ALL: [Verdict; 10] = [
        Verdict::Regressed,
        Verdict::Void,
        Verdict::Missing,
        Verdict::Inconclusive,
        Verdict::Noisy,
        Verdict::TooFew,
        Verdict::NotComparable,
        Verdict::New,
        Verdict::Improved,
        Verdict::Same,
    ];

    /// The exit code that it leads to.
    pub fn exit(self) -> Exit {
        match self {
            Verdict::Regressed => Exit::Regressed,
            Verdict::Void | Verdict::Missing => Exit::Incomplete,
            Verdict::Inconclusive
            | Verdict::Noisy
            | Verdict::TooFew
            | Verdict::NotComparable
            | Verdict::New => Exit::Undecided,
            Verdict::Improved | Verdict::Same => Exit::Done,
        }
    }

    /// Whether measuring the cell again could change or confirm it.
    pub fn wants_more(self) -> bool {
        matches!(self, Verdict::Regressed | Verdict::Inconclusive | Verdict::TooFew | Verdict::Noisy)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Regressed => "regressed",
            Verdict::Void => "void",
            Verdict::Missing => "missing",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Noisy => "noisy",
            Verdict::TooFew => "too-few",
            Verdict::NotComparable => "not-comparable",
            Verdict::New => "new",
            Verdict::Improved => "improved",
            Verdict::Same => "same",
        })
    }
}

/// What a comparison says of a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NightVerdict {
    /// The control moved, so the machine did: nothing is said of the cells.
    HostDrift,
    /// A cell regressed.
    Red,
    /// Cells are void or missing.
    Incomplete,
    /// Some cells could not be told.
    CouldNotTell,
    /// Every cell is the same, or better.
    Green,
}

impl NightVerdict {
    /// The exit code that it leads to.
    pub fn exit(self) -> Exit {
        match self {
            NightVerdict::Red => Exit::Regressed,
            NightVerdict::Incomplete => Exit::Incomplete,
            NightVerdict::HostDrift | NightVerdict::CouldNotTell => Exit::Undecided,
            NightVerdict::Green => Exit::Done,
        }
    }
}

impl fmt::Display for NightVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NightVerdict::HostDrift => "host-drift",
            NightVerdict::Red => "red",
            NightVerdict::Incomplete => "incomplete",
            NightVerdict::CouldNotTell => "could not tell",
            NightVerdict::Green => "green",
        })
    }
}
