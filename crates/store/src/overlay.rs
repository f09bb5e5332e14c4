//! How an overlay writes deletions, hidden directories and moves into its upper
//! layer, in both formats.
//!
//! Source: the kernel's Documentation/filesystems/overlayfs.rst, and
//! `fs/overlayfs/overlayfs.h` for the layout of `origin`.

use crate::beneath::proc_path;
use crate::node::{FileKind, Stamp};
use crate::xattr;
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::{Errno, Result};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Who mounted the overlay, which decides where it keeps its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Mounted by root in the initial user namespace: `trusted.overlay.*`,
    /// readable by root only. Directories that moved carry a redirect.
    Trusted,
    /// Mounted with `userxattr`: `user.overlay.*`. Never a redirect: the kernel
    /// does not follow one there, so one that is found is forged.
    User,
}

impl Format {
    fn name(self, mark: &str) -> OsString {
        format!("{}{mark}", self.prefix()).into()
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Trusted => "trusted.overlay.",
            Self::User => "user.overlay.",
        }
    }

    fn mark(self, fd: impl AsFd, mark: &str) -> Result<Option<Vec<u8>>> {
        xattr::get(fd, &self.name(mark))
    }
}

/// Where a directory of the upper gets its lower content from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Below {
    /// The directory of the same name.
    Same,
    /// Nothing: whatever the lower has there is hidden.
    Opaque,
    /// Another name in the same lower directory.
    Sibling(OsString),
    /// A path from the lower's root.
    Path(PathBuf),
    /// A redirect that the kernel would not have followed.
    Forged,
}

/// The marks of a directory.
pub(crate) struct DirMarks {
    pub(crate) below: Below,
    pub(crate) origin: Origin,
    /// Whether whiteouts in here may be empty files with a mark, as newer
    /// kernels allow in layers that cannot hold devices.
    pub(crate) marked_whiteouts: bool,
}

pub(crate) fn dir_marks(format: Format, dir: impl AsFd) -> Result<DirMarks> {
    let dir = dir.as_fd();
    let opaque = format.mark(dir, "opaque")?;
    let redirect = format.mark(dir, "redirect")?;
    let below = match (opaque.as_deref(), redirect) {
        (Some(b"y"), _) => Below::Opaque,
        (_, Some(redirect)) => parse_redirect(format, redirect),
        (_, None) => Below::Same,
    };
    let origin = Origin::parse(format.mark(dir, "origin")?.as_deref());
    Ok(DirMarks { below, origin, marked_whiteouts: opaque.as_deref() == Some(b"x") })
}

/// Marks a new directory as one that was copied up, so that the lower goes on
/// shining through.
pub(crate) fn set_copied(format: Format, dir: impl AsFd) -> Result<()> {
    rustix::fs::setxattr(proc_path(&dir), format.name("origin"), b"", XattrFlags::empty())
}

/// Marks a directory that was made in an upper by hand as one that was copied up.
///
/// Whoever puts whiteouts into an upper before the mount makes the directories
/// above them with this mark; without it they count as made in the session.
///
/// # Errors
///
/// When the directory cannot be opened or the file system keeps no attributes.
pub fn mark_copied(dir: &Path, format: Format) -> std::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    Ok(set_copied(format, dir)?)
}

/// Whether an attribute is a mark, rather than one that a program gave a file within an
/// overlay: the kernel escapes those by a second `overlay.`.
pub(crate) fn is_mark(format: Format, name: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(format.prefix().as_bytes());
    rest.is_some_and(|rest| !rest.starts_with(b"overlay."))
}

/// The mark that hides whatever the lower has, as an attribute.
pub(crate) fn opaque(format: Format) -> (OsString, Vec<u8>) {
    (format.name("opaque"), b"y".to_vec())
}

/// The mark that leads on to another place in the lower: a name in the same directory, or a
/// path from the top that begins with a slash.
pub(crate) fn redirect(format: Format, to: OsString) -> (OsString, Vec<u8>) {
    (format.name("redirect"), to.into_vec())
}

/// Whether the kernel would follow this redirect, which then stays within the lower.
pub(crate) fn leads_on(format: Format, to: &OsStr) -> bool {
    parse_redirect(format, to.as_bytes().to_vec()) != Below::Forged
}

/// Marks a directory as hiding whatever the lower has there, which also ends its
/// redirect.
pub(crate) fn set_opaque(format: Format, dir: impl AsFd) -> Result<()> {
    let dir = dir.as_fd();
    rustix::fs::setxattr(proc_path(&dir), format.name("opaque"), b"y", XattrFlags::empty())?;
    match rustix::fs::removexattr(proc_path(&dir), format.name("redirect")) {
        Err(Errno::NODATA) => Ok(()),
        other => other,
    }
}

