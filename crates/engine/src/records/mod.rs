//! What is remembered of sandboxes: an SQLite file with one writer.
//!
//! An intent is written before the action, and the outcome after it, so that a
//! server that starts can see what another one was about: the start compares the two.
//! A state and the event that tells of it are one transaction.
//!
//! The file is in WAL mode, and a write does not wait for the disk. That survives the
//! death of the server at any moment. A machine that loses power loses what was
//! written since the last [`Records::sync`], which the engine calls within
//! a second of a write: a sandbox that is younger is removed as if never asked for.
//!
//! **Changing the format**: a new migration in `database.rs` for every change,
//! fields of [`Record`] included, so that an older program refuses the file rather
//! than misreading it. New fields have a serde default; `tests/it/records.rs` reads
//! files of every version that there was.

mod bodies;
mod budgets;
mod database;
mod pools;
mod record;
mod snapshots;
mod templates;
mod usage;
mod volumes;

pub use database::{Database, EVENTS_KEPT, ONCE_KEPT, ONCE_KEPT_FOR, RecordsError};
pub use pools::PoolChange;
pub use record::Record;
pub use snapshots::SnapshotChange;
pub use templates::{KnownTemplates, TemplateChange};
pub use usage::{GONE_KEPT, LABELS_KEPT};
pub use volumes::VolumeChange;

use crate::approvals::book as approvals;
use crate::budgets::Drawn;
use crate::pools::KeptPool;
use crate::snapshots::Kept;
use crate::usage::{Found, Tally, Wanted};
use crate::volumes::KeptVolume;
use atoll_api::approval::Approval;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{Event, EventKind};
use atoll_api::time::Timestamp;
use std::path::Path;
use std::sync::Mutex;
use std::thread::{self, JoinHandle};
use tokio::sync::{Notify, broadcast, mpsc, oneshot};

/// Most writes that wait; who has another waits until there is room.
const QUEUE: usize = 256;

/// Events that a slow listener may be behind; one that falls further learns how many it
/// missed, and reads them from the file.
const EVENTS_BEHIND: usize = 1024;

/// Something to remember.
#[derive(Debug, Clone)]
pub struct Change {
    /// The sandbox as it is from now on.
    pub record: Record,
    /// Whether to keep it, or to forget it because nothing is left of it.
    pub fate: Fate,
    /// What happened, if that is worth an event.
    pub what: Option<EventKind>,
    /// When.
    pub at: Timestamp,
    /// The request that this makes true, if that is to be known when it is sent again.
    pub once: Option<Once>,
}

/// A request that is to come true once, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// What tells it from all others: of who sent it, and the name that they gave it.
    pub key: String,
    /// Of what was asked for, so that something else under the same name is told apart.
    pub digest: String,
}

/// A request that came true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameTrue {
    /// The request.
    pub once: Once,
    /// What it made, and may be gone.
    pub id: SandboxId,
    /// When.
    pub at: Timestamp,
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is kept; its name too, unless it is deleted.
    Keep,
    /// It is removed; only its events stay.
    Forget,
}

