//! Snapshots: what a sandbox kept at one moment, to go back to and to make others of.

mod diff;

pub use diff::{
    DIFF_COUNT_MAX, DiffEntry, DiffSide, DiffSnapshots, Difference, SnapshotDiff, Uncompared,
};

use crate::error::ApiError;
use crate::id::{SandboxId, SnapshotId};
use crate::name::SandboxName;
use crate::object::object;
use crate::sandbox::{
    CreateSandbox, InvalidRequest, Limits, NUMBER_MAX, Sandbox, Tier, page_count, validate_labels,
    within,
};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most sandboxes that are made of one snapshot at once.
pub const FORKS_COUNT_MAX: u32 = 1000;

/// How the files of a snapshot came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotWay {
    /// Nothing ran, so they were set aside as they were: as fast for a million files as for one.
    Rename,
    /// The file system copied them as a whole, while the sandbox stood still.
    Subvolume,
    /// Files that had changed since the snapshot before share their blocks with it from now on,
    /// the others are the same; the sandbox stood still meanwhile.
    Reflink,
    /// Files that had changed since the snapshot before were copied, the others are the same;
    /// the sandbox stood still meanwhile.
    Copy,
    /// They came from an archive.
    Archive,
}

impl SnapshotWay {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rename => "rename",
            Self::Subvolume => "subvolume",
            Self::Reflink => "reflink",
            Self::Copy => "copy",
            Self::Archive => "archive",
        }
    }
}

/// A snapshot as the API shows it.
///
/// It has the files of the sandbox's home, and of its root file system if that can be written.
/// Memory is not in it, and neither are `/tmp`, `/run` and `/dev/shm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// The sandbox that it was taken of, which may be gone.
    pub sandbox_id: SandboxId,
    /// That sandbox's name at the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_name: Option<SandboxName>,
    /// The snapshot that the sandbox came from or had been taken last, if that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SnapshotId>,
    /// When it was taken.
    pub created_at: Timestamp,
    /// When it is deleted; never where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Labels that its maker gave it.
    pub labels: BTreeMap<String, String>,
    /// What the sandbox was made of.
    pub image: String,
    /// How strongly the sandbox was isolated.
    pub tier: Tier,
    /// Limits that sandboxes have that are made of it, unless they are given others.
    pub limits: Limits,
    /// How its files came to be.
    pub way: SnapshotWay,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// How long the sandbox stood still for it, in microseconds; 0 if it did not run.
    pub frozen_us: u64,
    /// Names of files that were looked at; absent where none had to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Bytes that were copied.
    pub copied_bytes: u64,
}

/// Asks for a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshot {
    /// Labels, to find it by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Deleted after so many milliseconds, at least 1; never where nothing is said. What was made
    /// of it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub delete_after_ms: Option<u64>,
    /// So many snapshots of the sandbox with exactly these labels are kept, this one included: older ones
    /// are deleted once it is taken. What was made of them stays. All are kept where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000)]
    pub keep_last: Option<u64>,
}

/// The most that may be asked to be kept.
pub const KEEP_LAST_MAX: u64 = 10_000;

impl CreateSnapshot {
    /// Checks everything that can be judged without knowing the server.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        validate_labels(&self.labels)?;
        for (field, found, most) in [
            ("delete_after_ms", self.delete_after_ms, NUMBER_MAX),
            ("keep_last", self.keep_last, KEEP_LAST_MAX),
        ] {
            found.map_or(Ok(()), |found| within(field, found, 1, most))?;
        }
        Ok(())
    }
}

/// Asks for a page of snapshots, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSnapshots {
    /// Only those of this sandbox.
    #[serde(default)]
    pub sandbox_id: Option<SandboxId>,
    /// Only those that have all of these labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// At most this many, 1 to [`crate::sandbox::PAGE_COUNT_MAX`].
    #[serde(default)]
    pub page_count: Option<usize>,
    /// The id of the last one on the page before.
    #[serde(default)]
    pub after: Option<SnapshotId>,
}

