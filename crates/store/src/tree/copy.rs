//! The walk that copies a tree, directory by directory.
//!
//! Both trees are walked with one descriptor each: down by name, up by `..`, where the
//! directory must be the one that was come from. So neither depth nor the length of
//! paths has a limit, and no directory is held open.

use super::attributes::{self, Attributes};
use super::entry::{Done, Entries, Made, may_open_up, open_quietly};
use super::index::{self, Index, is_settled};
use super::up;
use crate::beneath;
use crate::node::{FileKind, Stamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// So many names are read, and then dealt with in the order of their inodes, in which a
/// disk has them beside each other.
const BATCH: usize = 8192;

/// Bytes of a directory that are read by one call.
const LISTED: usize = 64 * 1024;

/// What the owner needs to list and enter a directory.
const ENTER: u32 = 0o500;

/// An earlier copy of the same tree, none of whose files will ever be written to.
#[derive(Debug, Clone, Copy)]
pub struct Previous<'p> {
    /// The copy, as it was given to [`copy`] as the destination.
    pub tree: BorrowedFd<'p>,
    /// What [`copy`] gave for it.
    pub index: &'p Index,
}

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Names in all directories, but of directories and of what was left out. Each is one
    /// of the next four.
    pub files: u64,
    /// Linked to the previous copy.
    pub linked: u64,
    /// Further names of files that were there already.
    pub hard_links: u64,
    /// Files that share their blocks with the original.
    pub reflinked: u64,
    /// Files whose bytes were copied; symbolic links, fifos, sockets, whiteouts.
    pub copied: u64,
    /// The top one included.
    pub directories: u64,
    /// Bytes that were copied, without holes.
    pub bytes_copied: u64,
    /// Length of all files, each counted once.
    pub bytes_total: u64,
    /// Devices, which no tree should have.
    pub left_out: u64,
}

/// What was being done when a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Open,
    List,
    Inspect,
    ReadAttributes,
    Make,
    Link,
    CopyContent,
    SetOwner,
    SetAttribute,
    SetMode,
    SetTimes,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Open => "open",
            Self::List => "list",
            Self::Inspect => "inspect",
            Self::ReadAttributes => "read the attributes of",
            Self::Make => "make the copy of",
            Self::Link => "link the copy of",
            Self::CopyContent => "copy the content of",
            Self::SetOwner => "set the owner of the copy of",
            Self::SetAttribute => "set an attribute of the copy of",
            Self::SetMode => "set the mode of the copy of",
            Self::SetTimes => "set the times of the copy of",
        })
    }
}

/// Why a tree could not be copied. Paths are relative to the tree; the empty one is its top.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("the copy was canceled")]
    Canceled,
    #[error("no space is left on the disk to {step} {:?}", path.display())]
    NoSpace { path: PathBuf, step: Step, source: io::Error },
    #[error("the disk quota is used up, so it was not possible to {step} {:?}", path.display())]
    OverQuota { path: PathBuf, step: Step, source: io::Error },
    /// The disk itself failed.
    #[error("the disk failed to {step} {:?}", path.display())]
    Disk { path: PathBuf, step: Step, source: io::Error },
    /// Somebody still works in the tree.
    #[error("{:?} was moved or replaced while it was copied", path.display())]
    Moved { path: PathBuf },
    #[error("could not {step} {:?}", path.display())]
    Failed { path: PathBuf, step: Step, source: io::Error },
}

impl CopyError {
    pub(super) fn new(path: &Path, step: Step, errno: Errno) -> Self {
        let (path, source) = (path.to_owned(), errno.into());
        match errno {
            Errno::CANCELED => Self::Canceled,
            Errno::NOSPC => Self::NoSpace { path, step, source },
            Errno::DQUOT => Self::OverQuota { path, step, source },
            Errno::IO => Self::Disk { path, step, source },
            _ => Self::Failed { path, step, source },
        }
    }

    /// The path that it is about, where it is about one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Canceled => None,
            Self::NoSpace { path, .. }
            | Self::OverQuota { path, .. }
            | Self::Disk { path, .. }
            | Self::Moved { path }
            | Self::Failed { path, .. } => Some(path),
        }
    }
}

