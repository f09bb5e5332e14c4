//! Files that are replaced as a whole, and locks: what holds after a crash, and against others.

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// What is done to replace a file, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Clear,
    Make,
    Write,
    Sync,
    Rename,
    SyncFolder,
}

/// Waits until nobody else has the lock, in this process or another; it is given back when the file
/// is closed.
pub(crate) fn lock(file: impl AsFd) -> io::Result<()> {
    loop {
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            locked => return locked.map_err(io::Error::from),
        }
    }
}

/// The same for a file that is there only to be locked, and made if it is not.
pub(crate) fn lock_at(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)?;
    lock(&file)?;
    Ok(file.into())
}

/// Puts a whole new file in the place of an old one.
pub(crate) fn replace(
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
pub(crate) fn make_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_old_one_until_it_is_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        // What somebody left who was killed is in nobody's way.
        fs::write(dir.path().join("a.json.new"), "half").unwrap();
        replace(&path, b"one", &mut |_| Ok(())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        for step in
            [Step::Clear, Step::Make, Step::Write, Step::Sync, Step::Rename, Step::SyncFolder]
        {
            let failed = replace(&path, b"two", &mut |before| match before == step {
                true => Err(io::Error::other("killed")),
                false => Ok(()),
            });
            assert!(failed.is_err());
            let is_new = step == Step::SyncFolder;
            assert_eq!(fs::read(&path).unwrap(), if is_new { b"two" } else { b"one" }, "{step:?}");
        }
        assert!(make_once(&path, b"three").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }

    #[test]
    fn one_lock_is_had_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock_at(&path).unwrap();
        let other = File::open(&path).unwrap();
        let try_it = || rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(try_it(), Err(Errno::WOULDBLOCK));
        drop(held);
        assert_eq!(try_it(), Ok(()));
    }
}
