//! What changes in a directory.

use crate::error::ErrorCode;
use crate::octets::Octets;
use serde::{Deserialize, Serialize};

/// What became of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was made, or moved here.
    Made,
    /// Something was written to it.
    Modified,
    /// It was closed by somebody who could write.
    Written,
    /// Its mode, owner or times changed.
    Attributes,
    /// It was removed, or moved away.
    Removed,
}

/// A name has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Changed {
    /// Which, below the directory that is watched.
    pub path: Octets,
    /// In which way.
    pub change: Change,
    /// It is a directory.
    pub is_directory: bool,
}

/// A directory below cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Unwatched {
    /// Which, below the directory that is watched.
    pub path: Octets,
    /// Why.
    pub code: ErrorCode,
}
