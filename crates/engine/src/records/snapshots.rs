//! Snapshots in the records.

use super::RecordsError;
use super::database::{Database, execute};
use crate::snapshots::Kept;
use atoll_api::id::SnapshotId;

/// A change of what is remembered of snapshots.
#[derive(Debug, Clone)]
pub enum SnapshotChange {
    /// It is so from now on.
    Keep(Box<Kept>),
    /// It is no more.
    Forget(SnapshotId),
}

impl Database {
    /// Reads every snapshot.
    ///
    /// # Errors
    /// [`RecordsError::Damaged`] names the first one that cannot be understood.
    pub fn snapshots(&self) -> Result<Vec<Kept>, RecordsError> {
        let query = "SELECT id, body FROM snapshots";
        self.bodies_by_key("read snapshots of", query, |kept: &Kept| kept.id.to_string())
    }

    /// Writes what has changed of snapshots, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_snapshots(&mut self, changes: &[SnapshotChange]) -> Result<(), RecordsError> {
        self.write_all(changes, |transaction, change| match change {
            SnapshotChange::Keep(kept) => {
                let body = serde_json::to_string(kept);
                let body = body.expect("a snapshot has string keys only");
                execute(
                    transaction,
                    "INSERT INTO snapshots (id, body) VALUES (?1, ?2)
                         ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                    (kept.id.to_string(), body),
                )
            }
            SnapshotChange::Forget(id) => {
                execute(transaction, "DELETE FROM snapshots WHERE id = ?1", [id.to_string()])
            }
        })
    }
}
