//! Files of the sandbox.
//!
//! Paths are the sandbox's own and absolute. A guest resolves them beneath the
//! sandbox's root by descriptor, never through the links of `/proc`, and with the
//! rights of the sandbox's user, so that no planted link leads elsewhere.
//!
//! Set-user-ID and set-group-ID bits are denied where a request asks for them, and
//! are not kept of a file that is replaced or copied.

use crate::octets::Octets;
use crate::problem::Code;
use serde::{Deserialize, Serialize};

/// Most entries in one answer.
pub const ENTRIES_MAX: u32 = 10_000;

/// Deepest that a listing goes.
pub const DEPTH_MAX: u32 = 64;

/// Reads a file. Answered by `Stat`, then frames `Body`, then `End`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// Which; a regular file.
    pub path: Octets,
    /// From this byte on; beyond the end there is nothing.
    #[serde(default)]
    pub offset: u64,
    /// At most so many bytes; all where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

/// Writes a file: frames `Body` follow, then `End`. Answered by `Stat` when
/// everything is written.
///
/// A file that is replaced is replaced at the end and at once, with its mode, and
/// with its owner where the guest may give files away; where the connection ends
/// before, the old one is unchanged. What is added to a file is added at the end
/// too. A file with other names keeps its old content under those.
///
/// Nothing is synchronised with the disk: what was written survives the end of
/// the sandbox, and as much of a loss of power as of any program's writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Where. A last link is followed.
    pub path: Octets,
    /// What if there is one already.
    #[serde(default)]
    pub existing: Existing,
    /// The mode of a new file, of which the low 12 bits are taken; 0644 where
    /// nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Make directories that are missing.
    #[serde(default)]
    pub make_parents: bool,
}

/// What to do with a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// Lists a directory. Answered by `Entries`.
///
/// Where there are more than may be told, those that are less deep are told
/// first, and of one directory those that sort first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Which.
    pub path: Octets,
    /// How deep, 1 to [`DEPTH_MAX`]; links are not entered.
    #[serde(default = "one")]
    pub depth: u32,
    /// Most entries, at most [`ENTRIES_MAX`].
    #[serde(default = "entries_max")]
    pub limit: u32,
}

fn one() -> u32 {
    1
}

fn entries_max() -> u32 {
    ENTRIES_MAX
}

/// Looks at one name. Answered by `Stat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Which.
    pub path: Octets,
    /// Look where a link leads instead of at the link.
    #[serde(default)]
    pub follow: bool,
}

/// Makes a directory. Answered by `Stat`; one that is there is not touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MakeDirectory {
    /// Where.
    pub path: Octets,
    /// Its mode, and that of parents that are made; 0755 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Make directories that are missing.
    #[serde(default)]
    pub make_parents: bool,
}

/// Removes a name. Answered by `Done`; links are removed, not followed.
///
/// With everything in it, a directory is removed also where its mode forbids that
/// to its owner; one that another file system is mounted in is a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    /// Which.
    pub path: Octets,
    /// A directory with everything in it.
    #[serde(default)]
    pub recursive: bool,
}

/// Moves a name. Answered by `Stat`.
///
/// Within a file system anything is moved, at once. To another one a regular file
/// or a link is copied, put in place at once, and then removed; a directory is
/// refused as unsupported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Sets a mode. Answered by `Stat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetMode {
    /// Of which; a last link is followed.
    pub path: Octets,
    /// The low 12 bits are taken.
    pub mode: u32,
}

/// Replaces text in a file, all of it or nothing. Answered by `Edited`.
///
/// The file is replaced at once, as by [`Write`]; where somebody else has changed it
/// meanwhile that is a conflict, and so is text that is not there as often as it
/// should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Which; a regular file of at most [`EDIT_BYTES_MAX`], before and after. A last
    /// link is followed.
    pub path: Octets,
    /// What is done, each in what those before it have made.
    pub replacements: Vec<Replacement>,
}

/// One text in place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// What is there: byte for byte, not a pattern, and not empty.
    pub old: String,
    /// What is to be there.
    pub new: String,
    /// How often the old text must be there.
    #[serde(default)]
    pub expected: Expected,
}

/// How often something must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// So often.
    Exactly(u32),
    /// At least once.
    Any,
}

impl Default for Expected {
    fn default() -> Self {
        Self::Exactly(1)
    }
}

/// Longest file that is edited, in bytes.
pub const EDIT_BYTES_MAX: u64 = 32 << 20;

