use serde::Serialize;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Verdict {
    /// The server keeps this part of its contract.
    Kept,
    /// It does not.
    Broken {
        /// What was seen, in a clause.
        detail: String,
    },
    /// This machine does not let us see.
    Unseen {
        /// Why, in a clause.
        detail: String,
    },
    /// A check before made this one pointless.
    NotRun,
}

/// A check and what it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    /// What it found.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What all checks found, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// A finding for each check.
    pub checks: Vec<Finding>,
}

impl Findings {
    /// Whether nothing is broken.
    pub fn is_kept(&self) -> bool {
        !self.checks.iter().any(|finding| matches!(finding.verdict, Verdict::Broken { .. }))
    }
}
