//! Files that were sent for builds: each archive once, under the digest of its bytes.

use super::TemplateError;
use atoll_api::template::FilesDigest;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::spawn_blocking;

/// How much is read at once.
const PIECE_BYTES: usize = 64 << 10;

/// The directory that they are in.
#[derive(Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    bytes_max: u64,
    number: AtomicU64,
}

impl Files {
    /// Those in a directory. What a server was about to take in when it ended is removed.
    pub(crate) fn open(directory: PathBuf, bytes_max: u64) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(Self { directory, bytes_max, number: AtomicU64::new(0) })
    }

    fn path(&self, files: FilesDigest) -> PathBuf {
        self.directory.join(files.hex())
    }

    /// Whether they are here.
    pub(crate) fn has(&self, files: FilesDigest) -> bool {
        self.path(files).is_file()
    }

    /// Notes that somebody wants them, so that they are not the first to go.
    pub(crate) fn touch(&self, files: FilesDigest, now: SystemTime) {
        let touched = File::open(self.path(files)).and_then(|file| file.set_modified(now));
        // Then they go a little sooner.
        touched.unwrap_or_default();
    }

    /// The archive of them, to be read.
    pub(crate) fn read(&self, files: FilesDigest) -> io::Result<tokio::fs::File> {
        File::open(self.path(files)).map(tokio::fs::File::from_std)
    }

    /// Takes them in: all that `source` has, which must be what its digest says.
    pub(crate) async fn take(
        &self,
        files: FilesDigest,
        source: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), TemplateError> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let part = Part(self.directory.join(format!("{}-{number}.part", files.hex())));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&part.0).map_err(TemplateError::Files)?;
        let (mut hasher, mut taken) = (Sha256::new(), 0_u64);
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let read = source.read_buf(&mut piece).await.map_err(TemplateError::Upload)?;
            if read == 0 {
                break;
            }
            taken = taken.saturating_add(read as u64);
            if taken > self.bytes_max {
                return Err(TemplateError::FilesTooLarge { bytes_max: self.bytes_max });
            }
            let written = spawn_blocking(move || {
                hasher.update(&piece);
                file.write_all(&piece).map(|()| (file, hasher))
            });
            (file, hasher) = joined(written.await).map_err(TemplateError::Files)?;
        }
        if taken == 0 {
            return Err(TemplateError::NoArchive);
        }
        let found = FilesDigest::from_bytes(hasher.finalize().into());
        if found != files {
            return Err(TemplateError::OtherFiles { files, found });
        }
        let (from, to) = (part.0.clone(), self.path(files));
        let kept = spawn_blocking(move || file.sync_all().and_then(|()| fs::rename(from, to)));
        joined(kept.await).map_err(TemplateError::Files)
    }

    /// Removes the least lately wanted until all take no more than they may, but none that
    /// `is_needed`.
    pub(crate) fn collect(&self, is_needed: impl Fn(&str) -> bool) -> io::Result<()> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Ok(found) = entry.metadata() else { continue };
            let name = entry.file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_none() {
                all.push((found.modified()?, found.len(), name));
            }
        }
        all.sort();
        let mut bytes: u64 = all.iter().map(|(_, length, _)| length).sum();
        for (_, length, name) in all {
            if bytes <= self.bytes_max {
                break;
            }
            if !is_needed(&name) {
                fs::remove_file(self.directory.join(&name))?;
                bytes -= length;
            }
        }
        Ok(())
    }
}

/// A file that is not whole; it goes with this.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // It was given its name, or is removed by the next start.
        fs::remove_file(&self.0).unwrap_or_default();
    }
}

fn joined<T>(done: Result<io::Result<T>, tokio::task::JoinError>) -> io::Result<T> {
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(bytes: &[u8]) -> FilesDigest {
        FilesDigest::from_bytes(Sha256::digest(bytes).into())
    }

    #[tokio::test]
    async fn what_is_taken_is_what_its_digest_says_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path().join("files"), 10).unwrap();
        files.take(digest(b"abc"), &mut &b"abc"[..]).await.unwrap();
        assert!(files.has(digest(b"abc")));
        let mut read = Vec::new();
        files.read(digest(b"abc")).unwrap().read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"abc");
        let other = files.take(digest(b"abd"), &mut &b"xyz"[..]).await.unwrap_err();
        assert!(matches!(other, TemplateError::OtherFiles { .. }), "{other}");
        let empty = files.take(digest(b""), &mut &b""[..]).await.unwrap_err();
        assert!(matches!(empty, TemplateError::NoArchive), "{empty}");
        let large = files.take(digest(b"0"), &mut &[0; 11][..]).await.unwrap_err();
        assert!(matches!(large, TemplateError::FilesTooLarge { bytes_max: 10 }), "{large}");
        let names = || fs::read_dir(dir.path().join("files")).unwrap().count();
        assert_eq!(names(), 1);
        fs::write(dir.path().join("files/left-0.part"), "x").unwrap();
        Files::open(dir.path().join("files"), 10).unwrap();
        assert_eq!(names(), 1);
    }

    #[tokio::test]
    async fn the_least_lately_wanted_goes_first_and_none_that_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path().to_owned(), 10).unwrap();
        let all = [&b"aaaa"[..], b"bbbb", b"cccc", b"dddd"];
        for (age, mut bytes) in all.into_iter().enumerate() {
            let name = digest(bytes);
            files.take(name, &mut bytes).await.unwrap();
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64);
            files.touch(name, at);
        }
        let needed = digest(all[0]).hex();
        files.collect(|name| name == needed).unwrap();
        assert_eq!(all.map(|bytes| files.has(digest(bytes))), [true, false, false, true]);
    }
}
