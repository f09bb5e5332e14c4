//! The walk over the upper directory and the project side by side.
//!
//! A frame is one directory of the result: what the upper has there, which
//! directory of the project shines through (the same one, a moved one or none),
//! and what the project has at that path now. Frames are kept as paths and
//! opened anew, so neither depth nor a changing tree costs descriptors.

use super::conflict::DirCheck;
use super::{
    Change, ChangeKind, Changes, ChangesError, Conflict, RejectReason, Rejected, Source,
    is_nameable,
};
use crate::apply::STAGE_PREFIX;
use crate::beneath;
use crate::node::{FileKind, Stamp};
use crate::overlay::{self, Origin};
use crate::view::{Known, View};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// More entries than this are refused: the lists are held in memory.
const MOST_ENTRIES: usize = 4_000_000;

pub(super) const SETGID: u32 = 0o2000;

#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    pub(super) path: PathBuf,
    pub(super) in_upper: bool,
    /// The directory of the project that shines through.
    pub(super) lower: Option<PathBuf>,
    pub(super) in_host: bool,
    /// Why every change in here is in conflict.
    pub(super) taint: Option<Conflict>,
    /// Why every deletion of what the host has in here is in conflict.
    pub(super) doomed: Option<Conflict>,
    /// Entries of the merged directory came or went on the host.
    pub(super) entries_changed: bool,
    pub(super) marked_whiteouts: bool,
    /// The directory was born in the session where the project had none: what
    /// the host has in one of the same name was never hidden or deleted.
    pub(super) spares_host: bool,
    /// New directories in here inherit setgid.
    pub(super) inherits_setgid: bool,
}

impl Frame {
    pub(super) fn is_merged_in_place(&self) -> bool {
        self.lower.as_ref() == Some(&self.path)
    }
}

/// The three directories of a frame, opened.
struct Dirs {
    upper: Option<OwnedFd>,
    lower: Option<OwnedFd>,
    host: Option<OwnedFd>,
}

/// What the merged view has under a name.
enum Seen {
    Nothing,
    Rejected(RejectReason),
    Upper(Stamp, Origin),
    Lower(Stamp, PathBuf),
}

/// A copied-up file without a counterpart: moved here by the session, or
/// deleted by the host meanwhile.
pub(super) struct Stray {
    pub(super) index: usize,
    pub(super) origin: Origin,
    pub(super) stamp: Stamp,
}

pub(super) struct Walk<'v> {
    pub(super) view: &'v View,
    pub(super) todo: Vec<Frame>,
    pub(super) changes: Changes,
    pub(super) strays: Vec<Stray>,
    /// Inodes of the host that have a fate of their own in this walk.
    pub(super) met: HashSet<u64>,
    pub(super) entries: usize,
}

/// Which tree a failing call was about.
#[derive(Clone, Copy)]
pub(super) enum Tree {
    Upper,
    Project,
}

