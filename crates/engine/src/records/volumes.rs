//! Volumes in the records.

use super::RecordsError;
use super::database::{Database, execute, explain};
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
        let failed = |source| explain(&self.path, "read volumes of", source);
        let query = "SELECT id, body FROM volumes";
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .map_err(failed)?;
        let mut volumes = Vec::new();
        for row in rows {
            let (id, body) = row.map_err(failed)?;
            let kept: KeptVolume = serde_json::from_str(&body)
                .map_err(|error| self.damaged(&format!("{id} cannot be read: {error}")))?;
            if kept.id.to_string() != id {
                return Err(self.damaged(&format!("{id} says that it is {}", kept.id)));
            }
            volumes.push(kept);
        }
        Ok(volumes)
    }

    /// Writes what has changed of volumes, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_volumes(&mut self, changes: &[VolumeChange]) -> Result<(), RecordsError> {
        let path = self.path.clone();
        let failed = |source| explain(&path, "write", source);
        self.limit_for_more().map_err(failed)?;
        let transaction = self.connection.transaction().map_err(failed)?;
        for change in changes {
            match change {
                VolumeChange::Keep(kept) => {
                    let body = serde_json::to_string(kept);
                    let body = body.expect("a volume has string keys only");
                    execute(
                        &transaction,
                        "INSERT INTO volumes (id, name, body) VALUES (?1, ?2, ?3)
                         ON CONFLICT (id) DO UPDATE SET name = excluded.name, body = excluded.body",
                        (kept.id.to_string(), kept.name.as_str(), body),
                    )
                }
                VolumeChange::Forget(id) => {
                    execute(&transaction, "DELETE FROM volumes WHERE id = ?1", [id.to_string()])
                }
            }
            .map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
}