/// The records, as the rest of the engine writes and reads them.
#[derive(Debug)]
pub struct Records {
    jobs: Option<mpsc::Sender<Job>>,
    events: broadcast::Sender<Event>,
    written: Notify,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// Everything that was in a file.
#[derive(Debug)]
pub struct Known {
    /// The sandboxes.
    pub records: Vec<Record>,
    /// Requests that came true, the oldest first.
    pub came_true: Vec<CameTrue>,
    /// Approvals with their numbers, the oldest first.
    pub approvals: Vec<(u64, Approval)>,
    /// Snapshots, those included that were being taken.
    pub snapshots: Vec<Kept>,
    /// What the sandboxes have used.
    pub usage: Vec<Tally>,
    /// What was drawn on budgets.
    pub drawn: Vec<Drawn>,
    /// Templates, with all that belongs to them.
    pub templates: KnownTemplates,
    /// Volumes.
    pub volumes: Vec<KeptVolume>,
    /// Pools.
    pub pools: Vec<KeptPool>,
}

enum Job {
    Apply {
        change: Box<Change>,
        publish: Box<dyn FnOnce() + Send>,
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    Approvals {
        changes: Vec<approvals::Change>,
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    Snapshots {
        changes: Vec<SnapshotChange>,
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    Templates {
        changes: Vec<TemplateChange>,
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    Volumes {
        changes: Vec<VolumeChange>,
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    Pools {
        changes: Vec<PoolChange>,
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    SaveUsage {
        tallies: Vec<Tally>,
        drawn: Vec<Drawn>,
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    UsageOf {
        id: SandboxId,
        reply: oneshot::Sender<Result<Option<Tally>, RecordsError>>,
    },
    Usage {
        wanted: Wanted,
        reply: oneshot::Sender<Result<Found, RecordsError>>,
    },
    Check {
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    LastEvent {
        reply: oneshot::Sender<Result<u64, RecordsError>>,
    },
    Sync {
        reply: oneshot::Sender<Result<(), RecordsError>>,
    },
    Events {
        after: u64,
        count: usize,
        reply: oneshot::Sender<Result<Vec<Event>, RecordsError>>,
    },
}

impl Records {
    /// Opens the file, or makes it, and gives everything that is in it. It grows to
    /// `bytes_max` at most.
    ///
    /// # Errors
    /// Typed for a file that another server uses, that is damaged, or that is newer.
    pub fn open(path: &Path, bytes_max: u64) -> Result<(Self, Known), RecordsError> {
        let mut database = Database::open(path)?;
        database.limit(bytes_max)?;
        let (records, came_true) = (database.load()?, database.came_true()?);
        let (approvals, snapshots) = (database.approvals()?, database.snapshots()?);
        let (usage, templates) = (database.usage_of_all()?, database.templates()?);
        let volumes = database.volumes()?;
        let (drawn, pools) = (database.drawn()?, database.pools()?);
        let known = Known {
            records,
            came_true,
            approvals,
            snapshots,
            usage,
            drawn,
            templates,
            volumes,
            pools,
        };
        let (jobs, queue) = mpsc::channel(QUEUE);
        let events = broadcast::Sender::new(EVENTS_BEHIND);
        let listeners = events.clone();
        let writer = thread::Builder::new()
            .name("atoll-records".to_owned())
            .spawn(move || serve(database, queue, &listeners))
            .map_err(|source| RecordsError::Thread { source })?;
        let writer = Mutex::new(Some(writer));
        Ok((Self { jobs: Some(jobs), events, written: Notify::new(), writer }, known))
    }

    /// Writes a change and its event, and tells the event to those who listen, but first
    /// calls `publish`: who hears of something must not find it otherwise.
    ///
    /// Dropping this after its first wait does not take the change back.
    ///
    /// # Errors
    /// Nothing was written then.
    pub async fn apply(
        &self,
        change: Change,
        publish: impl FnOnce() + Send + 'static,
    ) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        let (change, publish) = (Box::new(change), Box::new(publish));
        self.ask(Job::Apply { change, publish, reply }).await;
        self.written.notify_one();
        answer.await.expect("the writer answers every job")
    }

    /// Writes what has changed of approvals, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub async fn save_approvals(
        &self,
        changes: Vec<approvals::Change>,
    ) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Approvals { changes, reply }).await;
        self.written.notify_one();
        answer.await.expect("the writer answers every job")
    }

    /// Writes what has changed of snapshots, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub async fn save_snapshots(&self, changes: Vec<SnapshotChange>) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Snapshots { changes, reply }).await;
        self.written.notify_one();
        answer.await.expect("the writer answers every job")
    }

    /// Writes what has changed of templates, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub async fn save_templates(&self, changes: Vec<TemplateChange>) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Templates { changes, reply }).await;
        self.written.notify_one();
        answer.await.expect("the writer answers every job")
    }

    /// Writes what has changed of volumes, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub async fn save_volumes(&self, changes: Vec<VolumeChange>) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Volumes { changes, reply }).await;
        self.written.notify_one();
        answer.await.expect("the writer answers every job")
    }

    /// Writes what has changed of pools, all of it or nothing.
    ///
    /// # Errors
    /// Nothing was written then.
    pub async fn save_pools(&self, changes: Vec<PoolChange>) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Pools { changes, reply }).await;
        self.written.notify_one();
        answer.await.expect("the writer answers every job")
    }

