use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::record::Record;

/// One thing that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What.
    pub what: String,
    /// As the record has it.
    pub old: String,
    /// As it is now.
    pub new: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.what, self.old, self.new)
    }
}

/// What differs between two records of a cell beside their figures.
pub(super) fn differences(old: &Record, new: &Record) -> Vec<Difference> {
    let facts = |record: &Record| {
        let mut facts: BTreeMap<String, String> = BTreeMap::new();
        let fingerprint = serde_json::to_value(&record.host.fingerprint).unwrap_or_default();
        for (name, value) in fingerprint.as_object().into_iter().flatten() {
            let shown = match value {
                Value::String(text) => text.clone(),
                Value::Null => "unknown".to_owned(),
                other => other.to_string(),
            };
            facts.insert(format!("host {}", name.replace('_', " ")), shown);
        }
        for (side, what) in [(&record.server, "server"), (&record.client, "client")] {
            for (name, version) in &side.versions {
                facts.insert(format!("{what} {name}"), version.clone());
            }
            for (file, sum) in &side.sha256 {
                // By name only: a checkout may lie anywhere.
                let name = file.rsplit('/').next().unwrap_or(file);
                facts.insert(format!("{what} file {name}"), sum.chars().take(12).collect());
            }
            if !side.cores_seen.is_empty() {
                facts.insert(format!("{what} cores"), format!("{:?}", side.cores_seen));
            }
        }
        facts.insert("runner".to_owned(), record.runner.version.clone());
        facts.insert("runner executable".to_owned(), record.runner.sha256.chars().take(12).collect());
        facts
    };
    let (then, now) = (facts(old), facts(new));
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let shown = |facts: &BTreeMap<String, String>, name: &str| match facts.get(name).map(String::as_str) {
        None | Some("") => "unknown".to_owned(),
        Some(value) => value.to_owned(),
    };
    names
        .into_iter()
        .map(|name| Difference { what: name.clone(), old: shown(&then, name), new: shown(&now, name) })
        .filter(|difference| difference.old != difference.new)
        .collect()
}
