//! Listing a directory, in memory that is bounded by the answer.

use super::problem::{Asked, code};
use super::root::{Root, beneath};
use super::stat;
use atoll_protocol::files::{DEPTH_MAX, ENTRIES_MAX, Kind, List, Stat};
use atoll_protocol::frame::{self, JSON_BYTES_MAX};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::Reply;
use rustix::fs::{AtFlags, Dir, OFlags};
use rustix::io::{Errno, Result as Called};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Room in the answer for what is not an entry.
pub(super) const FRAME_BYTES: usize = 1024;

/// Level by level, so that what is cut is the deepest; then sorted by path.
///
/// A directory that may not be read is an entry that says so. A name that goes
/// meanwhile is left out, and so is what a directory holds that is exchanged for
/// something else.
pub(super) fn list(root: &Root, request: &List) -> Result<Reply, Problem> {
    let asked = Asked::new("list", &request.path)?;
    if !(1..=DEPTH_MAX).contains(&request.depth) {
        return Err(asked.problem(Code::Invalid, format!("the depth is not 1 to {DEPTH_MAX}")));
    }
    if !(1..=ENTRIES_MAX).contains(&request.limit) {
        return Err(asked.problem(Code::Invalid, format!("the limit is not 1 to {ENTRIES_MAX}")));
    }
    let top = root.directory(asked.path()).map_err(|errno| asked.errno(errno))?;
    let mut listing = Listing::new(request.limit);
    listing.add_all(&top, None).map_err(|errno| asked.errno(errno))?;

    let mut next = 0;
    while let Some(entry) = listing.entries.get(next) {
        let depth = entry.path.as_path().components().count();
        let is_entered = entry.kind == Kind::Directory && depth < request.depth as usize;
        if is_entered && !listing.is_full {
            listing.enter(&top, next);
        }
        next += 1;
    }
    let Listing { mut entries, is_cut, .. } = listing;
    entries.sort_by(|one, other| one.path.as_path().cmp(other.path.as_path()));
    Ok(Reply::Entries { entries, is_cut })
}

struct Listing {
    entries: Vec<Stat>,
    /// How many more may come.
    room: usize,
    /// How many bytes they may be in the answer.
    bytes_left: usize,
    /// There are more than are told.
    is_cut: bool,
    /// No more can be told, and that there are more has been found out.
    is_full: bool,
}

impl Listing {
    fn new(limit: u32) -> Self {
        Self {
            entries: Vec::new(),
            room: limit as usize,
            bytes_left: JSON_BYTES_MAX - FRAME_BYTES,
            is_cut: false,
            is_full: false,
        }
    }

    /// Adds what the directory of an entry holds.
    fn enter(&mut self, top: &OwnedFd, index: usize) {
        let path = self.entries[index].path.clone();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let added = beneath(top.as_fd(), path.as_path(), flags)
            .and_then(|directory| self.add_all(&directory, Some(&path)));
        match added {
            // It is gone, or was exchanged for a link or a file.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => self.entries[index].unread = Some(code(errno)),
        }
    }

    fn add_all(&mut self, directory: &OwnedFd, below: Option<&Octets>) -> Called<()> {
        let (names, is_cut) = first_names(directory, self.room)?;
        self.is_cut |= is_cut;
        self.is_full |= is_cut;
        for name in names {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let Ok(stat) = rustix::fs::statat(directory, &name, flags) else { continue };
            let path = below.map_or_else(PathBuf::new, |below| below.as_path().to_owned());
            let Ok(path) = Octets::try_from(path.join(&name).into_os_string()) else { continue };
            let entry = stat::from(&stat, path, || stat::target(directory, &name));
            let bytes = bytes_of(&entry);
            if bytes > self.bytes_left {
                self.is_cut = true;
                self.is_full = true;
                break;
            }
            self.bytes_left -= bytes;
            self.room -= 1;
            self.entries.push(entry);
        }
        Ok(())
    }
}

/// The `room` names that sort first, and whether there are more.
fn first_names(directory: &impl AsFd, room: usize) -> Called<(BTreeSet<OsString>, bool)> {
    let mut first = BTreeSet::new();
    let mut is_cut = false;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if first.len() == room {
            is_cut = true;
            if first.last().is_none_or(|last: &OsString| name >= last.as_os_str()) {
                continue;
            }
            first.pop_last();
        }
        first.insert(name.to_owned());
    }
    Ok((first, is_cut))
}

/// How long an entry is in the answer, with its comma and what may still be said
/// of it.
pub(super) fn bytes_of(entry: &Stat) -> usize {
    let longest = Stat { unread: Some(Code::NotExecutable), ..entry.clone() };
    let mut bytes = Vec::new();
    frame::put_json(&mut bytes, frame::Kind::Reply, &longest)
        .map_or(usize::MAX, |()| bytes.len() + 1)
}
