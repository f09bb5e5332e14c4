//! Making directories.

use super::problem::Asked;
use super::root::{LastLink, Place, Root};
use super::stat;
use atoll_protocol::files::MakeDirectory;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, Result as Called};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// The mode of a new directory.
pub(super) const MODE: u32 = 0o755;

pub(super) fn make(root: &Root, request: &MakeDirectory) -> Result<Reply, Problem> {
    let asked = Asked::new("make the directory", &request.path)?;
    let mode = request.mode.unwrap_or(MODE);
    stat::check_mode(mode, &asked)?;
    let handle = match root.handle(asked.path(), LastLink::Follow) {
        Ok(handle) => handle,
        Err(Errno::NOENT) if request.make_parents => {
            make_all_with(root, asked.path(), mode).map_err(|errno| asked.errno(errno))?
        }
        Err(Errno::NOENT) => make_last(root, &asked, mode)?,
        Err(errno) => return Err(asked.errno(errno)),
    };
    let mode = rustix::fs::fstat(&handle).map_err(|errno| asked.errno(errno))?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::Directory {
        return Err(asked.problem(Code::Conflict, "it is there and is no directory"));
    }
    stat::reply(&handle, &asked)
}

fn make_last(root: &Root, asked: &Asked<'_>, mode: u32) -> Result<OwnedFd, Problem> {
    let place = root.place(asked.path()).map_err(|errno| match errno {
        Errno::NOENT => asked.problem(Code::NotFound, "the directory above is not there"),
        errno => asked.errno(errno),
    })?;
    let made = make_one(place.parent.as_fd(), &place.name, mode);
    made.map_err(|errno| match errno {
        Errno::EXIST | Errno::NOTDIR | Errno::LOOP => {
            asked.problem(Code::Conflict, "it is there and is no directory")
        }
        errno => asked.errno(errno),
    })
}

/// The name at the end of `path` and its directory, which is made if it is not
/// there.
pub(super) fn parent(root: &Root, path: &Path) -> Called<Place> {
    let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
    let parent = path.parent().unwrap_or(Path::new("/"));
    Ok(Place { parent: make_all(root, parent)?, name })
}

/// Makes every directory of `path` that is missing. Links on the way are followed;
/// below the first that is missing there is none to follow.
pub(super) fn make_all(root: &Root, path: &Path) -> Called<OwnedFd> {
    make_all_with(root, path, MODE)
}

fn make_all_with(root: &Root, path: &Path, mode: u32) -> Called<OwnedFd> {
    let mut at = root.handle(Path::new("/"), LastLink::Follow)?;
    let mut walked = PathBuf::from("/");
    let mut is_new = false;
    for component in path.components() {
        let name = match component {
            Component::Normal(name) => name,
            // Of what is new this would be a directory that others may move.
            Component::ParentDir if is_new => return Err(Errno::NOENT),
            Component::ParentDir => OsStr::new(".."),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
        };
        walked.push(name);
        let found = if is_new { Err(Errno::NOENT) } else { root.handle(&walked, LastLink::Follow) };
        at = match found {
            Err(Errno::NOENT) => {
                is_new = true;
                make_one(at.as_fd(), name, mode)?
            }
            found => found?,
        };
    }
    Ok(at)
}

/// Makes one directory, or takes the one that is there; never follows a link.
pub(super) fn make_one(parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> Called<OwnedFd> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode & 0o1777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
