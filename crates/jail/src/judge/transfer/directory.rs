//! Directories by descriptor, whatever their mode and whoever puts something else in
//! their place.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chmodat, fchmod, fstat, openat,
    openat2, statat, unlinkat,
};
use rustix::io::Errno;

use crate::judge::footing::number;

pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
pub(super) const OWN: Mode = Mode::RWXU;
pub(super) const READ: u32 = 0o500;
pub(super) const WRITE: u32 = 0o700;

pub(super) fn mode(found: &Stat) -> Mode {
    Mode::from_raw_mode(found.st_mode & 0o7777)
}

pub(super) fn is_directory(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

/// A directory that its owner can use while this lives, whatever its mode.
pub(super) struct Listed {
    pub(super) fd: OwnedFd,
    /// As it was before.
    pub(super) found: Stat,
    is_opened_up: bool,
}

impl Listed {
    pub(super) fn open(parent: BorrowedFd<'_>, name: &CStr, needed: u32) -> Result<Self, Errno> {
        let held = hold(parent, name)?;
        let found = fstat(&held)?;
        let is_owner = found.st_uid == rustix::process::geteuid().as_raw();
        let is_opened_up = is_owner && found.st_mode & needed != needed;
        if is_opened_up {
            set_mode(held.as_fd(), Mode::from_raw_mode(found.st_mode & 0o7777 | needed))?;
        }
        let fd = openat(&held, c".", DIRECTORY, Mode::empty());
        if fd.is_err() && is_opened_up {
            let _kept = set_mode(held.as_fd(), mode(&found));
        }
        Ok(Self { fd: fd?, found, is_opened_up })
    }
}

/// Takes hold of a directory, without any right. The workload may put something else
/// in its place at any time: a link is not followed, and no other mount entered, where
/// names may be judged.
pub(super) fn hold(top: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(top, path, flags, Mode::empty(), resolve).map_err(|error| match error {
        Errno::LOOP => Errno::NOTDIR,
        other => other,
    })
}

/// Sets the mode of what is held, whatever has its name by now.
pub(super) fn set_mode(held: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    let own = [b"/proc/self/fd/", number(held).as_c_str().to_bytes()].concat();
    chmodat(CWD, own, mode, AtFlags::empty())
}

impl Drop for Listed {
    fn drop(&mut self) {
        if self.is_opened_up {
            let _gone = fchmod(&self.fd, mode(&self.found));
        }
    }
}

pub(super) fn names(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// What is there under `name`; nothing if it has just gone.
pub(super) fn look(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>, Errno> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a tree that was made here.
pub(super) fn remove_all(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let directory = Listed::open(parent, name, WRITE)?;
    for entry in names(directory.fd.as_fd())? {
        let is_below =
            look(directory.fd.as_fd(), &entry)?.is_some_and(|found| is_directory(&found));
        if is_below {
            remove_all(directory.fd.as_fd(), &entry)?;
        } else {
            unlinkat(&directory.fd, &entry, AtFlags::empty())?;
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::Path;

    #[test]
    fn neither_a_link_nor_another_mount_takes_a_directorys_place() {
        let (top, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = rustix::fs::open(top.path(), DIRECTORY, Mode::empty()).unwrap();
        let closed = fs::Permissions::from_mode(0o000);
        for place in [outside.path(), top.path()] {
            fs::create_dir_all(place.join("in")).unwrap();
            fs::set_permissions(place.join("in"), closed.clone()).unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), top.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("in"), top.path().join("last")).unwrap();
        for name in ["link", "last", "link/in"] {
            let opened = Listed::open(directory.as_fd(), &CString::new(name).unwrap(), WRITE);
            assert_eq!(opened.err(), Some(Errno::NOTDIR), "{name}");
        }
        let root = super::openat(CWD, "/", DIRECTORY, Mode::empty()).unwrap();
        assert_eq!(Listed::open(root.as_fd(), c"proc", READ).err(), Some(Errno::XDEV));
        let mode = |place: &Path| fs::metadata(place.join("in")).unwrap().mode() & 0o7777;
        assert_eq!(mode(outside.path()), 0);
        // The control.
        let listed = Listed::open(directory.as_fd(), c"in", WRITE).unwrap();
        assert_eq!(mode(top.path()), 0o700);
        drop(listed);
        assert_eq!(mode(top.path()), 0);
    }
}
