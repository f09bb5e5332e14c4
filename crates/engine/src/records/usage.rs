//! What sandboxes have used, in the SQLite file: a row for each that is there, and for the last that
//! are gone; those before them are added up by their labels.

use super::database::{Database, RecordsError, execute, explain};
use crate::budgets::Drawn;
use crate::usage::{Found, Tally, Wanted};
use atoll_api::id::SandboxId;
use atoll_api::time::Timestamp;
use atoll_api::usage::{NetworkUsage, UsageTotal, Used};
use atoll_egress::control::Counts;
use rusqlite::types::Value;
use rusqlite::{Row, Transaction, params_from_iter};

/// Sandboxes that are gone and still have a row of their own.
pub const GONE_KEPT: u32 = 10_000;
/// Sets of labels under which older ones are added up; further ones are added up without labels.
pub const LABELS_KEPT: u32 = 1000;

/// See `MIGRATIONS`.
pub(super) const MIGRATION: &str = "
    CREATE TABLE usage (
        id                TEXT PRIMARY KEY, -- of a sandbox that may be gone
        name              TEXT,
        labels            TEXT NOT NULL,    -- as a JSON object
        created_us        INTEGER NOT NULL, -- microseconds since 1970
        gone_us           INTEGER,          -- the same; NULL while it is there
        cpu_us            INTEGER,          -- what was never measured is NULL
        cpu_seen_us       INTEGER NOT NULL, -- of the processes that there are
        memory_kib_s      INTEGER,
        memory_seen_us    INTEGER,          -- microseconds since 1970
        memory_seen_bytes INTEGER,
        sent_bytes        INTEGER,
        received_bytes    INTEGER,
        requests          INTEGER,
        connections       INTEGER,
        questions         INTEGER,
        denials           INTEGER
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX usage_order ON usage (created_us, id);
    CREATE INDEX usage_gone ON usage (gone_us) WHERE gone_us IS NOT NULL;
    CREATE TABLE usage_older (              -- sums of sandboxes that are gone
        labels         TEXT PRIMARY KEY,    -- that all of them had
        sandboxes      INTEGER NOT NULL,
        cpu_us         INTEGER,
        memory_kib_s   INTEGER,
        sent_bytes     INTEGER,
        received_bytes INTEGER,
        requests       INTEGER,
        connections    INTEGER,
        questions      INTEGER,
        denials        INTEGER
    ) STRICT, WITHOUT ROWID;
";

/// Amounts that are added up, as both tables have them.
const AMOUNTS: [&str; 8] = [
    "cpu_us",
    "memory_kib_s",
    "sent_bytes",
    "received_bytes",
    "requests",
    "connections",
    "questions",
    "denials",
];

/// A sum of integers is an error beyond the largest one, and so is not used.
fn sums() -> String {
    AMOUNTS
        .map(|amount| format!("CAST(min(total({amount}), 9e18) AS INTEGER), count({amount})"))
        .join(", ")
}

impl Database {
    /// Writes what sandboxes have used and drew on budgets, all of it or nothing, and adds up those that are gone for
    /// long.
    ///
    /// # Errors
    /// Nothing was written then.
    pub fn save_usage(&mut self, tallies: &[Tally], drawn: &[Drawn]) -> Result<(), RecordsError> {
        let path = self.path.clone();
        let failed = |source| explain(&path, "write", source);
        self.limit_for_more().map_err(failed)?;
        let transaction = self.connection.transaction().map_err(failed)?;
        for tally in tallies {
            save(&transaction, tally).map_err(failed)?;
        }
        super::budgets::save(&transaction, drawn).map_err(failed)?;
        if tallies.iter().any(|tally| tally.deleted_at.is_some()) {
            add_up(&transaction, GONE_KEPT, LABELS_KEPT).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    /// What the sandboxes have used that were there when that was last written.
    ///
    /// # Errors
    /// If one of them cannot be understood.
    pub fn usage_of_all(&self) -> Result<Vec<Tally>, RecordsError> {
        self.tallies("WHERE gone_us IS NULL", Vec::new())
    }

    /// What one has used, if that is kept.
    ///
    /// # Errors
    /// If it cannot be understood.
    pub fn usage_of(&self, id: SandboxId) -> Result<Option<Tally>, RecordsError> {
        let found = self.tallies("WHERE id = ?", vec![Value::Text(id.to_string())])?;
        Ok(found.into_iter().next())
    }

    /// What several have used.
    ///
    /// # Errors
    /// If something cannot be understood.
    pub fn usage(&self, wanted: &Wanted) -> Result<Found, RecordsError> {
        let (condition, values) = condition(&wanted.labels);
        let (older, own) = (
            self.total("usage_older", "coalesce(sum(sandboxes), 0)", &condition, &values)?,
            self.total("usage", "count(*)", &condition, &values)?,
        );
        let mut behind = values;
        let mut place = String::new();
        if let Some(cursor) = wanted.behind {
            place = "AND (created_us, id) > (?, ?)".to_owned();
            let (created_at, id) = cursor.place();
            behind.extend([Value::Integer(created_at.unix_us()), Value::Text(id.to_string())]);
        }
        behind.push(Value::Integer(i64::try_from(wanted.count).unwrap_or(i64::MAX)));
        let rest = format!("WHERE {condition} {place} ORDER BY created_us, id LIMIT ?");
        let tallies = self.tallies(&rest, behind)?;
        Ok(Found { tallies, older, total: own.and(older) })
    }

    fn tallies(&self, rest: &str, values: Vec<Value>) -> Result<Vec<Tally>, RecordsError> {
        let failed = |source| explain(&self.path, "read what was used from", source);
        let query = format!(
            "SELECT id, name, labels, created_us, gone_us, cpu_us, cpu_seen_us, memory_kib_s, \
             memory_seen_us, memory_seen_bytes, sent_bytes, received_bytes, requests, connections, \
             questions, denials FROM usage {rest}"
        );
        let mut statement = self.connection.prepare_cached(&query).map_err(failed)?;
        let rows = statement
            .query_map(params_from_iter(values), |row| Ok((row.get::<_, String>(0)?, tally(row)?)))
            .map_err(failed)?;
        let mut tallies = Vec::new();
        for row in rows {
            let (id, tally) = row.map_err(failed)?;
            let damaged = || self.damaged(&format!("what {id} has used cannot be read"));
            tallies.push(tally.ok_or_else(damaged)?);
        }
        Ok(tallies)
    }

    fn total(
        &self,
        table: &str,
        count: &str,
        condition: &str,
        values: &[Value],
    ) -> Result<UsageTotal, RecordsError> {
        let failed = |source| explain(&self.path, "read what was used from", source);
        let query = format!("SELECT {count}, {} FROM {table} WHERE {condition}", sums());
        let mut statement = self.connection.prepare_cached(&query).map_err(failed)?;
        let total = |row: &Row<'_>| {
            // Each sum is beside how many were measured.
            let sum = |index: usize| -> rusqlite::Result<Option<u64>> {
                let measured: i64 = row.get(2 * index + 2)?;
                Ok(Some(unsigned(row.get(2 * index + 1)?)).filter(|_| measured > 0))
            };
            let network = sum(2)?.map(|bytes_sent| -> rusqlite::Result<_> {
                Ok(NetworkUsage {
                    bytes_sent,
                    bytes_received: sum(3)?.unwrap_or(0),
                    requests: sum(4)?.unwrap_or(0),
                    connections: sum(5)?.unwrap_or(0),
                    questions: sum(6)?.unwrap_or(0),
                    denied: sum(7)?.unwrap_or(0),
                })
            });
            let memory_mib_seconds = sum(1)?.map(|kib| kib >> 10);
            let used = Used { cpu_us: sum(0)?, memory_mib_seconds, network: network.transpose()? };
            Ok(UsageTotal { sandboxes: unsigned(row.get(0)?), used })
        };
        statement.query_row(params_from_iter(values), total).map_err(failed)
    }
}

/// What has all of these labels. Keys have no quotes in them.
fn condition(labels: &[(String, String)]) -> (String, Vec<Value>) {
    let (mut condition, mut values) = ("true".to_owned(), Vec::new());
    for (key, value) in labels {
        condition += " AND json_extract(labels, ?) = ?";
        values.extend([Value::Text(format!("$.\"{key}\"")), Value::Text(value.clone())]);
    }
    (condition, values)
}

fn save(transaction: &Transaction<'_>, tally: &Tally) -> rusqlite::Result<()> {
    let id = tally.id.to_string();
    if tally.deleted_at.is_some() && tally.is_empty() {
        // It was never there.
        return execute(transaction, "DELETE FROM usage WHERE id = ?1", [id]);
    }
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let labels = serde_json::to_string(&tally.labels).expect("it has string keys only");
    let memory_kib_s =
        tally.memory_byte_us.map(|all| i64::try_from(all / (1_000_000 << 10)).unwrap_or(i64::MAX));
    let of = |count: fn(Counts) -> u64| tally.network.map(|counts| number(count(counts)));
    let values: [Value; 16] = [
        id.into(),
        tally.name.as_ref().map(ToString::to_string).into(),
        labels.into(),
        tally.created_at.unix_us().into(),
        tally.deleted_at.map(Timestamp::unix_us).into(),
        tally.cpu_us.map(number).into(),
        number(tally.cpu_seen_us).into(),
        memory_kib_s.into(),
        tally.memory_seen.map(|(at, _)| at.unix_us()).into(),
        tally.memory_seen.map(|(_, bytes)| number(bytes)).into(),
        of(|counts| counts.sent_bytes).into(),
        of(|counts| counts.received_bytes).into(),
        of(|counts| counts.requests).into(),
        of(|counts| counts.connections).into(),
        of(|counts| counts.questions).into(),
        of(|counts| counts.denials).into(),
    ];
    execute(
        transaction,
        "INSERT OR REPLACE INTO usage
         (id, name, labels, created_us, gone_us, cpu_us, cpu_seen_us, memory_kib_s, memory_seen_us,
          memory_seen_bytes, sent_bytes, received_bytes, requests, connections, questions, denials)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params_from_iter(values),
    )
}

fn tally(row: &Row<'_>) -> rusqlite::Result<Option<Tally>> {
    let number = |index: usize| row.get::<_, Option<i64>>(index);
    let amount = |index: usize| number(index).map(|number| number.map(unsigned));
    let time = |index: usize| number(index).map(|number| number.map(Timestamp::from_unix_us));
    let network = amount(10)?.map(|sent_bytes| -> rusqlite::Result<Counts> {
        Ok(Counts {
            sent_bytes,
            received_bytes: amount(11)?.unwrap_or(0),
            requests: amount(12)?.unwrap_or(0),
            connections: amount(13)?.unwrap_or(0),
            questions: amount(14)?.unwrap_or(0),
            denials: amount(15)?.unwrap_or(0),
        })
    });
    let network = network.transpose()?;
    let (id, labels): (String, String) = (row.get(0)?, row.get(2)?);
    let name: Option<String> = row.get(1)?;
    let (created_at, deleted_at, seen_at) = (time(3)?, time(4)?, time(8)?);
    let memory_byte_us = amount(7)?.map(|kib_s| u128::from(kib_s) * (1_000_000 << 10));
    let (cpu_us, cpu_seen_us, seen_bytes) = (amount(5)?, amount(6)?.unwrap_or(0), amount(9)?);
    let understood = || {
        Some(Tally {
            id: id.parse().ok()?,
            name: name.map(|name| name.parse()).transpose().ok()?,
            labels: serde_json::from_str(&labels).ok()?,
            created_at: created_at?.ok()?,
            deleted_at: deleted_at.transpose().ok()?,
            cpu_us,
            cpu_seen_us,
            memory_byte_us,
            memory_seen: seen_at.transpose().ok()?.zip(seen_bytes),
            network,
        })
    };
    Ok(understood())
}

/// Nothing below 0 is written.
fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Adds up those that are gone beyond so many, and sets of labels beyond so many.
fn add_up(transaction: &Transaction<'_>, gone: u32, labels: u32) -> rusqlite::Result<()> {
    let amounts = AMOUNTS.join(", ");
    // What was measured of neither is measured of none.
    let both = AMOUNTS.map(|amount| {
        format!("{amount} = CASE WHEN {amount} IS NULL THEN excluded.{amount} \
                 ELSE CAST(min({amount} + 0.0 + coalesce(excluded.{amount}, 0), 9e18) AS INTEGER) END")
    });
    let both = both.join(", ");
    let summed = AMOUNTS.map(|amount| {
        format!(
            "CASE WHEN count({amount}) > 0 THEN CAST(min(total({amount}), 9e18) AS INTEGER) END"
        )
    });
    let summed = summed.join(", ");
    let add = |labels: &str, count: &str, from: &str| {
        format!(
            "INSERT INTO usage_older (labels, sandboxes, {amounts})
             SELECT {labels}, {count}, {summed} FROM {from} GROUP BY 1
             ON CONFLICT (labels) DO UPDATE SET sandboxes = sandboxes + excluded.sandboxes, {both}"
        )
    };
    let of_gone = "usage WHERE id IN (SELECT id FROM usage WHERE gone_us IS NOT NULL
                   ORDER BY gone_us DESC LIMIT -1 OFFSET ?1)";
    execute(transaction, &add("labels", "count(*)", of_gone), [gone])?;
    execute(transaction, &format!("DELETE FROM {of_gone}"), [gone])?;
    let of_labels = "usage_older WHERE labels IN (SELECT labels FROM usage_older
                     WHERE labels != '{}' ORDER BY sandboxes DESC LIMIT -1 OFFSET ?1)";
    execute(transaction, &add("'{}'", "sum(sandboxes)", of_labels), [labels])?;
    execute(transaction, &format!("DELETE FROM {of_labels}"), [labels])
}
