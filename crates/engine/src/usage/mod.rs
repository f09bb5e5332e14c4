//! What sandboxes use: measured while they run, added up over their whole life, and kept when they
//! are gone.
//!
//! [`Tally`] is the sum of one; the meter has those of all that are there, which their owners and
//! the gateway's keeper tell what they see. What has changed is written a few seconds later, all
//! in one write, so that a server that is killed forgets that much of it and counts nothing
//! twice.

mod disk;
mod tally;

pub(crate) use tally::since;
pub use tally::{Measured, Tally};

use crate::budgets::{Ledger, Spent};
use crate::clock::Clock;
use crate::engine::{Engine, Shared};
use crate::error::OperationError;
use crate::owner::Command;
use crate::records::{Record, Records, RecordsError};
use atoll_api::budget::{Budget, SharedBudget};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{Cursor, InvalidRequest};
use atoll_api::time::Timestamp;
use atoll_api::usage::{ListUsage, Usage, UsagePage, UsageTotal};
use atoll_egress::control::Counts;
use disk::Disks;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long what has changed may not be written.
const WRITE_AFTER: Duration = Duration::from_secs(5);

/// How long a sandbox that is deleted may be told something of: the gateway's last count comes
/// behind its end.
const LATE: Duration = Duration::from_secs(60);

/// How long its owner and the gateway may take to say what a sandbox uses now.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// The tallies of all sandboxes that are there, and what they draw on budgets.
pub(crate) struct Meter {
    clock: Arc<dyn Clock>,
    /// Locked before the ledger, where both are.
    book: Mutex<HashMap<SandboxId, Entry>>,
    ledger: Mutex<Ledger>,
    changed: Notify,
    overdrawn: Notify,
    disks: Disks,
}

#[derive(Debug)]
struct Entry {
    tally: Tally,
    /// Its own.
    budget: Budget,
    is_written: bool,
}

impl Entry {
    fn of(record: &Record) -> Self {
        Self { tally: Tally::of(record), budget: record.budget, is_written: true }
    }
}

/// What is asked of the records.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of sandboxes with all of these labels.
    pub labels: Vec<(String, String)>,
    /// Behind this place.
    pub behind: Option<Cursor>,
    /// At most so many.
    pub count: usize,
}

/// What the records have.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// One by one, in their order.
    pub tallies: Vec<Tally>,
    /// Those that are only known together.
    pub older: UsageTotal,
    /// All.
    pub total: UsageTotal,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter(..)")
    }
}

impl Meter {
    /// Goes on from what is kept. Sandboxes of which there is no record are gone.
    pub(crate) fn new(
        kept: Vec<Tally>,
        records: &[Record],
        ledger: Ledger,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let entry = |mut tally: Tally| {
            let record = records.iter().find(|record| record.id == tally.id);
            if record.is_none() {
                tally.deleted_at = Some(clock.now());
            }
            let budget = record.map_or_else(Budget::default, |record| record.budget);
            (tally.id, Entry { tally, budget, is_written: record.is_some() })
        };
        let book = Mutex::new(kept.into_iter().map(entry).collect());
        let (changed, overdrawn, disks) = (Notify::new(), Notify::new(), Disks::default());
        changed.notify_one();
        Self { clock, book, ledger: Mutex::new(ledger), changed, overdrawn, disks }
    }

    /// A sandbox is there.
    pub(crate) fn knows(&self, record: &Record) {
        self.lock().entry(record.id).or_insert_with(|| Entry::of(record));
    }

    /// It has another budget.
    pub(crate) fn has_budget(&self, record: &Record) {
        let mut book = self.lock();
        book.entry(record.id).or_insert_with(|| Entry::of(record)).budget = record.budget;
    }

    /// The budget of a sandbox that is used up: its own, or one that it has with others.
    pub(crate) fn spent(&self, id: SandboxId) -> Option<Spent> {
        let book = self.lock();
        let entry = book.get(&id)?;
        self.spent_of_entry(entry)
    }

    /// The same of one of which nothing may be known yet.
    pub(crate) fn spent_of(&self, record: &Record) -> Option<Spent> {
        self.spent(record.id).or_else(|| self.spent_by(&record.labels))
    }

