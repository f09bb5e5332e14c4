//! Pools in the records.

use super::RecordsError;
use super::database::{Database, execute};
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
        // A name alone does not say what it is of.
        let query = "SELECT 'pool ' || name, body FROM pools";
        self.bodies_by_key("read pools of", query, |kept: &KeptPool| format!("pool {}", kept.name))
    }

    /// Writes what has changed of pools, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_pools(&mut self, changes: &[PoolChange]) -> Result<(), RecordsError> {
        self.write_all(changes, |transaction, change| match change {
            PoolChange::Keep(kept) => {
                let body = serde_json::to_string(kept).expect("a pool has string keys only");
                execute(
                    transaction,
                    "INSERT INTO pools (name, body) VALUES (?1, ?2)
                         ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                    (kept.name.as_str(), body),
                )
            }
            PoolChange::Forget(name) => {
                execute(transaction, "DELETE FROM pools WHERE name = ?1", [name.as_str()])
            }
        })
    }
}
