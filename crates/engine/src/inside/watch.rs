//! What changes in a directory of a sandbox.

use super::translate::{code, to_api, to_guest};
use super::{Held, Inside, InsideError};
use crate::guest::{Seen, Watching};
use atoll_api::files::{Change, Changed, Unwatched};
use atoll_api::octets::Octets;
use atoll_api::sandbox::HoldCause;
use atoll_protocol::files;

/// A directory that is watched, until this is dropped. It holds the sandbox awake.
#[derive(Debug)]
pub struct Watch {
    inside: Inside,
    watching: Watching,
    _held: Held,
}

/// What was seen in a directory that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// A name has changed.
    Changed(Changed),
    /// More changed than could be told: look again.
    Overflowed,
    /// A directory below cannot be watched.
    Unwatched(Unwatched),
}

impl Inside {
    /// Watches a directory. What changes from now on is told.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn watch(&self, path: Octets, recursive: bool) -> Result<Watch, InsideError> {
        let held = self.hold(HoldCause::Stream { name: "watch".to_owned() }).await?;
        let watch = files::Watch { path: to_guest(path), recursive };
        let watching = self.guest.watch(watch).await;
        let watching = watching.map_err(|error| self.failed(error))?;
        Ok(Watch { inside: self.clone(), watching, _held: held })
    }
}

impl Watch {
    /// Waits for the next change; none once the directory itself is removed or moved.
    /// May be dropped and called again, and loses nothing.
    ///
    /// # Errors
    /// Where the sandbox ends, or its guest is lost.
    pub async fn next(&mut self) -> Result<Option<Sight>, InsideError> {
        let seen = self.watching.next().await;
        let seen = seen.map_err(|error| self.inside.failed(error))?;
        Ok(seen.map(|seen| match seen {
            Seen::Changed { path, change, is_directory } => {
                let path = to_api(path);
                Sight::Changed(Changed { path, change: to_api_change(change), is_directory })
            }
            Seen::Overflowed => Sight::Overflowed,
            Seen::Unwatched { path, code: why } => {
                Sight::Unwatched(Unwatched { path: to_api(path), code: code(why) })
            }
        }))
    }
}

fn to_api_change(change: files::Change) -> Change {
    match change {
        files::Change::Made => Change::Made,
        files::Change::Modified => Change::Modified,
        files::Change::Written => Change::Written,
        files::Change::Attributes => Change::Attributes,
        files::Change::Removed => Change::Removed,
    }
}
