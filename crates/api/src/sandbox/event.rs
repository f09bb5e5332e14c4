//! What happened to sandboxes, as it is told and kept.

use crate::id::{ArchiveId, SandboxId, SnapshotId, VolumeId};
use crate::ports::Visibility;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Event {
    /// Its number: later events have larger ones, and none is given twice.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// To which sandbox.
    pub sandbox_id: SandboxId,
    /// What happened.
    pub what: EventKind,
}

/// Kinds of event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// It was asked for.
    Requested,
    /// It runs, for the first time or again.
    Started,
    /// It is being frozen.
    Pausing,
    /// It is frozen.
    Paused,
    /// It is on its way back.
    Resuming,
    /// It was asked to end.
    Stopping {
        /// Who or what wanted it, as in `request` or `idle_stop_ms`.
        reason: String,
    },
    /// It has no processes any more.
    Stopped {
        /// Whether they were killed, rather than having ended by themselves.
        forced: bool,
    },
    /// What was begun did not work, and it is as it was before.
    Undone {
        /// Why.
        cause: String,
    },
    /// The times of its lifecycle were set anew, and its lease begins again.
    LifecycleSet,
    /// It was given another budget.
    BudgetSet,
    /// What it may reach was set.
    NetworkSet,
    /// A port can be reached from outside.
    Exposed {
        /// Which.
        #[schema(minimum = 1)]
        port: u16,
        /// By whom.
        visibility: Visibility,
    },
    /// A port cannot be reached from outside any more.
    Unexposed {
        /// Which.
        #[schema(minimum = 1)]
        port: u16,
    },
    /// A snapshot was taken of it.
    Snapshotted {
        /// Which.
        snapshot_id: SnapshotId,
    },
    /// Its files are being put into object storage.
    Archiving {
        /// Who or what wanted it, as in `request` or `archive_after_ms`.
        reason: String,
        /// What will come of it.
        archive_id: ArchiveId,
    },
    /// Its files are in object storage, and not on this host any more.
    Archived {
        /// What came of it.
        archive_id: ArchiveId,
    },
    /// It was put back to a snapshot.
    Restored {
        /// Which.
        snapshot_id: SnapshotId,
    },
    /// It writes to a volume that others write to as well, and nothing keeps what they write apart.
    VolumeShared {
        /// Which.
        volume_id: VolumeId,
        /// The others.
        with: Vec<SandboxId>,
    },
    /// It broke.
    Failed {
        /// Why.
        cause: String,
    },
    /// It was deleted; its name is free.
    Deleted {
        /// Who or what wanted it, as in `request` or `lease_ms`.
        reason: String,
    },
    /// Nothing is left of it on the host.
    Removed,
    /// Something is left of it on the host; removing it is tried again.
    NotRemoved {
        /// Why.
        cause: String,
    },
    /// A server that started found it alive.
    Adopted,
}
