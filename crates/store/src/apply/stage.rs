//! The staging directory: new versions, complete and out of the way.

use super::commit::Run;
use super::copy;
use super::select::Selected;
use super::{ApplyError, stage_name};
use crate::beneath;
use crate::changes::compare::{self, open_wanted};
use crate::changes::{Change, ChangeKind, Changes, Source, Wanted};
use crate::node::{FileKind, Stamp};
use crate::remove;
use crate::view::View;
use crate::xattr::Xattrs;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, Result as OsResult};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The directory, removed with all that is in it when dropped.
pub(super) struct Stage {
    project: OwnedFd,
    name: OsString,
    dir: OwnedFd,
}

/// Which changes have a new version in the stage, under the number of the
/// change.
pub(super) type Staged = HashSet<usize>;

/// The name in the stage of the change with this number.
pub(super) fn slot(index: usize) -> OsString {
    index.to_string().into()
}

impl Stage {
    pub(super) fn make(run: &mut Run<'_>) -> Result<Self, ApplyError> {
        let view = run.view;
        let name = stage_name(run.request.session);
        let error = |error: Errno| ApplyError::Stage {
            path: view.spec.project.join(&name),
            source: error.into(),
        };
        run.make_writable(Path::new("")).map_err(error)?;
        let make = || -> OsResult<Self> {
            let project = beneath::dir(view.project(), Path::new(""))?;
            // Left by an apply of this session that was killed.
            remove::remove(project.as_fd(), &name)?;
            rustix::fs::mkdirat(&project, &name, Mode::RWXU)?;
            let dir = beneath::dir(project.as_fd(), Path::new(&name))?;
            // Nothing that the top directory hands down may get onto the files.
            crate::xattr::make_equal(&dir, &Xattrs::new())?;
            beneath::chmod(&dir, 0o700)?;
            Ok(Self { project, name: name.clone(), dir })
        };
        make().map_err(error)
    }

    pub(super) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Makes the new version of each change that has one.
    pub(super) fn fill(
        &self,
        run: &mut Run<'_>,
        selected: &[Selected],
    ) -> Result<Staged, ApplyError> {
        let (view, changes) = (run.view, run.changes);
        let changed: HashSet<&Path> =
            changes.list.iter().map(|change| change.path.as_path()).collect();
        let going: HashSet<&Path> = selected
            .iter()
            .map(|selected| &changes.list[selected.index])
            .filter(|change| change.kind == ChangeKind::Deleted || needs_new(change))
            .map(|change| change.path.as_path())
            .collect();
        let mut links: HashMap<(u64, u64), usize> = HashMap::new();
        let mut staged = Staged::new();
        let mut is_any = false;
        for Selected { index, .. } in selected {
            let change = &changes.list[*index];
            let Some(wanted) = change.wanted.as_ref().filter(|_| needs_new(change)) else {
                continue;
            };
            let error = |error: Errno| ApplyError::Prepare {
                path: change.path.clone(),
                source: error.into(),
            };
            let peers = peers(changes, wanted);
            let shared = match links.get(&wanted.stamp.id()).filter(|_| !peers.is_empty()) {
                Some(first) => self.link_staged(*first, *index),
                None => {
                    self.link_unchanged(run, wanted, &changed, *index)
                        || self.link_origin(run, wanted, &going, *index)
                }
            };
            if !shared {
                self.new_version(view, change, wanted, &slot(*index)).map_err(error)?;
            }
            links.insert(wanted.stamp.id(), *index);
            is_any |= wanted.stamp.kind == FileKind::File;
            staged.insert(*index);
        }
        if is_any {
            // Once for all of them: content must be on disk before names are.
            rustix::fs::syncfs(self.sync_handle()?).map_err(|error| ApplyError::Stage {
                path: view.spec.project.join(&self.name),
                source: error.into(),
            })?;
        }
        Ok(staged)
    }

    fn sync_handle(&self) -> Result<OwnedFd, ApplyError> {
        beneath::open(self.dir(), Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY).map_err(
            |error| ApplyError::Stage { path: self.name.clone().into(), source: error.into() },
        )
    }

    fn link_staged(&self, first: usize, index: usize) -> bool {
        rustix::fs::linkat(&self.dir, slot(first), &self.dir, slot(index), AtFlags::empty()).is_ok()
    }

    /// Links to another name of the file that the project already has as it
    /// should be.
    fn link_unchanged(
        &self,
        run: &mut Run<'_>,
        wanted: &Wanted,
        changed: &HashSet<&Path>,
        index: usize,
    ) -> bool {
        // With setuid and setgid bits it has more than the new name is to have.
        let is_same = |file: &Stamp| file.mode == wanted.stamp.mode;
        let mut peers = peers(run.changes, wanted).iter();
        let peer = peers.find(|peer| !changed.contains(peer.as_path()));
        peer.is_some_and(|peer| self.link(run, peer, &is_same, index))
    }

