//! The SQLite file. Synchronous; [`super::Records`] has it on a thread of its own.

use super::{CameTrue, Change, Fate, Once, Record};
use crate::approvals::book as approvals;
use atoll_api::approval::Approval;
use atoll_api::name::SandboxName;
use atoll_api::sandbox::{Event, EventKind, State};
use atoll_api::time::Timestamp;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, named_params};
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Events that are kept; older ones make room.
pub const EVENTS_KEPT: u32 = 100_000;

/// Requests that came true and are kept; older ones make room.
pub const ONCE_KEPT: u32 = 10_000;
/// How long one is kept at most.
pub const ONCE_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// Most pages of a file, as SQLite has it.
const PAGES_MAX: u32 = u32::MAX - 1;

/// Pages that only what makes room may take.
const PAGES_RESERVED: u32 = 8;

/// One step from each version of the file to the next. Never changed, only added to.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE sandboxes (
        id   TEXT PRIMARY KEY,
        body TEXT NOT NULL      -- a Record as JSON
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE names (
        name TEXT PRIMARY KEY,
        id   TEXT NOT NULL UNIQUE REFERENCES sandboxes (id) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE events (
        seq   INTEGER PRIMARY KEY AUTOINCREMENT,
        at_us INTEGER NOT NULL, -- microseconds since 1970
        id    TEXT NOT NULL,    -- of a sandbox that may be forgotten
        body  TEXT NOT NULL     -- an EventKind as JSON
    ) STRICT;
",
    "
    CREATE TABLE came_true (    -- requests that are to come true once
        seq    INTEGER PRIMARY KEY AUTOINCREMENT,
        key    TEXT NOT NULL UNIQUE,
        digest TEXT NOT NULL,
        id     TEXT NOT NULL,   -- of a sandbox that may be forgotten
        at_us  INTEGER NOT NULL -- microseconds since 1970
    ) STRICT;
    CREATE INDEX came_true_at ON came_true (at_us);
",
    "
    CREATE TABLE approvals (
        id     TEXT PRIMARY KEY,
        number INTEGER NOT NULL UNIQUE,
        body   TEXT NOT NULL    -- an Approval as JSON
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE snapshots (
        id   TEXT PRIMARY KEY,
        body TEXT NOT NULL      -- a Kept as JSON
    ) STRICT, WITHOUT ROWID;
",
    super::usage::MIGRATION,
    super::templates::MIGRATION,
    super::volumes::MIGRATION,
    super::budgets::MIGRATION,
    super::pools::MIGRATION,
];

/// Why the records cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file cannot be made or opened.
    #[error("could not open the records {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The thread of the writer could not be started.
    #[error("could not start the thread that writes the records")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
    /// Another server has them open.
    #[error("another server uses the records {}", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A newer version wrote them.
    #[error(
        "the records {} have format {found}, and this version knows up to {known}; use a newer one",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The latest format that is known.
        known: u32,
    },
    /// What is in the file is not what was written.
    #[error("the records {} are damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There is no room on the disk, or in what the records may take.
    #[error("no room is left for the records {}", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A name belongs to another sandbox.
    #[error("the name {name} is taken")]
    NameTaken {
        /// The name.
        name: SandboxName,
    },
    /// SQLite failed in another way.
    #[error("could not {step} the records {}", path.display())]
    Sql {
        /// The file.
        path: PathBuf,
        /// What was being done, as in "write".
        step: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

/// An open file.
#[derive(Debug)]
pub struct Database {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pages_max: u32,
    /// As SQLite was last told.
    limited_to: Cell<u32>,
}

impl Database {
    /// Opens the file, or makes it, and brings it to the latest format.
    ///
    /// # Errors
    /// See [`RecordsError`]; nothing was changed then.
    pub fn open(path: &Path) -> Result<Self, RecordsError> {
        make_private(path)
            .map_err(|source| RecordsError::File { path: path.to_owned(), source })?;
        let failed = |source| explain(path, "open", source);
        let connection = Connection::open(path).map_err(failed)?;
        // One server has them, so that waiting for another makes no sense.
        connection.busy_timeout(Duration::ZERO).map_err(failed)?;
        for (pragma, value) in [
            ("locking_mode", "EXCLUSIVE"),
            ("journal_mode", "WAL"),
            ("synchronous", "NORMAL"),
            ("foreign_keys", "ON"),
        ] {
            connection.pragma_update(None, pragma, value).map_err(failed)?;
        }
        let mut database = Self {
            path: path.to_owned(),
            connection,
            pages_max: PAGES_MAX,
            limited_to: Cell::new(0),
        };
        database.check()?;
        database.migrate()?;
        Ok(database)
    }

    /// Limits the file to so many bytes; a write beyond is [`RecordsError::Full`].
    ///
    /// # Errors
    /// If SQLite cannot be asked for the size of its pages.
    pub fn limit(&mut self, bytes_max: u64) -> Result<(), RecordsError> {
        let page_bytes: u32 = self
            .connection
            .pragma_query_value(None, "page_size", |row| row.get(0))
            .map_err(|source| explain(&self.path, "limit", source))?;
        let pages_max = bytes_max / u64::from(page_bytes);
        self.pages_max = u32::try_from(pages_max).unwrap_or(PAGES_MAX);
        Ok(())
    }

    /// What makes room may use a part that nothing else may.
    fn limit_for(&self, change: &Change) -> rusqlite::Result<()> {
        let makes_room = change.fate == Fate::Forget || change.record.state == State::Deleted;
        let reserve = if makes_room { 0 } else { PAGES_RESERVED };
        self.limit_pages(self.pages_max.saturating_sub(reserve).max(1))
    }

    /// What makes no room may not use that part.
    pub(super) fn limit_for_more(&self) -> rusqlite::Result<()> {
        self.limit_pages(self.pages_max.saturating_sub(PAGES_RESERVED).max(1))
    }

    fn limit_pages(&self, pages_max: u32) -> rusqlite::Result<()> {
        if self.limited_to.get() != pages_max {
            self.connection.pragma_update(None, "max_page_count", pages_max)?;
            self.limited_to.set(pages_max);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), RecordsError> {
        let verdict: String = self
            .connection
            .pragma_query_value(None, "quick_check", |row| row.get(0))
            .map_err(|source| explain(&self.path, "check", source))?;
        if verdict != "ok" {
            return Err(RecordsError::Damaged { path: self.path.clone(), what: verdict });
        }
        Ok(())
    }

    fn migrate(&mut self) -> Result<(), RecordsError> {
        let path = self.path.clone();
        let failed = |source| explain(&path, "bring up to date", source);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let found: u32 = transaction
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(failed)?;
        let known = u32::try_from(MIGRATIONS.len()).expect("there are a handful");
        if found > known {
            return Err(RecordsError::TooNew { path, found, known });
        }
        let missing = MIGRATIONS.iter().skip(found as usize);
        for migration in missing {
            transaction.execute_batch(migration).map_err(failed)?;
        }
        transaction.pragma_update(None, "user_version", known).map_err(failed)?;
        transaction.commit().map_err(failed)
    }

    /// Reads every record.
    ///
    /// # Errors
    /// [`RecordsError::Damaged`] names the first one that cannot be understood.
    pub fn load(&self) -> Result<Vec<Record>, RecordsError> {
        let query = "SELECT id, body FROM sandboxes";
        self.bodies_by_key("read", query, |record: &Record| record.id.to_string())
    }

    /// Writes a change and its event, both or none. Without room for them, the older half
    /// of the events goes, so that history never stands in the way of the present.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn apply(&mut self, change: &Change) -> Result<Option<Event>, RecordsError> {
        loop {
            match self.write(change) {
                Err(RecordsError::Full { .. }) if self.halve_events()? => {}
                written => return written,
            }
        }
    }

    /// Gives whether there was an event to let go of.
    fn halve_events(&self) -> Result<bool, RecordsError> {
        let older_half =
            "DELETE FROM events WHERE seq <= (SELECT (min(seq) + max(seq)) / 2 FROM events)";
        let gone = self.connection.execute(older_half, []);
        gone.map(|count| count > 0).map_err(|source| explain(&self.path, "make room in", source))
    }

    fn write(&mut self, change: &Change) -> Result<Option<Event>, RecordsError> {
        let path = self.path.clone();
        let failed = |source| explain(&path, "write", source);
        self.limit_for(change).map_err(failed)?;
        let transaction = self.connection.transaction().map_err(failed)?;
        write_record(&transaction, change).map_err(|source| match &change.record.name {
            Some(name) if is_constraint(&source) => RecordsError::NameTaken { name: name.clone() },
            _ => failed(source),
        })?;
        let event = match &change.what {
            Some(what) => {
                let seq = write_event(&transaction, change, what).map_err(failed)?;
                let (at, sandbox_id, what) = (change.at, change.record.id, what.clone());
                Some(Event { seq, at, sandbox_id, what })
            }
            None => None,
        };
        if let Some(once) = &change.once {
            write_once(&transaction, change, once).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(event)
    }

    /// Reads the requests that came true, the oldest first.
    ///
    /// # Errors
    /// If one of them cannot be understood.
    pub fn came_true(&self) -> Result<Vec<CameTrue>, RecordsError> {
        let failed = |source| explain(&self.path, "read", source);
        let mut statement = self
            .connection
            .prepare("SELECT key, digest, id, at_us FROM came_true ORDER BY seq")
            .map_err(failed)?;
        let rows = statement
            .query_map([], |row| {
                let once = Once { key: row.get(0)?, digest: row.get(1)? };
                Ok((once, row.get::<_, String>(2)?, row.get::<_, i64>(3)?))
            })
            .map_err(failed)?;
        let mut found = Vec::new();
        for row in rows {
            let (once, id, at_us) = row.map_err(failed)?;
            let at = Timestamp::from_unix_us(at_us).ok();
            let (Ok(id), Some(at)) = (id.parse(), at) else {
                return Err(self.damaged("a request that came true cannot be read"));
            };
            found.push(CameTrue { once, id, at });
        }
        Ok(found)
    }

    /// Reads every approval with its number, in their order.
    ///
    /// # Errors
    /// [`RecordsError::Damaged`] names the first one that cannot be understood.
    pub fn approvals(&self) -> Result<Vec<(u64, Approval)>, RecordsError> {
        let failed = |source| explain(&self.path, "read approvals of", source);
        let query = "SELECT number, id, body FROM approvals ORDER BY number";
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let rows = statement
            .query_map([], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
            })
            .map_err(failed)?;
        let mut approvals = Vec::new();
        for row in rows {
            let (number, id, body) = row.map_err(failed)?;
            let approval: Option<Approval> = serde_json::from_str(&body).ok();
            let approval = approval.filter(|approval| approval.id.to_string() == id);
            let (Ok(number), Some(approval)) = (u64::try_from(number), approval) else {
                return Err(self.damaged(&format!("{id} cannot be read")));
            };
            approvals.push((number, approval));
        }
        Ok(approvals)
    }

    /// Writes what has changed of approvals, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_approvals(&mut self, changes: &[approvals::Change]) -> Result<(), RecordsError> {
        self.write_all(changes, |transaction, change| match change {
            approvals::Change::Keep(number, approval) => {
                let body = serde_json::to_string(approval);
                let body = body.expect("an approval has string keys only");
                let number = i64::try_from(*number).unwrap_or(i64::MAX);
                execute(
                    transaction,
                    "INSERT INTO approvals (id, number, body) VALUES (?1, ?2, ?3)
                         ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                    (approval.id.to_string(), number, body),
                )
            }
            approvals::Change::Forget(id) => {
                execute(transaction, "DELETE FROM approvals WHERE id = ?1", [id.to_string()])
            }
        })
    }

    /// Brings everything that is written to the disk.
    ///
    /// # Errors
    /// It may not be there then.
    pub fn sync(&self) -> Result<(), RecordsError> {
        // A checkpoint synchronises the log before, and the file after.
        let checkpoint = self.connection.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()));
        checkpoint.map_err(|source| explain(&self.path, "synchronise", source))
    }

    /// Reads up to `count` events with numbers above `after`, the oldest first.
    ///
    /// # Errors
    /// If one of them cannot be understood.
    pub fn events(&self, after: u64, count: usize) -> Result<Vec<Event>, RecordsError> {
        let failed = |source| explain(&self.path, "read events of", source);
        let mut statement = self
            .connection
            .prepare(
                "SELECT seq, at_us, id, body FROM events WHERE seq > :after ORDER BY seq LIMIT :count",
            )
            .map_err(failed)?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(named_params! { ":after": after, ":count": count }, |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, i64>(1)?,
                    row.get::<_, String>(2)?,
                    row.get::<_, String>(3)?,
                ))
            })
            .map_err(failed)?;
        let mut events = Vec::new();
        for row in rows {
            let (seq, at_us, id, body) = row.map_err(failed)?;
            let event = parse_event(seq, at_us, &id, &body)
                .ok_or_else(|| self.damaged(&format!("event {seq} cannot be read")))?;
            events.push(event);
        }
        Ok(events)
    }

    /// Gives the number of the latest event, 0 if there was none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn last_event(&self) -> Result<u64, RecordsError> {
        let failed = |source| explain(&self.path, "read events of", source);
        let seq: i64 = self
            .connection
            .query_row(
                // Not the latest one that is there: history makes room.
                "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'",
                [],
                |row| row.get(0),
            )
            .map_err(failed)?;
        Ok(u64::try_from(seq).expect("SQLite numbers rows from 1"))
    }

    /// Writes the file's version again, which goes to the disk like every change.
    ///
    /// # Errors
    /// As a change would fail.
    pub fn check_write(&self) -> Result<(), RecordsError> {
        let version = u32::try_from(MIGRATIONS.len()).expect("there are a handful");
        self.connection
            .pragma_update(None, "user_version", version)
            .map_err(|source| explain(&self.path, "write", source))
    }

    pub(super) fn damaged(&self, what: &str) -> RecordsError {
        RecordsError::Damaged { path: self.path.clone(), what: what.to_owned() }
    }
}

