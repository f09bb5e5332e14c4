//! The sandbox's root, and how paths are resolved beneath it.
//!
//! `openat2` with `RESOLVE_IN_ROOT` takes the root's descriptor for `/`: absolute
//! links and `..` stay beneath it. `RESOLVE_NO_MAGICLINKS` refuses the links of
//! `/proc` that are no paths (`root`, `cwd`, `fd/N`, `exe`), which would lead out.
//! Source: openat2(2).

use rustix::fs::inotify::WatchFlags;
use rustix::fs::{AtFlags, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::{Errno, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Links that are followed at the end of a path, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// How often a walk is begun again that a rename elsewhere disturbed.
const WALKS_MAX: usize = 1000;

/// The root directory that all paths are beneath.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    /// `/proc/self/fd`: the way to the very object that a descriptor holds, for
    /// calls that have no other.
    descriptors: OwnedFd,
}

/// Whether a link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    Follow,
    Keep,
}

/// A name and a descriptor of the directory that has it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) parent: OwnedFd,
    pub(super) name: OsString,
}

impl Root {
    /// Takes a directory for the root. To be called in the process that uses it:
    /// it needs that one's `/proc`.
    ///
    /// # Errors
    ///
    /// If there is no procfs at `/proc`.
    pub fn new(directory: OwnedFd) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptors = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
        if !is_procfs(&descriptors)? {
            return Err(std::io::Error::other("what is at /proc is no procfs"));
        }
        Ok(Self { directory, descriptors })
    }

    /// The calling process's own root.
    ///
    /// # Errors
    ///
    /// As [`Root::new`].
    pub fn of_process() -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::new(rustix::fs::open("/", flags, Mode::empty())?)
    }

    /// Opens what is at `path`, with flags that have no effect on it: `O_PATH`, or
    /// `O_DIRECTORY`.
    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        walk(self.directory.as_fd(), path, flags, resolve)
    }

    /// A descriptor of what is at `path`, without opening it.
    pub(super) fn handle(&self, path: &Path, last: LastLink) -> Result<OwnedFd> {
        let flags = match last {
            LastLink::Follow => OFlags::PATH,
            LastLink::Keep => OFlags::PATH | OFlags::NOFOLLOW,
        };
        self.resolve(path, flags)
    }

    /// The directory at `path`, to read its names.
    pub(super) fn directory(&self, path: &Path) -> Result<OwnedFd> {
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The name at the end of `path` and its directory. `EISDIR` where there is
    /// none: at the root, or where the path ends in `.` or `..`.
    pub(super) fn place(&self, path: &Path) -> Result<Place> {
        if path.as_os_str().as_bytes().ends_with(b"/.") {
            return Err(Errno::ISDIR);
        }
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let parent = self.resolve(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(Place { parent, name })
    }

    /// The path that is left when links at the end of `path` have been followed,
    /// which may be of something that is not there.
    pub(super) fn follow(&self, path: &Path) -> Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let place = match self.place(&path) {
                // Its directory is not there, so it is no link.
                Err(Errno::NOENT) => return Ok(path),
                place => place?,
            };
            let target = match rustix::fs::readlinkat(&place.parent, &place.name, Vec::new()) {
                Ok(target) => PathBuf::from(OsString::from_vec(target.into_bytes())),
                Err(Errno::INVAL | Errno::NOENT) => return Ok(path),
                Err(errno) => return Err(errno),
            };
            // The text of a link of /proc is not where it leads.
            if is_procfs(&place.parent)? {
                return Err(Errno::LOOP);
            }
            path = path.parent().unwrap_or(Path::new("/")).join(target);
        }
        Err(Errno::LOOP)
    }

    /// Opens the very file that a descriptor holds, if it is a regular one; never
    /// waits. `EINVAL` if it is something else.
    ///
    /// Of procfs nothing is written, and nothing read that belongs to a process:
    /// `EPERM`.
    pub(super) fn open(&self, handle: &OwnedFd, flags: OFlags) -> Result<File> {
        if !is_regular(handle)? {
            return Err(Errno::INVAL);
        }
        let number = number(handle);
        if is_procfs(handle)? {
            let path = rustix::fs::readlinkat(&self.descriptors, &number, Vec::new())?;
            let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
            let of_process = path.as_bytes().split(|byte| *byte == b'/').any(is_number);
            if of_process || flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
                return Err(Errno::PERM);
            }
        }
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(rustix::fs::openat(&self.descriptors, number, flags, Mode::empty())?.into())
    }

    /// Sets the mode of the very object that a descriptor holds.
    pub(super) fn chmod(&self, handle: &impl AsFd, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::chmodat(&self.descriptors, number(handle), mode, AtFlags::empty())
    }

    /// Watches the very directory that a descriptor holds.
    pub(super) fn watch(
        &self,
        inotify: &OwnedFd,
        handle: &OwnedFd,
        flags: WatchFlags,
    ) -> Result<i32> {
        // inotify_add_watch(2) takes nothing but a path; that this one is of procfs
        // was looked at when the root was opened.
        let path = Path::new("/proc/self/fd").join(number(handle));
        rustix::fs::inotify::add_watch(inotify, path, flags)
    }

    /// Gives an open file without a name one.
    pub(super) fn link(&self, file: &File, parent: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
        let number = number(file);
        rustix::fs::linkat(&self.descriptors, number, parent, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Place {
    /// A descriptor of what the name stands for, without opening it.
    pub(super) fn handle(&self) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())
    }

    /// What the name stands for.
    pub(super) fn stat(&self) -> Result<rustix::fs::Stat> {
        rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Opens what is at `path` beneath `directory`, without following any link.
pub(super) fn beneath(directory: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    walk(directory, path, flags | OFlags::NOFOLLOW, resolve)
}

/// [`beneath`] on the same file system only: `EXDEV` where another is mounted.
pub(super) fn same(directory: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    walk(directory, Path::new(name), flags | OFlags::NOFOLLOW, resolve)
}

fn walk(
    directory: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..WALKS_MAX {
        match rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            walked => return walked,
        }
    }
    Err(Errno::AGAIN)
}

/// Says whether a descriptor holds something of procfs.
pub(super) fn is_procfs(handle: &OwnedFd) -> Result<bool> {
    Ok(rustix::fs::fstatfs(handle)?.f_type == PROC_SUPER_MAGIC)
}

/// Says whether a descriptor holds a regular file.
pub(super) fn is_regular(handle: &OwnedFd) -> Result<bool> {
    let mode = rustix::fs::fstat(handle)?.st_mode;
    Ok(rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::RegularFile)
}

fn number(handle: &impl AsFd) -> OsString {
    OsStr::from_bytes(handle.as_fd().as_raw_fd().to_string().as_bytes()).to_owned()
}
