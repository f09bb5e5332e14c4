//! The project's private cache directory on the host, for package managers.

use rustix::fs::{AtFlags, Mode};
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A cache directory that exists.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    pub(crate) path: PathBuf,
    /// (device, inode), checked again when it is bound.
    pub(crate) identity: (u64, u64),
}

/// Makes the directory that all of atoll's caches lie in, and refuses one that
/// somebody else could have filled: `/etc` inside comes from there.
pub(crate) fn base(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            std::fs::symlink_metadata(path)
        }
        found => found,
    }?;
    let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_own || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others could have written there"));
    }
    Ok(())
}

/// Where the cache of `project` is below `base`.
pub(super) fn place(base: &Path, project: &Path, owner: u32) -> PathBuf {
    // The workload's user is part of the name: the project may change hands.
    base.join(format!("{}-{owner}", file_name(project)))
}

/// A name that is the path for a reader, where it is short enough: percent-encoded,
/// as in RFC 3986.
fn file_name(path: &Path) -> String {
    let mut name = String::with_capacity(NAME_BYTES_MAX);
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                name.push(char::from(*byte));
            }
            byte => name += &format!("%{byte:02X}"),
        }
        if name.len() > NAME_BYTES_MAX {
            return Sha256::digest(path.as_os_str().as_bytes())
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
        }
    }
    name
}

/// Room for the user's number and for suffixes in the 255 bytes of a name.
const NAME_BYTES_MAX: usize = 200;

/// Opens the cache of `project` below `base` (a real path), making
/// it at the first run. It belongs to the workload's outside user.
pub(crate) fn open(base: &Path, project: &Path, owner: (u32, u32)) -> io::Result<Cache> {
    let path = place(base, project, owner.0);
    let metadata = match std::fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(&path, project, owner)?;
            std::fs::symlink_metadata(&path)?
        }
        Err(error) => return Err(error),
    };
    if !metadata.is_dir() || metadata.uid() != owner.0 {
        return Err(io::Error::other("it is not a directory of the workload's user"));
    }
    Ok(Cache { path, identity: (metadata.dev(), metadata.ino()) })
}

/// Makes the directory whole under another name first, so that two first runs
/// at once cannot see each other's half.
fn create(path: &Path, project: &Path, owner: (u32, u32)) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let staged = tempfile::Builder::new().prefix(".new-").tempdir_in(parent)?;
    std::fs::write(parent.join("CACHEDIR.TAG"), CACHE_TAG).ok();
    let own = |path: &Path| {
        let (uid, gid) = (rustix::fs::Uid::from_raw(owner.0), rustix::fs::Gid::from_raw(owner.1));
        rustix::fs::chownat(rustix::fs::CWD, path, Some(uid), Some(gid), AtFlags::empty())
    };
    for name in atoll_jail::host::CACHE_DIRECTORIES {
        let directory = staged.path().join(name);
        rustix::fs::mkdir(&directory, Mode::RWXU)?;
        own(&directory)?;
    }
    own(staged.path())?;
    let kept = staged.keep();
    match std::fs::rename(&kept, path) {
        Ok(()) => Ok(()),
        // Another run was first.
        Err(_) if path.is_dir() => std::fs::remove_dir_all(&kept),
        Err(error) => {
            std::fs::remove_dir_all(&kept).ok();
            Err(io::Error::new(error.kind(), format!("{error} for {}", project.display())))
        }
    }
}

/// bford.info/cachedir: tells backup programs to pass the directory over.
const CACHE_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_name_that_no_other_path_has() {
        assert_eq!(file_name(Path::new("/home/u/my app")), "%2Fhome%2Fu%2Fmy%20app");
        assert_eq!(file_name(Path::new("/a%2Fb")), "%2Fa%252Fb");
        let long = |last: char| format!("/{}{last}", "x".repeat(300));
        let (one, other) = (long('a'), long('b'));
        assert_eq!(file_name(Path::new(&one)).len(), 64);
        assert_ne!(file_name(Path::new(&one)), file_name(Path::new(&other)));
    }
}
