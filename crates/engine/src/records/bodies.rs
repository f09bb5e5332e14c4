//! Tables of things as JSON, each under its key.

use super::RecordsError;
use super::database::{Database, explain};
use rusqlite::Transaction;
use serde::de::DeserializeOwned;

impl Database {
    /// Reads everything that `query` gives: a key and a body each. `what` is being done, as in "read
    /// snapshots of", and `key` is what a body says that its key is.
    ///
    /// # Errors
    /// [`RecordsError::Damaged`] names the first one that cannot be understood.
    pub(super) fn bodies_by_key<T: DeserializeOwned>(
        &self,
        what: &'static str,
        query: &str,
        key: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, RecordsError> {
        let failed = |source| explain(&self.path, what, source);
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .map_err(failed)?;
        let mut found = Vec::new();
        for row in rows {
            let (name, body) = row.map_err(failed)?;
            let one: T = serde_json::from_str(&body)
                .map_err(|error| self.damaged(&format!("{name} cannot be read: {error}")))?;
            if key(&one) != name {
                return Err(self.damaged(&format!("{name} says that it is {}", key(&one))));
            }
            found.push(one);
        }
        Ok(found)
    }

    /// Writes some changes, all of them or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub(super) fn write_all<C>(
        &mut self,
        changes: &[C],
        write: impl Fn(&Transaction<'_>, &C) -> rusqlite::Result<()>,
    ) -> Result<(), RecordsError> {
        let path = self.path.clone();
        let failed = |source| explain(&path, "write", source);
        self.limit_for_more().map_err(failed)?;
        let transaction = self.connection.transaction().map_err(failed)?;
        changes.iter().try_for_each(|change| write(&transaction, change)).map_err(failed)?;
        transaction.commit().map_err(failed)
    }
}
