//! Files that are their owner's alone.

use super::SecretError;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What is done to replace a file, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Clear,
    Make,
    Write,
    Sync,
    Rename,
    SyncFolder,
}

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

/// Opens the file to lock, which is made if it is not there.
pub(super) fn make_lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)?))
}

/// Puts a whole new file in the place of an old one.
pub(super) fn replace(
    path: &Path,
    bytes: &[u8],
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> io::Result<()> {
    let new = fill_new(path, bytes, before)?;
    before(Step::Rename)?;
    fs::rename(&new, path)?;
    before(Step::SyncFolder)?;
    sync_folder(path)
}

/// Puts a file where none is. One that comes in between stays, and is an error.
pub(super) fn make_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = fill_new(path, bytes, &mut |_| Ok(()))?;
    // Whole or not at all, unlike a file that is made in its place and filled there.
    let linked = fs::hard_link(&new, path);
    fs::remove_file(&new)?;
    linked?;
    sync_folder(path)
}

/// Makes the file that is to take a place, with everything in it on the disk.
fn fill_new(
    path: &Path,
    bytes: &[u8],
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    before(Step::Clear)?;
    // One that somebody left behind who was killed.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    before(Step::Make)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&new, flags, Mode::RUSR | Mode::WUSR)?);
    before(Step::Write)?;
    file.write_all(bytes)?;
    before(Step::Sync)?;
    file.sync_all()?;
    Ok(new)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
