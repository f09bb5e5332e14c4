//! Going through a tree by descriptor, in memory that does not grow with it.

use super::problem::code;
use super::root::{Root, same};
use atoll_protocol::files::WALK_DEPTH_MAX;
use atoll_protocol::problem::Code;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::{Errno, Result as Called};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How many names of a directory are held, and sorted, at a time.
const NAMES_MAX: usize = 1024;

/// One name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    /// The directory that has it.
    pub(super) directory: BorrowedFd<'a>,
    pub(super) name: &'a OsStr,
    /// Below the top directory.
    pub(super) path: &'a Path,
    pub(super) stat: &'a Stat,
}

/// What is done after a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Go on with what the directory holds.
    Enter,
    /// Go on after it.
    Pass,
    /// Go no further at all.
    Stop,
}

/// Whoever is told what is in a tree.
pub(super) trait Visitor {
    type Error;

    fn found(&mut self, found: &Found<'_>) -> Result<Step, Self::Error>;

    /// Something cannot be looked at.
    fn failed(&mut self, path: &Path, code: Code) -> Result<(), Self::Error>;

    /// The names of this directory come next.
    fn entered(&mut self, _directory: BorrowedFd<'_>, _path: &Path) {}

    /// All names of the directory that was entered last have come.
    fn left(&mut self) {}
}

/// Goes through what is below `top`. Names of a directory come sorted, if they are
/// at most [`NAMES_MAX`]; what it holds comes after its own name. Links are not
/// followed, and what is mounted below is not entered.
pub(super) fn walk<V: Visitor>(top: OwnedFd, visitor: &mut V) -> Result<(), V::Error> {
    let mut levels = Vec::new();
    enter(&mut levels, Ok(top), PathBuf::new(), visitor)?;
    while let Some(level) = levels.last_mut() {
        let name = match level.next() {
            Ok(Some(name)) => name,
            Ok(None) => {
                levels.pop();
                visitor.left();
                continue;
            }
            Err(errno) => {
                visitor.failed(&level.path, code(errno))?;
                levels.pop();
                visitor.left();
                continue;
            }
        };
        let path = level.path.join(&name);
        let found = level.names.fd().and_then(|directory| {
            let stat = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok((directory, stat))
        });
        let (directory, stat) = match found {
            Ok(found) => found,
            Err(Errno::NOENT) => continue,
            Err(errno) => {
                visitor.failed(&path, code(errno))?;
                continue;
            }
        };
        let found = Found { directory, name: &name, path: &path, stat: &stat };
        match visitor.found(&found)? {
            Step::Stop => return Ok(()),
            Step::Pass => {}
            Step::Enter => {
                let inner = same(directory, &name, OFlags::RDONLY | OFlags::DIRECTORY);
                enter(&mut levels, inner, path, visitor)?;
            }
        }
    }
    Ok(())
}

/// Opens the very file that was found, if it is still a regular one.
pub(super) fn open(root: &Root, found: &Found<'_>) -> Called<(File, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(found.directory, found.name, flags, Mode::empty())?;
    let file = root.open(&handle, OFlags::RDONLY)?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((file, stat))
}

/// A directory that is being read.
struct Level {
    names: Dir,
    path: PathBuf,
    sorted: VecDeque<OsString>,
}

fn enter<V: Visitor>(
    levels: &mut Vec<Level>,
    directory: Called<OwnedFd>,
    path: PathBuf,
    visitor: &mut V,
) -> Result<(), V::Error> {
    if levels.len() > WALK_DEPTH_MAX {
        return visitor.failed(&path, Code::Limit);
    }
    match directory.and_then(Dir::new) {
        Ok(names) => {
            if let Ok(directory) = names.fd() {
                visitor.entered(directory, &path);
            }
            levels.push(Level { names, path, sorted: VecDeque::new() });
            Ok(())
        }
        // It is gone, or was exchanged for something else.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
        Err(errno) => visitor.failed(&path, code(errno)),
    }
}

impl Level {
    fn next(&mut self) -> Called<Option<OsString>> {
        if self.sorted.is_empty() {
            while self.sorted.len() < NAMES_MAX {
                let Some(entry) = self.names.next() else { break };
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name != "." && name != ".." {
                    self.sorted.push_back(name.to_owned());
                }
            }
            self.sorted.make_contiguous().sort();
        }
        Ok(self.sorted.pop_front())
    }
}
