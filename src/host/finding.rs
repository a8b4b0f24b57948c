use std::fmt;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// As it should be.
    Fit,
    /// Figures may be measured, and may be off or noisier than they need be.
    Caution,
    /// Figures measured here say little, or nothing can be measured at all.
    Unfit,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Fit => "fit",
            Severity::Caution => "caution",
            Severity::Unfit => "unfit",
        })
    }
}

/// What was found out about one property of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which property, in a word or two.
    pub check: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was seen, in a clause with figures.
    pub seen: String,
    /// Why it matters; empty where all is well and there is nothing to explain.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: &'static str,
    /// What to do, mostly a command; none where nothing is to be done or can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

impl Finding {
    pub(super) fn fit(check: &'static str, seen: impl Into<String>) -> Self {
        Finding { check, severity: Severity::Fit, seen: seen.into(), why: "", mend: None }
    }

    pub(super) fn caution(check: &'static str, seen: impl Into<String>, why: &'static str) -> Self {
        Finding { check, severity: Severity::Caution, seen: seen.into(), why, mend: None }
    }

    pub(super) fn unfit(check: &'static str, seen: impl Into<String>, why: &'static str) -> Self {
        Finding { check, severity: Severity::Unfit, seen: seen.into(), why, mend: None }
    }

    pub(super) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

/// What is to be measured, as far as it asks something of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Threads of the client.
    pub client_threads: u32,
    /// Connections that are open at once.
    pub connections: u64,
    /// Whether the server gets limits by a control group.
    pub limits: bool,
    /// Programs that install or build servers, e.g. `npm`.
    pub tools: Vec<&'static str>,
    /// Cores of the server.
    pub server: crate::manifest::CoreChoice,
    /// Cores of the client.
    pub client: crate::manifest::CoreChoice,
}

impl Default for Needs {
    /// Of the manifests that come along: 64 pairs, one client thread, servers of npm and of C.
    fn default() -> Self {
        Needs {
            client_threads: 1,
            connections: 128,
            limits: false,
            tools: vec!["npm", "cc"],
            server: crate::manifest::CoreChoice::Auto,
            client: crate::manifest::CoreChoice::Auto,
        }
    }
}
