//! A directory whose entries appear whole or not at all, whoever is killed.
//!
//! | name | what |
//! |---|---|
//! | `.new-HEX/` | being filled, locked by who does it; without a lock it is removed |
//! | `.old-HEX` | on its way out |
//! | `ASIDE/NAME.lock` | locked by who makes the entry that this is about |
//! | `ASIDE/staging.lock` | locked while a directory is made and locked, so that nobody takes it for a leftover |

use crate::{beneath, disk, remove};
use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// How unfinished entries are called.
pub(crate) const NEW_PREFIX: &str = ".new-";

const OLD_PREFIX: &str = ".old-";

/// Locked from the making of a new directory until it is locked itself, and while it is looked
/// whether one is.
const STAGING: &str = "staging";

/// Locked by who removes what is on its way out.
const REMOVING: &str = "removing";

#[derive(Debug)]
pub(crate) struct Shelf {
    path: PathBuf,
    dir: OwnedFd,
    aside: &'static str,
}

impl Shelf {
    /// Opens a directory of the caller's own, making it if need be, with `aside` in it for
    /// locks.
    pub(crate) fn open(path: PathBuf, aside: &'static str) -> io::Result<Self> {
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700);
        builder.create(path.join(aside))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, flags, Mode::empty())?;
        let stamp = beneath::stamp(&dir)?;
        if stamp.uid != rustix::process::geteuid().as_raw() || stamp.mode & 0o022 != 0 {
            return Err(Errno::PERM.into());
        }
        Ok(Self { path, dir, aside })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn aside(&self) -> PathBuf {
        self.path.join(self.aside)
    }

    pub(crate) fn has(&self, name: &OsStr) -> io::Result<bool> {
        Ok(beneath::look(&self.dir, name)?.is_some())
    }

    /// Lets nobody else do the same meanwhile, in this process or another.
    pub(crate) fn lock(&self, what: &str) -> io::Result<OwnedFd> {
        let path = self.aside().join(format!("{what}.lock"));
        disk::lock_at(&path).map(OwnedFd::from)
    }

    /// Has a new directory filled, and gives it its name; one of that name that somebody else
    /// was faster with stays.
    pub(crate) fn put<T, E>(
        &self,
        name: &OsStr,
        fill: impl FnOnce(BorrowedFd<'_>) -> Result<T, E>,
        error: impl Fn(io::Error) -> E,
    ) -> Result<T, E> {
        let number = getrandom::u64().map_err(|source| error(io::Error::other(source)))?;
        let new = OsString::from(format!("{NEW_PREFIX}{number:016x}"));
        let lock = self.make_new(&new).map_err(&error)?;
        let outcome = fill(lock.as_fd()).and_then(|filled| {
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.dir, &new, &self.dir, name, flags) {
                Ok(()) | Err(Errno::EXIST) => Ok(filled),
                Err(errno) => Err(error(errno.into())),
            }
        });
        // What is left of it after a failure or a lost race.
        remove::remove(self.dir.as_fd(), &new).map_err(|errno| error(errno.into()))?;
        drop(lock);
        outcome
    }

    /// A directory that is locked, in which something can be made.
    pub(crate) fn make_new(&self, new: &OsStr) -> io::Result<OwnedFd> {
        let _staging = self.lock(STAGING)?;
        rustix::fs::mkdirat(&self.dir, new, Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let lock = beneath::open(self.dir.as_fd(), Path::new(new), flags)?;
        disk::lock(&lock)?;
        Ok(lock)
    }

    /// Takes an entry away at once; [`Self::sweep`] removes what it holds.
    pub(crate) fn take_away(&self, name: &OsStr) -> io::Result<()> {
        let number = getrandom::u64().map_err(io::Error::other)?;
        let old = format!("{OLD_PREFIX}{number:016x}");
        match rustix::fs::renameat(&self.dir, name, &self.dir, old) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what is on its way out, and what killed processes left.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        for name in self.names()? {
            let bytes = name.as_encoded_bytes();
            if bytes.starts_with(OLD_PREFIX.as_bytes()) {
                // Who removes it does so alone.
                let _removing = self.lock(REMOVING)?;
                remove::remove(self.dir.as_fd(), &name)?;
            }
            if !bytes.starts_with(NEW_PREFIX.as_bytes()) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let Ok(dir) = beneath::open(self.dir.as_fd(), Path::new(&name), flags) else {
                continue;
            };
            let is_left = {
                // Whoever has just made it has the lock of it then.
                let _staging = self.lock(STAGING)?;
                rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok()
            };
            if is_left {
                remove::remove(self.dir.as_fd(), &name)?;
            }
        }
        Ok(())
    }

    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        Ok(beneath::names(self.dir.as_fd(), Path::new(""))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_is_being_begun_is_not_taken_for_a_leftover() {
        let cache = tempfile::tempdir().unwrap();
        let shelf = || Shelf::open(cache.path().join("shelf"), "known").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    shelf().sweep().unwrap();
                }
            });
            let mut outcomes = (0..2000).map(|number| {
                let new = OsString::from(format!("{NEW_PREFIX}{number:016x}"));
                let lock = shelf().make_new(&new)?;
                rustix::fs::mkdirat(&lock, "in", Mode::RWXU)?;
                Ok::<_, io::Error>(())
            });
            let failed = outcomes.find(Result::is_err);
            is_over.store(true, Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }
}