fn parse_redirect(format: Format, value: Vec<u8>) -> Below {
    if format == Format::User {
        return Below::Forged;
    }
    let value = OsString::from_vec(value);
    let path = Path::new(&value);
    let names = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    match path.strip_prefix("/") {
        Ok(rest) if names(rest) && !rest.as_os_str().is_empty() => Below::Path(rest.to_owned()),
        Err(_) if names(path) && path.components().count() == 1 => Below::Sibling(value),
        _ => Below::Forged,
    }
}

/// The marks of a regular file.
pub(crate) struct FileMarks {
    pub(crate) is_whiteout: bool,
    /// Only attributes were copied up, the content is elsewhere.
    pub(crate) has_no_data: bool,
    pub(crate) origin: Origin,
}

pub(crate) fn file_marks(
    format: Format,
    file: impl AsFd,
    stamp: &Stamp,
    marked_whiteouts: bool,
) -> Result<FileMarks> {
    let file = file.as_fd();
    let is_whiteout = marked_whiteouts
        && stamp.kind == FileKind::File
        && stamp.size == 0
        && format.mark(file, "whiteout")?.is_some();
    Ok(FileMarks {
        is_whiteout,
        has_no_data: stamp.kind == FileKind::File && format.mark(file, "metacopy")?.is_some(),
        origin: Origin::parse(format.mark(file, "origin")?.as_deref()),
    })
}

/// What the overlay noted about the lower file that was copied up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Born in the upper.
    None,
    /// Copied up, from which inode is not known: a mount in a user namespace
    /// and file systems without handles note only the fact.
    Unknown,
    /// Copied up from this inode.
    Inode(u64),
}

impl Origin {
    /// Reads the inode number out of the file handle in an `origin` mark.
    ///
    /// The kernel keeps handles opaque, but their layouts are on-disk formats:
    /// ext4 (inode and generation), tmpfs (generation, inode in two halves), xfs
    /// and btrfs (64-bit inode first).
    fn parse(value: Option<&[u8]>) -> Self {
        /// Version, magic, length, flags, type, then the file system's UUID.
        const HEADER: usize = 5 + 16;
        const MAGIC: u8 = 0xfb;
        let Some(value) = value else { return Self::None };
        let (Some(handle), Some(&MAGIC), Some(&kind)) =
            (value.get(HEADER..), value.get(1), value.get(4))
        else {
            return Self::Unknown;
        };
        let word = |at: usize| -> Option<u64> {
            let bytes = handle.get(at * 4..at * 4 + 4)?;
            Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)))
        };
        let pair = |at: usize| Some(word(at)? | word(at + 1)? << 32);
        let inode = match (kind, handle.len()) {
            (0x01, 12) => pair(1),
            (0x01 | 0x02, 8 | 16) => word(0),
            (0x81 | 0x82 | 0x4d..=0x4f, _) if cfg!(target_endian = "little") => pair(0),
            _ => None,
        };
        inode.map_or(Self::Unknown, Self::Inode)
    }

    pub(crate) fn is_copy(self) -> bool {
        self != Self::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(kind: u8, handle: &[u8]) -> Origin {
        let mut value = vec![0, 0xfb, 0, 0, kind];
        value.extend([0; 16]);
        value.extend(handle);
        Origin::parse(Some(&value))
    }

    #[test]
    fn origins_of_known_file_systems_name_the_inode() {
        let ext4 = [0x0a, 0xc1, 0x98, 0x00, 0xf9, 0xa6, 0xdf, 0xf1];
        assert_eq!(origin(1, &ext4), Origin::Inode(10_010_890));
        let tmpfs = [9, 9, 9, 9, 7, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(origin(1, &tmpfs), Origin::Inode(0x1_0000_0007));
        let xfs = [7, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9, 9];
        assert_eq!(origin(0x81, &xfs), Origin::Inode(0x1_0000_0007));
    }

    #[test]
    fn odd_origins_are_copies_of_something_unknown() {
        assert_eq!(Origin::parse(None), Origin::None);
        assert_eq!(Origin::parse(Some(b"")), Origin::Unknown);
        assert_eq!(Origin::parse(Some(&[0xff; 300])), Origin::Unknown);
        assert_eq!(origin(0xfe, &[0; 40]), Origin::Unknown);
        assert_eq!(origin(1, &[0; 3]), Origin::Unknown);
    }

    #[test]
    fn redirects_stay_beneath_the_lower() {
        let parse = |value: &str| parse_redirect(Format::Trusted, value.into());
        assert_eq!(parse("old"), Below::Sibling("old".into()));
        assert_eq!(parse("/a/old"), Below::Path("a/old".into()));
        for forged in ["", "/", "..", "/a/../..", "a/b", "/..", "//..", "."] {
            assert_eq!(parse(forged), Below::Forged, "{forged:?}");
        }
        assert_eq!(parse_redirect(Format::User, b"old".to_vec()), Below::Forged);
    }
}
