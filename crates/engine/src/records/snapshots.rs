//! Snapshots in the records.

use super::RecordsError;
use super::database::{Database, execute, explain};
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
        let failed = |source| explain(&self.path, "read snapshots of", source);
        let query = "SELECT id, body FROM snapshots";
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .map_err(failed)?;
        let mut snapshots = Vec::new();
        for row in rows {
            let (id, body) = row.map_err(failed)?;
            let kept: Kept = serde_json::from_str(&body)
                .map_err(|error| self.damaged(&format!("{id} cannot be read: {error}")))?;
            if kept.id.to_string() != id {
                return Err(self.damaged(&format!("{id} says that it is {}", kept.id)));
            }
            snapshots.push(kept);
        }
        Ok(snapshots)
    }

    /// Writes what has changed of snapshots, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_snapshots(&mut self, changes: &[SnapshotChange]) -> Result<(), RecordsError> {
        let path = self.path.clone();
        let failed = |source| explain(&path, "write", source);
        self.limit_for_more().map_err(failed)?;
        let transaction = self.connection.transaction().map_err(failed)?;
        for change in changes {
            match change {
                SnapshotChange::Keep(kept) => {
                    let body = serde_json::to_string(kept);
                    let body = body.expect("a snapshot has string keys only");
                    execute(
                        &transaction,
                        "INSERT INTO snapshots (id, body) VALUES (?1, ?2)
                         ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                        (kept.id.to_string(), body),
                    )
                }
                SnapshotChange::Forget(id) => {
                    execute(&transaction, "DELETE FROM snapshots WHERE id = ?1", [id.to_string()])
                }
            }
            .map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
}
