//! Unpacks a root file system archive that nobody vouches for.

use super::entry::{Described, Pending};
use super::place;
use crate::beneath;
use crate::node::{FileKind, Time};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use tar::EntryType;

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
    #[error("could not write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl UnpackError {
    /// Sorts failures of reading, which come through the decompressor and the
    /// tar reader as errors of one type.
    pub(super) fn from_read(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<OverLimit>());
        match inner {
            Some(OverLimit::Bytes(limit)) => return Self::TooLarge { limit: *limit },
            Some(OverLimit::Ratio(ratio)) => return Self::TooDense { ratio: *ratio },
            None => {}
        }
        match error.raw_os_error() {
            Some(_) => Self::Read { source: error },
            None => Self::Damaged { source: error },
        }
    }
}

/// Unpacks a tar archive (plain, gzip or zstd) into the empty directory `root`.
///
/// Modes and times are kept, but setuid and setgid are taken away: nothing in a
/// sandbox gets privileges by them, and on the host they would be a gift. Owners
/// are kept when root unpacks. Devices, fifos and attributes are left out.
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
    let taken = Cell::new(0);
    let counted = Counted { inner: reader, taken: &taken };
    let mut reader = BufReader::with_capacity(256 * 1024, counted);
    let start = peek(&mut reader)?;
    let decompressed: Box<dyn Read + '_> = match compression(&start) {
        Compression::None => Box::new(reader),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(reader);
            Box::new(decoder.map_err(UnpackError::from_read)?)
        }
        Compression::Other(name) => return Err(UnpackError::Compression { name }),
    };
    let capped = Capped { inner: decompressed, given: 0, taken: &taken, limits: *limits };
    let mut archive = tar::Archive::new(capped);
    let mut run = Run::new(root, *limits);
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

enum Compression {
    None,
    Gzip,
    Zstd,
    Other(&'static str),
}

/// Tells by the first bytes.
fn compression(start: &[u8]) -> Compression {
    match start {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Other("xz"),
        [b'B', b'Z', b'h', ..] => Compression::Other("bzip2"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Compression::Other("lz4"),
        [b'P', b'K', 3 | 5, ..] => Compression::Other("zip"),
        [b'h', b's', b'q', b's', ..] => Compression::Other("squashfs"),
        _ => Compression::None,
    }
}

/// The first bytes, which stay to be read.
fn peek(reader: &mut impl BufRead) -> Result<Vec<u8>, UnpackError> {
    loop {
        match reader.fill_buf() {
            Ok(bytes) => return Ok(bytes[..bytes.len().min(8)].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(UnpackError::Read { source }),
        }
    }
}

/// Carries a limit through readers that know only I/O errors.
#[derive(Debug, thiserror::Error)]
enum OverLimit {
    #[error("over {0} bytes")]
    Bytes(u64),
    #[error("over {0} times its length")]
    Ratio(u64),
}

/// Counts what is taken of the archive's file.
struct Counted<'a, R> {
    inner: R,
    taken: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.taken.set(self.taken.get() + count as u64);
        Ok(count)
    }
}

/// Gives no more than the limits let it.
struct Capped<'a, R> {
    inner: R,
    given: u64,
    taken: &'a Cell<u64>,
    limits: Limits,
}

impl<R: Read> Read for Capped<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.given += count as u64;
        let Limits { bytes, ratio, ratio_from, .. } = self.limits;
        if self.given > bytes {
            return Err(io::Error::other(OverLimit::Bytes(bytes)));
        }
        let dense = self.taken.get().saturating_mul(ratio).max(ratio_from);
        if self.given > dense {
            return Err(io::Error::other(OverLimit::Ratio(ratio)));
        }
        Ok(count)
    }
}

/// One archive being unpacked.
struct Run<'r> {
    root: BorrowedFd<'r>,
    limits: Limits,
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
    fn new(root: BorrowedFd<'r>, limits: Limits) -> Self {
        let (report, dirs, container) = Default::default();
        Self { root, limits, counted: 0, report, dirs, container }
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
        self.refuse_container(&path)?;
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
            let (dir, name) = place::parent(self.root, path)?;
            // A link to a directory stands for it, as `lib -> usr/lib` does.
            if place::open_dir(self.root, path).is_err() {
                place::clear(dir.as_fd(), &name, path)?;
                rustix::fs::mkdirat(&dir, &name, Mode::RWXU).map_err(|error| write(path, error))?;
                set_owner(dir.as_fd(), &name, entry).map_err(|error| write(path, error))?;
            }
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
        let copied = copy(content, &mut file, path)?;
        if copied != entry.size {
            return Err(UnpackError::Damaged { source: io::ErrorKind::UnexpectedEof.into() });
        }
        self.report.bytes += copied;
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
        let (dir, name) = place::parent(self.root, path)?;
        let present = beneath::look(&dir, &name).map_err(|error| write(path, error))?;
        if present.is_some_and(|present| present.id() == found.id()) {
            return Ok(());
        }
        place::clear(dir.as_fd(), &name, path)?;
        rustix::fs::linkat(from, last, dir, name, AtFlags::empty())
            .map_err(|error| write(path, error))
    }

    /// Where a new file goes, with nothing in its place.
    fn free(&self, path: &Path) -> Result<(std::os::fd::OwnedFd, std::ffi::OsString), UnpackError> {
        if path.as_os_str().is_empty() {
            return Err(UnpackError::InTheWay { path: path.to_owned() });
        }
        let (dir, name) = place::parent(self.root, path)?;
        place::clear(dir.as_fd(), &name, path)?;
        Ok((dir, name))
    }

    fn finish(self) -> Result<Report, UnpackError> {
        if self.report.entries == 0 {
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
fn copy(from: &mut impl Read, to: &mut File, path: &Path) -> Result<u64, UnpackError> {
    let mut buffer = vec![0; 128 * 1024];
    let mut total = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(UnpackError::from_read(error)),
        };
        io::Write::write_all(to, &buffer[..count])
            .map_err(|source| UnpackError::Write { path: path.to_owned(), source })?;
        total += count as u64;
    }
}