    /// Links to the host's own file that comes here with a directory that moved,
    /// so that it stays the same as its other names, wherever they are. Only if
    /// the name that it has now goes: no session wants both to be one.
    fn link_origin(
        &self,
        run: &mut Run<'_>,
        wanted: &Wanted,
        going: &HashSet<&Path>,
        index: usize,
    ) -> bool {
        let Some((from, stamp)) = run.origins.get(&wanted.stamp.id()).cloned() else {
            return false;
        };
        let is_same = |file: &Stamp| {
            file.same_content_as(&stamp)
                && file.ctime == stamp.ctime
                && file.mode == wanted.stamp.mode
        };
        going.contains(from.as_path()) && self.link(run, &from, &is_same, index)
    }

    /// Makes a file of the project the new version, if it may be.
    fn link(
        &self,
        run: &mut Run<'_>,
        path: &Path,
        may: &dyn Fn(&Stamp) -> bool,
        index: usize,
    ) -> bool {
        let slot = slot(index);
        let mut link = || -> OsResult<bool> {
            let (dir, name) = beneath::parent(run.view.project(), path)?;
            let Some(found) = beneath::look(&dir, name)? else { return Ok(false) };
            if !may(&found) || !run.touch(&found) {
                return Ok(false);
            }
            rustix::fs::linkat(dir, name, &self.dir, &slot, AtFlags::empty())?;
            let is_it = beneath::look(&self.dir, &slot)?.is_some_and(|it| it.id() == found.id());
            if !is_it {
                // The host has just put another one there.
                rustix::fs::unlinkat(&self.dir, &slot, AtFlags::empty())?;
            }
            Ok(is_it)
        };
        link().unwrap_or(false)
    }

    fn new_version(
        &self,
        view: &View,
        change: &Change,
        wanted: &Wanted,
        slot: &OsStr,
    ) -> OsResult<()> {
        let (dir, stamp) = (self.dir(), &wanted.stamp);
        match stamp.kind {
            FileKind::Dir => {
                rustix::fs::mkdirat(dir, slot, Mode::RWXU)?;
                copy::set_owner(dir, slot, stamp)?;
                let xattrs = compare::wanted_xattrs(view, &change.path, wanted)?;
                let fd = beneath::dir(dir, Path::new(slot))?;
                // Room to work in; finishing takes away what is too much.
                copy::set_attributes(&fd, &xattrs, stamp.mode | 0o700)
            }
            FileKind::Symlink => {
                let target = compare::target(view, &change.path, wanted)?;
                rustix::fs::symlinkat(target, dir, slot)?;
                copy::set_owner(dir, slot, stamp)?;
                copy::set_mtime(dir, slot, stamp.mtime)
            }
            _ => self.new_file(view, change, wanted, slot),
        }
    }

    fn new_file(
        &self,
        view: &View,
        change: &Change,
        wanted: &Wanted,
        slot: &OsStr,
    ) -> OsResult<()> {
        let (dir, stamp) = (self.dir(), &wanted.stamp);
        let from = open_wanted(view, &change.path, wanted)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = rustix::fs::openat(dir, slot, flags, Mode::RUSR | Mode::WUSR)?;
        crate::content::copy(&from, &to, stamp.size)?;
        let now = beneath::stamp(&from)?;
        if !now.same_content_as(stamp) {
            // It was written to while we read: no version that ever was.
            return Err(Errno::STALE);
        }
        copy::set_owner(dir, slot, stamp)?;
        copy::set_attributes(
            &to,
            &compare::wanted_xattrs(view, &change.path, wanted)?,
            stamp.mode,
        )?;
        copy::set_mtime(dir, slot, stamp.mtime)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next apply.
        remove::remove(self.project.as_fd(), &self.name).ok();
    }
}

/// The names of the session's file, if it has several.
fn peers<'c>(changes: &'c Changes, wanted: &Wanted) -> &'c [PathBuf] {
    match wanted.source {
        Source::Upper => changes.links.get(&wanted.stamp.id()).map_or(&[], Vec::as_slice),
        Source::Project(_) => &[],
    }
}

/// Whether a change is made by putting something new in place, and not by
/// setting attributes of what is there.
///
/// A mode is set in place, except for a file with several names, where it would
/// reach the others, which may lie outside the project.
pub(super) fn needs_new(change: &Change) -> bool {
    let host_is_dir = change.host.is_some_and(|host| host.kind == FileKind::Dir);
    match change.kind {
        ChangeKind::Added | ChangeKind::Modified | ChangeKind::TypeChanged => true,
        ChangeKind::Mode => {
            change.host.is_some_and(|host| host.kind != FileKind::Dir && host.nlink > 1)
        }
        ChangeKind::Attributes => !host_is_dir,
        ChangeKind::Deleted => false,
    }
}
