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
mod place;
mod unpack;

pub use unpack::{Limits, Report, Skipped, UnpackError, unpack};

use crate::beneath;
use crate::node::{FileKind, Stamp, Time};
use crate::remove;
use rustix::fs::{FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// How unfinished images are called.
const NEW_PREFIX: &str = ".new-";

/// Locked from the making of a directory to unpack in until it is locked itself, and while
/// it is looked whether one is.
const STAGING: &str = "staging";

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
    path: PathBuf,
    dir: OwnedFd,
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
        let error = |source: io::Error| ImageError::Cache { path: path.clone(), source };
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700);
        builder.create(path.join("known")).map_err(error)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| error(e.into()))?;
        let stamp = beneath::stamp(&dir).map_err(|e| error(e.into()))?;
        if stamp.uid != rustix::process::geteuid().as_raw() || stamp.mode & 0o022 != 0 {
            return Err(error(io::Error::from(Errno::PERM)));
        }
        Ok(Self { path, dir })
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
                let digest = digest(archive, file)?;
                self.remember(&stamp, &digest);
                digest
            }
        };
        let name = OsString::from(format!("sha256-{digest}"));
        let root = self.path.join(&name).join("rootfs");
        let report = if self.has(&name)? {
            None
        } else {
            // Who waits here finds it there, as a rule.
            let _lock = self.lock(&digest).map_err(|error| self.error(error))?;
            if self.has(&name)? { None } else { Some(self.add(file, &name, &digest, limits)?) }
        };
        Ok(Image { root, digest, report })
    }

    fn has(&self, name: &OsStr) -> Result<bool, ImageError> {
        let found = beneath::look(&self.dir, name).map_err(|error| self.error(error.into()))?;
        Ok(found.is_some())
    }

    /// Lets nobody else do the same meanwhile, in this process or another: unpack the archive
    /// of a digest, or what [`STAGING`] says.
    fn lock(&self, what: &str) -> io::Result<OwnedFd> {
        let path = self.path.join("known").join(format!("{what}.lock"));
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(file.into())
    }

    fn error(&self, source: io::Error) -> ImageError {
        ImageError::Cache { path: self.path.clone(), source }
    }

    /// Unpacks beside and moves into place.
    fn add(
        &self,
        file: &Path,
        name: &OsStr,
        digest: &str,
        limits: &Limits,
    ) -> Result<Report, ImageError> {
        let number = getrandom::u64().map_err(|error| self.error(io::Error::other(error)))?;
        let new = OsString::from(format!("{NEW_PREFIX}{number:016x}"));
        let lock = self.make_new(&new).map_err(|error| self.error(error))?;
        let outcome = self.fill(file, &new, digest, limits).and_then(|report| {
            match rustix::fs::renameat_with(
                &self.dir,
                &new,
                &self.dir,
                name,
                RenameFlags::NOREPLACE,
            ) {
                // Another process was faster.
                Ok(()) | Err(Errno::EXIST) => Ok(report),
                Err(error) => Err(self.error(error.into())),
            }
        });
        // What is left of it after a failure or a lost race.
        remove::remove(self.dir.as_fd(), &new).map_err(|error| self.error(error.into()))?;
        drop(lock);
        outcome
    }

    fn make_new(&self, new: &OsStr) -> io::Result<OwnedFd> {
        let _staging = self.lock(STAGING)?;
        rustix::fs::mkdirat(&self.dir, new, Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let lock = beneath::open(self.dir.as_fd(), Path::new(new), flags)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        rustix::fs::mkdirat(&lock, "rootfs", Mode::from_raw_mode(0o755))?;
        Ok(lock)
    }

    fn fill(
        &self,
        file: &Path,
        new: &OsStr,
        digest: &str,
        limits: &Limits,
    ) -> Result<Report, ImageError> {
        let root = beneath::dir(self.dir.as_fd(), &Path::new(new).join("rootfs"))
            .map_err(|error| self.error(error.into()))?;
        let (archive, _) = open_archive(file)?;
        let mut hashing = Hashing { inner: archive, hasher: Sha256::new() };
        let report = unpack(&mut hashing, root.as_fd(), limits)
            .map_err(|source| ImageError::Unpack { path: file.to_owned(), source })?;
        // What follows the archive's end belongs to the file too.
        io::copy(&mut hashing, &mut io::sink())
            .map_err(|source| ImageError::Read { path: file.to_owned(), source })?;
        if hex(&hashing.hasher.finalize()) == digest {
            Ok(report)
        } else {
            Err(ImageError::Changed { path: file.to_owned() })
        }
    }

    /// Removes what killed processes left.
    ///
    /// # Errors
    ///
    /// When something of it cannot be removed.
    pub fn clear(&self) -> Result<(), ImageError> {
        self.sweep().map_err(|error| self.error(error))
    }

    fn sweep(&self) -> io::Result<()> {
        for name in beneath::names(self.dir.as_fd(), Path::new(""))? {
            if !name.as_encoded_bytes().starts_with(NEW_PREFIX.as_bytes()) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let Ok(dir) = beneath::open(self.dir.as_fd(), Path::new(&name), flags) else {
                continue;
            };
            let is_left = {
                // Whoever has just made it has the lock of it then.
                let _staging = self.lock(STAGING)?;
                rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok()
            };
            if is_left {
                remove::remove(self.dir.as_fd(), &name)?;
            }
        }
        Ok(())
    }

    /// The digest of a file that was read before and did not change since.
    fn known(&self, stamp: &Stamp) -> Option<String> {
        let text = std::fs::read_to_string(self.path.join("known").join(key(stamp)?)).ok()?;
        let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest.then_some(text)
    }

    /// Notes a digest. That it cannot be noted costs only time.
    fn remember(&self, stamp: &Stamp, digest: &str) {
        let Some(key) = key(stamp) else { return };
        let path = self.path.join("known").join(key);
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
    Some(hex(&Sha256::digest(text)))
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

fn digest(mut file: File, path: &Path) -> Result<String, ImageError> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(ImageError::Read { path: path.to_owned(), source }),
        };
        hasher.update(&buffer[..count]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads and hashes what is read.
struct Hashing {
    inner: File,
    hasher: Sha256,
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_is_being_begun_is_not_taken_for_a_leftover() {
        let cache = tempfile::tempdir().unwrap();
        let images = || Images::open(cache.path()).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    images().clear().unwrap();
                }
            });
            let mut outcomes = (0..2000).map(|number| {
                let new = OsString::from(format!("{NEW_PREFIX}{number:016x}"));
                let lock = images().make_new(&new)?;
                rustix::fs::statat(&lock, "rootfs", rustix::fs::AtFlags::empty())?;
                Ok::<_, io::Error>(())
            });
            let failed = outcomes.find(Result::is_err);
            is_over.store(true, Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }
}
