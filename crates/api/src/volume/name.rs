//! Names that people give to volumes, and what a volume is called by.

use crate::id::VolumeId;
use crate::name::{NAME_BYTES_MAX, flaw};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Why a text cannot be a volume's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a volume: {reason}; write 1 to {NAME_BYTES_MAX} lower-case letters, \
     digits and dashes, with none of the dashes first or last"
)]
pub struct VolumeNameError {
    /// What was written, cut to a length that can be shown.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A name of a volume, by the rule for names of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct VolumeName(String);

impl VolumeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VolumeName {
    type Err = VolumeNameError;

    fn from_str(text: &str) -> Result<Self, VolumeNameError> {
        match flaw(text) {
            None => Ok(Self(text.to_owned())),
            Some(reason) => Err(VolumeNameError { text: text.chars().take(80).collect(), reason }),
        }
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for VolumeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    VolumeName,
    "A name of a volume.",
    Some("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
    None,
    "models"
);

/// A volume by its id or its name; an id has an underscore, so none is the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeRef {
    /// By its id.
    Id(VolumeId),
    /// By its name.
    Name(VolumeName),
}

/// Why a text calls no volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum VolumeRefError {
    /// It begins as an id.
    Id(crate::id::IdError),
    /// It is no name.
    Name(VolumeNameError),
}

impl FromStr for VolumeRef {
    type Err = VolumeRefError;

    fn from_str(text: &str) -> Result<Self, VolumeRefError> {
        if text.starts_with(VolumeId::PREFIX) {
            return text.parse().map(Self::Id).map_err(VolumeRefError::Id);
        }
        text.parse().map(Self::Name).map_err(VolumeRefError::Name)
    }
}

impl fmt::Display for VolumeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl Serialize for VolumeRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VolumeRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    VolumeRef,
    "A volume by its id or its name.",
    Some("^(vol_[0-9a-f]{20}|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)$"),
    None,
    "models"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_called_by_its_id_or_its_name() {
        let id = VolumeId::from_random([7; 10]);
        assert_eq!(id.to_string().parse(), Ok(VolumeRef::Id(id)));
        let name: VolumeName = "models".parse().unwrap();
        assert_eq!("models".parse(), Ok(VolumeRef::Name(name)));
        for text in ["", "vol_", "vol_07", "Models", "a/b", "..", "-a"] {
            let refused = text.parse::<VolumeRef>().unwrap_err().to_string();
            assert!(refused.contains("volume"), "{text:?}: {refused}");
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<VolumeRef>(&json).is_err(), "{text:?}");
        }
    }
}
