//! Gives a copy the owner, attributes and times of what it was copied from.

use crate::node::{Stamp, Time};
use crate::xattr::{self, Xattrs};
use rustix::fs::{AtFlags, Gid, Timespec, Timestamps, Uid};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Gives `name` in `dir` the owner of the session's version: as root the exact
/// one, else the group if it is one of ours.
pub(super) fn set_owner(dir: BorrowedFd<'_>, name: &OsStr, wanted: &Stamp) -> Result<()> {
    let (uid, gid) = owner(wanted);
    pardon(rustix::fs::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW))
}

fn owner(wanted: &Stamp) -> (Option<Uid>, Option<Gid>) {
    let is_root = rustix::process::geteuid().is_root();
    (is_root.then(|| Uid::from_raw(wanted.uid)), Some(Gid::from_raw(wanted.gid)))
}

/// An ordinary user may not give a file to a group that is not theirs (EPERM),
/// or that has no place in the user namespace we are in (EINVAL).
fn pardon(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(Errno::PERM | Errno::INVAL) if !rustix::process::geteuid().is_root() => Ok(()),
        other => other,
    }
}

/// Sets attributes and mode of the object behind `fd`, in the order in which
/// none undoes another: access lists change mode bits.
pub(super) fn set_attributes(fd: &OwnedFd, xattrs: &Xattrs, mode: u32) -> Result<()> {
    xattr::make_equal(fd, xattrs)?;
    crate::beneath::chmod(fd, mode)
}

/// Sets the modification time; the access time stays.
pub(super) fn set_mtime(dir: BorrowedFd<'_>, name: &OsStr, mtime: Time) -> Result<()> {
    rustix::fs::utimensat(dir, name, &times(mtime), AtFlags::SYMLINK_NOFOLLOW)
}

fn times(mtime: Time) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let modified = Timespec { tv_sec: mtime.sec, tv_nsec: mtime.nsec.into() };
    Timestamps { last_access: omit, last_modification: modified }
}
