//! Unpacks a root file system archive that nobody vouches for.

use super::entry::{Described, Pending};
use super::input::Input;
use super::place;
use super::whiteout::Mark;
use crate::beneath;
use crate::digest::Digest;
use crate::node::{FileKind, Time};
use crate::overlay::{self, Format};
use crate::room::NoRoom;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, mknodat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use tar::EntryType;

/// What a file takes on a disk beside its content.
const ENTRY_BYTES: u64 = 512;

/// How much an archive may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the archive when decompressed.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// How many times longer than the archive's file it may be when decompressed.
    pub ratio: u64,
    /// So many bytes it may be long whatever the ratio is.
    pub ratio_from: u64,
}

impl Default for Limits {
    /// Large enough for the full images of compilers and browsers together.
    fn default() -> Self {
        Self { bytes: 64 << 30, entries: 4_000_000, ratio: 100, ratio_from: 1 << 30 }
    }
}

/// What unpacking met.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Entries unpacked.
    pub entries: u64,
    /// Bytes of content written.
    pub bytes: u64,
    /// What was left out, up to a limit.
    pub skipped: Vec<Skipped>,
    /// How many were left out in all.
    pub skipped_count: u64,
}

/// An entry that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    /// What it is, as in "device".
    pub what: &'static str,
}

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("could not read it")]
    Read { source: io::Error },
    #[error("it is no tar archive, or a damaged one")]
    Damaged { source: io::Error },
    #[error("it holds no files")]
    Empty,
    #[error("it is compressed with {name}, which is not supported; gzip, zstd or none is")]
    Compression { name: &'static str },
    #[error(
        "it is {what}, not the files of a root file system; `docker export` of a container gives those"
    )]
    Container { what: &'static str },
    #[error("it holds more than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("it holds more than {ratio} times as many bytes as it has itself")]
    TooDense { ratio: u64 },
    #[error("it holds more than {limit} entries")]
    TooMany { limit: u64 },
    #[error("it holds a name of {length} bytes; {longest} are the most")]
    TooLongName { length: u64, longest: u64 },
    #[error("{} is over 8 GiB, which is not supported", path.display())]
    TooLongFile { path: PathBuf },
    #[error("{} is stored with holes, which is not supported; pack it without --sparse", path.display())]
    Sparse { path: PathBuf },
    #[error("{} leads out of the root file system", path.display())]
    Escapes { path: PathBuf },
    #[error("something else is in the way of {}", path.display())]
    InTheWay { path: PathBuf },
    #[error("the link {} names {}, which is not an earlier file", path.display(), target.display())]
    LinkTarget { path: PathBuf, target: PathBuf },
    #[error("{} is no name by which a layer can say that something is gone", path.display())]
    Whiteout { path: PathBuf },
    #[error("there is no room for it")]
    NoRoom(#[source] NoRoom),
    #[error("could not write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Unpacks a tar archive (plain, gzip or zstd) into the empty directory `root`.
///
/// Modes and times are kept, but setuid and setgid are taken away: nothing in a
/// sandbox gets privileges by them, and on the host they would be a gift. Owners
/// are kept when root unpacks. Of attributes, those of users (`user.*`) are kept:
/// capabilities would be a gift too, marks of overlays would be believed, and
/// labels belong to this machine's own policy. Devices and fifos are left out.
///
/// Nothing outside `root` is reached, whatever the names and links in the
/// archive: `..` is an error, and links are followed only within `root`.
///
/// # Errors
///
/// When it cannot be read or is refused. What was unpacked until then stays.
pub fn unpack(
    reader: impl Read,
    root: BorrowedFd<'_>,
    limits: &Limits,
) -> Result<Report, UnpackError> {
    run(&mut Input::open(reader, *limits)?, root, limits, Contents::Files, &|_| Ok(()))
}

/// Unpacks a layer of an image (plain, gzip or zstd) into the empty directory `root`, as an
/// overlay takes it for a lower one.
///
/// As [`unpack()`], but that names which say what is gone from the layers below become the
/// marks of an overlay, and that no content at all is a layer too. `room` is asked before
/// something is written.
///
/// # Errors
///
/// As for [`unpack()`], and what `room` says.
pub(crate) fn unpack_layer(
    reader: impl Read,
    root: BorrowedFd<'_>,
    limits: &Limits,
    format: Format,
    room: &dyn Fn(u64) -> Result<(), NoRoom>,
) -> Result<Unpacked, UnpackError> {
    let mut input = Input::open(reader, *limits)?;
    input.let_end_early();
    input.hash();
    let report = run(&mut input, root, limits, Contents::Layer(format), room)?;
    Ok(Unpacked { report, diff_id: input.digest()? })
}

/// A layer that was unpacked.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) report: Report,
    /// sha256 of the archive when decompressed.
    pub(crate) diff_id: Digest,
}

fn run(
    input: &mut Input<'_>,
    root: BorrowedFd<'_>,
    limits: &Limits,
    contents: Contents,
    room: &dyn Fn(u64) -> Result<(), NoRoom>,
) -> Result<Report, UnpackError> {
    let mut archive = tar::Archive::new(input);
    let mut run = Run::new(root, *limits, contents, room);
    let mut pending = Pending::default();
    for entry in archive.entries().map_err(UnpackError::from_read)?.raw(true) {
        let mut entry = entry.map_err(UnpackError::from_read)?;
        run.count()?;
        if !pending.absorb(&mut entry)? {
            let described = std::mem::take(&mut pending).describe(&entry)?;
            run.entry(described, &mut entry)?;
        }
    }
    run.finish()
}

/// What an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// A whole root file system.
    Files,
    /// What differs from the layers below.
    Layer(Format),
}

