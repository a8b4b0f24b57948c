use std::collections::BTreeMap;

use super::PassFigures;
use crate::host::Fingerprint;
use crate::plan::CellId;
use crate::record::{Flag, Outcome, Record};
use crate::stats::Latency;
use crate::workload::Params;

/// What a summary needs of a record: a few hundred bytes in place of all its histograms.
pub(super) struct Digest {
    pub(super) id: CellId,
    pub(super) pass: u32,
    pub(super) outcome: Outcome,
    pub(super) content_id: String,
    pub(super) params: Params,
    pub(super) flags: Vec<Flag>,
    pub(super) fingerprint: Fingerprint,
    pub(super) versions: BTreeMap<String, String>,
    pub(super) client_versions: BTreeMap<String, String>,
    /// None when the numbers may not be used, or when there are none.
    pub(super) figures: Option<PassFigures>,
    /// What of it could not be used.
    pub(super) note: Option<String>,
}

impl Digest {
    pub(super) fn of(record: Record, latency: &mut Latency) -> Self {
        let (figures, note) = match record.outcome {
            Outcome::Ok => PassFigures::of(&record, latency),
            _ => (None, None),
        };
        Digest {
            id: record.cell.id,
            pass: record.pass,
            outcome: record.outcome,
            content_id: record.content_id,
            params: record.cell.workload.params,
            flags: record.flags,
            fingerprint: record.host.fingerprint,
            versions: record.server.versions,
            client_versions: record.client.versions,
            figures,
            note,
        }
    }
}
