//! What was drawn on the budgets that sandboxes have together, in the SQLite file.

use super::database::{Database, RecordsError, execute, explain};
use crate::budgets::Drawn;
use atoll_api::time::Timestamp;
use rusqlite::Transaction;

/// See `MIGRATIONS`.
pub(super) const MIGRATION: &str = "
    CREATE TABLE budgets (
        name    TEXT PRIMARY KEY,
        from_us INTEGER NOT NULL,   -- when its period began: microseconds since 1970
        used    TEXT NOT NULL       -- a Used as JSON
    ) STRICT, WITHOUT ROWID;
";

/// Writes what was drawn on some, with what sandboxes have used: both or neither.
pub(super) fn save(transaction: &Transaction<'_>, drawn: &[Drawn]) -> rusqlite::Result<()> {
    for Drawn { name, from, used } in drawn {
        let used = serde_json::to_string(used).expect("it has string keys only");
        let values = (name, from.unix_us(), used);
        execute(transaction, "INSERT OR REPLACE INTO budgets VALUES (?1, ?2, ?3)", values)?;
    }
    Ok(())
}

impl Database {
    /// What was drawn on all of them.
    ///
    /// # Errors
    /// If something cannot be understood.
    pub fn drawn(&self) -> Result<Vec<Drawn>, RecordsError> {
        let failed = |source| explain(&self.path, "read the budgets from", source);
        let query = "SELECT name, from_us, used FROM budgets ORDER BY name";
        let mut statement = self.connection.prepare_cached(query).map_err(failed)?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
        };
        let rows = statement.query_map([], read).map_err(failed)?;
        let drawn = |row: rusqlite::Result<(String, i64, String)>| {
            let (name, from_us, used) = row.map_err(failed)?;
            let damaged = || self.damaged(&format!("what was drawn on {name} cannot be read"));
            let from = Timestamp::from_unix_us(from_us).map_err(|_| damaged())?;
            let used = serde_json::from_str(&used).map_err(|_| damaged())?;
            Ok(Drawn { name, from, used })
        };
        rows.map(drawn).collect()
    }
}