/// One archive being unpacked.
struct Run<'r> {
    root: BorrowedFd<'r>,
    limits: Limits,
    contents: Contents,
    room: &'r dyn Fn(u64) -> Result<(), NoRoom>,
    counted: u64,
    report: Report,
    /// Modes and times of directories, set last: a mode could deny us writing,
    /// and each new entry moves the time.
    dirs: BTreeMap<PathBuf, (u32, Time)>,
    container: Container,
}

/// What tells an archive of layers from one of files.
#[derive(Debug, Default)]
struct Container {
    has_manifest: bool,
    has_layers: bool,
}

impl<'r> Run<'r> {
    fn new(
        root: BorrowedFd<'r>,
        limits: Limits,
        contents: Contents,
        room: &'r dyn Fn(u64) -> Result<(), NoRoom>,
    ) -> Self {
        let (report, dirs, container) = Default::default();
        Self { root, limits, contents, room, counted: 0, report, dirs, container }
    }

    fn count(&mut self) -> Result<(), UnpackError> {
        self.counted += 1;
        if self.counted > self.limits.entries {
            return Err(UnpackError::TooMany { limit: self.limits.entries });
        }
        Ok(())
    }

    fn entry(&mut self, entry: Described, content: &mut impl Read) -> Result<(), UnpackError> {
        let path = place::inside(&entry.path)?;
        match self.contents {
            Contents::Files => self.refuse_container(&path)?,
            Contents::Layer(format) => {
                if let Some(mark) = Mark::of(&path)? {
                    self.report.entries += 1;
                    return self.mark(&mark, format);
                }
            }
        }
        (self.room)(ENTRY_BYTES).map_err(UnpackError::NoRoom)?;
        for what in &entry.left_out {
            self.skip(path.clone(), what);
        }
        let skipped = match entry.kind {
            EntryType::Directory => self.directory(&path, &entry).map(|()| None)?,
            EntryType::Regular | EntryType::Continuous => {
                self.file(&path, &entry, content).map(|()| None)?
            }
            EntryType::Symlink => self.symlink(&path, &entry).map(|()| None)?,
            EntryType::Link => self.hard_link(&path, &entry).map(|()| None)?,
            EntryType::Char | EntryType::Block => Some("device"),
            EntryType::Fifo => Some("fifo"),
            _ => Some("entry of an unknown kind"),
        };
        match skipped {
            Some(what) => self.skip(path, what),
            None => self.report.entries += 1,
        }
        Ok(())
    }

    /// Writes down what is gone from the layers below.
    fn mark(&mut self, mark: &Mark, format: Format) -> Result<(), UnpackError> {
        (self.room)(ENTRY_BYTES).map_err(UnpackError::NoRoom)?;
        match mark {
            Mark::None => Ok(()),
            Mark::Gone(path) => {
                let (dir, name) = self.parent(path)?;
                let found = beneath::look(&dir, &name).map_err(|error| write(path, error))?;
                let made = match found {
                    None => mknodat(&dir, &name, FileType::CharacterDevice, Mode::empty(), 0),
                    // What this layer has in its place hides what is below.
                    Some(found) if found.kind == FileKind::Dir => {
                        beneath::dir(dir.as_fd(), Path::new(&name))
                            .and_then(|dir| overlay::set_opaque(format, dir))
                    }
                    Some(_) => Ok(()),
                };
                made.map_err(|error| write(path, error))
            }
            Mark::Opaque(path) => {
                if !path.as_os_str().is_empty() {
                    let (dir, name) = self.parent(path)?;
                    self.make_directory(&dir, &name, path)?;
                }
                place::open_dir(self.root, path)
                    .and_then(|dir| overlay::set_opaque(format, dir))
                    .map_err(|error| write(path, error))
            }
        }
    }