/// Makes the file for its owner's eyes only: environments are in it. SQLite gives
/// the files beside it the same mode.
fn make_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map(drop)
}

/// Carries out a statement that is compiled once: compiling takes longer than writing.
pub(super) fn execute(
    transaction: &Transaction<'_>,
    statement: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<()> {
    transaction.prepare_cached(statement)?.execute(values).map(drop)
}

fn write_record(transaction: &Transaction<'_>, change: &Change) -> rusqlite::Result<()> {
    let record = &change.record;
    let id = record.id.to_string();
    if change.fate == Fate::Forget {
        // The name goes with it.
        return execute(transaction, "DELETE FROM sandboxes WHERE id = ?1", [&id]);
    }
    let body = serde_json::to_string(record).expect("a record has string keys only");
    execute(
        transaction,
        "INSERT INTO sandboxes (id, body) VALUES (?1, ?2)
         ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        [&id, &body],
    )?;
    match &record.name {
        Some(name) if record.state != State::Deleted => execute(
            transaction,
            "INSERT INTO names (name, id) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING",
            [name.as_str(), &id],
        ),
        _ => execute(transaction, "DELETE FROM names WHERE id = ?1", [&id]),
    }
}

/// Writes the event and lets the oldest ones go; gives its number.
fn write_event(
    transaction: &Transaction<'_>,
    change: &Change,
    what: &EventKind,
) -> rusqlite::Result<u64> {
    let body = serde_json::to_string(what).expect("an event has string keys only");
    execute(
        transaction,
        "INSERT INTO events (at_us, id, body) VALUES (?1, ?2, ?3)",
        (change.at.unix_us(), change.record.id.to_string(), body),
    )?;
    let seq = transaction.last_insert_rowid();
    execute(
        transaction,
        "DELETE FROM events WHERE seq <= ?1",
        [seq.saturating_sub(i64::from(EVENTS_KEPT))],
    )?;
    Ok(u64::try_from(seq).expect("SQLite numbers rows from 1"))
}

/// Writes that a request came true, and lets those go that are too old or too many.
fn write_once(transaction: &Transaction<'_>, change: &Change, once: &Once) -> rusqlite::Result<()> {
    let at_us = change.at.unix_us();
    execute(
        transaction,
        "INSERT OR REPLACE INTO came_true (key, digest, id, at_us) VALUES (?1, ?2, ?3, ?4)",
        (&once.key, &once.digest, change.record.id.to_string(), at_us),
    )?;
    let seq = transaction.last_insert_rowid();
    let kept_for_us = i64::try_from(ONCE_KEPT_FOR.as_micros()).unwrap_or(i64::MAX);
    execute(
        transaction,
        "DELETE FROM came_true WHERE seq <= ?1 OR at_us <= ?2",
        (seq.saturating_sub(i64::from(ONCE_KEPT)), at_us.saturating_sub(kept_for_us)),
    )?;
    Ok(())
}

fn parse_event(seq: i64, at_us: i64, id: &str, body: &str) -> Option<Event> {
    Some(Event {
        seq: u64::try_from(seq).ok()?,
        at: Timestamp::from_unix_us(at_us).ok()?,
        sandbox_id: id.parse().ok()?,
        what: serde_json::from_str(body).ok()?,
    })
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Puts what SQLite says into a kind once.
pub(super) fn explain(path: &Path, step: &'static str, source: rusqlite::Error) -> RecordsError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => RecordsError::Full { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => RecordsError::InUse { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            RecordsError::Damaged { path, what: source.to_string() }
        }
        _ => RecordsError::Sql { path, step, source },
    }
}
