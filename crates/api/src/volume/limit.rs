//! How much may lie on a volume.

use crate::sandbox::{InvalidRequest, NUMBER_MAX, within};
use serde::{Deserialize, Serialize};

/// The least that a limit may be, in bytes.
pub const VOLUME_LIMIT_BYTES_MIN: u64 = 1 << 20;

/// The most that may lie on a volume, and who sees to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VolumeLimit {
    /// Bytes that its files may take on the disk.
    pub bytes: u64,
    /// Who sees to it.
    pub enforced_by: VolumeLimitBy,
}

/// Who sees to the limit of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VolumeLimitBy {
    /// The file system: writing beyond it fails (`EDQUOT`, "Disk quota exceeded"). So on btrfs with
    /// quotas, for a server of root's.
    FileSystem,
    /// The server, which measures it every few seconds while a sandbox writes. When it is full, the
    /// sandboxes that write to it are stopped, and none begins to; until then more than the limit may
    /// have been written.
    Measurement,
}

/// Gives a volume another limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetVolumeLimit {
    /// Bytes that its files may take on the disk, and no fewer than they take; `null` takes the limit
    /// away.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required = true, minimum = 1048576, maximum = 9007199254740991u64)]
    pub bytes: Option<u64>,
}

impl SetVolumeLimit {
    /// Checks it.
    ///
    /// # Errors
    /// If it is too small, or beyond what can be written exactly.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        validate_limit("bytes", self.bytes)
    }
}

/// Checks a limit that is asked for.
pub(super) fn validate_limit(field: &str, bytes: Option<u64>) -> Result<(), InvalidRequest> {
    within(field, bytes.unwrap_or(NUMBER_MAX), VOLUME_LIMIT_BYTES_MIN, NUMBER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_said_or_taken_away_and_not_forgotten() {
        let set = |text: &str| serde_json::from_str::<SetVolumeLimit>(text);
        assert_eq!(set(r#"{"bytes": 1048576}"#).unwrap().bytes, Some(1 << 20));
        assert_eq!(set(r#"{"bytes": null}"#).unwrap().bytes, None);
        assert!(set("{}").unwrap_err().to_string().contains("bytes"));
        for (bytes, is_fine) in [(0, false), ((1 << 20) - 1, false), (1 << 20, true)] {
            assert_eq!(
                SetVolumeLimit { bytes: Some(bytes) }.validate().is_ok(),
                is_fine,
                "{bytes}"
            );
        }
        assert!(SetVolumeLimit { bytes: Some(NUMBER_MAX + 1) }.validate().is_err());
    }
}
