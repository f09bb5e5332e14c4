//! A file that is written where nobody sees it and put in its place at once.

use super::root::{Place, Root};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};

/// How often a random name is tried that is taken.
const NAMES_MAX: usize = 100;

/// A file in the directory of its place, without a name or with a hidden one,
/// which goes when this is dropped. Only a kill leaves it.
#[derive(Debug)]
pub(super) struct Staged<'a> {
    root: &'a Root,
    place: &'a Place,
    file: File,
    hidden: Option<Hidden<'a>>,
}

/// What to do with a name that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Replace,
    Fail,
}

impl<'a> Staged<'a> {
    /// Makes an empty file that only its owner may read.
    pub(super) fn new(root: &'a Root, place: &'a Place) -> Result<Self> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let staged =
            |file: std::os::fd::OwnedFd, hidden| Self { root, place, file: file.into(), hidden };
        match rustix::fs::openat(&place.parent, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => return Ok(staged(file, None)),
            // File systems without such files say so in several ways.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let (file, hidden) = Hidden::make(place.parent.as_fd(), |name| {
            rustix::fs::openat(&place.parent, name, flags, mode)
        })?;
        Ok(staged(file, Some(hidden)))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, with all that it holds. `EEXIST` if that is taken
    /// and is not to be replaced.
    pub(super) fn publish(mut self, taken: Taken) -> Result<File> {
        let (parent, name) = (self.place.parent.as_fd(), self.place.name.as_os_str());
        let hidden = match self.hidden.take() {
            Some(hidden) => hidden,
            None => match self.root.link(&self.file, parent, name) {
                Ok(()) => return Ok(self.file),
                Err(Errno::EXIST) if taken == Taken::Replace => {
                    Hidden::make(parent, |name| self.root.link(&self.file, parent, name))?.1
                }
                Err(errno) => return Err(errno),
            },
        };
        hidden.rename(parent, name, taken)?;
        Ok(self.file)
    }
}

/// A name that is random and begins with a dot; removed when this is dropped.
#[derive(Debug)]
pub(super) struct Hidden<'a> {
    parent: BorrowedFd<'a>,
    name: Option<OsString>,
}

impl<'a> Hidden<'a> {
    /// Makes something under such a name.
    pub(super) fn make<T>(
        parent: BorrowedFd<'a>,
        mut make: impl FnMut(&OsStr) -> Result<T>,
    ) -> Result<(T, Self)> {
        for _ in 0..NAMES_MAX {
            let random = getrandom::u64().map_err(|_| Errno::IO)?;
            let name = OsString::from(format!(".atoll-{random:016x}"));
            match make(&name) {
                Err(Errno::EXIST) => {}
                made => return Ok((made?, Self { parent, name: Some(name) })),
            }
        }
        Err(Errno::EXIST)
    }

    /// Renames it to `name` in a directory of the same file system.
    pub(super) fn rename(
        mut self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        taken: Taken,
    ) -> Result<()> {
        let Some(hidden) = &self.name else { return Err(Errno::NOENT) };
        rename((self.parent, hidden), (directory, name), taken)?;
        self.name = None;
        Ok(())
    }
}

impl Hidden<'_> {
    /// Renames it over `name`, also where both are names of one file: rename(2)
    /// would leave both.
    pub(super) fn replace(self, directory: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
        let parent = self.parent;
        let Some(hidden) = self.name.clone() else { return Err(Errno::NOENT) };
        self.rename(directory, name, Taken::Replace)?;
        match rustix::fs::unlinkat(parent, hidden, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // What cannot be removed is a hidden file that is left; nobody can help it.
            rustix::fs::unlinkat(self.parent, name, AtFlags::empty()).ok();
        }
    }
}

/// Renames within a file system.
pub(super) fn rename(
    from: (BorrowedFd<'_>, &OsStr),
    to: (BorrowedFd<'_>, &OsStr),
    taken: Taken,
) -> Result<()> {
    match taken {
        Taken::Replace => rustix::fs::renameat(from.0, from.1, to.0, to.1),
        Taken::Fail => {
            rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE)
        }
    }
}