    /// The budget that is used up, of those that sandboxes with these labels have together.
    pub(crate) fn spent_by(&self, labels: &BTreeMap<String, String>) -> Option<Spent> {
        self.ledger().spent(labels, self.clock.now())
    }

    /// What the API shows of the budgets that sandboxes have together.
    pub(crate) fn budgets(&self) -> Vec<SharedBudget> {
        self.ledger().view(self.clock.now())
    }

    /// The budget of such labels that counts memory.
    pub(crate) fn counts_memory(&self, labels: &BTreeMap<String, String>) -> bool {
        self.ledger().counts_memory(labels)
    }

    /// Waits until a sandbox may have used up a budget.
    pub(crate) async fn overdrawn(&self) {
        self.overdrawn.notified().await;
    }

    /// Soonest that a sandbox can have used up the processor time that it may, if `cpus` work for
    /// it, or for all that it shares a budget with.
    pub(crate) fn soonest(&self, id: SandboxId, cpus: usize) -> Option<Duration> {
        let book = self.lock();
        let Entry { tally, budget, .. } = book.get(&id)?;
        let used = tally.cpu_us.unwrap_or(0);
        let own = budget.cpu_us.map(|most| most.saturating_sub(used));
        let shared = self.ledger().cpu_us_left(&tally.labels, self.clock.now());
        let left_us = own.into_iter().chain(shared).min()?;
        Some(Duration::from_micros(left_us / u64::try_from(cpus.max(1)).unwrap_or(u64::MAX)))
    }

    fn spent_of_entry(&self, entry: &Entry) -> Option<Spent> {
        let own = entry.budget.overdrawn(&entry.tally.used());
        own.map(|overdrawn| Spent { name: None, overdrawn, renews_in: None })
            .or_else(|| self.spent_by(&entry.tally.labels))
    }

    /// Its processes are about to be started.
    pub(crate) fn begins(&self, record: &Record) {
        self.knows(record);
        self.change(record.id, Tally::begins);
    }

    /// Its processes are there already, and have used so much that is not its own.
    pub(crate) fn takes_over(&self, record: &Record, until_now: Measured) {
        self.knows(record);
        self.change(record.id, |tally| tally.takes_over(until_now));
    }

    /// They were looked at.
    pub(crate) fn saw(&self, id: SandboxId, at: Timestamp, measured: Measured) {
        self.change(id, |tally| tally.saw(at, measured));
    }

    /// They are about to be no more.
    pub(crate) fn ends(&self, id: SandboxId, at: Timestamp, last: Measured) {
        self.change(id, |tally| tally.ends(at, last));
    }

    /// The gateway has let more through.
    pub(crate) fn counted(&self, id: SandboxId, more: Counts) {
        self.change(id, |tally| tally.counted(more));
    }

    /// What the gateway has let through so far.
    pub(crate) fn counts(&self, id: SandboxId) -> Counts {
        let counts = self.lock().get(&id).and_then(|entry| entry.tally.network);
        counts.unwrap_or_default()
    }

    /// It is deleted.
    pub(crate) fn gone(&self, id: SandboxId, at: Timestamp) {
        self.change(id, |tally| {
            tally.deleted_at.get_or_insert(at);
        });
        self.disks.gone(id);
    }

