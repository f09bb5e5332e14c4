//! Files that are their owner's alone.

use super::SecretError;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Opens a file to read it, if it is there; refuses one that others could read or have put there.
pub(super) fn open_private(path: &Path) -> Result<Option<File>, SecretError> {
    let failed =
        |source: io::Error| SecretError::File { step: "open", path: path.to_owned(), source };
    // A pipe of that name must not keep us waiting.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => return Err(not_private(path, "is a link")),
        other => File::from(other.map_err(|error| failed(error.into()))?),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(not_private(path, "is no file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(not_private(path, "belongs to somebody else"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(not_private(path, "can be read or written by others; its mode must be 600"));
    }
    Ok(Some(file))
}

fn not_private(path: &Path, why: &'static str) -> SecretError {
    SecretError::NotPrivate { path: path.to_owned(), why }
}