impl ListSnapshots {
    /// Checks the request and gives how many snapshots a page has.
    ///
    /// # Errors
    /// Gives the field that is wrong, with its limit.
    pub fn validate(&self) -> Result<usize, InvalidRequest> {
        validate_labels(&self.labels)?;
        page_count(self.page_count)
    }

    /// Whether the request asks for `snapshot`, its place in the list aside.
    pub fn wants(&self, snapshot: &Snapshot) -> bool {
        self.sandbox_id.is_none_or(|id| snapshot.sandbox_id == id)
            && self.labels.iter().all(|(key, value)| snapshot.labels.get(key) == Some(value))
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SnapshotPage {
    /// The snapshots, the oldest first.
    pub snapshots: Vec<Snapshot>,
    /// What to ask for the next page with, as `after`; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<SnapshotId>,
}

/// Asks for sandboxes made of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkSnapshot {
    /// How many, 1 to 1000.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000)]
    pub count: u32,
    /// What they differ in from the sandbox that the snapshot was taken of; see
    /// [`CreateSandbox::snapshot`]. Of several, names have `-1`, `-2` and so on behind them.
    #[serde(default, deserialize_with = "object")]
    pub sandbox: CreateSandbox,
}

fn one() -> u32 {
    1
}

impl Default for ForkSnapshot {
    fn default() -> Self {
        Self { count: 1, sandbox: CreateSandbox::default() }
    }
}

impl ForkSnapshot {
    /// Checks everything that can be judged without knowing the server.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        validate_fork(self.count, &self.sandbox)
    }
}

fn validate_fork(count: u32, sandbox: &CreateSandbox) -> Result<(), InvalidRequest> {
    within("count", count.into(), 1, FORKS_COUNT_MAX.into())?;
    if sandbox.snapshot.is_some() {
        let reason = "is said already by what is forked";
        return Err(InvalidRequest::Malformed { field: "sandbox.snapshot".to_owned(), reason });
    }
    if sandbox.image != CreateSandbox::default().image {
        let reason = "cannot be chosen together with a snapshot";
        return Err(InvalidRequest::Malformed { field: "sandbox.image".to_owned(), reason });
    }
    if sandbox.template.is_some() {
        let reason = "cannot be chosen together with a snapshot";
        return Err(InvalidRequest::Malformed { field: "sandbox.template".to_owned(), reason });
    }
    sandbox.validate().map_err(|error| error.within("sandbox"))
}

/// Asks for a snapshot of a sandbox, and for sandboxes made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkSandbox {
    /// How many, 1 to 1000.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1000)]
    pub count: u32,
    /// What they differ in from the sandbox; as in [`ForkSnapshot`].
    #[serde(default, deserialize_with = "object")]
    pub sandbox: CreateSandbox,
    /// What the snapshot has, which stays when they are made.
    #[serde(default, deserialize_with = "object")]
    pub snapshot: CreateSnapshot,
}

impl Default for ForkSandbox {
    fn default() -> Self {
        let ForkSnapshot { count, sandbox } = ForkSnapshot::default();
        Self { count, sandbox, snapshot: CreateSnapshot::default() }
    }
}

impl ForkSandbox {
    /// Checks everything that can be judged without knowing the server.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        validate_fork(self.count, &self.sandbox)?;
        self.snapshot.validate().map_err(|error| error.within("snapshot"))
    }
}

/// What became of a request for sandboxes made of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Forks {
    /// Of what they were made.
    pub snapshot_id: SnapshotId,
    /// One for each that was asked for.
    pub forks: Vec<Fork>,
}

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fork {
    /// It runs.
    Sandbox(Box<Sandbox>),
    /// There is none, and nothing is left of it.
    Error(Box<ApiError>),
}

/// Asks for a sandbox to be put back to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreSandbox {
    /// Which.
    pub snapshot: SnapshotId,
}