    /// Writes what sandboxes have used, and what was drawn on budgets by it.
    ///
    /// # Errors
    /// Nothing was written then.
    pub async fn save_usage(
        &self,
        tallies: Vec<Tally>,
        drawn: Vec<Drawn>,
    ) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::SaveUsage { tallies, drawn, reply }).await;
        self.written.notify_one();
        answer.await.expect("the writer answers every job")
    }

    /// What a sandbox has used, if that is kept.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn usage_of(&self, id: SandboxId) -> Result<Option<Tally>, RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::UsageOf { id, reply }).await;
        answer.await.expect("the writer answers every job")
    }

    /// What several have used.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn usage(&self, wanted: Wanted) -> Result<Found, RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Usage { wanted, reply }).await;
        answer.await.expect("the writer answers every job")
    }

    /// Waits until something is written that was not before the last call of this.
    pub async fn written(&self) {
        self.written.notified().await;
    }

    /// Brings everything that is written to the disk.
    ///
    /// # Errors
    /// It may not be there then.
    pub async fn sync(&self) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Sync { reply }).await;
        answer.await.expect("the writer answers every job")
    }

    /// Tells every event from now on, in the order of their numbers.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Gives up to `count` events with numbers above `after`, the oldest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn events(&self, after: u64, count: usize) -> Result<Vec<Event>, RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Events { after, count, reply }).await;
        answer.await.expect("the writer answers every job")
    }

    /// Gives the number of the latest event, 0 if there was none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn last_event(&self) -> Result<u64, RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::LastEvent { reply }).await;
        answer.await.expect("the writer answers every job")
    }

    /// Writes without a change.
    ///
    /// # Errors
    /// As a change would fail.
    pub async fn check(&self) -> Result<(), RecordsError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Check { reply }).await;
        answer.await.expect("the writer answers every job")
    }

    async fn ask(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("they are taken when the records are dropped");
        assert!(jobs.send(job).await.is_ok(), "the writer lives as long as the records");
    }
}

impl Drop for Records {
    /// Waits for the writer, so that another server can open the file at once.
    fn drop(&mut self) {
        drop(self.jobs.take());
        let writer = self.writer.get_mut().ok().and_then(Option::take);
        if let Some(writer) = writer {
            // A writer that panicked has printed why, and a drop has nobody to tell.
            drop(writer.join());
        }
    }
}

/// The writer: one job after the other, until nobody can send another. It also tells the
/// events, since nobody else knows their order.
fn serve(
    mut database: Database,
    mut queue: mpsc::Receiver<Job>,
    listeners: &broadcast::Sender<Event>,
) {
    while let Some(job) = queue.blocking_recv() {
        // Who asked may have gone; what is written stays written. Nobody has to listen.
        match job {
            Job::Apply { change, publish, reply } => {
                let told = database.apply(&change).map(|event| {
                    publish();
                    drop(event.map(|event| listeners.send(event)));
                });
                drop(reply.send(told));
            }
            Job::Sync { reply } => drop(reply.send(database.sync())),
            Job::Approvals { changes, reply } => {
                drop(reply.send(database.save_approvals(&changes)));
            }
            Job::Snapshots { changes, reply } => {
                drop(reply.send(database.save_snapshots(&changes)));
            }
            Job::Templates { changes, reply } => {
                drop(reply.send(database.save_templates(&changes)));
            }
            Job::Volumes { changes, reply } => drop(reply.send(database.save_volumes(&changes))),
            Job::Pools { changes, reply } => drop(reply.send(database.save_pools(&changes))),
            Job::SaveUsage { tallies, drawn, reply } => {
                drop(reply.send(database.save_usage(&tallies, &drawn)));
            }
            Job::UsageOf { id, reply } => drop(reply.send(database.usage_of(id))),
            Job::Usage { wanted, reply } => drop(reply.send(database.usage(&wanted))),
            Job::Check { reply } => drop(reply.send(database.check_write())),
            Job::LastEvent { reply } => drop(reply.send(database.last_event())),
            Job::Events { after, count, reply } => drop(reply.send(database.events(after, count))),
        }
    }
}
