//! Root file systems from tarballs.
//!
//! An archive is unpacked once into the cache, in a directory named by the
//! sha256 of its file, and used from there by everyone who asks for the same
//! file. What is in the archive is not trusted: see [`unpack()`].
//!
//! | name in the cache | what |
//! |---|---|
//! | `images/sha256-HEX/rootfs` | an unpacked archive; the directory appears complete or not at all |
//! | `images/.new-HEX/` | being unpacked, locked by who does it; without a lock it is removed |
//! | `images/known/HEX` | the digest of a file, by its device, inode, length and times, so that it need not be read again |
//! | `images/known/HEX.lock` | locked by who unpacks the archive of this digest |
//! | `images/known/staging.lock` | locked while a directory to unpack in is made and locked, so that nobody takes it for a leftover |

mod entry;
pub(crate) mod input;
mod place;
mod unpack;
mod whiteout;

pub use unpack::{Limits, Report, Skipped, UnpackError, unpack};

pub(crate) use unpack::{Unpacked, unpack_layer};

use crate::beneath;
use crate::digest::{Digest, Hashing};
use crate::node::{FileKind, Stamp, Time};
use crate::shelf::Shelf;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

/// Where digests of files are noted.
const KNOWN: &str = "known";

/// Why an image could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("could not use the image cache {}", path.display())]
    Cache { path: PathBuf, source: io::Error },
    #[error("could not read the image {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the image {} is a {kind}; a file with a tar archive is wanted", path.display())]
    NotAFile { path: PathBuf, kind: &'static str },
    #[error("could not unpack the image {}", path.display())]
    Unpack { path: PathBuf, source: UnpackError },
    #[error("the image {} changed while it was read", path.display())]
    Changed { path: PathBuf },
    #[error("{} is no root file system: there is neither bin nor usr/bin in it", path.display())]
    NotARoot { path: PathBuf },
}

/// The directory with the root file system that `path` names: itself, or an archive,
/// which is unpacked into `cache/images` if it is not there.
///
/// # Errors
///
/// [`ImageError`].
pub fn root(path: &Path, cache: &Path, limits: &Limits) -> Result<PathBuf, ImageError> {
    let read = |source| ImageError::Read { path: path.to_owned(), source };
    let real = path.canonicalize().map_err(read)?;
    let root = if real.is_dir() { real } else { Images::open(cache)?.get(&real, limits)?.root };
    // Links in it lead from its own root, which is not ours.
    let has = |name: &str| root.join(name).symlink_metadata().is_ok();
    if has("bin") || has("usr/bin") {
        return Ok(root);
    }
    Err(ImageError::NotARoot { path: path.to_owned() })
}

/// The unpacked images of one user.
#[derive(Debug)]
pub struct Images {
    shelf: Shelf,
}

/// An unpacked image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The directory with the root file system.
    pub root: PathBuf,
    /// sha256 of the archive's file, in hex.
    pub digest: String,
    /// What unpacking met; nothing when the image was there already.
    pub report: Option<Report>,
}

impl Images {
    /// Opens `cache/images`, making it if need be.
    ///
    /// # Errors
    ///
    /// When it cannot be made or opened, or others could write to it.
    pub fn open(cache: &Path) -> Result<Self, ImageError> {
        let path = cache.join("images");
        let error = |source| ImageError::Cache { path: path.clone(), source };
        Ok(Self { shelf: Shelf::open(path.clone(), KNOWN).map_err(error)? })
    }

