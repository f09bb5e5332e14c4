//! Makes a session's upper stand on its own before the project changes.
//!
//! A moved directory keeps only a redirect in the upper and takes its content
//! from the project, where this apply, or an earlier one of other paths, deletes
//! or changes it. So what still comes from the project by a redirect is copied
//! into the upper first, and then the directory is marked opaque, which ends
//! its redirect. It can be interrupted anywhere: each copy is made in a staging
//! directory and moved into place complete, and until the mark is set the
//! redirect still holds.

use super::{ApplyError, copy, stage_name};
use crate::beneath;
use crate::changes::compare::{open_wanted, target, wanted_xattrs};
use crate::changes::{Changes, Source, Wanted};
use crate::node::{FileKind, Stamp, Time};
use crate::overlay;
use crate::remove;
use crate::view::View;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result as OsResult};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// The name in the staging directory; there is one at a time.
const NEW: &str = "new";

/// Where each copy with several names comes from: a path of the project and what
/// was there, by the copy's inode.
pub(super) type Origins = HashMap<(u64, u64), (PathBuf, Stamp)>;

/// Copies what comes from the project by redirects. Nothing if there is none;
/// else the changes have to be read anew.
pub(super) fn materialise(
    view: &View,
    changes: &Changes,
    session: &str,
) -> Result<Option<Origins>, ApplyError> {
    let stage = stage_name(session);
    let error = |path: &Path, source: Errno| ApplyError::Prepare {
        path: path.to_owned(),
        source: source.into(),
    };
    remove::remove(view.upper(), &stage).map_err(|source| error(Path::new(&stage), source))?;
    if changes.redirected.is_empty() {
        return Ok(None);
    }
    let make = || {
        rustix::fs::mkdirat(view.upper(), &stage, Mode::RWXU)?;
        beneath::dir(view.upper(), Path::new(&stage))
    };
    let dir = make().map_err(|source| error(Path::new(&stage), source))?;
    let times = times_of_parents(view, changes).map_err(|(path, source)| error(&path, source))?;
    // Names of one file stay so among what comes along.
    let (mut copies, mut origins) = (HashMap::<(u64, u64), &Path>::new(), Origins::new());
    for (path, wanted) in &changes.moved_in {
        let stamp = &wanted.stamp;
        let has_names = stamp.kind == FileKind::File && stamp.nlink > 1;
        let copy = copies.get(&stamp.id()).filter(|_| has_names);
        match copy {
            Some(first) => link_in(view, first, path),
            None => copy_in(view, dir.as_fd(), path, wanted),
        }
        .map_err(|source| error(path, source))?;
        if let (true, Source::Project(from)) = (has_names, &wanted.source) {
            let made = beneath::handle(view.upper(), path).and_then(beneath::stamp);
            let made = made.map_err(|source| error(path, source))?;
            copies.entry(stamp.id()).or_insert(path);
            origins.entry(made.id()).or_insert_with(|| (from.clone(), *stamp));
        }
    }
    for (path, mtime) in &times {
        let set = beneath::dir(view.upper(), path)
            .and_then(|dir| copy::set_mtime(dir.as_fd(), OsStr::new("."), *mtime));
        set.map_err(|source| error(path, source))?;
    }
    // Innermost first: until the outer one is marked, inner ones still need it.
    for path in changes.redirected.iter().rev() {
        let mark = beneath::dir(view.upper(), path)
            .and_then(|dir| overlay::set_opaque(view.spec.format, dir));
        mark.map_err(|source| error(path, source))?;
    }
    drop(dir);
    remove::remove(view.upper(), &stage).map_err(|source| error(Path::new(&stage), source))?;
    Ok(Some(origins))
}

/// The times that directories of the upper have, or are to have, apart from the
/// copies that come into them.
fn times_of_parents(
    view: &View,
    changes: &Changes,
) -> Result<BTreeMap<PathBuf, Time>, (PathBuf, Errno)> {
    let mut times = BTreeMap::new();
    for (path, wanted) in &changes.moved_in {
        let parent = path.parent().unwrap_or(Path::new(""));
        if !times.contains_key(parent) {
            let stamp = beneath::dir(view.upper(), parent).and_then(beneath::stamp);
            times.insert(
                parent.to_owned(),
                stamp.map_err(|error| (parent.to_owned(), error))?.mtime,
            );
        }
        if wanted.stamp.kind == FileKind::Dir {
            times.insert(path.clone(), wanted.stamp.mtime);
        }
    }
    Ok(times)
}

/// Gives what was copied to `first` another name.
fn link_in(view: &View, first: &Path, path: &Path) -> OsResult<()> {
    let (from, old) = beneath::parent(view.upper(), first)?;
    let (to, new) = beneath::parent(view.upper(), path)?;
    rustix::fs::linkat(from, old, to, new, AtFlags::empty())
}

fn copy_in(view: &View, stage: BorrowedFd<'_>, path: &Path, wanted: &Wanted) -> OsResult<()> {
    let stamp = &wanted.stamp;
    match stamp.kind {
        FileKind::Dir => {
            rustix::fs::mkdirat(stage, NEW, Mode::RWXU)?;
            let fd = beneath::dir(stage, Path::new(NEW))?;
            overlay::set_copied(view.spec.format, &fd)?;
            copy::set_owner(stage, OsStr::new(NEW), stamp)?;
            copy::set_attributes(&fd, &wanted_xattrs(view, path, wanted)?, stamp.mode)?;
        }
        FileKind::Symlink => {
            rustix::fs::symlinkat(target(view, path, wanted)?, stage, NEW)?;
            copy::set_owner(stage, OsStr::new(NEW), stamp)?;
        }
        _ => {
            let from = open_wanted(view, path, wanted)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let to = rustix::fs::openat(stage, NEW, flags, Mode::RUSR | Mode::WUSR)?;
            crate::content::copy(&from, &to, stamp.size)?;
            copy::set_owner(stage, OsStr::new(NEW), stamp)?;
            copy::set_attributes(&to, &wanted_xattrs(view, path, wanted)?, stamp.mode)?;
        }
    }
    copy::set_mtime(stage, OsStr::new(NEW), stamp.mtime)?;
    let (dir, name) = beneath::parent(view.upper(), path)?;
    rustix::fs::renameat_with(stage, NEW, dir, name, RenameFlags::NOREPLACE)
}
