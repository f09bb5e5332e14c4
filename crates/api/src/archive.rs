//! Archives: snapshots and sandboxes in object storage.

use crate::id::{ArchiveId, SandboxId, SnapshotId};
use crate::name::SandboxName;
use crate::sandbox::{InvalidRequest, Limits, Sandbox, Tier, page_count};
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Of what an archive is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveKind {
    /// Of a snapshot.
    #[default]
    Snapshot,
    /// Of a sandbox that is archived.
    Sandbox,
}

/// An archive, as an object store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Archive {
    /// Its id.
    pub id: ArchiveId,
    /// Of what it is.
    pub kind: ArchiveKind,
    /// The sandbox that it is of, or that the snapshot was taken of.
    pub sandbox_id: SandboxId,
    /// That one's name at the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_name: Option<SandboxName>,
    /// The snapshot that it is of, if it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<SnapshotId>,
    /// When it was archived.
    pub archived_at: Timestamp,
    /// Labels of what it is of.
    pub labels: BTreeMap<String, String>,
    /// What the sandbox was made of, which is not in the archive.
    pub image: String,
    /// The tier of the sandbox.
    pub tier: Tier,
    /// Limits of the sandbox.
    pub limits: Limits,
    /// How many layers it has.
    pub layers: u64,
    /// Bytes of these in the store; other archives may have some of them too.
    pub bytes: u64,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
}

/// One that is there and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UnreadableArchive {
    /// Its id.
    pub id: ArchiveId,
    /// Why, in one sentence.
    pub reason: String,
}

/// A page of a list, in the order of ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ArchivePage {
    /// The archives.
    pub archives: Vec<Archive>,
    /// Those on the page that cannot be read, as by another key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableArchive>,
    /// What to ask for the next page with, as `after`; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ArchiveId>,
}

/// Asks for a page of archives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArchives {
    /// At most this many, 1 to [`crate::sandbox::PAGE_COUNT_MAX`].
    #[serde(default)]
    pub page_count: Option<usize>,
    /// The id of the last one on the page before.
    #[serde(default)]
    pub after: Option<ArchiveId>,
}

impl ListArchives {
    /// Checks the request and gives how many archives a page has.
    ///
    /// # Errors
    /// Gives the field that is wrong, with its limit.
    pub fn validate(&self) -> Result<usize, InvalidRequest> {
        page_count(self.page_count)
    }
}

/// What came of archiving something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Archived {
    /// The archive.
    pub archive: Archive,
    /// Layers that had to be sent; the others were there.
    pub sent_layers: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
}

/// What came of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoredArchive {
    /// A snapshot, with an id of its own.
    Snapshot(Box<Snapshot>),
    /// A sandbox, with an id of its own. It runs.
    Sandbox(Box<Sandbox>),
}
