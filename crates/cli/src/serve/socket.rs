//! The unix socket of a server: who takes it, and what a killed server left there.

use super::shown;
use crate::error::CliError;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket that this process listens on; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    path: PathBuf,
    listener: UnixListener,
    /// Which file it is: another server may have taken its place.
    file: (u64, u64),
}

impl Taken {
    /// Listens at `path`, for this user and root alone. Must be called while the process
    /// has one thread, for it changes the umask meanwhile.
    pub(super) fn take(path: &Path) -> Result<Self, CliError> {
        let failed = |error: io::Error| {
            CliError::new(format!("cannot listen on {}", shown(path))).because(error)
        };
        // Two that start at once must not both find nobody there.
        let directory = path.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = rustix::fs::open(directory, flags, Mode::empty())
            .map_err(|error| failed(error.into()))?;
        flock(&held, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        clear(path)?;
        let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let bound = UnixListener::bind(path);
        rustix::process::umask(umask);
        let listener = bound.map_err(failed)?;
        let file = identity(&path.symlink_metadata().map_err(failed)?);
        Ok(Self { path: path.to_owned(), listener, file })
    }

    /// The socket, for a runtime.
    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok_and(|found| identity(&found) == self.file) {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Removes the socket of a server that is gone.
fn clear(path: &Path) -> Result<(), CliError> {
    let in_the_way = |message: String| CliError::new(message);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(in_the_way(format!("cannot look at {}", shown(path))).because(error));
        }
        Ok(found) if !found.file_type().is_socket() => {
            let message = format!("{} is there and is no socket", shown(path));
            return Err(in_the_way(message).hint("choose another path with --socket"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| {
                in_the_way(format!(
                    "cannot remove {}, where no server listens any more",
                    shown(path)
                ))
                .because(error)
            })
        }
        Err(error) => {
            Err(in_the_way(format!("cannot tell who listens on {}", shown(path))).because(error))
        }
        Ok(_) => Err(in_the_way(format!("a server listens on {} already", shown(path)))
            .hint("use that one, end it, or start another with --socket and --state")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        (folder, path)
    }

    #[test]
    fn it_is_private_and_gone_at_the_end() {
        let (_folder, path) = place();
        let taken = Taken::take(&path).unwrap();
        assert_eq!(path.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        drop(taken);
        assert!(!path.exists());
    }

    #[test]
    fn a_live_server_keeps_it_and_a_dead_one_does_not() {
        let (_folder, path) = place();
        let live = UnixListener::bind(&path).unwrap();
        let error = Taken::take(&path).unwrap_err();
        assert!(error.text().contains("a server listens on"), "{}", error.text());
        drop(live);
        assert!(path.exists(), "the control: a dead one leaves its socket");
        Taken::take(&path).unwrap();
    }

    #[test]
    fn what_is_no_socket_stays() {
        let (_folder, path) = place();
        std::fs::write(&path, "mine").unwrap();
        let error = Taken::take(&path).unwrap_err();
        assert!(error.text().contains("is no socket"), "{}", error.text());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn the_socket_of_a_successor_stays() {
        let (_folder, path) = place();
        let taken = Taken::take(&path).unwrap();
        // Kept, so that its number is not given to the next file.
        std::fs::rename(&path, path.with_extension("old")).unwrap();
        let successor = Taken::take(&path).unwrap();
        drop(taken);
        assert!(path.exists());
        drop(successor);
        assert!(!path.exists());
    }
}
