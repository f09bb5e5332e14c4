//! Files that nobody needs any more: out of sight at once, and removed one after the other by a
//! thread of its own, since a tree of 50,000 files takes minutes.

use atoll_sys::process::{SignalSet, set_signal_mask};
use rustix::fs::{Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// Where it lies, beside the sandboxes.
const NAME: &str = ".trash";

/// See the module. The thread ends with it, when it has removed what it is at.
#[derive(Debug)]
pub(super) struct Trash {
    path: PathBuf,
    thrown: Sender<OsString>,
}

impl Trash {
    /// Opens the one in `state`, and goes on with what an earlier server has not removed.
    pub(super) fn open(state: &Path) -> io::Result<Self> {
        let path = state.join(NAME);
        std::fs::create_dir_all(&path)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty())?;
        let (thrown, received) = mpsc::channel();
        for entry in std::fs::read_dir(&path)? {
            // There is somebody to receive it.
            thrown.send(entry?.file_name()).unwrap_or_default();
        }
        let work = thread::Builder::new().name("atoll-trash".to_owned());
        // Signals are for the threads that wait for them, which may not have begun to.
        let mask = set_signal_mask(SignalSet::ALL)?;
        let spawned = work.spawn(move || empty(&directory, &received));
        set_signal_mask(mask)?;
        spawned?;
        Ok(Self { path, thrown })
    }

    /// Takes something away that is on the same file system. Nothing is there: that is no mistake.
    pub(super) fn throw(&self, path: &Path) -> io::Result<()> {
        let number = getrandom::u64().map_err(io::Error::other)?;
        let name = OsString::from(format!("{number:016x}"));
        match std::fs::rename(path, self.path.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed?,
        }
        // If nobody receives it the next server does.
        self.thrown.send(name).unwrap_or_default();
        Ok(())
    }
}

fn empty(directory: &OwnedFd, received: &Receiver<OsString>) {
    while let Ok(name) = received.recv() {
        if let Err(error) = atoll_store::remove(directory.as_fd(), OsStr::new(&name)) {
            // The next server tries it again.
            tracing::warn!(%error, "what nobody needs could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_testkit::process::wait_until;

    #[test]
    fn what_is_thrown_away_is_gone_at_once_and_removed_also_by_the_next_server() {
        let state = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            std::fs::create_dir_all(state.path().join(name).join("deep/deeper")).unwrap();
            state.path().join(name)
        };
        let left = |count| {
            let path = state.path().join(NAME);
            wait_until("it is removed", || std::fs::read_dir(&path).unwrap().count() == count);
        };
        let trash = Trash::open(state.path()).unwrap();
        let path = make("one");
        trash.throw(&path).unwrap();
        assert!(!path.exists());
        trash.throw(&path).unwrap();
        left(0);
        drop(trash);
        make(".trash/left");
        let _trash = Trash::open(state.path()).unwrap();
        left(0);
    }
}
