//! Trees that the launcher opens for the workload, because the workload's user
//! may not reach them itself.

use atoll_sys::mount as attributes;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A tree that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("{path:?} cannot be opened")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path:?} is not what it was a moment ago")]
    Changed { path: PathBuf },
    #[error("{path:?} cannot be shown to the sandbox")]
    Clone { path: PathBuf, source: io::Error },
    #[error("the file system of {path:?} cannot map the owners of files")]
    MapOwners { path: PathBuf, source: io::Error },
}

impl TreeError {
    /// The failed step, for whoever explains it, with the errno.
    #[must_use]
    pub fn step(&self) -> (&'static str, Option<i32>) {
        match self {
            Self::Open { source, .. } => ("openat2", source.raw_os_error()),
            Self::Changed { .. } => ("openat2", None),
            Self::Clone { source, .. } => ("open_tree", source.raw_os_error()),
            Self::MapOwners { source, .. } => ("mount_setattr", source.raw_os_error()),
        }
    }
}

/// Opens a real path of the host: no symbolic link on the way, and the same
/// (device, inode) as was planned.
///
/// # Errors
///
/// [`TreeError::Open`], [`TreeError::Changed`].
pub fn open(path: &Path, expect: Option<(u64, u64)>) -> Result<OwnedFd, TreeError> {
    let failed = |error: Errno| TreeError::Open { path: path.to_owned(), source: error.into() };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let found = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)
        .map_err(failed)?;
    if let Some(expected) = expect {
        let stat = rustix::fs::fstat(&found).map_err(failed)?;
        if (stat.st_dev, stat.st_ino) != expected {
            return Err(TreeError::Changed { path: path.to_owned() });
        }
    }
    Ok(found)
}

/// Clones the tree at a real path, with its owners seen through `owners` if
/// that user namespace is given. What is mounted beneath comes along, unless its
/// owners cannot be mapped.
///
/// # Errors
///
/// Each variant of [`TreeError`].
pub fn clone(
    path: &Path,
    expect: Option<(u64, u64)>,
    owners: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, TreeError> {
    let found = open(path, expect)?;
    let tree = clone_found(&found, path, OpenTreeFlags::AT_RECURSIVE)?;
    let Some(userns) = owners else { return Ok(tree) };
    if attributes::map_owners(tree.as_fd(), userns).is_ok() {
        return Ok(tree);
    }
    let tree = clone_found(&found, path, OpenTreeFlags::empty())?;
    attributes::map_owners(tree.as_fd(), userns)
        .map_err(|source| TreeError::MapOwners { path: path.to_owned(), source })?;
    Ok(tree)
}

fn clone_found(found: &OwnedFd, path: &Path, more: OpenTreeFlags) -> Result<OwnedFd, TreeError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | more;
    open_tree(found, "", flags)
        .map_err(|error| TreeError::Clone { path: path.to_owned(), source: error.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn only_what_was_planned_is_opened() {
        let top = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(top.path()).unwrap();
        let found = std::fs::metadata(&top).unwrap();
        let planned = (found.dev(), found.ino());
        assert!(open(&top, Some(planned)).is_ok());
        for other in [(planned.0, planned.1 + 1), (planned.0 + 1, planned.1)] {
            assert!(matches!(open(&top, Some(other)), Err(TreeError::Changed { .. })));
        }
        std::os::unix::fs::symlink(&top, top.join("link")).unwrap();
        assert!(matches!(open(&top.join("link/link"), None), Err(TreeError::Open { .. })));
        // The last name is not followed either: a link is not the directory.
        assert!(matches!(open(&top.join("link"), Some(planned)), Err(TreeError::Changed { .. })));
    }
}
