//! Copies one file of whatever kind, but for directories, with everything it has.

use super::attributes::{self, Attributes};
use super::copy::Step;
use crate::beneath;
use crate::content::Copier;
use crate::node::{FileKind, Stamp};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// Up to this length bytes are copied even where they could be shared: sharing waits for
/// the disk, file by file.
const SHARED_LEAST: u64 = 64 * 1024;

const READ: u32 = 0o400;

/// How a copy was made.
pub(super) enum Made {
    /// It shares its blocks with the original.
    Shared,
    Copied {
        bytes: u64,
    },
}

pub(super) struct Done {
    pub(super) made: Made,
    /// What the original was, where its change time will tell of the next change.
    pub(super) original: Option<Stamp>,
}

type Outcome<T> = Result<T, (Step, Errno)>;

/// Copies files one after the other.
pub(super) struct Entries<'c> {
    is_canceled: &'c dyn Fn() -> bool,
    /// Whether change times of the originals can be relied on.
    is_relied_on: bool,
    /// Whether files that their owner may not read are made readable meanwhile.
    opens_up: bool,
    /// Whether the file system may be able to share blocks.
    shares: bool,
    copier: Copier,
}

impl<'c> Entries<'c> {
    pub(super) fn new(
        is_relied_on: bool,
        opens_up: bool,
        is_canceled: &'c dyn Fn() -> bool,
    ) -> Self {
        Self { is_canceled, is_relied_on, opens_up, shares: true, copier: Copier::default() }
    }

    /// Copies `name`, which `stamp` is about, with owner, mode and times as `wanted` says.
    /// Gives nothing for a device, which is left out. `ESTALE` where it is another file.
    pub(super) fn copy(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        stamp: &Stamp,
        wanted: &Stamp,
        name: &OsStr,
    ) -> Outcome<Option<Done>> {
        match stamp.kind {
            FileKind::File => self.file(from, to, stamp, wanted, name).map(Some),
            FileKind::Symlink | FileKind::Fifo | FileKind::Socket => {
                special(from, to, stamp, wanted, name).map(Some)
            }
            FileKind::CharDevice if stamp.is_null_device() => {
                special(from, to, stamp, wanted, name).map(Some)
            }
            FileKind::CharDevice | FileKind::BlockDevice | FileKind::Dir | FileKind::Unknown => {
                Ok(None)
            }
        }
    }

    fn file(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        stamp: &Stamp,
        wanted: &Stamp,
        name: &OsStr,
    ) -> Outcome<Done> {
        let (source, attributes) = open_file(from, stamp, name, self.opens_up)?;
        // It may have been made readable by us meanwhile.
        let before = beneath::stamp(&source).map_err(at(Step::Inspect))?;
        if before.id() != stamp.id() || before.kind != FileKind::File {
            return Err((Step::Inspect, Errno::STALE));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let copy =
            rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR).map_err(at(Step::Make))?;
        let (made, is_clean) = if self.is_shared(&source, &copy, before.size) {
            (Made::Shared, true)
        } else {
            let is_clean = self.is_relied_on && atoll_sys::writeback::start(source.as_fd()).is_ok();
            let bytes = self
                .copier
                .copy(&source, &copy, &before, self.is_canceled)
                .map_err(at(Step::CopyContent))?;
            (Made::Copied { bytes }, is_clean)
        };
        attributes::set(&copy, wanted, &attributes)?;
        let after = beneath::stamp(&source).map_err(at(Step::Inspect))?;
        let original = (is_clean && after.ctime == before.ctime).then_some(after);
        Ok(Done { made, original })
    }

    /// Lets the copy have the blocks of the original, where that is possible and worth it.
    fn is_shared(&mut self, source: &OwnedFd, copy: &OwnedFd, size: u64) -> bool {
        if !self.shares || size < SHARED_LEAST {
            return false;
        }
        match rustix::fs::ioctl_ficlone(copy, source) {
            Ok(()) => true,
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS) => {
                self.shares = false;
                false
            }
            // Such as a file that is not to be copied on write beside others that are.
            Err(_) => false,
        }
    }
}

/// Opens a file for reading, and reads its attributes, also where its mode denies both.
fn open_file(
    dir: &OwnedFd,
    stamp: &Stamp,
    name: &OsStr,
    opens_up: bool,
) -> Outcome<(OwnedFd, Attributes)> {
    let path = Path::new(name);
    let open = || {
        let fd = open_quietly(dir.as_fd(), path, OFlags::NONBLOCK | OFlags::NOCTTY)
            .map_err(at(Step::Open))?;
        let attributes = attributes::read(&fd).map_err(at(Step::ReadAttributes))?;
        Ok((fd, attributes))
    };
    if stamp.mode & READ != 0 || !opens_up || !may_open_up(stamp) {
        return open();
    }
    let object = beneath::handle(dir.as_fd(), path).map_err(at(Step::Open))?;
    if beneath::stamp(&object).map_err(at(Step::Inspect))?.id() != stamp.id() {
        return Err((Step::Inspect, Errno::STALE));
    }
    beneath::chmod(&object, stamp.mode | READ).map_err(at(Step::Open))?;
    let opened = open();
    beneath::chmod(&object, stamp.mode).map_err(at(Step::Open))?;
    opened
}

/// Copies what has no content of its own.
fn special(
    from: &OwnedFd,
    to: &OwnedFd,
    stamp: &Stamp,
    wanted: &Stamp,
    name: &OsStr,
) -> Outcome<Done> {
    let path = Path::new(name);
    let object = beneath::handle(from.as_fd(), path).map_err(at(Step::Open))?;
    let found = beneath::stamp(&object).map_err(at(Step::Inspect))?;
    if found.id() != stamp.id() || found.kind != stamp.kind {
        return Err((Step::Inspect, Errno::STALE));
    }
    let attributes = attributes::read(&object).map_err(at(Step::ReadAttributes))?;
    let mode = Mode::from_raw_mode(stamp.mode & 0o777);
    let make = |kind| rustix::fs::mknodat(to, name, kind, mode, 0);
    match stamp.kind {
        FileKind::Symlink => rustix::fs::readlinkat(&object, "", Vec::new())
            .and_then(|target| rustix::fs::symlinkat(target, to, name)),
        FileKind::Fifo => make(FileType::Fifo),
        FileKind::Socket => make(FileType::Socket),
        FileKind::File
        | FileKind::Dir
        | FileKind::CharDevice
        | FileKind::BlockDevice
        | FileKind::Unknown => make(FileType::CharacterDevice),
    }
    .map_err(at(Step::Make))?;
    let made = beneath::handle(to.as_fd(), path).map_err(at(Step::Open))?;
    attributes::set(&made, wanted, &attributes)?;
    Ok(Done { made: Made::Copied { bytes: 0 }, original: Some(*stamp) })
}

/// Says what was being done when a call failed.
pub(super) fn at(step: Step) -> impl Fn(Errno) -> (Step, Errno) {
    move |errno| (step, errno)
}

/// Whether we can, and have to, widen a mode to get past it.
pub(crate) fn may_open_up(stamp: &Stamp) -> bool {
    let user = rustix::process::geteuid();
    !user.is_root() && user.as_raw() == stamp.uid
}

/// Opens for reading without moving the access time, where we may.
pub(crate) fn open_quietly(
    dir: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    match beneath::open(dir, path, flags | OFlags::RDONLY | OFlags::NOATIME) {
        // Only the owner, or root, may leave it alone.
        Err(Errno::PERM) => beneath::open(dir, path, flags | OFlags::RDONLY),
        other => other,
    }
}
