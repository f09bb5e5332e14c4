//! What a move made, and taking away just that from where it was.

use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, Stat, unlinkat};

use super::directory::{Listed, READ, WRITE, is_directory, look, names};

pub(super) type Id = (u64, u64);

pub(super) fn id(found: &Stat) -> Id {
    (found.st_dev, found.st_ino)
}

/// What was made, for taking away just that.
#[derive(Default)]
pub(super) struct Made {
    /// Files as their old names show them. The two names of one file may show
    /// different numbers in an overlay, so names are not compared.
    pub(super) files: HashSet<Id>,
}

impl Made {
    /// Removes from the directory `name` what `placed` has. What cannot be
    /// removed, or has come since, stays: nothing is lost.
    pub(super) fn take_away(&self, parent: BorrowedFd<'_>, name: &CStr, placed: BorrowedFd<'_>) {
        let Ok(source) = Listed::open(parent, name, WRITE) else { return };
        let source = source.fd.as_fd();
        for name in names(source).unwrap_or_default() {
            let (Ok(Some(old)), Ok(Some(new))) = (look(source, &name), look(placed, &name)) else {
                continue;
            };
            if is_directory(&old) {
                if let Ok(below) = Listed::open(placed, &name, READ) {
                    self.take_away(source, &name, below.fd.as_fd());
                    let _kept = unlinkat(source, &name, AtFlags::REMOVEDIR);
                }
            } else if !is_directory(&new) && self.files.contains(&id(&old)) {
                let _kept = unlinkat(source, &name, AtFlags::empty());
            }
        }
    }
}
