//! Trees in subvolumes of btrfs, which are copied as a whole without looking at a file.

use crate::beneath;
use crate::node::FileKind;
use atoll_sys::btrfs;
use rustix::fs::OFlags;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

/// The inode of the root of every subvolume. Source: `BTRFS_FIRST_FREE_OBJECTID` in the
/// kernel's `include/uapi/linux/btrfs_tree.h`.
const ROOT_INODE: u64 = 256;

/// Source: statfs(2).
const BTRFS: u32 = 0x9123_683e;

/// Why a subvolume could not be made or copied.
#[derive(Debug, thiserror::Error)]
pub enum SubvolumeError {
    /// It holds other subvolumes, which would be empty in the snapshot. Copying it file by
    /// file is possible.
    #[error("the subvolume has others within it, which a snapshot leaves out")]
    Nested,
    #[error("could not make the subvolume {name:?}")]
    Create { name: OsString, source: io::Error },
    #[error("could not take the snapshot {name:?}")]
    Snapshot { name: OsString, source: io::Error },
}

/// Whether a directory is a subvolume of btrfs.
///
/// # Errors
///
/// Those of fstat(2) and fstatfs(2).
pub fn is_subvolume(dir: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(is_subvolume_root(dir)?)
}

pub(crate) fn is_subvolume_root(dir: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let stamp = beneath::stamp(dir)?;
    if stamp.kind != FileKind::Dir || stamp.ino != ROOT_INODE {
        return Ok(false);
    }
    Ok(u32::try_from(rustix::fs::fstatfs(dir)?.f_type) == Ok(BTRFS))
}

/// Makes an empty subvolume `name` in `dir`; gives `false` where the file system there has
/// none.
///
/// # Errors
///
/// [`SubvolumeError::Create`].
pub fn create_subvolume(dir: BorrowedFd<'_>, name: &OsStr) -> Result<bool, SubvolumeError> {
    let create = || {
        if u32::try_from(rustix::fs::fstatfs(dir)?.f_type) != Ok(BTRFS) {
            return Ok(false);
        }
        let dir = beneath::open(dir, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
        btrfs::create_subvolume(dir.as_fd(), name)?;
        Ok(true)
    };
    create().map_err(|source| SubvolumeError::Create { name: name.to_owned(), source })
}

/// Makes `name` in `dir` a writable snapshot of the subvolume `source`, with everything in
/// it as it is at one moment. When it returns the snapshot is on the disk.
///
/// It is removed as any directory is ([`remove`](crate::remove)).
///
/// # Errors
///
/// [`SubvolumeError`].
pub fn snapshot(
    source: BorrowedFd<'_>,
    dir: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<(), SubvolumeError> {
    let failed = |source: io::Error| SubvolumeError::Snapshot { name: name.to_owned(), source };
    let open = |dir| {
        beneath::open(dir, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| failed(errno.into()))
    };
    let (source, dir) = (open(source)?, open(dir)?);
    if btrfs::has_subvolumes(source.as_fd()).map_err(failed)? {
        return Err(SubvolumeError::Nested);
    }
    btrfs::snapshot(source.as_fd(), dir.as_fd(), name).map_err(failed)
}
