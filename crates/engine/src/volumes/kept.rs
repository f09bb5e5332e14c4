//! A volume, and how a sandbox has one, as they are remembered.

use atoll_api::id::VolumeId;
use atoll_api::time::Timestamp;
use atoll_api::volume::{
    MountedVolume, SHARED_WARNING, VolumeAccess, VolumeCopy, VolumeLimit, VolumeName,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything about a volume that must survive the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptVolume {
    /// Its id.
    pub id: VolumeId,
    /// Its name.
    pub name: VolumeName,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Nobody writes to it.
    #[serde(default)]
    pub is_read_only: bool,
    /// How it came of another one.
    #[serde(default)]
    pub copied: Option<VolumeCopy>,
    /// The most that may lie on it.
    #[serde(default)]
    pub limit: Option<VolumeLimit>,
    /// The folder of the host that it is.
    #[serde(default)]
    pub host_path: Option<String>,
}

/// What a sandbox has of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Which.
    pub volume: VolumeId,
    /// Its name.
    pub name: VolumeName,
    /// Where inside.
    pub path: String,
    /// What it may do with it.
    pub access: VolumeAccess,
    /// The folder of the host that the volume is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
}

impl Mount {
    /// What the API shows.
    pub(crate) fn view(&self) -> MountedVolume {
        let is_shared = self.access == VolumeAccess::Shared;
        MountedVolume {
            volume_id: self.volume,
            name: self.name.clone(),
            path: self.path.clone(),
            access: self.access,
            warning: is_shared.then(|| SHARED_WARNING.to_owned()),
        }
    }
}
