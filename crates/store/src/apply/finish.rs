//! Modes, attributes and times of directories, set when nothing in them changes
//! any more.

use super::ApplyError;
use super::copy;
use crate::beneath;
use crate::changes::compare::wanted_xattrs;
use crate::changes::{Change, Wanted};
use crate::node::{FileKind, Time};
use crate::view::View;
use rustix::io::{Errno, Result as OsResult};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What is left to do at one directory.
#[derive(Debug, Default)]
struct Left {
    mode: Option<u32>,
    mtime: Option<Time>,
    attributes: Option<Wanted>,
}

/// The directories with something left to do.
#[derive(Debug, Default)]
pub(super) struct Finish {
    left: BTreeMap<PathBuf, Left>,
    replaced: BTreeSet<PathBuf>,
}

impl Finish {
    /// The mode was widened and has to come back.
    pub(super) fn restore(&mut self, path: &Path, mode: u32) {
        let left = self.left.entry(path.to_owned()).or_default();
        left.mode.get_or_insert(mode);
    }

    /// A new version is in place.
    pub(super) fn placed(&mut self, change: &Change, wanted: &Wanted) {
        if change.host.is_some_and(|host| host.kind == FileKind::Dir) {
            self.forget(&change.path);
            self.replaced.insert(change.path.clone());
        }
        if wanted.stamp.kind == FileKind::Dir {
            let left = self.left.entry(change.path.clone()).or_default();
            left.mode = Some(wanted.stamp.mode);
            left.mtime = Some(wanted.stamp.mtime);
        }
    }

    /// A directory that stays gets other attributes.
    pub(super) fn attributes(&mut self, change: &Change, wanted: &Wanted) {
        let left = self.left.entry(change.path.clone()).or_default();
        left.mode = Some(wanted.stamp.mode);
        left.attributes = Some(wanted.clone());
    }

    /// The directory is gone.
    pub(super) fn forget(&mut self, path: &Path) {
        self.left.retain(|left, _| !left.starts_with(path));
    }

    pub(super) fn is_replaced(&self, path: &Path) -> bool {
        self.replaced.contains(path)
    }

    /// Does what is left, innermost directories first.
    pub(super) fn run(&mut self, view: &View) -> Result<(), ApplyError> {
        let mut first_error = Ok(());
        for (path, left) in std::mem::take(&mut self.left).into_iter().rev() {
            if let Err(error) = settle(view, &path, &left) {
                // The host removed it meanwhile: nothing is left to do.
                if error != Errno::NOENT && first_error.is_ok() {
                    first_error = Err(ApplyError::Finish { path, source: error.into() });
                }
            }
        }
        first_error
    }
}

fn settle(view: &View, path: &Path, left: &Left) -> OsResult<()> {
    let dir = beneath::dir(view.project(), path)?;
    if let Some(wanted) = &left.attributes {
        if rustix::process::geteuid().is_root() {
            let (parent, name) = beneath::parent(view.project(), path)?;
            copy::set_owner(std::os::fd::AsFd::as_fd(&parent), name, &wanted.stamp)?;
        }
        crate::xattr::make_equal(&dir, &wanted_xattrs(view, path, wanted)?)?;
    }
    if let Some(mtime) = left.mtime {
        copy::set_mtime(std::os::fd::AsFd::as_fd(&dir), OsStr::new("."), mtime)?;
    }
    if let Some(mode) = left.mode {
        beneath::chmod(&dir, mode)?;
    }
    Ok(())
}