/// Finds names below a directory. Answered by `Entries`, sorted; links are not
/// entered, nor other file systems. `Heartbeat` frames come before where it takes
/// long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Glob {
    /// Below which.
    pub path: Octets,
    /// Which paths, as they are below it: `*` and `?` match no slash, `**` matches
    /// directories, and there are `[…]` and `{…,…}`. Names with a dot are matched too.
    pub pattern: String,
    /// Leave out what `.gitignore` files in and below the directory ignore, and
    /// `.git`.
    #[serde(default)]
    pub respects_ignore: bool,
    /// Most entries, at most [`ENTRIES_MAX`].
    #[serde(default = "entries_max")]
    pub limit: u32,
}

/// Finds lines in a file, or in those below a directory. Answered by `Matches`;
/// links are not entered, nor other file systems. `Heartbeat` frames come before
/// where it takes long.
///
/// Files with a NUL byte are binary and left out from there on. Of a line longer
/// than [`LINE_BYTES_MAX`] only so much is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grep {
    /// In which file, or below which directory.
    pub path: Octets,
    /// A regular expression, in the syntax of Rust's `regex`: linear in time.
    pub pattern: String,
    /// The pattern is text and no expression.
    #[serde(default)]
    pub is_literal: bool,
    /// Letters match in either case.
    #[serde(default)]
    pub ignores_case: bool,
    /// Only in files that match one of these, as in [`Glob`]; one without a slash is
    /// matched with the name alone. All where there is none.
    #[serde(default)]
    pub include: Vec<String>,
    /// As in [`Glob`].
    #[serde(default)]
    pub respects_ignore: bool,
    /// Most lines, at most [`ENTRIES_MAX`].
    #[serde(default = "entries_max")]
    pub limit: u32,
}

/// Longest line that is searched, in bytes.
pub const LINE_BYTES_MAX: u64 = 256 << 10;

/// Most of a line that is told, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;

/// A line that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// The file, below the directory; empty for the file that was asked for.
    pub path: Octets,
    /// Which line, from 1.
    pub line: u64,
    /// Where in the line it begins, in bytes from 0.
    pub column: u64,
    /// The line without its end, at most [`TEXT_BYTES_MAX`]; what is not UTF-8 is
    /// replaced.
    pub text: String,
}

/// Tells what changes in a directory. Answered by `Done` once changes are seen, then
/// an event for each, until the host ends the connection; by `End` if the directory
/// itself is removed or moved.
///
/// Directories that are made or moved in meanwhile are watched too, and what they
/// held before they were is told as made, so a name may be told twice. Links are
/// not followed, and what is mounted below is not watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Which.
    pub path: Octets,
    /// And those below it, at most [`WATCHES_MAX`].
    #[serde(default)]
    pub recursive: bool,
}

/// Most directories of one watch.
pub const WATCHES_MAX: usize = 16_384;

/// What became of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// Reads a directory as a tar archive, not compressed. Answered by `Stat`, then
/// frames `Body`, then `End`; an event `Left` for each name that is not in it, or
/// not as it should be.
///
/// It holds regular files, directories and links; pipes, sockets and
/// devices are left out. Other file systems that are mounted below are not entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// Which directory; names in the archive are relative to it.
    pub path: Octets,
}

/// Unpacks a tar archive, not compressed: frames `Body` follow, then `End`.
/// Answered by `Unpacked`.
///
/// Each file is put in its place when it is whole, and replaces what is there; no
/// link is followed, whether it was there or is in the archive. Refused, with
/// what came before left unpacked: absolute names and names with `..`, devices and
/// pipes, hard links to what is not below the directory, a directory where a link
/// or a file is. Links lead where they say. Times and permissions are taken, but
/// for set-user-id and set-group-id, and a directory's owner may always use it;
/// owners are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unpack {
    /// Into which directory.
    pub path: Octets,
    /// Make that directory, and those above it, if they are missing.
    #[serde(default)]
    pub make_parents: bool,
}

/// Most entries of an archive that is unpacked.
pub const ARCHIVE_ENTRIES_MAX: u64 = 2_000_000;

/// Deepest directory that is searched, or gets into an archive.
pub const WALK_DEPTH_MAX: usize = 128;

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    /// Its path, as it was asked for; in a listing, below the directory.
    pub path: Octets,
    /// What it is.
    pub kind: Kind,
    /// Its length in bytes.
    pub bytes: u64,
    /// The low 12 bits of its mode.
    pub mode: u32,
    /// Its owner inside.
    pub uid: u32,
    /// Its group inside.
    pub gid: u32,
    /// When its content changed, in microseconds since 1970.
    pub modified_us: i64,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Octets>,
    /// In a listing: a directory whose names could not be read, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Code>,
}
