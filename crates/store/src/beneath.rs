//! Reaching files beneath a directory by descriptor, never by a joined name.
//!
//! Everything here resolves with `openat2` and `RESOLVE_BENEATH |
//! RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV`, so that a
//! symbolic link or a mount that appears in the tree, whenever it does, is an
//! error and never a way out. Source: openat2(2).

use crate::node::{FileKind, Stamp};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

fn resolve() -> ResolveFlags {
    ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV
}

/// Opens the directory that everything else is beneath.
///
/// Links in the path itself are followed: it was named by the caller.
pub(crate) fn open_root(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens `path` beneath `root` with `flags`; the empty path is `root` itself.
pub(crate) fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    loop {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve()) {
            // EAGAIN: a rename or mount elsewhere disturbed the walk.
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// A handle on a directory for the calls that take one; it needs no read
/// permission.
pub(crate) fn dir(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    open(root, path, OFlags::PATH | OFlags::DIRECTORY)
}

/// A handle on any file, a symbolic link included.
pub(crate) fn handle(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    open(root, path, OFlags::PATH)
}

/// Opens a regular file for reading. It cannot hang on a fifo, and what is not
/// a regular file is `EINVAL`.
pub(crate) fn file(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    let fd = open(root, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    if stamp(&fd)?.kind == FileKind::File { Ok(fd) } else { Err(Errno::INVAL) }
}

/// Splits off the last name, giving a handle on the directory that holds it.
pub(crate) fn parent<'p>(root: BorrowedFd<'_>, path: &'p Path) -> Result<(OwnedFd, &'p OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    Ok((dir(root, path.parent().unwrap_or(Path::new("")))?, name))
}

/// What an open descriptor refers to.
pub(crate) fn stamp(fd: impl AsFd) -> Result<Stamp> {
    rustix::fs::fstat(fd).map(Stamp::from)
}

/// What `name` in `dir` is, or nothing when it is not there.
pub(crate) fn look(dir: impl AsFd, name: &OsStr) -> Result<Option<Stamp>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat.into())),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is at `path` beneath `root`, or nothing when it is not there.
pub(crate) fn find(root: BorrowedFd<'_>, path: &Path) -> Result<Option<Stamp>> {
    match handle(root, path) {
        Ok(fd) => stamp(fd).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names in a directory, in no order.
pub(crate) fn names(root: BorrowedFd<'_>, path: &Path) -> Result<Vec<OsString>> {
    some_names(root, path, usize::MAX)
}

/// At most so many of them.
pub(crate) fn some_names(root: BorrowedFd<'_>, path: &Path, most: usize) -> Result<Vec<OsString>> {
    let fd = open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut names = Vec::new();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            if names.len() >= most {
                break;
            }
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Where a symbolic link points.
pub(crate) fn read_link(dir: impl AsFd, name: &OsStr) -> Result<PathBuf> {
    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
}

/// A name by which calls that take only paths reach the very object that `fd`
/// refers to, also when it was opened with `O_PATH`. Source: proc_pid_fd(5).
pub(crate) fn proc_path(fd: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Sets permission bits of exactly the object behind `fd`.
pub(crate) fn chmod(fd: impl AsFd, mode: u32) -> Result<()> {
    rustix::fs::chmod(proc_path(&fd), Mode::from_raw_mode(mode))
}
