//! Puts staged versions in place and moves deleted ones out.

use super::finish::Finish;
use super::materialise::Origins;
use super::select::Selected;
use super::stage::{Stage, Staged, needs_new, slot};
use super::{ApplyError, Outcome, Request};
use crate::beneath;
use crate::changes::{Change, ChangeKind, Changes, Conflict};
use crate::node::{FileKind, Stamp, Time};
use crate::view::{Baseline, Known, KnownFile, View};
use rustix::fs::RenameFlags;
use rustix::io::{Errno, Result as OsResult};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// One apply under way.
pub(super) struct Run<'a> {
    pub(super) view: &'a View,
    pub(super) changes: &'a Changes,
    pub(super) request: &'a Request<'a>,
    pub(super) outcome: Outcome,
    pub(super) finish: Finish,
    pub(super) origins: Origins,
    /// Files of which we made or removed one of several names, which moves the
    /// change time of the others.
    touched: HashSet<(u64, u64)>,
    /// The change time of each file of the host that was compared.
    compared: HashMap<(u64, u64), Time>,
    /// What the host has where the session deletes, by path.
    doomed: HashMap<&'a Path, Stamp>,
}

/// How one change went.
enum Step {
    Applied,
    Conflict(Conflict),
}

impl<'a> Run<'a> {
    pub(super) fn new(view: &'a View, changes: &'a Changes, request: &'a Request<'a>) -> Self {
        let deleted = changes.list.iter().filter(|change| change.kind == ChangeKind::Deleted);
        let doomed =
            deleted.filter_map(|change| Some((change.path.as_path(), change.host?))).collect();
        let hosts = changes.list.iter().filter_map(|change| change.host);
        let compared = hosts.map(|host| (host.id(), host.ctime)).collect();
        Self {
            view,
            changes,
            request,
            outcome: Outcome::default(),
            finish: Finish::default(),
            origins: Origins::new(),
            touched: HashSet::new(),
            compared,
            doomed,
        }
    }

    /// Says whether a file of the host may get another name, and that it gets one.
    pub(super) fn touch(&mut self, file: &Stamp) -> bool {
        let is_as_compared = |time: &Time| *time == file.ctime || self.touched.contains(&file.id());
        let may = self.compared.get(&file.id()).is_none_or(is_as_compared);
        if may {
            self.touched.insert(file.id());
        }
        may
    }