    fn change(&self, id: SandboxId, change: impl FnOnce(&mut Tally)) {
        let mut book = self.lock();
        let Some(entry) = book.get_mut(&id) else { return };
        let before = entry.tally.used();
        change(&mut entry.tally);
        entry.is_written = false;
        let more = entry.tally.used().less(before);
        self.ledger().draw(&entry.tally.labels, more, self.clock.now());
        if self.spent_of_entry(entry).is_some() {
            self.overdrawn.notify_one();
        }
        self.changed.notify_one();
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // As below.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Entry>> {
        // Each change is whole before anything else happens.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what has changed a while ago, until it is dropped.
    pub(crate) async fn keep(shared: Arc<Shared>) {
        loop {
            shared.meter.changed.notified().await;
            shared.clock.wait_until(shared.clock.now().after(WRITE_AFTER)).await;
            if let Err(error) = shared.meter.write(&shared.records, shared.clock.now()).await {
                let cause = crate::error::chain(&error);
                tracing::warn!(cause, "what sandboxes use could not be written; it is tried again");
            }
        }
    }

    /// Writes all that has changed.
    ///
    /// # Errors
    /// It is written with the next one then.
    pub(crate) async fn write(
        &self,
        records: &Records,
        now: Timestamp,
    ) -> Result<(), RecordsError> {
        let tallies: Vec<Tally> = {
            let mut book = self.lock();
            let changed = book.values_mut().filter(|entry| !entry.is_written);
            changed
                .map(|entry| {
                    entry.is_written = true;
                    entry.tally.clone()
                })
                .collect()
        };
        let drawn = self.ledger().take_unwritten();
        if tallies.is_empty() && drawn.is_empty() {
            return Ok(());
        }
        let ids: Vec<SandboxId> = tallies.iter().map(|tally| tally.id).collect();
        let written = records.save_usage(tallies, drawn.clone()).await;
        let mut book = self.lock();
        if written.is_err() {
            for id in ids {
                if let Some(entry) = book.get_mut(&id) {
                    entry.is_written = false;
                }
            }
            self.ledger().give_back(&drawn);
            self.changed.notify_one();
        }
        let is_over = |at: Timestamp| now.since(at) > LATE;
        book.retain(|_, entry| !entry.is_written || !entry.tally.deleted_at.is_some_and(is_over));
        written
    }
}

/// Why usage cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The request is wrong.
    #[error(transparent)]
    Request(#[from] InvalidRequest),
    /// The records cannot be read or written.
    #[error("the records of what sandboxes use cannot be read")]
    Records(#[from] RecordsError),
}

impl Engine {
    /// What a sandbox has used until now, one that is deleted included.
    ///
    /// # Errors
    /// If nothing is known of it.
    pub async fn usage(&self, id: SandboxId) -> Result<Usage, OperationError> {
        let shared = self.shared();
        let looked = async {
            // One that is gone is looked at no more.
            self.ask(id, |reply| Command::Meter { reply }).await.unwrap_or_default();
            if let Some(gateway) = &shared.gateway {
                gateway.count(id).await;
            }
        };
        // What takes longer is told the next time.
        drop(timeout(LOOK_WITHIN, looked).await);
        let known = shared.meter.lock().get(&id).map(|entry| entry.tally.view());
        if let Some(usage) = known {
            let disk = match usage.deleted_at {
                None => disk::look(shared, id).await,
                Some(_) => None,
            };
            return Ok(Usage { disk, ..usage });
        }
        let failed = |source| OperationError::Records { id, source };
        let kept = shared.records.usage_of(id).await.map_err(failed)?;
        if let Some(tally) = kept {
            return Ok(tally.view());
        }
        // One that has never run in this server's time has used nothing.
        let sandbox = self.get(id)?;
        Ok(Usage {
            sandbox_id: id,
            name: sandbox.name,
            labels: sandbox.labels,
            created_at: sandbox.created_at,
            deleted_at: None,
            used: Default::default(),
            disk: disk::look(shared, id).await,
        })
    }

    /// What sandboxes have used, page by page, deleted ones included. Those that run were looked
    /// at within the last half minute.
    ///
    /// # Errors
    /// If the request is wrong, or the records fail.
    pub async fn list_usage(&self, request: &ListUsage) -> Result<UsagePage, UsageError> {
        let count = request.validate()?;
        let shared = self.shared();
        shared.meter.write(&shared.records, shared.clock.now()).await?;
        let labels = request.labels.clone().into_iter().collect();
        let wanted = Wanted { labels, behind: request.cursor, count: count + 1 };
        let Found { mut tallies, older, total } = shared.records.usage(wanted).await?;
        let has_more = tallies.len() > count;
        tallies.truncate(count);
        let place = |tally: &Tally| Cursor::of(tally.created_at, tally.id);
        let next = tallies.last().filter(|_| has_more).map(place);
        let sandboxes = tallies.iter().map(Tally::view).collect();
        Ok(UsagePage { sandboxes, older, total, next })
    }
}
