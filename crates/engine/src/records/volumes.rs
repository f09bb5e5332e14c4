//! Volumes in the records.

use super::RecordsError;
use super::database::{Database, execute};
use crate::volumes::KeptVolume;
use atoll_api::id::VolumeId;

/// What sandboxes have of volumes is in their records.
pub(super) const MIGRATION: &str = "
    CREATE TABLE volumes (
        id   TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        body TEXT NOT NULL      -- a KeptVolume as JSON
    ) STRICT, WITHOUT ROWID;
";

/// A change of what is remembered of volumes.
#[derive(Debug, Clone)]
pub enum VolumeChange {
    /// It is so from now on.
    Keep(Box<KeptVolume>),
    /// It is no more.
    Forget(VolumeId),
}

impl Database {
    /// Reads every volume.
    ///
    /// # Errors
    /// [`RecordsError::Damaged`] names the first one that cannot be understood.
    pub fn volumes(&self) -> Result<Vec<KeptVolume>, RecordsError> {
        let query = "SELECT id, body FROM volumes";
        self.bodies_by_key("read volumes of", query, |kept: &KeptVolume| kept.id.to_string())
    }

    /// Writes what has changed of volumes, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_volumes(&mut self, changes: &[VolumeChange]) -> Result<(), RecordsError> {
        self.write_all(changes, |transaction, change| match change {
            VolumeChange::Keep(kept) => {
                let body = serde_json::to_string(kept);
                let body = body.expect("a volume has string keys only");
                execute(
                    transaction,
                    "INSERT INTO volumes (id, name, body) VALUES (?1, ?2, ?3)
                         ON CONFLICT (id) DO UPDATE SET name = excluded.name, body = excluded.body",
                    (kept.id.to_string(), kept.name.as_str(), body),
                )
            }
            VolumeChange::Forget(id) => {
                execute(transaction, "DELETE FROM volumes WHERE id = ?1", [id.to_string()])
            }
        })
    }
}
