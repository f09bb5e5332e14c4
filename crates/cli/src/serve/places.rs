//! Where a server keeps things, and where it listens.

use super::shown;
use crate::env;
use crate::error::CliError;
use crate::session;
use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Longest path of a unix socket, as the kernel has it.
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What comes behind the state directory in the longest path of a sandbox's socket.
const BELOW: &str = "/sandboxes/sbx_00000000000000000000/guest";

/// ```text
///     STATE/sandboxes/     what is kept of each sandbox
///     STATE/records.sqlite what is remembered of them
///     STATE/keys.json      hashes of the keys of the API
///     STATE/secrets        secrets, encrypted; with secrets.key and secrets.lock
///     STATE/audit/         the audit log
///     STATE/lock           locked by the server that lives
///     STATE/log            what a server says that a client started
///     STATE/first-key      the first key, until somebody takes it away
/// ```
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) state: PathBuf,
    pub(crate) socket: PathBuf,
}

impl Places {
    /// The places that were asked for, else those of the caller.
    pub(crate) fn choose(
        state: Option<PathBuf>,
        socket: Option<PathBuf>,
    ) -> Result<Self, CliError> {
        let state = match state.or_else(|| env::ATOLL_STATE.path()) {
            Some(state) => absolute(&state)?,
            None => default_state().ok_or_else(|| {
                CliError::new("cannot tell where the server's state is to be kept")
                    .hint("say so with --state DIR, or set HOME or XDG_STATE_HOME")
            })?,
        };
        let socket = match socket {
            Some(socket) => absolute(&socket)?,
            None => default_socket(Some(&state)).expect("there is a state directory"),
        };
        for (path, below) in [(&state, BELOW), (&socket, "")] {
            let length = path.as_os_str().as_bytes().len() + below.len();
            if length > SOCKET_PATH_BYTES_MAX {
                let most = SOCKET_PATH_BYTES_MAX - below.len();
                let message =
                    format!("{} is longer than the {most} bytes there is room for", shown(path));
                return Err(CliError::new(message)
                    .hint("the kernel's addresses of sockets are short; choose a shorter path"));
            }
        }
        Ok(Self { state, socket })
    }

    /// Makes the directories that are not there, for nobody else.
    pub(crate) fn make(&self) -> Result<(), CliError> {
        self.make_state()?;
        make(self.socket.parent().unwrap_or(Path::new("/")))
    }

    /// The same for the state directory alone.
    pub(crate) fn make_state(&self) -> Result<(), CliError> {
        make(&self.state)?;
        let metadata = self.state.metadata().map_err(|error| {
            CliError::new(format!("cannot look at {}", shown(&self.state))).because(error)
        })?;
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || metadata.mode() & 0o022 != 0 {
            let message =
                format!("{} belongs to others, or others may write there", shown(&self.state));
            return Err(CliError::new(message).hint("choose a directory of your own, of mode 700"));
        }
        Ok(())
    }

    /// Locks the state directory for this process alone, until what it gives is dropped.
    pub(crate) fn lock(&self) -> Result<File, CliError> {
        let path = self.state.join("lock");
        let failed = |error: io::Error| {
            CliError::new(format!("cannot lock {}", shown(&path))).because(error)
        };
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                let message =
                    format!("another server keeps its sandboxes in {}", shown(&self.state));
                Err(CliError::new(message).hint("use that one, end it, or name another --state"))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.state.join("sandboxes")
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.state.join("records.sqlite")
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.state.join("audit")
    }

    pub(crate) fn keys(&self) -> PathBuf {
        self.state.join("keys.json")
    }

    /// The log of a server that a client started.
    pub(crate) fn log(&self) -> PathBuf {
        self.state.join("log")
    }

    pub(crate) fn first_key(&self) -> PathBuf {
        self.state.join("first-key")
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|error| {
        CliError::new(format!("cannot tell where {} is", shown(path))).because(error)
    })
}

fn make(directory: &Path) -> Result<(), CliError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
        CliError::new(format!("cannot make the directory {}", shown(directory))).because(error)
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn default_state() -> Option<PathBuf> {
    if is_root() {
        return Some("/var/lib/atoll".into());
    }
    session::home().map(|home| home.join("server"))
}

/// Where the caller's server listens if it was not told otherwise; `state` is its state
/// directory, where that is known.
pub(crate) fn default_socket(state: Option<&Path>) -> Option<PathBuf> {
    if is_root() {
        return Some("/run/atoll/atoll.sock".into());
    }
    if let Some(runtime) = env::XDG_RUNTIME_DIR.path() {
        return Some(runtime.join("atoll/atoll.sock"));
    }
    let state = state.map(Path::to_owned).or_else(default_state);
    state.map(|state| state.join("atoll.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::id::{ID_BYTES, SandboxId};

    #[test]
    fn the_longest_socket_of_a_sandbox_is_known() {
        let id = SandboxId::from_random([0xff; ID_BYTES]).to_string();
        assert_eq!(BELOW.len(), format!("/sandboxes/{id}/guest").len());
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_refused() {
        let most = SOCKET_PATH_BYTES_MAX - BELOW.len();
        let state = |length: usize| Some(PathBuf::from(format!("/{}", "d".repeat(length - 1))));
        let socket = || Some(PathBuf::from("/run/s"));
        Places::choose(state(most), socket()).unwrap();
        let error = Places::choose(state(most + 1), socket()).unwrap_err();
        assert!(error.text().contains("shorter path"), "{}", error.text());
        let error = Places::choose(state(9), state(108)).unwrap_err();
        assert!(error.text().contains("the 107 bytes"), "{}", error.text());
    }
}
