//! Files of a sandbox: what is asked for and what is answered.
//!
//! Paths are the sandbox's own and absolute, and are resolved inside, beneath its
//! root, with the rights of its user: no link leads out. In a query a path is
//! percent-encoded, byte by byte; in JSON it is [`Octets`].

mod mode;
mod search;
mod text;
mod watch;

pub use mode::{Mode, ModeError};
pub use search::{Found, Glob, Grep, Match};
pub use text::{Edit, Edited, Expected, Replacement};
pub use watch::{Change, Changed, Unwatched};

use crate::error::ErrorCode;
use crate::octets::Octets;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Most entries in one answer.
pub const ENTRIES_COUNT_MAX: u32 = 10_000;

/// Deepest that a listing goes.
pub const DEPTH_MAX: u32 = 64;

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// What is known of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FileStat {
    /// Its path, as it was asked for; in a list, below the directory.
    pub path: Octets,
    /// What it is.
    pub kind: FileKind,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its permissions.
    pub mode: Mode,
    /// Its owner inside.
    pub uid: u32,
    /// Its group inside.
    pub gid: u32,
    /// When its content changed, in microseconds since 1970.
    pub modified_us: i64,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Octets>,
    /// In a list: a directory whose names could not be read, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<ErrorCode>,
}

/// Names below a directory, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Listing {
    /// At most as many as were asked for; those that are less deep first.
    pub entries: Vec<FileStat>,
    /// There are more.
    pub is_cut: bool,
}

/// What to do with a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// Replace it.
    #[default]
    Replace,
    /// Add to its end.
    Append,
    /// Leave it, and fail with a conflict.
    Keep,
}

impl FromStr for Existing {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "replace" => Ok(Self::Replace),
            "append" => Ok(Self::Append),
            "keep" => Ok(Self::Keep),
            _ => Err("write replace, append or keep"),
        }
    }
}

/// Which part of a file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFile {
    /// Which.
    pub path: Octets,
    /// From this byte on; beyond the end there is nothing.
    pub offset: u64,
    /// At most so many bytes; all where nothing is said.
    pub length: Option<u64>,
}

/// Where a file is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteFile {
    /// Where. A last link is followed.
    pub path: Octets,
    /// What if there is one already.
    pub existing: Existing,
    /// The mode of a new file; 0644 where nothing is said.
    pub mode: Option<Mode>,
    /// Make directories that are missing.
    pub make_parents: bool,
}

/// Lists a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Which.
    pub path: Octets,
    /// How deep, 1 to [`DEPTH_MAX`]; links are not entered.
    pub depth: u32,
    /// Most entries, 1 to [`ENTRIES_COUNT_MAX`].
    pub limit: u32,
}

/// Makes a directory. One that is there is not touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeDirectory {
    /// Where.
    pub path: Octets,
    /// Its mode, and that of parents that are made; 0755 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Make directories that are missing.
    #[serde(default)]
    pub make_parents: bool,
}

/// Removes a name. A link is removed, not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    /// Which.
    pub path: Octets,
    /// A directory with everything in it.
    #[serde(default)]
    pub recursive: bool,
}

/// Moves a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// Which.
    pub from: Octets,
    /// Where to; the new name itself, not the directory to put it in.
    pub to: Octets,
    /// Replace what is there, as rename(2) does.
    #[serde(default)]
    pub replace: bool,
}

/// Sets a mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetMode {
    /// Of which; a last link is followed.
    pub path: Octets,
    /// The mode.
    pub mode: Mode,
}

/// An archive that was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Unpacked {
    /// Files, directories and links.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
}

#[cfg(test)]
mod tests;
