//! Copies one file exactly, holes included.

use crate::changes::compare::next_data;
use crate::node::{Stamp, Time};
use crate::xattr::{self, Xattrs};
use rustix::fs::{AtFlags, Gid, SeekFrom, Timespec, Timestamps, Uid};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Copies `size` bytes. Shares the blocks where the file system can.
pub(super) fn copy_content(from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    rustix::fs::ftruncate(to, size)?;
    let mut at = 0;
    loop {
        let start = next_data(from, at, size)?;
        if start >= size {
            return Ok(());
        }
        at = match rustix::fs::seek(from, SeekFrom::Hole(start)) {
            Ok(end) => end.clamp(start + 1, size),
            Err(Errno::INVAL | Errno::NXIO) => size,
            Err(error) => return Err(error),
        };
        copy_range(from, to, start, at)?;
    }
}

fn copy_range(from: &OwnedFd, to: &OwnedFd, mut at: u64, end: u64) -> Result<()> {
    while at < end {
        let (mut read, mut written) = (at, at);
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(1 << 30);
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), length) {
            // The file became shorter.
            Ok(0) => return Ok(()),
            Ok(count) => at += count as u64,
            Err(Errno::INTR) => {}
            // Other file systems, or a kernel that does not copy between them.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::IO) => {
                return copy_by_hand(from, to, at, end);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &OwnedFd, to: &OwnedFd, mut at: u64, end: u64) -> Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let mut chunk = match rustix::io::pread(from, &mut buffer[..most], at) {
            Ok(0) => return Ok(()),
            Ok(count) => &buffer[..count],
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        while !chunk.is_empty() {
            match rustix::io::pwrite(to, chunk, at) {
                Ok(count) => {
                    chunk = &chunk[count..];
                    at += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

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
