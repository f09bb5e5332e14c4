//! Removing a name, and a tree that may be hostile: any depth, any mode.

use super::problem::Asked;
use super::root::{Root, same};
use atoll_protocol::files::Remove;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, Result as Called};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// How often something may change under our hands before we give up.
const SURPRISES_MAX: usize = 1000;

pub(super) fn remove(root: &Root, request: &Remove) -> Result<Reply, Problem> {
    let asked = Asked::new("remove", &request.path)?;
    let place = root.place(asked.path()).map_err(|errno| match errno {
        Errno::ISDIR => asked.problem(Code::Invalid, "the path ends without a name"),
        errno => asked.errno(errno),
    })?;
    let stat = place.stat().map_err(|errno| asked.errno(errno))?;
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let removed = match (is_directory, request.recursive) {
        (false, _) => rustix::fs::unlinkat(&place.parent, &place.name, AtFlags::empty()),
        (true, false) => rustix::fs::unlinkat(&place.parent, &place.name, AtFlags::REMOVEDIR),
        (true, true) => tree(root, place.parent.as_fd(), &place.name),
    };
    removed.map(|()| Reply::Done).map_err(|errno| match errno {
        Errno::NOTEMPTY | Errno::EXIST => asked.problem(Code::Conflict, "it is not empty"),
        Errno::XDEV => asked.problem(Code::Conflict, "another file system is mounted in it"),
        errno => asked.errno(errno),
    })
}

/// The directory above the one that is worked on.
struct Above {
    id: (u64, u64),
    /// What it calls the one below.
    name: OsString,
}

/// Removes the directory `name` with everything in it.
///
/// Only one directory is open at a time, however deep the tree is. The way back up
/// is `..`, which must be the directory that we came from: it may have been moved.
fn tree(root: &Root, parent: BorrowedFd<'_>, name: &OsStr) -> Called<()> {
    let mut current = enter(root, parent, name)?;
    let mut above: Vec<Above> = Vec::new();
    let mut surprises = 0;
    loop {
        if let Some(name) = empty(&current)? {
            match enter(root, current.as_fd(), &name) {
                Ok(inner) => {
                    above.push(Above { id: id(&current)?, name });
                    current = inner;
                }
                // It is something else by now.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if surprises < SURPRISES_MAX => {
                    surprises += 1;
                }
                Err(errno) => return Err(errno),
            }
            continue;
        }
        let Some(Above { id: expected, name: below }) = above.pop() else { break };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let up = rustix::fs::openat(&current, "..", flags, Mode::empty())?;
        if id(&up)? != expected {
            return Err(Errno::BUSY);
        }
        match rustix::fs::unlinkat(&up, &below, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY) if surprises < SURPRISES_MAX => {
                surprises += 1;
            }
            Err(errno) => return Err(errno),
        }
        current = up;
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Removes what is in a directory until it is empty, or up to a directory that is
/// not, whose name is returned.
fn empty(directory: &OwnedFd) -> Called<Option<OsString>> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            // Directories: EISDIR on Linux, EPERM by POSIX.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(Some(name.to_owned())),
            // Not a directory: it may not be removed, or was exchanged.
            Err(Errno::NOTDIR) => return Err(Errno::PERM),
            Err(errno) => return Err(errno),
        }
    }
    Ok(None)
}

/// Opens a directory to remove what it holds, after making sure that its mode
/// lets us.
fn enter(root: &Root, parent: BorrowedFd<'_>, name: &OsStr) -> Called<OwnedFd> {
    let handle = same(parent, name, OFlags::PATH | OFlags::DIRECTORY)?;
    let mode = rustix::fs::fstat(&handle)?.st_mode;
    if mode & 0o700 != 0o700 {
        // Only its owner may; for another, opening it says what is wrong.
        root.chmod(&handle, mode | 0o700).ok();
    }
    same(handle.as_fd(), OsStr::new("."), OFlags::RDONLY | OFlags::DIRECTORY)
}

fn id(directory: &OwnedFd) -> Called<(u64, u64)> {
    rustix::fs::fstat(directory).map(|stat| (stat.st_dev, stat.st_ino))
}
