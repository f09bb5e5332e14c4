//! Pools in the records.

use super::RecordsError;
use super::database::{Database, execute, explain};
use crate::pools::KeptPool;
use atoll_api::name::SandboxName;

/// Members are nowhere written: they do not outlive a server.
pub(super) const MIGRATION: &str = "
    CREATE TABLE pools (
        name TEXT PRIMARY KEY,
        body TEXT NOT NULL      -- a KeptPool as JSON
    ) STRICT, WITHOUT ROWID;
";

/// A change of what is remembered of pools.
#[derive(Debug, Clone)]
pub enum PoolChange {
    /// It is so from now on.
    Keep(Box<KeptPool>),
    /// It is no more.
    Forget(SandboxName),
}

impl Database {
    /// Reads every pool.
    ///
    /// # Errors
    /// [`RecordsError::Damaged`] names the first one that cannot be understood.
    pub fn pools(&self) -> Result<Vec<KeptPool>, RecordsError> {
        let failed = |source| explain(&self.path, "read pools of", source);
        let query = "SELECT name, body FROM pools";
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .map_err(failed)?;
        let mut pools = Vec::new();
        for row in rows {
            let (name, body) = row.map_err(failed)?;
            let kept: KeptPool = serde_json::from_str(&body)
                .map_err(|error| self.damaged(&format!("pool {name} cannot be read: {error}")))?;
            if kept.name.as_str() != name {
                return Err(self.damaged(&format!("pool {name} says that it is {}", kept.name)));
            }
            pools.push(kept);
        }
        Ok(pools)
    }

    /// Writes what has changed of pools, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_pools(&mut self, changes: &[PoolChange]) -> Result<(), RecordsError> {
        let path = self.path.clone();
        let failed = |source| explain(&path, "write", source);
        self.limit_for_more().map_err(failed)?;
        let transaction = self.connection.transaction().map_err(failed)?;
        for change in changes {
            match change {
                PoolChange::Keep(kept) => {
                    let body = serde_json::to_string(kept).expect("a pool has string keys only");
                    execute(
                        &transaction,
                        "INSERT INTO pools (name, body) VALUES (?1, ?2)
                         ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                        (kept.name.as_str(), body),
                    )
                }
                PoolChange::Forget(name) => {
                    execute(&transaction, "DELETE FROM pools WHERE name = ?1", [name.as_str()])
                }
            }
            .map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
}
