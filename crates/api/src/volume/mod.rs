//! Volumes: directories with a name that outlive sandboxes and are shown in several of them.

mod mount;
mod name;

pub use mount::{
    MountedVolume, SHARED_WARNING, VOLUME_MOUNTS_COUNT_MAX, VOLUME_PATH_BYTES_MAX, VolumeAccess,
    VolumeMount, validate_mounts,
};
pub use name::{VolumeName, VolumeNameError, VolumeRef, VolumeRefError};

use crate::id::{SandboxId, VolumeId};
use crate::name::SandboxName;
use crate::sandbox::{InvalidRequest, malformed, page_count, validate_labels};
use crate::snapshot::SnapshotWay;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A volume as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Volume {
    /// Its id.
    pub id: VolumeId,
    /// Its name, which no other volume has.
    pub name: VolumeName,
    /// Labels that its maker gave it.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Nobody writes to it, ever: a snapshot.
    #[serde(default)]
    pub is_read_only: bool,
    /// How it came of another one, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<VolumeCopy>,
    /// The sandboxes that have it, those that are stopped included: while there is one, it is not
    /// deleted.
    pub used_by: Vec<VolumeUse>,
}

/// How a volume came of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VolumeCopy {
    /// Of which, which may be gone.
    pub of: VolumeId,
    /// How its files came to be: by `subvolume`, `reflink` or `copy`.
    pub way: SnapshotWay,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// How long the sandboxes stood still that write to that one, in microseconds; 0 if none did.
    pub frozen_us: u64,
}

/// How a sandbox has a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VolumeUse {
    /// The sandbox.
    pub sandbox_id: SandboxId,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_name: Option<SandboxName>,
    /// Where it has it.
    pub path: String,
    /// What it may do with it.
    pub access: VolumeAccess,
    /// It may run, so that what it has keeps others from what does not go together with that. One
    /// that is stopped keeps nobody from anything, and asks again when it is started.
    pub is_held: bool,
}

/// Asks for a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// A name that no other volume has.
    pub name: VolumeName,
    /// Labels, to find it by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The volume, by its id or name, whose files it begins with, as they are at one moment: sandboxes
    /// that write to that one stand still meanwhile. It is empty where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<VolumeRef>,
    /// Nobody is to write to it, ever: a snapshot, to read and to copy. Only for a copy.
    #[serde(default)]
    pub is_read_only: bool,
}

impl CreateVolume {
    /// Checks everything that can be judged without knowing the server.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        if self.is_read_only && self.copy_of.is_none() {
            return malformed("is_read_only", "makes no sense for a volume that is empty");
        }
        validate_labels(&self.labels)
    }
}

/// Asks for a page of volumes, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListVolumes {
    /// Only those that have all of these labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// At most this many, 1 to [`crate::sandbox::PAGE_COUNT_MAX`].
    #[serde(default)]
    pub page_count: Option<usize>,
    /// The name of the last one on the page before.
    #[serde(default)]
    pub after: Option<VolumeName>,
}

impl ListVolumes {
    /// Checks the request and gives how many volumes a page has.
    ///
    /// # Errors
    /// Gives the field that is wrong, with its limit.
    pub fn validate(&self) -> Result<usize, InvalidRequest> {
        validate_labels(&self.labels)?;
        page_count(self.page_count)
    }

    /// Whether the request asks for one with these labels, its place in the list aside.
    pub fn wants(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VolumePage {
    /// The volumes by name.
    pub volumes: Vec<Volume>,
    /// What to ask for the next page with, as `after`; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<VolumeName>,
}
