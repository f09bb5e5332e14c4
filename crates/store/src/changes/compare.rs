//! Whether the session's version of a file is the host's.

use super::{ChangeKind, Source, Wanted};
use crate::beneath;
use crate::node::{FileKind, Stamp};
use crate::view::View;
use crate::xattr::{self, Xattrs};
use rustix::fs::SeekFrom;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Opens the session's version of a regular file for reading.
pub(crate) fn open_wanted(view: &View, path: &Path, wanted: &Wanted) -> Result<OwnedFd> {
    match &wanted.source {
        Source::Project(from) => beneath::file(view.project(), from),
        Source::Upper => {
            let object = beneath::handle(view.upper(), path)?;
            let stamp = beneath::stamp(&object)?;
            view.read_upper(object.as_fd(), &stamp, || beneath::file(view.upper(), path))
        }
    }
}

/// The attributes that the session's version carries.
pub(crate) fn wanted_xattrs(view: &View, path: &Path, wanted: &Wanted) -> Result<Xattrs> {
    match &wanted.source {
        Source::Project(from) => xattr::carried(beneath::handle(view.project(), from)?),
        Source::Upper => {
            let object = beneath::handle(view.upper(), path)?;
            let stamp = beneath::stamp(&object)?;
            view.read_upper(object.as_fd(), &stamp, || xattr::carried(&object))
        }
    }
}

/// Compares two files of the same kind. `Ok(None)` when they are equal.
pub(super) fn compare(
    view: &View,
    path: &Path,
    wanted: &Wanted,
    host: &Stamp,
) -> Result<Option<ChangeKind>> {
    let same = match host.kind {
        FileKind::File => wanted.stamp.size == host.size && same_content(view, path, wanted, host)?,
        FileKind::Symlink => target(view, path, wanted)? == host_target(view, path)?,
        _ => true,
    };
    if !same {
        return Ok(Some(ChangeKind::Modified));
    }
    let mode = host.kind != FileKind::Symlink && wanted.stamp.mode != host.mode;
    if !same_owner(&wanted.stamp, host) || !same_xattrs(view, path, wanted, host)? {
        return Ok(Some(ChangeKind::Attributes));
    }
    Ok(mode.then_some(ChangeKind::Mode))
}

/// Owners count only for root: nobody else can give a file away, and a group
/// that differs is at most another group of the same person.
fn same_owner(wanted: &Stamp, host: &Stamp) -> bool {
    !rustix::process::geteuid().is_root() || (wanted.uid, wanted.gid) == (host.uid, host.gid)
}

fn same_xattrs(view: &View, path: &Path, wanted: &Wanted, host: &Stamp) -> Result<bool> {
    if host.kind == FileKind::Symlink {
        return Ok(true);
    }
    match xattr::carried(beneath::handle(view.project(), path)?) {
        Ok(present) => Ok(present == wanted_xattrs(view, path, wanted)?),
        Err(Errno::ACCESS) => Ok(looks_the_same(wanted, host)),
        Err(error) => Err(error),
    }
}

/// Where the session's version of a symbolic link points.
pub(crate) fn target(view: &View, path: &Path, wanted: &Wanted) -> Result<std::path::PathBuf> {
    let (root, path) = match &wanted.source {
        Source::Upper => (view.upper(), path),
        Source::Project(from) => (view.project(), from.as_path()),
    };
    let (dir, name) = beneath::parent(root, path)?;
    beneath::read_link(dir, name)
}

pub(super) fn host_target(view: &View, path: &Path) -> Result<std::path::PathBuf> {
    let (dir, name) = beneath::parent(view.project(), path)?;
    beneath::read_link(dir, name)
}

/// For a file of the host whose own mode denies us reading it: applied before,
/// it has the session's times.
fn looks_the_same(wanted: &Wanted, host: &Stamp) -> bool {
    let (one, other) = (&wanted.stamp, host);
    (one.size, one.mode, one.mtime) == (other.size, other.mode, other.mtime)
}

fn same_content(view: &View, path: &Path, wanted: &Wanted, host: &Stamp) -> Result<bool> {
    let stamp = host;
    let host = match beneath::file(view.project(), path) {
        Ok(host) => host,
        Err(Errno::ACCESS) => return Ok(looks_the_same(wanted, stamp)),
        Err(error) => return Err(error),
    };
    same_bytes(&open_wanted(view, path, wanted)?, &host, wanted.stamp.size, &|| false)
}

/// Compares `size` bytes, stepping over what is a hole in both, so that a
/// sparse file of any length costs only its data.
pub(crate) fn same_bytes(
    one: &OwnedFd,
    other: &OwnedFd,
    size: u64,
    is_canceled: &dyn Fn() -> bool,
) -> Result<bool> {
    const CHUNK: usize = 128 * 1024;
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    while at < size {
        if is_canceled() {
            return Err(Errno::CANCELED);
        }
        at = next_data(one, at, size)?.min(next_data(other, at, size)?);
        let (got, other_got) = (read_full(one, &mut left, at)?, read_full(other, &mut right, at)?);
        if left[..got] != right[..other_got] {
            return Ok(false);
        }
        if got == 0 {
            break;
        }
        at += got as u64;
    }
    Ok(true)
}

/// The first offset from `at` on that is not in a hole. Source: lseek(2).
pub(crate) fn next_data(fd: &OwnedFd, at: u64, size: u64) -> Result<u64> {
    match rustix::fs::seek(fd, SeekFrom::Data(at)) {
        Ok(found) => Ok(found.min(size)),
        Err(Errno::NXIO) => Ok(size),
        // A file system without holes.
        Err(Errno::INVAL) => Ok(at),
        Err(error) => Err(error),
    }
}

fn read_full(fd: &OwnedFd, buffer: &mut [u8], at: u64) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(fd, &mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
