//! Volumes: directories with a name that outlive sandboxes and are shown in several of them.

mod folder;
mod limit;
mod mount;
mod name;

pub use folder::HOST_PATH_BYTES_MAX;
pub use limit::{SetVolumeLimit, VOLUME_LIMIT_BYTES_MIN, VolumeLimit, VolumeLimitBy};
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
    /// The most that may lie on it; none where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<VolumeLimit>,
    /// Bytes that its files took on the disk when it was measured last, which is done where there is a
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// The folder of the server's machine that it is, if it is one: deleting the volume leaves that as
    /// it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
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
    /// Nobody is to write to it, ever. Only for a copy, which is a snapshot then, and for a folder.
    #[serde(default)]
    pub is_read_only: bool,
    /// The most that its files may take on the disk, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1048576, maximum = 9007199254740991u64)]
    pub limit_bytes: Option<u64>,
    /// A folder of the server's machine, which is to be the volume: an absolute path without symbolic
    /// links, that whoever runs the server grants. Needs a key of scope `admin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 2, max_length = 1024)]
    pub host_path: Option<String>,
}

impl CreateVolume {
    /// Checks everything that can be judged without knowing the server.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        if self.is_read_only && self.copy_of.is_none() && self.host_path.is_none() {
            return malformed("is_read_only", "makes no sense for a volume that is empty");
        }
        limit::validate_limit("limit_bytes", self.limit_bytes)?;
        if let Some(path) = &self.host_path {
            folder::validate_host_path(path)?;
            if self.copy_of.is_some() {
                return malformed("copy_of", "and host_path cannot both be what it begins with");
            }
            if self.limit_bytes.is_some() {
                return malformed("limit_bytes", "cannot limit a folder of the server's machine");
            }
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