    /// The directory that is to hold `path`, and the last name. Of a layer, directories may
    /// be where it says that something is gone.
    fn parent(&self, path: &Path) -> Result<(OwnedFd, OsString), UnpackError> {
        match (place::parent(self.root, path), self.contents) {
            (Err(UnpackError::InTheWay { .. }), Contents::Layer(_)) => {}
            (other, _) => return other,
        }
        let above = path.parent().unwrap_or(Path::new(""));
        let mut outermost: Vec<&Path> = above.ancestors().collect();
        outermost.pop();
        for at in outermost.into_iter().rev() {
            let (dir, name) = place::parent(self.root, at)?;
            let found = beneath::look(&dir, &name).map_err(|error| write(path, error))?;
            if found.is_some_and(|found| found.is_null_device()) {
                self.make_directory(&dir, &name, at)?;
                beneath::dir(dir.as_fd(), Path::new(&name))
                    .and_then(|dir| beneath::chmod(dir, 0o755))
                    .map_err(|error| write(at, error))?;
            }
        }
        place::parent(self.root, path)
    }

    /// Makes a directory unless there is one; instead of what is gone, one that hides all
    /// that is below.
    fn make_directory(&self, dir: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), UnpackError> {
        let error = |errno| write(path, errno);
        let found = beneath::look(dir, name).map_err(error)?;
        if found.is_some_and(|found| found.kind == FileKind::Dir) {
            return Ok(());
        }
        place::clear(dir.as_fd(), name, path)?;
        rustix::fs::mkdirat(dir, name, Mode::RWXU).map_err(error)?;
        if let (Contents::Layer(format), Some(found)) = (self.contents, found)
            && found.is_null_device()
        {
            beneath::dir(dir.as_fd(), Path::new(name))
                .and_then(|dir| overlay::set_opaque(format, dir))
                .map_err(error)?;
        }
        Ok(())
    }

    fn skip(&mut self, path: PathBuf, what: &'static str) {
        /// More are counted and not named.
        const MOST_NAMED: usize = 1000;
        self.report.skipped_count += 1;
        if self.report.skipped.len() < MOST_NAMED {
            self.report.skipped.push(Skipped { path, what });
        }
    }

    /// Sees by its names that the archive holds layers and not files.
    fn refuse_container(&mut self, path: &Path) -> Result<(), UnpackError> {
        let name = path.file_name().unwrap_or_default();
        let depth = path.components().count();
        if depth == 1 && name == "oci-layout" {
            return Err(UnpackError::Container { what: "an OCI image layout" });
        }
        self.container.has_manifest |= depth == 1 && name == "manifest.json";
        self.container.has_layers |= (depth == 2 && name == "layer.tar")
            || path.starts_with("blobs/sha256")
            || (depth == 1 && path.extension() == Some(OsStr::new("tar")));
        if self.container.has_manifest && self.container.has_layers {
            return Err(UnpackError::Container { what: "an image as `docker save` writes it" });
        }
        Ok(())
    }

    fn directory(&mut self, path: &Path, entry: &Described) -> Result<(), UnpackError> {
        if !path.as_os_str().is_empty() {
            let (dir, name) = self.parent(path)?;
            // A link to a directory stands for it, as `lib -> usr/lib` does.
            if place::open_dir(self.root, path).is_err() {
                self.make_directory(&dir, &name, path)?;
                set_owner(dir.as_fd(), &name, entry).map_err(|error| write(path, error))?;
            }
        }
        if !entry.attributes.is_empty() {
            let dir = place::open_dir(self.root, path).map_err(|error| write(path, error))?;
            self.set_attributes(&dir, path, entry)?;
        }
        self.dirs.insert(path.to_owned(), (carried(entry.mode), entry.mtime));
        Ok(())
    }