    fn change(&self, selected: Selected) -> &'a Change {
        &self.changes.list[selected.index]
    }

    /// Leaves out what is in conflict and not forced.
    pub(super) fn set_conflicts_aside(&mut self, selected: Vec<Selected>) -> Vec<Selected> {
        let (go, stay): (Vec<_>, Vec<_>) = selected
            .into_iter()
            .partition(|selected| selected.is_forced || self.change(*selected).conflict.is_none());
        for selected in stay {
            let change = self.change(selected);
            if let Some(conflict) = change.conflict {
                self.outcome.conflicts.push((change.path.clone(), conflict));
            }
        }
        go
    }

    /// Writes down the project's directories before the first of them changes.
    pub(super) fn note_baseline(&self) -> Result<(), ApplyError> {
        let unknown = self.changes.dirs.iter();
        let unknown = unknown.filter(|(path, _)| self.view.spec.baseline.get(path).is_none());
        let bytes: Vec<u8> =
            unknown.flat_map(|(path, known)| Baseline::line(path, *known)).collect();
        self.write_baseline(&bytes).map_err(|source| ApplyError::Baseline { source })
    }

    fn write_baseline(&self, bytes: &[u8]) -> std::io::Result<()> {
        match self.request.baseline {
            Some(mut file) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    /// Writes down what became of files that have a name less or more and are yet
    /// to be applied, when none of their names changes any more, and of directories
    /// that only we have changed.
    pub(super) fn note_touched(&self) -> Result<(), ApplyError> {
        let mut bytes = Vec::new();
        for change in self.changes.list.iter().filter(|change| change.conflict.is_none()) {
            let Some(host) = change.host.filter(|host| self.touched.contains(&host.id())) else {
                continue;
            };
            let found = beneath::find(self.view.project(), &change.path);
            // What cannot be looked at any more will be a conflict.
            if let Ok(Some(found)) = found
                && found.kind != FileKind::Dir
                && found.same_content_as(&host)
            {
                let known = KnownFile { dev: found.dev, ino: found.ino, ctime: found.ctime };
                bytes.extend(Baseline::file_line(&change.path, known));
            }
        }
        for path in &self.changes.quiet {
            // What cannot be looked at any more is gone, or another one; what did not
            // change needs no word.
            if let Ok(Some(found)) = beneath::find(self.view.project(), path)
                && found.kind == FileKind::Dir
                && self.view.is_newer(&found)
            {
                let known = KnownFile { dev: found.dev, ino: found.ino, ctime: found.ctime };
                bytes.extend(Baseline::file_line(path, known));
            }
        }
        self.write_baseline(&bytes).map_err(|source| ApplyError::Baseline { source })
    }

    /// Notes a directory whose mode is not the final one, so that an apply that
    /// repeats this one does not take the mode for the host's doing.
    fn note_interim(&self, path: &Path, dir: &Stamp, mode: u32) -> OsResult<()> {
        let known = Known { dev: dir.dev, ino: dir.ino, mode: Some(mode) };
        self.write_baseline(&Baseline::line(path, known)).map_err(|_| Errno::IO)
    }

    /// Makes sure that entries of a directory of the project can be changed, for
    /// the time of this apply.
    pub(super) fn make_writable(&mut self, path: &Path) -> OsResult<()> {
        let dir = beneath::dir(self.view.project(), path)?;
        let stamp = beneath::stamp(&dir)?;
        let me = rustix::process::geteuid();
        let is_needed = stamp.mode & 0o700 != 0o700 && stamp.uid == me.as_raw() && !me.is_root();
        if is_needed {
            self.note_interim(path, &stamp, stamp.mode | 0o700)?;
            beneath::chmod(&dir, stamp.mode | 0o700)?;
            self.finish.restore(path, stamp.mode);
        }
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        stage: &Stage,
        staged: &Staged,
        selected: &[Selected],
    ) -> Result<(), ApplyError> {
        let (deletions, others): (Vec<Selected>, Vec<Selected>) = selected
            .iter()
            .partition(|selected| self.change(**selected).kind == ChangeKind::Deleted);
        for selected in others {
            let outcome = self.put(stage, staged, selected);
            self.record(selected, outcome)?;
        }
        // Deletions inside a directory that goes as a whole go with it.
        let mut gone: Option<PathBuf> = None;
        for selected in deletions {
            let path = &self.change(selected).path;
            if gone.as_ref().is_some_and(|gone| path.starts_with(gone)) || self.is_replaced(path) {
                self.outcome.applied.push(path.clone());
                continue;
            }
            let outcome = self.take_out(stage, selected);
            if matches!(outcome, Ok(Step::Applied)) {
                gone = Some(path.clone());
            }
            self.record(selected, outcome)?;
        }
        Ok(())
    }

    /// Whether a directory above was exchanged for something else already.
    fn is_replaced(&self, path: &Path) -> bool {
        path.ancestors().skip(1).any(|above| self.finish.is_replaced(above))
    }

    fn record(&mut self, selected: Selected, outcome: OsResult<Step>) -> Result<(), ApplyError> {
        let path = self.change(selected).path.clone();
        match outcome {
            Ok(Step::Applied) => self.outcome.applied.push(path),
            Ok(Step::Conflict(conflict)) => self.outcome.conflicts.push((path, conflict)),
            // The way to it is not what it was: a directory went, or became a
            // link or a mount.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {
                self.outcome.conflicts.push((path, Conflict::Replaced));
            }
            Err(error) => {
                let applied = self.outcome.applied.len();
                return Err(ApplyError::Commit { path, applied, source: error.into() });
            }
        }
        Ok(())
    }

    /// Adds, replaces or changes attributes.
    fn put(&mut self, stage: &Stage, staged: &Staged, selected: Selected) -> OsResult<Step> {
        let change = self.change(selected);
        if !needs_new(change) {
            return self.set_attributes(change, selected.is_forced);
        }
        assert!(staged.contains(&selected.index), "every new version was staged");
        let name = slot(selected.index);
        let above = change.path.parent().unwrap_or(Path::new(""));
        self.make_writable(above)?;
        let (dir, last) = beneath::parent(self.view.project(), &change.path)?;
        let new = beneath::look(stage.dir(), &name)?.ok_or(Errno::NOENT)?;
        if new.kind == FileKind::Dir {
            let wanted = change.wanted.as_ref().map_or(new.mode, |wanted| wanted.stamp.mode);
            if wanted != new.mode {
                self.note_interim(&change.path, &new, new.mode)?;
            }
        }
        let present = beneath::look(&dir, last)?;
        let step = match (present, change.host) {
            (None, _) if change.host.is_some() && !selected.is_forced => {
                Step::Conflict(Conflict::Gone)
            }
            (None, _) => match rename_new(stage.dir(), &name, dir.as_fd(), last) {
                Err(Errno::EXIST) => Step::Conflict(Conflict::Changed),
                other => other.map(|()| Step::Applied)?,
            },
            (Some(present), _) if selected.is_forced => {
                self.exchange_in(stage, &name, &change.path, dir.as_fd(), last, &present)?;
                self.keep(change, stage.dir(), &name, dir.as_fd())?;
                Step::Applied
            }
            (Some(present), Some(host)) if self.is_as_compared(&present, &host) => {
                self.replace(stage, &name, change, dir.as_fd(), last, &host)?
            }
            (Some(_), _) => Step::Conflict(Conflict::Changed),
        };
        if let (Step::Applied, Some(wanted)) = (&step, &change.wanted) {
            self.finish.placed(change, wanted);
        }
        Ok(step)
    }

    /// Whether the host's file still is the one that was compared.
    fn is_as_compared(&self, present: &Stamp, host: &Stamp) -> bool {
        let is_untouched = present.ctime == host.ctime
            || host.kind == FileKind::Dir
            || self.touched.contains(&host.id());
        present.same_content_as_or_dir(host) && is_untouched
    }

    fn exchange_in(
        &mut self,
        stage: &Stage,
        name: &OsStr,
        path: &Path,
        dir: BorrowedFd<'_>,
        last: &OsStr,
        present: &Stamp,
    ) -> OsResult<()> {
        if present.kind == FileKind::Dir {
            // A directory that moves to another parent is written to.
            self.make_writable(path)?;
        }
        exchange(stage.dir(), name, dir, last)
    }

    /// Exchanges the host's version for the session's, and back when it turns
    /// out to be another than the one that was compared.
    fn replace(
        &mut self,
        stage: &Stage,
        name: &OsStr,
        change: &Change,
        dir: BorrowedFd<'_>,
        last: &OsStr,
        host: &Stamp,
    ) -> OsResult<Step> {
        self.exchange_in(stage, name, &change.path, dir, last, host)?;
        if self.is_what_came_out(stage, name, &change.path, host)? {
            self.taken(&change.path, host);
            return Ok(Step::Applied);
        }
        exchange(stage.dir(), name, dir, last)?;
        Ok(Step::Conflict(Conflict::Changed))
    }

    /// Whether what was moved into the stage is what was compared, with all that
    /// is in it.
    fn is_what_came_out(
        &self,
        stage: &Stage,
        name: &OsStr,
        path: &Path,
        host: &Stamp,
    ) -> OsResult<bool> {
        let Some(out) = beneath::look(stage.dir(), name)? else { return Ok(false) };
        if !out.same_content_as_or_dir(host) {
            return Ok(false);
        }
        if host.kind != FileKind::Dir {
            return Ok(true);
        }
        let mut todo = vec![PathBuf::new()];
        let mut met = 0;
        while let Some(inner) = todo.pop() {
            let at = Path::new(name).join(&inner);
            let fd = beneath::dir(stage.dir(), &at)?;
            for entry in beneath::names(stage.dir(), &at)? {
                let inner = inner.join(&entry);
                let found = beneath::look(&fd, &entry)?;
                let compared = self.doomed.get(path.join(&inner).as_path());
                match (found, compared) {
                    (Some(found), Some(compared)) if self.is_as_compared(&found, compared) => {
                        if found.kind == FileKind::Dir {
                            todo.push(inner);
                        }
                        met += 1;
                    }
                    (None, _) | (Some(_), _) => return Ok(false),
                }
            }
        }
        let expected =
            self.doomed.keys().filter(|doomed| doomed.starts_with(path) && **doomed != path);
        Ok(met == expected.count())
    }

    /// What the host had at `path` loses this name, with all that was in it.
    fn taken(&mut self, path: &Path, host: &Stamp) {
        self.touched.insert(host.id());
        if host.kind == FileKind::Dir {
            let inner = self.doomed.iter().filter(|(doomed, _)| doomed.starts_with(path));
            self.touched.extend(inner.map(|(_, host)| host.id()));
        }
    }

    /// Moves a deleted file or directory into the stage, which is removed last.
    fn take_out(&mut self, stage: &Stage, selected: Selected) -> OsResult<Step> {
        let change = self.change(selected);
        let Some(host) = change.host else { return Ok(Step::Applied) };
        let above = change.path.parent().unwrap_or(Path::new(""));
        self.make_writable(above)?;
        let (dir, last) = beneath::parent(self.view.project(), &change.path)?;
        let Some(present) = beneath::look(&dir, last)? else { return Ok(Step::Applied) };
        if selected.is_forced && change.conflict.is_some() {
            self.keep_from(change, dir.as_fd(), last, dir.as_fd())?;
            return Ok(Step::Applied);
        }
        if !self.is_as_compared(&present, &host) {
            return Ok(Step::Conflict(Conflict::Changed));
        }
        if host.kind == FileKind::Dir {
            self.make_writable(&change.path)?;
        }
        let name = slot(selected.index);
        rename_new(dir.as_fd(), last, stage.dir(), &name)?;
        if self.is_what_came_out(stage, &name, &change.path, &host)? {
            self.taken(&change.path, &host);
            self.finish.forget(&change.path);
            return Ok(Step::Applied);
        }
        match rename_new(stage.dir(), &name, dir.as_fd(), last) {
            // Something new has the name: keep what came out beside it.
            Err(Errno::EXIST) => self.keep_from(change, stage.dir(), &name, dir.as_fd())?,
            other => other?,
        }
        Ok(Step::Conflict(Conflict::Changed))
    }

    /// Sets mode and attributes of something that stays in place.
    fn set_attributes(&mut self, change: &Change, is_forced: bool) -> OsResult<Step> {
        let (Some(wanted), Some(host)) = (&change.wanted, &change.host) else {
            return Ok(Step::Applied);
        };
        let object = beneath::handle(self.view.project(), &change.path)?;
        let present = beneath::stamp(&object)?;
        let is_same = if host.kind == FileKind::Dir {
            present.id() == host.id()
        } else {
            self.is_as_compared(&present, host)
        };
        if !is_same && !is_forced {
            return Ok(Step::Conflict(Conflict::Changed));
        }
        if host.kind == FileKind::Dir {
            self.finish.attributes(change, wanted);
        } else {
            beneath::chmod(&object, wanted.stamp.mode)?;
        }
        Ok(Step::Applied)
    }

    /// Keeps the host's version that a forced change pushed out.
    fn keep(
        &mut self,
        change: &Change,
        from: BorrowedFd<'_>,
        name: &OsStr,
        dir: BorrowedFd<'_>,
    ) -> OsResult<()> {
        if change.conflict.is_none() {
            return Ok(());
        }
        self.keep_from(change, from, name, dir)
    }

    fn keep_from(
        &mut self,
        change: &Change,
        from: BorrowedFd<'_>,
        name: &OsStr,
        dir: BorrowedFd<'_>,
    ) -> OsResult<()> {
        /// More than anyone forces; it ends the loop.
        const MOST_KEPT: u32 = 1000;
        let last = change.path.file_name().unwrap_or_default();
        for number in 0..MOST_KEPT {
            let mut kept = last.to_owned();
            kept.push(format!(".orig-{}", self.request.session));
            if number > 0 {
                kept.push(format!(".{number}"));
            }
            match rename_new(from, name, dir, &kept) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.outcome.kept.push((change.path.clone(), change.path.with_file_name(kept)));
                    return Ok(());
                }
            }
        }
        Err(Errno::EXIST)
    }

    pub(super) fn finish(&mut self) -> Result<(), ApplyError> {
        self.finish.run(self.view)
    }
}

/// Renames to a name that must be free.
fn rename_new(from: BorrowedFd<'_>, name: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> OsResult<()> {
    match rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // A file system without the flag: look, then rename.
        Err(Errno::INVAL) if beneath::look(to, new)?.is_none() => {
            rustix::fs::renameat(from, name, to, new)
        }
        Err(Errno::INVAL) => Err(Errno::EXIST),
        other => other,
    }
}

/// Exchanges two names.
fn exchange(
    stage: BorrowedFd<'_>,
    name: &OsStr,
    dir: BorrowedFd<'_>,
    last: &OsStr,
) -> OsResult<()> {
    match rustix::fs::renameat_with(stage, name, dir, last, RenameFlags::EXCHANGE) {
        // A file system without the flag: three steps, with a moment in which
        // the name is free.
        Err(Errno::INVAL) => {
            let mut aside = OsString::from("aside-");
            aside.push(name);
            rustix::fs::renameat(dir, last, stage, &aside)?;
            rustix::fs::renameat(stage, name, dir, last)?;
            rustix::fs::renameat(stage, &aside, stage, name)
        }
        other => other,
    }
}
