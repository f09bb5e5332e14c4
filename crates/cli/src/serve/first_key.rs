//! The first key of the API, without which nobody could make another over TCP.

use super::places::Places;
use super::{FirstKey, shown};
use crate::error::CliError;
use atoll_api::key::Scope;
use atoll_engine::clock::{Clock as _, SystemClock};
use atoll_server::KeyStore;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Makes a key where there is none.
pub(super) fn make(keys: &KeyStore, places: &Places, first: FirstKey) -> Result<(), CliError> {
    if !keys.list().is_empty() {
        return Ok(());
    }
    let made = keys
        .create(Scope::Admin, "first key", SystemClock.now())
        .map_err(|error| CliError::new("cannot make the first key of the API").because(error))?;
    let kept = match first {
        FirstKey::Print => print(&made.secret)
            .map_err(|error| CliError::new("cannot print the first key").because(error)),
        FirstKey::Keep => {
            let path = places.first_key();
            keep(&path, &made.secret).map_err(|error| {
                CliError::new(format!("cannot write the first key to {}", shown(&path)))
                    .because(error)
            })
        }
    };
    if kept.is_err() {
        // A key that nobody knows would be the only one for ever. If this fails too, it
        // can be revoked over the unix socket.
        keys.revoke(made.key.id).ok();
    } else if first == FirstKey::Keep {
        tracing::info!(path = %shown(&places.first_key()), "the first key is in this file");
    }
    kept
}

fn print(secret: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{secret}")?;
    stdout.flush()
}

fn keep(path: &Path, secret: &str) -> io::Result<()> {
    // An earlier one opens nothing any more, for there are no keys.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{secret}")?;
    file.sync_all()
}