    /// Gives the image of a tar archive (plain, gzip or zstd), unpacking it if
    /// it is not in the cache.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is no such archive, or holds what is
    /// refused. The cache is as before then.
    pub fn get(&self, file: &Path, limits: &Limits) -> Result<Image, ImageError> {
        self.clear()?;
        let (archive, stamp) = open_archive(file)?;
        let digest = match self.known(&stamp) {
            Some(digest) => digest,
            None => {
                let digest = Digest::of_all(archive)
                    .map_err(|source| ImageError::Read { path: file.to_owned(), source })?
                    .hex();
                self.remember(&stamp, &digest);
                digest
            }
        };
        let name = OsString::from(format!("sha256-{digest}"));
        let root = self.shelf.path().join(&name).join("rootfs");
        let has = || self.shelf.has(&name).map_err(|error| self.error(error));
        let report = if has()? {
            None
        } else {
            // Who waits here finds it there, as a rule.
            let _lock = self.shelf.lock(&digest).map_err(|error| self.error(error))?;
            if has()? { None } else { Some(self.add(file, &name, &digest, limits)?) }
        };
        Ok(Image { root, digest, report })
    }

    fn error(&self, source: io::Error) -> ImageError {
        ImageError::Cache { path: self.shelf.path().to_owned(), source }
    }

    /// Unpacks beside and moves into place.
    fn add(
        &self,
        file: &Path,
        name: &OsStr,
        digest: &str,
        limits: &Limits,
    ) -> Result<Report, ImageError> {
        let fill = |new: BorrowedFd<'_>| {
            let error = |errno: Errno| self.error(errno.into());
            rustix::fs::mkdirat(new, "rootfs", Mode::from_raw_mode(0o755)).map_err(error)?;
            let root = beneath::dir(new, Path::new("rootfs")).map_err(error)?;
            let (archive, _) = open_archive(file)?;
            let mut hashing = Hashing::new(archive);
            let report = unpack(&mut hashing, root.as_fd(), limits)
                .map_err(|source| ImageError::Unpack { path: file.to_owned(), source })?;
            // What follows the archive's end belongs to the file too.
            hashing.drain().map_err(|source| ImageError::Read { path: file.to_owned(), source })?;
            if hashing.digest().hex() == digest {
                Ok(report)
            } else {
                Err(ImageError::Changed { path: file.to_owned() })
            }
        };
        self.shelf.put(name, fill, |error| self.error(error))
    }

    /// Removes what killed processes left.
    ///
    /// # Errors
    ///
    /// When something of it cannot be removed.
    pub fn clear(&self) -> Result<(), ImageError> {
        self.shelf.sweep().map_err(|error| self.error(error))
    }

    /// The digest of a file that was read before and did not change since.
    fn known(&self, stamp: &Stamp) -> Option<String> {
        let text = std::fs::read_to_string(self.shelf.aside().join(key(stamp)?)).ok()?;
        let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest.then_some(text)
    }

    /// Notes a digest. That it cannot be noted costs only time.
    fn remember(&self, stamp: &Stamp, digest: &str) {
        let Some(key) = key(stamp) else { return };
        let path = self.shelf.aside().join(key);
        let new = path.with_extension(format!("{}", std::process::id()));
        let noted = std::fs::write(&new, digest).and_then(|()| std::fs::rename(&new, path));
        noted.ok();
    }
}

/// The name under which a file's digest is noted; nothing for a file that was
/// changed so lately that it could change again within the same time stamp.
fn key(stamp: &Stamp) -> Option<String> {
    const SETTLED_AFTER_S: i64 = 3;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    if stamp.ctime.sec.saturating_add(SETTLED_AFTER_S) > now {
        return None;
    }
    let Time { sec, nsec } = stamp.mtime;
    let (ctime, Stamp { dev, ino, size, .. }) = (stamp.ctime, stamp);
    let text = format!("{dev} {ino} {size} {sec}.{nsec} {}.{}", ctime.sec, ctime.nsec);
    Some(Digest::of(text.as_bytes()).hex())
}

fn open_archive(path: &Path) -> Result<(File, Stamp), ImageError> {
    let error = |source: io::Error| ImageError::Read { path: path.to_owned(), source };
    // A fifo would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| error(e.into()))?;
    let stamp = beneath::stamp(&file).map_err(|e| error(e.into()))?;
    if stamp.kind != FileKind::File {
        return Err(ImageError::NotAFile { path: path.to_owned(), kind: stamp.kind.word() });
    }
    Ok((File::from(file), stamp))
}
