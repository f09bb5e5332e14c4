//! What differs between two snapshots.

use crate::files::{FileKind, Mode};
use crate::id::SnapshotId;
use crate::octets::Octets;
use crate::sandbox::{InvalidRequest, within};
use serde::{Deserialize, Serialize};

/// Most entries in one answer.
pub const DIFF_COUNT_MAX: u32 = 10_000;

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// It was not there before.
    Added,
    /// It is not there any more.
    Removed,
    /// Its content is another one, or a link leads elsewhere.
    Modified,
    /// Its content is the same; its permissions, owner, group or extended attributes are not.
    Attributes,
    /// It is of another kind, such as a directory in place of a file.
    Type,
}

impl Difference {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Modified => "modified",
            Self::Attributes => "attributes",
            Self::Type => "type",
        }
    }
}

/// What there is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiffSide {
    /// What it is.
    pub kind: FileKind,
    /// Its length in bytes; 0 of what is no file.
    pub bytes: u64,
    /// Its permissions.
    pub mode: Mode,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Octets>,
}

/// A path that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiffEntry {
    /// Where it is in a sandbox, absolute.
    pub path: Octets,
    /// How it differs.
    pub difference: Difference,
    /// What was there; absent if there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<DiffSide>,
    /// What is there; absent if there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<DiffSide>,
}

/// A path that could not be compared, with all that is below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Uncompared {
    /// Where it is in a sandbox, absolute.
    pub path: Octets,
    /// Why, as in "cannot be read".
    pub reason: String,
}

/// What a snapshot has that is otherwise in another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SnapshotDiff {
    /// The later one, as it were: what `after` is about.
    pub snapshot_id: SnapshotId,
    /// What `before` is about; absent where that is the image alone, and an empty home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_id: Option<SnapshotId>,
    /// At most as many as were asked for: the first ones by path, a directory before what is in it.
    pub entries: Vec<DiffEntry>,
    /// What could not be compared; at most as many.
    pub uncompared: Vec<Uncompared>,
    /// There may be more of either.
    pub is_cut: bool,
}

/// Asks what differs between two snapshots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffSnapshots {
    /// The other one; the one before it, if that is not said.
    pub with: Option<SnapshotId>,
    /// At most this many entries, 1 to [`DIFF_COUNT_MAX`].
    pub limit: Option<u32>,
}

impl DiffSnapshots {
    /// Checks the request and gives how many entries are wanted.
    ///
    /// # Errors
    /// Gives the field that is wrong, with its limit.
    pub fn validate(&self) -> Result<u32, InvalidRequest> {
        let limit = self.limit.unwrap_or(DIFF_COUNT_MAX);
        within("limit", limit.into(), 1, DIFF_COUNT_MAX.into())?;
        Ok(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_only_what_there_is() {
        let side =
            DiffSide { kind: FileKind::File, bytes: 3, mode: Mode::from_bits(0o644), target: None };
        let entry = DiffEntry {
            path: Octets::new(*b"/home/user/\xff").unwrap(),
            difference: Difference::Added,
            before: None,
            after: Some(side),
        };
        let json = serde_json::to_value(&entry).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "path": {"hex": "2f686f6d652f757365722fff"},
                "difference": "added",
                "after": {"kind": "file", "bytes": 3, "mode": "0644"},
            })
        );
        assert_eq!(serde_json::from_value::<DiffEntry>(json).unwrap(), entry);
        for one in [
            Difference::Added,
            Difference::Removed,
            Difference::Modified,
            Difference::Attributes,
            Difference::Type,
        ] {
            assert_eq!(serde_json::to_value(one).unwrap(), one.as_str());
        }
    }

    #[test]
    fn a_limit_is_kept_within_its_bounds() {
        let limit = |limit| DiffSnapshots { with: None, limit }.validate();
        assert_eq!(limit(None).unwrap(), DIFF_COUNT_MAX);
        assert_eq!(limit(Some(1)).unwrap(), 1);
        for wrong in [0, DIFF_COUNT_MAX + 1] {
            assert!(format!("{}", limit(Some(wrong)).unwrap_err()).contains("limit"));
        }
    }
}