    fn file(
        &mut self,
        path: &Path,
        entry: &Described,
        content: &mut impl Read,
    ) -> Result<(), UnpackError> {
        let (dir, name) = self.free(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&dir, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| write(path, error))?;
        let mut file = File::from(fd);
        let copied = copy(content, &mut file, path, self.room)?;
        if copied != entry.size {
            return Err(UnpackError::Damaged { source: io::ErrorKind::UnexpectedEof.into() });
        }
        self.report.bytes += copied;
        self.set_attributes(&file, path, entry)?;
        let finish = || {
            set_owner(dir.as_fd(), &name, entry)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(carried(entry.mode)))?;
            rustix::fs::futimens(&file, &times(entry.mtime))
        };
        finish().map_err(|error| write(path, error))
    }

    fn symlink(&self, path: &Path, entry: &Described) -> Result<(), UnpackError> {
        let target = entry.link.clone().unwrap_or_default();
        let (dir, name) = self.free(path)?;
        let make = || {
            rustix::fs::symlinkat(&target, &dir, &name)?;
            set_owner(dir.as_fd(), &name, entry)?;
            rustix::fs::utimensat(&dir, &name, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)
        };
        match make() {
            Err(Errno::NOENT | Errno::INVAL) => {
                Err(UnpackError::LinkTarget { path: path.to_owned(), target })
            }
            other => other.map_err(|error| write(path, error)),
        }
    }

    fn hard_link(&self, path: &Path, entry: &Described) -> Result<(), UnpackError> {
        let target = place::inside(&entry.link.clone().unwrap_or_default())?;
        let refused = || UnpackError::LinkTarget { path: path.to_owned(), target: target.clone() };
        let above = target.parent().ok_or_else(refused)?;
        let last = target.file_name().ok_or_else(refused)?;
        let from = place::open_dir(self.root, above).map_err(|_| refused())?;
        let found = beneath::look(&from, last).map_err(|error| write(path, error))?;
        let found = found.ok_or_else(refused)?;
        if !matches!(found.kind, FileKind::File | FileKind::Symlink) {
            return Err(refused());
        }
        let (dir, name) = self.parent(path)?;
        let present = beneath::look(&dir, &name).map_err(|error| write(path, error))?;
        if present.is_some_and(|present| present.id() == found.id()) {
            return Ok(());
        }
        place::clear(dir.as_fd(), &name, path)?;
        rustix::fs::linkat(from, last, dir, name, AtFlags::empty())
            .map_err(|error| write(path, error))
    }

    /// Where a new file goes, with nothing in its place.
    fn free(&self, path: &Path) -> Result<(OwnedFd, OsString), UnpackError> {
        if path.as_os_str().is_empty() {
            return Err(UnpackError::InTheWay { path: path.to_owned() });
        }
        let (dir, name) = self.parent(path)?;
        place::clear(dir.as_fd(), &name, path)?;
        Ok((dir, name))
    }

    fn set_attributes(
        &mut self,
        file: impl AsFd,
        path: &Path,
        entry: &Described,
    ) -> Result<(), UnpackError> {
        for (name, value) in &entry.attributes {
            let set =
                rustix::fs::setxattr(beneath::proc_path(&file), name, value, XattrFlags::empty());
            match set {
                // This file system keeps none, or has no room for it.
                Err(Errno::NOTSUP | Errno::TOOBIG | Errno::NOSPC) => {
                    self.skip(path.to_owned(), "attribute that the file system does not take");
                }
                other => other.map_err(|error| write(path, error))?,
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Report, UnpackError> {
        if self.report.entries == 0 && self.contents == Contents::Files {
            return Err(UnpackError::Empty);
        }
        // Innermost first: an outer mode may deny us going further in.
        for (path, (mode, mtime)) in self.dirs.iter().rev() {
            let set = || {
                let dir = match place::open_dir(self.root, path) {
                    Ok(dir) => dir,
                    // A later entry replaced it.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                    Err(error) => return Err(error),
                };
                rustix::fs::utimensat(&dir, ".", &times(*mtime), AtFlags::empty())?;
                beneath::chmod(&dir, *mode)
            };
            set().map_err(|error| write(path, error))?;
        }
        Ok(self.report)
    }
}

fn write(path: &Path, source: Errno) -> UnpackError {
    UnpackError::Write { path: path.to_owned(), source: source.into() }
}

/// Permission bits without setuid and setgid.
fn carried(mode: u32) -> u32 {
    mode & 0o1777
}

fn times(mtime: Time) -> Timestamps {
    let time = Timespec { tv_sec: mtime.sec, tv_nsec: mtime.nsec.into() };
    Timestamps { last_access: time, last_modification: time }
}

fn set_owner(dir: BorrowedFd<'_>, name: &OsStr, entry: &Described) -> rustix::io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // The highest number means "unchanged" to chown.
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX).ok_or(Errno::INVAL);
    let (uid, gid) = (Uid::from_raw(id(entry.uid)?), Gid::from_raw(id(entry.gid)?));
    rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

/// Copies and tells failures of the two sides apart.
fn copy(
    from: &mut impl Read,
    to: &mut File,
    path: &Path,
    room: &dyn Fn(u64) -> Result<(), NoRoom>,
) -> Result<u64, UnpackError> {
    let mut buffer = vec![0; 128 * 1024];
    let mut total = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(UnpackError::from_read(error)),
        };
        room(count as u64).map_err(UnpackError::NoRoom)?;
        io::Write::write_all(to, &buffer[..count])
            .map_err(|source| UnpackError::Write { path: path.to_owned(), source })?;
        total += count as u64;
    }
}
