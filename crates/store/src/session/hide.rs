//! Hides files of the project from a session: a whiteout in the upper at each,
//! made before the overlay is mounted.

use crate::beneath;
use crate::node::{FileKind, Stamp};
use crate::overlay::{self, Format};
use rustix::fs::{AtFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid};
use rustix::io::{Errno, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Puts a whiteout at each of `paths`. What is not in the project needs none.
pub(super) fn hide(
    upper: BorrowedFd<'_>,
    project: BorrowedFd<'_>,
    format: Format,
    paths: &BTreeSet<PathBuf>,
) -> std::result::Result<(), (PathBuf, Errno)> {
    let mut made = BTreeMap::new();
    for path in paths {
        hide_one(upper, project, format, path, &mut made).map_err(|error| (path.clone(), error))?;
    }
    // Last, because each entry that was made moved the time of its directory,
    // and a mode may deny even its owner to make any. Innermost first.
    for (path, stamp) in made.into_iter().rev() {
        settle(upper, &path, &stamp).map_err(|error| (path, error))?;
    }
    Ok(())
}

fn hide_one(
    upper: BorrowedFd<'_>,
    project: BorrowedFd<'_>,
    format: Format,
    path: &Path,
    made: &mut BTreeMap<PathBuf, Stamp>,
) -> Result<()> {
    if beneath::find(project, path)?.is_none() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    let above: Vec<&Path> =
        parent.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
    for dir in above.into_iter().rev() {
        match beneath::find(upper, dir)? {
            None => {
                let stamp = copy_up(upper, project, format, dir)?;
                made.insert(dir.to_owned(), stamp);
            }
            Some(found) if found.kind == FileKind::Dir => {}
            // A whiteout: a directory above is hidden as a whole.
            Some(_) => return Ok(()),
        }
    }
    let (dir, name) = beneath::parent(upper, path)?;
    // Allowed to everyone: a device 0/0 is not a device. Source: mknod(2).
    match rustix::fs::mknodat(dir, name, FileType::CharacterDevice, Mode::empty(), 0) {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

/// Makes a directory in the upper as the overlay itself would, with what the
/// project's directory has, because the session sees the upper's.
fn copy_up(
    upper: BorrowedFd<'_>,
    project: BorrowedFd<'_>,
    format: Format,
    path: &Path,
) -> Result<Stamp> {
    let from = beneath::dir(project, path)?;
    let stamp = beneath::stamp(&from)?;
    let (dir, name) = beneath::parent(upper, path)?;
    rustix::fs::mkdirat(&dir, name, Mode::RWXU)?;
    let fd = beneath::dir(dir.as_fd(), Path::new(name))?;
    overlay::set_copied(format, &fd)?;
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(stamp.uid), Gid::from_raw(stamp.gid));
        rustix::fs::chownat(&dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    crate::xattr::make_equal(&fd, &crate::xattr::carried(&from)?)?;
    Ok(stamp)
}

fn settle(upper: BorrowedFd<'_>, path: &Path, stamp: &Stamp) -> Result<()> {
    let fd = beneath::dir(upper, path)?;
    let time = Timespec { tv_sec: stamp.mtime.sec, tv_nsec: stamp.mtime.nsec.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(&fd, ".", &times, AtFlags::empty())?;
    beneath::chmod(&fd, stamp.mode)
}