/// Copies what is in `source`, in which nobody may work meanwhile, into the empty
/// directory `destination`, which gets the attributes of `source` too.
///
/// To keep that time short, let [`copy_ahead`] do most of it before; or at least let
/// [`sync`](super::sync) write what is only in memory.
///
/// Nothing is on the disk for sure before [`sync`](super::sync) has been called. Where it
/// fails or is canceled, what was begun is left for the caller to remove
/// ([`remove`](crate::remove)), and `source` is as it was.
///
/// # Errors
///
/// [`CopyError`], which names the file and what was tried with it.
pub fn copy(
    source: BorrowedFd<'_>,
    destination: BorrowedFd<'_>,
    previous: Option<Previous<'_>>,
    is_canceled: &dyn Fn() -> bool,
) -> Result<(Copied, Index), CopyError> {
    let is_relied_on = index::is_relied_on(source);
    let mut copy = Copy::new(Work::Stopped, is_relied_on, previous, is_canceled);
    let outcome = copy.tree(source, destination);
    outcome.map(|()| {
        copy.index.finish();
        (copy.copied, copy.index)
    })
}

/// Copies what it can of a tree in which somebody may work meanwhile, so that a [`copy`]
/// afterwards, with this one as the previous, is done sooner: it links what has not changed
/// since it was copied here. By itself the outcome is worth nothing, and is removed then.
///
/// Directories have no attributes here, and the tree is not changed for a moment either, as
/// [`copy`] does to read what its owner may not.
///
/// # Errors
///
/// [`CopyError`] where the disk is full or fails, or it is canceled. What cannot be read, or
/// moves meanwhile, is left to the copy afterwards.
pub fn copy_ahead(
    source: BorrowedFd<'_>,
    destination: BorrowedFd<'_>,
    previous: Option<Previous<'_>>,
    is_canceled: &dyn Fn() -> bool,
) -> Result<(Copied, Index), CopyError> {
    let is_relied_on = index::is_relied_on(source);
    let mut copy = Copy::new(Work::GoesOn, is_relied_on, previous, is_canceled);
    if is_relied_on {
        match copy.tree(source, destination) {
            Ok(()) | Err(CopyError::Moved { .. } | CopyError::Failed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    copy.index.finish();
    Ok((copy.copied, copy.index))
}

/// Whether somebody works in the tree that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Stopped,
    GoesOn,
}

/// One directory that is being copied.
struct Level {
    /// Of the original, with the mode that it really has.
    stamp: Stamp,
    /// Whether its mode was widened so that we may read it.
    is_opened_up: bool,
    copy: (u64, u64),
    attributes: Attributes,
    /// Directories in it that are still to be copied, the next one last.
    todo: Vec<OsString>,
    /// Its number in the index, if its files are noted there.
    number: Option<u32>,
}

/// The two directories that are being worked in.
struct At {
    source: OwnedFd,
    copy: OwnedFd,
}

/// What is in a directory, before anything is known about it.
struct Name {
    ino: u64,
    kind: FileType,
    name: OsString,
}

struct Copy<'c> {
    work: Work,
    previous: Option<Previous<'c>>,
    /// The directory of the previous copy that was last linked from, by number.
    previous_dir: Option<(u32, OwnedFd)>,
    is_canceled: &'c dyn Fn() -> bool,
    /// Whether change times of the source can be relied on.
    is_relied_on: bool,
    entries: Entries<'c>,
    copied: Copied,
    index: Index,
    /// Files with several names: where the copy of each is.
    links: HashMap<(u64, u64), (PathBuf, OsString)>,
    /// The directory that is being copied.
    path: PathBuf,
    levels: Vec<Level>,
    batch: Vec<Name>,
}

type Outcome<T> = Result<T, CopyError>;

impl<'c> Copy<'c> {
    fn new(
        work: Work,
        is_relied_on: bool,
        previous: Option<Previous<'c>>,
        is_canceled: &'c dyn Fn() -> bool,
    ) -> Self {
        Self {
            work,
            previous,
            previous_dir: None,
            is_canceled,
            is_relied_on,
            entries: Entries::new(is_relied_on, work == Work::Stopped, is_canceled),
            copied: Copied::default(),
            index: Index::new(),
            links: HashMap::new(),
            path: PathBuf::new(),
            levels: Vec::new(),
            batch: Vec::new(),
        }
    }

    fn tree(&mut self, source: BorrowedFd<'_>, destination: BorrowedFd<'_>) -> Outcome<()> {
        let this = Path::new("");
        let source = beneath::dir(source, this).map_err(|errno| self.failed(Step::Open, errno))?;
        let copy =
            beneath::dir(destination, this).map_err(|errno| self.failed(Step::Open, errno))?;
        attributes::clear(&copy).map_err(|errno| self.failed(Step::SetAttribute, errno))?;
        let mut at = At { source, copy };
        let outcome = self.walk(&mut at);
        if outcome.is_err() {
            self.unwind(at.source);
        }
        outcome
    }

    fn walk(&mut self, at: &mut At) -> Outcome<()> {
        self.begin(at)?;
        while let Some(level) = self.levels.last_mut() {
            match level.todo.pop() {
                Some(name) => self.down(at, name)?,
                None => self.leave(at)?,
            }
        }
        Ok(())
    }

    fn down(&mut self, at: &mut At, name: OsString) -> Outcome<()> {
        self.check_canceled()?;
        self.path.push(&name);
        let inside = Path::new(&name);
        let source = beneath::dir(at.source.as_fd(), inside);
        let is_readable = |source: &OwnedFd| {
            open_quietly(source.as_fd(), Path::new(""), OFlags::DIRECTORY).is_ok()
        };
        let source = match source {
            outcome if self.work == Work::GoesOn && !outcome.as_ref().is_ok_and(is_readable) => {
                self.path.pop();
                return Ok(());
            }
            source => source.map_err(|errno| self.unexpected(Step::Open, errno))?,
        };
        let made = rustix::fs::mkdirat(&at.copy, inside, Mode::RWXU)
            .map_err(|errno| (Step::Make, errno))
            .and_then(|()| {
                beneath::dir(at.copy.as_fd(), inside).map_err(|errno| (Step::Open, errno))
            });
        let copy = made.map_err(|(step, errno)| self.failed(step, errno))?;
        // Before anything can fail: the way back begins where `levels` says.
        *at = At { source, copy };
        self.begin(at)
    }

    /// Copies what is directly in a directory, but for directories.
    fn begin(&mut self, at: &At) -> Outcome<()> {
        let inspect = |fd: &OwnedFd| beneath::stamp(fd);
        let stamp = inspect(&at.source).map_err(|errno| self.failed(Step::Inspect, errno))?;
        let copy = inspect(&at.copy).map_err(|errno| self.failed(Step::Inspect, errno))?.id();
        let number = if self.is_relied_on { self.index.add_dir(&self.path) } else { None };
        self.levels.push(Level {
            stamp,
            is_opened_up: false,
            copy,
            attributes: Vec::new(),
            todo: Vec::new(),
            number,
        });
        self.copied.directories += 1;
        let may_open_up = self.work == Work::Stopped && may_open_up(&stamp);
        if stamp.mode & ENTER != ENTER && may_open_up {
            beneath::chmod(&at.source, stamp.mode | ENTER)
                .map_err(|errno| self.failed(Step::Open, errno))?;
            self.level().is_opened_up = true;
        }
        self.level().attributes = attributes::read(&at.source)
            .map_err(|errno| self.failed(Step::ReadAttributes, errno))?;
        let listed = open_quietly(at.source.as_fd(), Path::new(""), OFlags::DIRECTORY)
            .map_err(|errno| self.failed(Step::Open, errno))?;
        self.list(at, &listed)
    }

    fn list(&mut self, at: &At, listed: &OwnedFd) -> Outcome<()> {
        let mut buffer = Vec::with_capacity(LISTED);
        let mut dir = RawDir::new(listed, buffer.spare_capacity_mut());
        loop {
            let mut batch = std::mem::take(&mut self.batch);
            while batch.len() < BATCH
                && let Some(entry) = dir.next()
            {
                let entry = entry.map_err(|errno| self.failed(Step::List, errno))?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    let name = OsStr::from_bytes(name).to_owned();
                    batch.push(Name { ino: entry.ino(), kind: entry.file_type(), name });
                }
            }
            let is_last = batch.len() < BATCH;
            batch.sort_unstable_by_key(|entry| entry.ino);
            for entry in batch.drain(..) {
                if entry.kind == FileType::Directory {
                    self.level().todo.push(entry.name);
                } else {
                    self.check_canceled()?;
                    self.entry(at, entry.name)?;
                }
            }
            self.batch = batch;
            if is_last {
                // Taken from the end.
                self.level().todo.reverse();
                return Ok(());
            }
        }
    }

    fn entry(&mut self, at: &At, name: OsString) -> Outcome<()> {
        let began = index::now();
        let found = beneath::look(&at.source, &name);
        let stamp = match found.map_err(|errno| self.failed_at(&name, Step::Inspect, errno))? {
            Some(stamp) if stamp.kind == FileKind::Dir => {
                self.level().todo.push(name);
                return Ok(());
            }
            Some(stamp) => stamp,
            None if self.work == Work::GoesOn => return Ok(()),
            None => return Err(CopyError::Moved { path: self.path.join(&name) }),
        };
        if stamp.nlink > 1 && self.is_linked_again(at, &stamp, &name)? {
            self.copied.files += 1;
            self.copied.hard_links += 1;
            return Ok(());
        }
        let original = if self.is_linked_to_previous(at, &stamp, &name) {
            self.copied.linked += 1;
            Some(stamp)
        } else {
            let done = self.entries.copy(&at.source, &at.copy, &stamp, &stamp, &name);
            if self.work == Work::GoesOn && done.as_ref().is_err_and(|(_, errno)| may_pass(*errno))
            {
                // Whatever has been made of it is in no index.
                return Ok(());
            }
            match done.map_err(|(step, errno)| self.unexpected_at(&name, step, errno))? {
                Some(Done { made: Made::Shared, original }) => {
                    self.copied.reflinked += 1;
                    original
                }
                Some(Done { made: Made::Copied { bytes }, original }) => {
                    self.copied.copied += 1;
                    self.copied.bytes_copied += bytes;
                    original
                }
                None => {
                    self.copied.left_out += 1;
                    return Ok(());
                }
            }
        };
        self.copied.files += 1;
        if stamp.kind == FileKind::File {
            self.copied.bytes_total += stamp.size;
        }
        let is_as_copied = || match self.work {
            Work::Stopped => true,
            // Any change since it was first looked at shows then.
            Work::GoesOn => {
                let now = beneath::look(&at.source, &name).ok().flatten();
                let is_same = |now: Stamp| (now.id(), now.ctime) == (stamp.id(), stamp.ctime);
                is_settled(stamp.ctime, began) && now.is_some_and(is_same)
            }
        };
        let original = original.filter(|_| is_as_copied());
        if let (Some(original), Some(number)) = (original, self.level().number) {
            self.index.add(&original, number, &name);
        }
        if stamp.nlink > 1 {
            self.links.insert(stamp.id(), (self.path.clone(), name));
        }
        Ok(())
    }

    /// Makes a further name of a file that was copied already.
    fn is_linked_again(&mut self, at: &At, stamp: &Stamp, name: &OsStr) -> Outcome<bool> {
        let Some((dir, first)) = self.links.get(&stamp.id()) else { return Ok(false) };
        let linked = if *dir == self.path {
            rustix::fs::linkat(&at.copy, first, &at.copy, name, AtFlags::empty())
        } else {
            self.open_copied(at, dir)
                .and_then(|dir| rustix::fs::linkat(dir, first, &at.copy, name, AtFlags::empty()))
        };
        match linked {
            Ok(()) => Ok(true),
            // Where the copy has as many names as the file system can give it, as one that
            // earlier copies share, the rest of the names get another.
            Err(Errno::MLINK) => Ok(false),
            Err(errno) => Err(self.failed_at(name, Step::Link, errno)),
        }
    }

    /// Opens a directory of the copy that was made before, by way of the nearest one above
    /// both; `path` may be too long for one call.
    fn open_copied(&self, at: &At, path: &Path) -> rustix::io::Result<OwnedFd> {
        let shared =
            path.components().zip(self.path.components()).take_while(|(one, other)| one == other);
        let shared = shared.count();
        let mut dir = rustix::io::fcntl_dupfd_cloexec(&at.copy, 0)?;
        for level in self.levels[shared..].iter().rev().skip(1) {
            dir = up(dir.as_fd(), level.copy)?.ok_or(Errno::STALE)?;
        }
        for name in path.components().skip(shared) {
            dir = beneath::dir(dir.as_fd(), Path::new(name.as_os_str()))?;
        }
        Ok(dir)
    }

    fn is_linked_to_previous(&mut self, at: &At, stamp: &Stamp, name: &OsStr) -> bool {
        let Some(previous) = self.previous.filter(|_| self.is_relied_on) else { return false };
        let Some(found) = previous.index.find(stamp) else { return false };
        let dir = match self.previous_dir.take().filter(|(number, _)| *number == found.dir) {
            Some((_, dir)) => dir,
            None => match beneath::dir(previous.tree, found.dir_path) {
                Ok(dir) => dir,
                Err(_) => return false,
            },
        };
        let linked = rustix::fs::linkat(&dir, found.name, &at.copy, name, AtFlags::empty());
        self.previous_dir = Some((found.dir, dir));
        // Whatever is wrong with the previous copy, there is still the original.
        if linked.is_err() {
            return false;
        }
        let copy = beneath::look(&at.copy, name).ok().flatten();
        let is_copy = copy.is_some_and(|copy| is_copy_of(&copy, stamp));
        if !is_copy {
            // If it fails, so will making the copy, and says why.
            rustix::fs::unlinkat(&at.copy, name, AtFlags::empty()).ok();
        }
        is_copy
    }

    /// Gives a directory that is done its attributes, and goes back to the one above.
    fn leave(&mut self, at: &mut At) -> Outcome<()> {
        let [.., level] = self.levels.as_slice() else { return Ok(()) };
        // Without its old mode: that may deny going up.
        let above = match self.levels.as_slice() {
            [.., above, _] => {
                let source = up(at.source.as_fd(), above.stamp.id());
                let pair =
                    source.and_then(|source| Ok(source.zip(up(at.copy.as_fd(), above.copy)?)));
                let pair = pair.map_err(|errno| self.failed(Step::Open, errno))?;
                let moved = || CopyError::Moved { path: self.path.clone() };
                pair.ok_or_else(moved).map(Some)?
            }
            _ => None,
        };
        if self.work == Work::Stopped {
            attributes::set(&at.copy, &level.stamp, &level.attributes)
                .map_err(|(step, errno)| self.failed(step, errno))?;
        }
        if level.is_opened_up {
            beneath::chmod(&at.source, level.stamp.mode)
                .map_err(|errno| self.failed(Step::SetMode, errno))?;
        }
        if let Some((source, copy)) = above {
            *at = At { source, copy };
        }
        self.levels.pop();
        self.path.pop();
        Ok(())
    }

    /// Gives directories of the source their modes back.
    fn unwind(&mut self, mut source: OwnedFd) {
        while let Some(level) = self.levels.pop() {
            let above = self.levels.last().map(|above| up(source.as_fd(), above.stamp.id()));
            if level.is_opened_up {
                // Nothing can be done about a failure here.
                beneath::chmod(&source, level.stamp.mode).ok();
            }
            match above {
                Some(Ok(Some(above))) => source = above,
                Some(Ok(None) | Err(_)) | None => return,
            }
        }
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("a directory is being copied")
    }

    fn check_canceled(&self) -> Outcome<()> {
        if (self.is_canceled)() { Err(CopyError::Canceled) } else { Ok(()) }
    }

    fn failed(&self, step: Step, errno: Errno) -> CopyError {
        CopyError::new(&self.path, step, errno)
    }

    fn failed_at(&self, name: &OsStr, step: Step, errno: Errno) -> CopyError {
        CopyError::new(&self.path.join(name), step, errno)
    }

    fn unexpected(&self, step: Step, errno: Errno) -> CopyError {
        moved_or(self.path.clone(), step, errno)
    }

    fn unexpected_at(&self, name: &OsStr, step: Step, errno: Errno) -> CopyError {
        moved_or(self.path.join(name), step, errno)
    }
}

/// Sorts out what only happens when somebody changes the tree meanwhile.
fn moved_or(path: PathBuf, step: Step, errno: Errno) -> CopyError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE | Errno::NXIO => {
            CopyError::Moved { path }
        }
        errno => CopyError::new(&path, step, errno),
    }
}

/// Whether a failure to copy a file that somebody may be working with is nothing: it is not
/// about the disk.
fn may_pass(errno: Errno) -> bool {
    !matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::CANCELED)
}

fn is_copy_of(copy: &Stamp, original: &Stamp) -> bool {
    let facts =
        |stamp: &Stamp| (stamp.kind, stamp.size, stamp.mtime, stamp.mode, stamp.uid, stamp.gid);
    facts(copy) == facts(original)
}