impl<'v> Walk<'v> {
    pub(super) fn new(view: &'v View) -> Self {
        Self {
            view,
            todo: Vec::new(),
            changes: Changes::default(),
            strays: Vec::new(),
            met: HashSet::new(),
            entries: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<Changes, ChangesError> {
        let root = beneath::stamp(self.view.project())
            .map_err(|error| Self::error(Tree::Project, Path::new(""), error))?;
        let entries_changed = self.has_new_entries(Path::new(""), &root);
        self.todo.push(Frame {
            in_upper: true,
            lower: Some(PathBuf::new()),
            in_host: true,
            entries_changed,
            inherits_setgid: root.mode & SETGID != 0,
            ..Frame::default()
        });
        while let Some(frame) = self.todo.pop() {
            self.frame(&frame)?;
        }
        self.settle_strays();
        for paths in self.changes.links.values_mut() {
            paths.sort();
        }
        Ok(self.changes)
    }

    pub(super) fn error(tree: Tree, path: &Path, error: Errno) -> ChangesError {
        let (path, source) = (path.to_owned(), error.into());
        match tree {
            Tree::Upper => ChangesError::Upper { path, source },
            Tree::Project => ChangesError::Project { path, source },
        }
    }

    /// Sorts a failure into rejected, vanished (nothing to do) or fatal.
    pub(super) fn absorb<T>(
        &mut self,
        tree: Tree,
        path: &Path,
        outcome: rustix::io::Result<T>,
    ) -> Result<Option<T>, ChangesError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::STALE) => {
                Ok(None)
            }
            Err(Errno::ACCESS | Errno::PERM) => Ok(self.reject(path, RejectReason::Unreadable)),
            Err(Errno::XDEV) => Ok(self.reject(path, RejectReason::OtherFileSystem)),
            Err(Errno::NAMETOOLONG) => Ok(self.reject(path, RejectReason::TooLong)),
            Err(error) => Err(Self::error(tree, path, error)),
        }
    }

    pub(super) fn reject<T>(&mut self, path: &Path, why: RejectReason) -> Option<T> {
        self.changes.rejected.push(Rejected { path: path.to_owned(), why });
        None
    }

    pub(super) fn newer(&self, host: &Stamp) -> bool {
        self.view.is_newer(host)
    }

    /// Whether a file of the project changed since the start, and not by an
    /// earlier apply.
    pub(super) fn is_changed(&self, path: &Path, host: &Stamp) -> bool {
        self.newer(host) && !self.view.spec.baseline.is_own_trace(path, host)
    }

    /// Whether the host made, moved or removed entries of a directory of the project
    /// since the start, and not an earlier apply. One where it did not is kept in mind.
    pub(super) fn has_new_entries(&mut self, path: &Path, host: &Stamp) -> bool {
        let is_quiet = !self.newer(host) || self.view.spec.baseline.is_left_alone(path, host);
        if is_quiet {
            self.changes.quiet.push(path.to_owned());
        }
        !is_quiet
    }

    /// Keeps a directory for the baseline, unless it already is another one than
    /// the sandbox saw.
    pub(super) fn note_dir(&mut self, path: &Path, host: &Stamp, check: DirCheck) {
        if !check.is_replaced {
            let mode = (!check.mode_changed).then_some(host.mode);
            let known = Known { dev: host.dev, ino: host.ino, mode };
            self.changes.dirs.push((path.to_owned(), known));
        }
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), ChangesError> {
        if !is_nameable(&frame.path) {
            self.reject::<()>(&frame.path, RejectReason::TooLong);
            return Ok(());
        }
        let Some((dirs, names)) = self.open_frame(frame)? else { return Ok(()) };
        for name in names {
            if frame.path.as_os_str().is_empty() && is_stage(&name) {
                continue;
            }
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(ChangesError::TooMany { most: MOST_ENTRIES });
            }
            self.entry(frame, &dirs, &name)?;
        }
        Ok(())
    }

    /// Opens the directories of a frame and lists the names that may differ.
    fn open_frame(
        &mut self,
        frame: &Frame,
    ) -> Result<Option<(Dirs, BTreeSet<OsString>)>, ChangesError> {
        let view = self.view;
        let mut names = BTreeSet::new();
        let mut dirs = Dirs { upper: None, lower: None, host: None };
        // Nothing in here is compared by halves: one unreadable side leaves the
        // directory alone.
        if frame.in_upper {
            let upper = Self::open_listed(view.upper(), &frame.path);
            let Some((fd, listed)) = self.absorb(Tree::Upper, &frame.path, upper)? else {
                return Ok(None);
            };
            names.extend(listed);
            dirs.upper = Some(fd);
        }
        if let Some(lower) = frame.lower.as_ref().filter(|lower| **lower != frame.path) {
            let opened = Self::open_listed(view.project(), lower);
            let Some((fd, listed)) = self.absorb(Tree::Project, lower, opened)? else {
                return Ok(None);
            };
            names.extend(listed);
            dirs.lower = Some(fd);
        }
        if frame.in_host {
            // Where the project shines through in place, only names of the
            // upper can differ.
            let opened = if frame.is_merged_in_place() || frame.spares_host {
                beneath::dir(view.project(), &frame.path).map(|fd| (fd, Vec::new()))
            } else {
                Self::open_listed(view.project(), &frame.path)
            };
            let Some((fd, listed)) = self.absorb(Tree::Project, &frame.path, opened)? else {
                return Ok(None);
            };
            names.extend(listed);
            dirs.host = Some(fd);
        }
        Ok(Some((dirs, names)))
    }

    fn open_listed(
        root: BorrowedFd<'_>,
        path: &Path,
    ) -> rustix::io::Result<(OwnedFd, Vec<OsString>)> {
        Ok((beneath::dir(root, path)?, beneath::names(root, path)?))
    }

    fn entry(&mut self, frame: &Frame, dirs: &Dirs, name: &OsStr) -> Result<(), ChangesError> {
        let path = frame.path.join(name);
        let host = match &dirs.host {
            Some(fd) => {
                let found = beneath::look(fd, name);
                match self.absorb(Tree::Project, &path, found)? {
                    Some(host) => host,
                    None => return Ok(()),
                }
            }
            None => None,
        };
        if let Some(host) = &host {
            self.met.insert(host.ino);
        }
        let Some(seen) = self.see(frame, dirs, name, &path)? else { return Ok(()) };
        let is_masked = self.view.is_masked(&path);
        match (seen, host) {
            (Seen::Rejected(why), _) => {
                self.reject::<()>(&path, why);
                Ok(())
            }
            (Seen::Nothing, None) => Ok(()),
            // Hidden from the session: that it saw nothing says nothing.
            (Seen::Nothing, Some(_)) if is_masked => Ok(()),
            (Seen::Nothing, Some(host)) => self.deleted(frame, path, host),
            (Seen::Upper(stamp, origin), host) => {
                self.present(frame, path, Source::Upper, stamp, origin, host)
            }
            (Seen::Lower(stamp, from), host) => {
                self.present(frame, path, Source::Project(from), stamp, Origin::None, host)
            }
        }
    }

    /// What the merged view has under `name`; nothing when it vanished.
    fn see(
        &mut self,
        frame: &Frame,
        dirs: &Dirs,
        name: &OsStr,
        path: &Path,
    ) -> Result<Option<Seen>, ChangesError> {
        if let Some(fd) = &dirs.upper {
            let found = beneath::look(fd, name);
            match self.absorb(Tree::Upper, path, found)? {
                Some(Some(stamp)) => return self.see_upper(frame, path, stamp),
                Some(None) => {}
                None => return Ok(None),
            }
        }
        let (Some(lower), Some(fd)) = (&frame.lower, &dirs.lower) else {
            return Ok(Some(Seen::Nothing));
        };
        let from = lower.join(name);
        let found = beneath::look(fd, name);
        Ok(match self.absorb(Tree::Project, &from, found)? {
            Some(Some(stamp)) if stamp.is_null_device() || self.view.is_masked(&from) => {
                Some(Seen::Nothing)
            }
            Some(Some(stamp)) if !stamp.kind.is_plain() => {
                Some(Seen::Rejected(RejectReason::Special(stamp.kind)))
            }
            Some(Some(stamp)) => Some(Seen::Lower(stamp, from)),
            Some(None) => Some(Seen::Nothing),
            None => None,
        })
    }

    fn see_upper(
        &mut self,
        frame: &Frame,
        path: &Path,
        mut stamp: Stamp,
    ) -> Result<Option<Seen>, ChangesError> {
        if stamp.is_null_device() {
            return Ok(Some(Seen::Nothing));
        }
        if !stamp.kind.is_plain() {
            return Ok(Some(Seen::Rejected(RejectReason::Special(stamp.kind))));
        }
        if stamp.kind != FileKind::File {
            stamp.mode = self.view.true_mode(path, &stamp);
            return Ok(Some(Seen::Upper(self.view.owned_as_meant(stamp), Origin::None)));
        }
        let (view, format) = (self.view, self.view.spec.format);
        let marks = beneath::handle(view.upper(), path).and_then(|object| {
            view.read_upper(object.as_fd(), &stamp, || {
                overlay::file_marks(format, &object, &stamp, frame.marked_whiteouts)
            })
        });
        let Some(marks) = self.absorb(Tree::Upper, path, marks)? else { return Ok(None) };
        if marks.is_whiteout {
            return Ok(Some(Seen::Nothing));
        }
        if marks.has_no_data {
            return Ok(Some(Seen::Rejected(RejectReason::NoContent)));
        }
        if stamp.nlink > 1 {
            self.changes.links.entry(stamp.id()).or_default().push(path.to_owned());
        }
        Ok(Some(Seen::Upper(view.owned_as_meant(stamp), marks.origin)))
    }

    /// Decides about copied-up files whose counterpart is missing while the host
    /// worked in the same directory: moved here by the session, or deleted by
    /// the host. Nothing of the host's is lost either way, so the doubt that is
    /// left without a known inode goes to the session.
    fn settle_strays(&mut self) {
        let list = &self.changes.list;
        let gone: Vec<&Change> =
            list.iter().filter(|change| change.kind == ChangeKind::Deleted).collect();
        let moved_from = |stray: &Stray, change: &Change| {
            let path = &list[stray.index].path;
            change.host.is_some_and(|host| {
                let same_place = change.path.parent() == path.parent()
                    || change.path.file_name() == path.file_name();
                let same_content = (host.size, host.mtime) == (stray.stamp.size, stray.stamp.mtime);
                host.kind == stray.stamp.kind && (same_place || same_content)
            })
        };
        let lost: Vec<usize> = self
            .strays
            .iter()
            .filter(|stray| match stray.origin {
                Origin::Inode(ino) => !self.met.contains(&ino),
                Origin::Unknown => !gone.iter().any(|change| moved_from(stray, change)),
                Origin::None => false,
            })
            .map(|stray| stray.index)
            .collect();
        for index in lost {
            self.changes.list[index].conflict.get_or_insert(Conflict::Gone);
        }
    }
}

/// Whether a name at the top is one that applying uses, left by a kill.
fn is_stage(name: &OsStr) -> bool {
    name.as_bytes().starts_with(STAGE_PREFIX.as_bytes())
}
