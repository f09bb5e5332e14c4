//! What the log is told: every change of a sandbox, with its cause, and what the host or a
//! guest did not do. Never an environment, a token, or what a command printed.

use crate::error::chain;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{EventKind, State};
use std::error::Error;

/// Tells that something happened to a sandbox.
pub(crate) fn happened(id: SandboxId, state: State, what: &EventKind) {
    let (name, cause) = words(what);
    let cause = cause.unwrap_or_default();
    match what {
        EventKind::Failed { .. } | EventKind::NotRemoved { .. } | EventKind::Undone { .. } => {
            tracing::warn!(sandbox = %id, %state, event = name, cause, "sandbox");
        }
        _ => tracing::info!(sandbox = %id, %state, event = name, cause, "sandbox"),
    }
}

/// Tells what the host did not do, with everything that caused it.
pub(crate) fn host_failed(id: SandboxId, what: &str, error: &dyn Error) {
    tracing::warn!(sandbox = %id, what, cause = chain(error), "the host failed");
}

/// The word for an event, and why it happened.
fn words(what: &EventKind) -> (&'static str, Option<&str>) {
    match what {
        EventKind::Requested => ("requested", None),
        EventKind::Started => ("started", None),
        EventKind::Pausing => ("pausing", None),
        EventKind::Paused => ("paused", None),
        EventKind::Resuming => ("resuming", None),
        EventKind::Stopping { reason } => ("stopping", Some(reason)),
        EventKind::Stopped { forced: true } => ("stopped", Some("its processes were killed")),
        EventKind::Stopped { forced: false } => ("stopped", None),
        EventKind::Undone { cause } => ("undone", Some(cause)),
        EventKind::LifecycleSet => ("lifecycle_set", None),
        EventKind::BudgetSet => ("budget_set", None),
        EventKind::NetworkSet => ("network_set", None),
        EventKind::Exposed { .. } => ("exposed", None),
        EventKind::Unexposed { .. } => ("unexposed", None),
        EventKind::Snapshotted { .. } => ("snapshotted", None),
        EventKind::Archiving { reason, .. } => ("archiving", Some(reason)),
        EventKind::Archived { .. } => ("archived", None),
        EventKind::Restored { .. } => ("restored", None),
        EventKind::VolumeShared { .. } => ("volume_shared", None),
        EventKind::Failed { cause } => ("failed", Some(cause)),
        EventKind::Deleted { reason } => ("deleted", Some(reason)),
        EventKind::Removed => ("removed", None),
        EventKind::NotRemoved { cause } => ("not_removed", Some(cause)),
        EventKind::Adopted => ("adopted", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::id::{ArchiveId, SnapshotId, VolumeId};

    #[test]
    fn the_words_are_those_of_the_api() {
        let text = || "because".to_owned();
        for what in [
            EventKind::Requested,
            EventKind::Stopping { reason: text() },
            EventKind::Stopped { forced: false },
            EventKind::Undone { cause: text() },
            EventKind::LifecycleSet,
            EventKind::BudgetSet,
            EventKind::NetworkSet,
            EventKind::Unexposed { port: 1 },
            EventKind::Snapshotted { snapshot_id: SnapshotId::from_random([1; 10]) },
            EventKind::Archiving { reason: text(), archive_id: ArchiveId::from_random([1; 10]) },
            EventKind::Archived { archive_id: ArchiveId::from_random([1; 10]) },
            EventKind::Restored { snapshot_id: SnapshotId::from_random([1; 10]) },
            EventKind::VolumeShared { volume_id: VolumeId::from_random([1; 10]), with: Vec::new() },
            EventKind::Failed { cause: text() },
            EventKind::Deleted { reason: text() },
            EventKind::NotRemoved { cause: text() },
            EventKind::Adopted,
        ] {
            assert_eq!(serde_json::to_value(&what).unwrap()["kind"], words(&what).0);
        }
        let source = std::io::Error::from_raw_os_error(5);
        let error = crate::backend::BackendError::Call { step: "freeze the processes", source };
        let line = chain(&error);
        assert_eq!(line, "could not freeze the processes: Input/output error (os error 5)");
    }
}
