//! What becomes of one path: whether the session's side and the host's differ,
//! how, and what lies beneath.

use super::compare::{self, compare};
use super::conflict::{self, DirCheck};
use super::walk::{Frame, SETGID, Stray, Tree, Walk};
use super::{Change, ChangeKind, ChangesError, Conflict, RejectReason, Source, Wanted};
use crate::beneath;
use crate::node::{FileKind, Node, Stamp};
use crate::overlay::{self, Below, Origin};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const SETUID: u32 = 0o4000;

/// What was found on queueing a directory.
struct Entered {
    /// The conflict of the directory itself.
    conflict: Option<Conflict>,
    renamed_from: Option<PathBuf>,
}

impl Walk<'_> {
    /// The host has something that the session does not.
    pub(super) fn deleted(
        &mut self,
        frame: &Frame,
        path: PathBuf,
        host: Stamp,
    ) -> Result<(), ChangesError> {
        let mut conflict = frame.taint.or(frame.doomed);
        let mut is_kept = false;
        if host.kind == FileKind::Dir {
            is_kept = self.holds_masked(&path)?;
            let check = self.doom(frame, &path, &host);
            conflict =
                conflict.or((check.is_replaced || check.mode_changed).then_some(Conflict::Changed));
        } else {
            conflict = conflict.or(self.is_changed(&path, &host).then_some(Conflict::Changed));
        }
        if !is_kept {
            let before = Some(self.host_node(&path, &host)?);
            self.changes.list.push(Change {
                path,
                kind: ChangeKind::Deleted,
                before,
                after: None,
                renamed_from: None,
                conflict,
                withheld: 0,
                host: Some(host),
                wanted: None,
            });
        }
        Ok(())
    }

    /// Queues what a directory of the host holds, to be deleted with it.
    fn doom(&mut self, frame: &Frame, path: &Path, host: &Stamp) -> DirCheck {
        let check =
            conflict::check_doomed(host, self.view.spec.baseline.get(path), self.view.spec.started);
        self.note_dir(path, host, check);
        self.todo.push(Frame {
            path: path.to_owned(),
            in_host: true,
            taint: frame.taint,
            doomed: frame.doomed.or(check.is_replaced.then_some(Conflict::Changed)),
            ..Frame::default()
        });
        check
    }

    /// Whether the host has a file beneath `path` that was hidden from the
    /// session and so must outlive the directory.
    fn holds_masked(&self, path: &Path) -> Result<bool, ChangesError> {
        for masked in self.view.masks_beneath(path) {
            let found = beneath::find(self.view.project(), masked)
                .map_err(|error| Self::error(Tree::Project, masked, error))?;
            if found.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The session has something at `path`.
    pub(super) fn present(
        &mut self,
        frame: &Frame,
        path: PathBuf,
        source: Source,
        stamp: Stamp,
        origin: Origin,
        host: Option<Stamp>,
    ) -> Result<(), ChangesError> {
        let mut conflict = frame.taint;
        if let (Source::Project(from), false) = (&source, stamp.kind == FileKind::Dir) {
            // The file that moved must be the one the sandbox moved.
            conflict = conflict.or(self.is_changed(from, &stamp).then_some(Conflict::Changed));
        }
        let mut wanted = Wanted { source, stamp };
        let withheld = withhold(&mut wanted.stamp, host.as_ref(), frame.inherits_setgid);
        if let Source::Project(_) = wanted.source {
            self.changes.moved_in.push((path.clone(), wanted.clone()));
        }
        let mut renamed_from = None;
        if wanted.stamp.kind == FileKind::Dir {
            match self.enter(frame, &path, &mut wanted, host.as_ref())? {
                Some(entered) => {
                    conflict = conflict.or(entered.conflict);
                    renamed_from = entered.renamed_from;
                }
                None => return Ok(()),
            }
        } else if let Some(host) = &host {
            conflict = conflict.or(self.is_changed(&path, host).then_some(Conflict::Changed));
            if host.kind == FileKind::Dir {
                let check = self.doom(frame, &path, host);
                conflict = conflict.or(check.is_replaced.then_some(Conflict::Changed));
                if self.holds_masked(&path)? {
                    conflict = Some(Conflict::Masked);
                }
            }
        }
        if host.is_some() && self.view.is_masked(&path) {
            conflict = Some(Conflict::Masked);
        }
        let kind = match &host {
            None => ChangeKind::Added,
            Some(host) if host.kind != wanted.stamp.kind => ChangeKind::TypeChanged,
            Some(host) => {
                let compared = compare(self.view, &path, &wanted, host);
                match self.absorb(Tree::Upper, &path, compared)? {
                    Some(Some(kind)) => kind,
                    Some(None) | None => return Ok(()),
                }
            }
        };
        let has_peers = wanted.stamp.kind == FileKind::File && wanted.stamp.nlink > 1;
        let is_stray =
            kind == ChangeKind::Added && frame.entries_changed && origin.is_copy() && !has_peers;
        if is_stray && conflict.is_none() {
            self.strays.push(Stray { index: self.changes.list.len(), origin, stamp: wanted.stamp });
        }
        let before = host.as_ref().map(|host| self.host_node(&path, host)).transpose()?;
        let after = Some(self.wanted_node(&path, &wanted)?);
        self.changes.list.push(Change {
            path,
            kind,
            before,
            after,
            renamed_from,
            conflict,
            withheld,
            host,
            wanted: Some(wanted),
        });
        Ok(())
    }

    /// Queues a directory that the session has; nothing when it is rejected.
    fn enter(
        &mut self,
        frame: &Frame,
        path: &Path,
        wanted: &mut Wanted,
        host: Option<&Stamp>,
    ) -> Result<Option<Entered>, ChangesError> {
        let mut inner = Frame {
            path: path.to_owned(),
            taint: frame.taint,
            inherits_setgid: wanted.stamp.mode & SETGID != 0,
            ..Frame::default()
        };
        let mut origin = Origin::None;
        let mut renamed_from = None;
        match &wanted.source {
            Source::Project(from) => inner.lower = Some(from.clone()),
            Source::Upper => {
                inner.in_upper = true;
                let view = self.view;
                let marks = view
                    .open_up(path, &wanted.stamp)
                    .and_then(|()| beneath::dir(view.upper(), path))
                    .and_then(|fd| overlay::dir_marks(view.spec.format, fd));
                let Some(marks) = self.absorb(Tree::Upper, path, marks)? else { return Ok(None) };
                origin = marks.origin;
                inner.marked_whiteouts = marks.marked_whiteouts;
                let (lower, is_moved) = match marks.below {
                    Below::Forged => {
                        self.reject::<()>(path, RejectReason::ForgedMark);
                        return Ok(None);
                    }
                    Below::Opaque => (None, false),
                    // Copying up leaves a mark, so this one was made in the session.
                    Below::Same if !origin.is_copy() => {
                        inner.spares_host = frame.lower.is_some() || frame.spares_host;
                        (None, false)
                    }
                    Below::Same => {
                        (frame.lower.as_ref().map(|lower| lower.join(last(path))), false)
                    }
                    Below::Sibling(name) => {
                        (frame.lower.as_ref().map(|lower| lower.join(name)), true)
                    }
                    Below::Path(from) => (Some(from), true),
                };
                // One that moved away and back is where it was.
                let is_moved = is_moved && lower.as_deref() != Some(path);
                if let Some(lower) = lower {
                    self.see_through(&mut inner, lower, is_moved, origin)?;
                }
                renamed_from = inner.lower.clone().filter(|_| is_moved);
                if renamed_from.is_some() {
                    self.changes.redirected.push(path.to_owned());
                }
            }
        }
        let own = inner.taint.or(self.meet_host(&mut inner, origin, host));
        self.todo.push(inner);
        Ok(Some(Entered { conflict: own, renamed_from }))
    }

    /// Lets a directory of the project shine through, if it is (still) there.
    fn see_through(
        &mut self,
        inner: &mut Frame,
        lower: PathBuf,
        is_moved: bool,
        origin: Origin,
    ) -> Result<(), ChangesError> {
        if self.view.is_masked(&lower) {
            return Ok(());
        }
        let found = beneath::find(self.view.project(), &lower);
        let found = self.absorb(Tree::Project, &lower, found)?.flatten();
        match found.filter(|found| found.kind == FileKind::Dir) {
            Some(found) => {
                if is_moved {
                    let known = self.view.spec.baseline.get(&lower);
                    let check =
                        conflict::check_merged(&found, origin, known, self.view.spec.started);
                    inner.taint = inner.taint.or(check.is_replaced.then_some(Conflict::Replaced));
                }
                inner.lower = Some(lower);
            }
            // The overlay had it when it copied the directory up.
            None if is_moved || origin.is_copy() => {
                inner.taint = inner.taint.or(Some(Conflict::Gone));
            }
            None => {}
        }
        Ok(())
    }

    /// Looks at what the host has where the session has a directory. Gives the
    /// conflict of the directory's own attributes.
    fn meet_host(
        &mut self,
        inner: &mut Frame,
        origin: Origin,
        host: Option<&Stamp>,
    ) -> Option<Conflict> {
        let host = host?;
        let started = self.view.spec.started;
        if host.kind != FileKind::Dir {
            return self.is_changed(&inner.path, host).then_some(Conflict::Changed);
        }
        inner.in_host = true;
        let known = self.view.spec.baseline.get(&inner.path);
        let check = if inner.is_merged_in_place() {
            let check = conflict::check_merged(host, origin, known, started);
            inner.taint = inner.taint.or(check.is_replaced.then_some(Conflict::Replaced));
            inner.entries_changed = self.has_new_entries(&inner.path, host);
            check
        } else {
            let check = conflict::check_doomed(host, known, started);
            inner.doomed = check.is_replaced.then_some(Conflict::Changed);
            check
        };
        self.note_dir(&inner.path, host, check);
        (check.is_replaced || check.mode_changed).then_some(Conflict::Changed)
    }

    fn host_node(&mut self, path: &Path, host: &Stamp) -> Result<Node, ChangesError> {
        let target = match host.kind {
            FileKind::Symlink => {
                let target = compare::host_target(self.view, path);
                self.absorb(Tree::Project, path, target)?
            }
            _ => None,
        };
        Ok(Node { kind: host.kind, mode: host.mode, size: host.size, target })
    }

    fn wanted_node(&mut self, path: &Path, wanted: &Wanted) -> Result<Node, ChangesError> {
        let stamp = &wanted.stamp;
        let target = match stamp.kind {
            FileKind::Symlink => {
                let target = compare::target(self.view, path, wanted);
                self.absorb(Tree::Upper, path, target)?
            }
            _ => None,
        };
        Ok(Node { kind: stamp.kind, mode: stamp.mode, size: stamp.size, target })
    }
}

fn last(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Takes away what a session may not hand to the host: setuid and setgid, unless
/// what the host has there has the bit already and for a file the same owner or
/// group, whose rights it gives, or a directory gets setgid from its parent as any
/// new one there would. Gives the bits that were taken away.
fn withhold(stamp: &mut Stamp, host: Option<&Stamp>, inherits_setgid: bool) -> u32 {
    let is_dir = stamp.kind == FileKind::Dir;
    let had = |host: &Stamp| {
        let user = if is_dir || host.uid == stamp.uid { SETUID } else { 0 };
        let group = if is_dir || host.gid == stamp.gid { SETGID } else { 0 };
        host.mode & (user | group)
    };
    let before = host.filter(|host| host.kind == stamp.kind).map_or(0, had);
    let inherited = if is_dir && inherits_setgid { SETGID } else { 0 };
    let withheld = stamp.mode & (SETUID | SETGID) & !(before | inherited);
    stamp.mode &= !withheld;
    withheld
}
