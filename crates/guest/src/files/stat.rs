//! What is known of a name; looking at it, and setting its mode.

use super::problem::Asked;
use super::root::{LastLink, Root};
use atoll_protocol::files::{Kind, Look, SetMode, Stat};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use rustix::fs::FileType;
use rustix::io::Result as Called;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

pub(super) fn look(root: &Root, request: &Look) -> Result<Reply, Problem> {
    let asked = Asked::new("look at", &request.path)?;
    let last = if request.follow { LastLink::Follow } else { LastLink::Keep };
    let handle = root.handle(asked.path(), last).map_err(|errno| asked.errno(errno))?;
    reply(&handle, &asked)
}

pub(super) fn set_mode(root: &Root, request: &SetMode) -> Result<Reply, Problem> {
    let asked = Asked::new("set the mode of", &request.path)?;
    check_mode(request.mode, &asked)?;
    let handle = root.handle(asked.path(), LastLink::Follow).map_err(|errno| asked.errno(errno))?;
    root.chmod(&handle, request.mode).map_err(|errno| asked.errno(errno))?;
    reply(&handle, &asked)
}

/// Refuses set-user-ID and set-group-ID bits, as the walls refuse them to commands:
/// files may lie in a directory of the host, and such bits are for its users.
pub(super) fn check_mode(mode: u32, asked: &Asked<'_>) -> Result<(), Problem> {
    if mode & 0o6000 == 0 {
        return Ok(());
    }
    Err(asked.problem(Code::Denied, "set-user-ID and set-group-ID bits are refused"))
}

/// The reply that says what a descriptor holds.
pub(super) fn reply(handle: &OwnedFd, asked: &Asked<'_>) -> Result<Reply, Problem> {
    of(handle, asked.octets()).map(Reply::Stat).map_err(|errno| asked.errno(errno))
}

/// What a descriptor holds, under the name `path`.
pub(super) fn of(handle: &impl AsFd, path: &Octets) -> Called<Stat> {
    let stat = rustix::fs::fstat(handle)?;
    Ok(from(&stat, path.clone(), || target(handle, OsStr::new(""))))
}

/// Where the link `name` leads; with an empty name, the one that `directory` is.
pub(super) fn target(directory: &impl AsFd, name: &OsStr) -> Option<Octets> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new()).ok()?;
    Octets::new(target.into_bytes()).ok()
}

/// What the kernel says, in the protocol's words.
pub(super) fn from(
    stat: &rustix::fs::Stat,
    path: Octets,
    target: impl FnOnce() -> Option<Octets>,
) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    let micros = i64::try_from(stat.st_mtime_nsec / 1000).unwrap_or_default();
    Stat {
        path,
        kind,
        bytes: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified_us: stat.st_mtime.saturating_mul(1_000_000).saturating_add(micros),
        target: if kind == Kind::Link { target() } else { None },
        unread: None,
    }
}
