//! The audit log: lines of JSON, each with a hash over itself and all before it.
//!
//! | to know | read |
//! |---|---|
//! | how a line is made and checked | [`mod@line`] |
//! | who writes, when it is on the disk, what a full disk does | `writer` |
//! | how records are found again | `read` |
//! | whether the log is as it was written | [`verify()`] |
//! | what of a command line is recorded | [`redact`] |
//!
//! The log is a directory of files, `audit-NUMBER.jsonl`, named by their first record. One that is
//! large enough is closed, and the next one begins with the hash that it ended with. The chain
//! shows changes to whoever knows a later hash; somebody who can write the files could also write
//! all of the rest anew, so the last hash is worth keeping elsewhere.
//!
//! Telling the log something never waits: records wait in bounded memory for the one writer, which
//! brings them to the disk within a second. A server that is killed loses what waits, which is
//! some milliseconds' worth; a machine that loses power loses up to a second more.

pub mod line;
mod read;
pub mod redact;
pub mod verify;
mod writer;

pub use read::{Filter, Page};
pub use verify::{Verdict, verify};

use crate::error::chain;
use atoll_api::audit::AuditKind;
use atoll_api::id::{ExecId, SandboxId};
use atoll_api::time::Timestamp;
use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use writer::Writer;

/// Limits of a log.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Size at which a file is closed.
    pub file_bytes_max: u64,
    /// Most files; the oldest one makes room.
    pub files_count_max: usize,
    /// Bytes that may wait in memory to be written.
    pub waiting_bytes_max: usize,
    /// How long what is written may not be on the disk.
    pub sync_after: Duration,
    /// When a write that failed is tried again.
    pub retry_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes_max: 16 << 20,
            files_count_max: 64,
            waiting_bytes_max: 8 << 20,
            sync_after: Duration::from_secs(1),
            retry_after: Duration::from_secs(1),
        }
    }
}

/// Most execs whose end is waited for, and most first uses that are remembered.
const KNOWN_MAX: usize = 10_000;

/// Why the log cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("could not {step} the audit log {}", path.display())]
pub struct AuditError {
    /// What was being done, as in "read".
    pub step: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// The log of a server.
#[derive(Debug)]
pub struct Audit {
    folder: PathBuf,
    queue: Arc<Queue>,
    last: watch::Receiver<u64>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Execs that were started and have not been seen to end.
    running: Mutex<Recent<(SandboxId, ExecId)>>,
    /// What was told before and is told once.
    told: Mutex<Recent<(SandboxId, String)>>,
}

/// The last so many of what was put in.
#[derive(Debug)]
struct Recent<T> {
    known: HashSet<T>,
    order: VecDeque<T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), order: VecDeque::new() }
    }
}

impl<T: Clone + Eq + Hash> Recent<T> {
    /// Puts one in, and gives whether it was not there.
    fn insert(&mut self, one: T) -> bool {
        if !self.known.insert(one.clone()) {
            return false;
        }
        self.order.push_back(one);
        // Some of them were taken out, and have left their place in the order.
        while self.order.len() > KNOWN_MAX {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.known.remove(&oldest));
        }
        true
    }

    fn remove(&mut self, one: &T) -> bool {
        self.known.remove(one)
    }

    fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.known.retain(&is_kept);
        self.order.retain(is_kept);
    }
}

/// What waits to be written.
#[derive(Debug)]
struct Queue {
    inner: Mutex<Inner>,
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Those that the writer has taken and not written yet.
    taken_bytes: usize,
    syncs: Vec<oneshot::Sender<()>>,
    is_closing: bool,
    trouble: Option<String>,
}

/// Something to write.
#[derive(Debug, Clone)]
struct Waiting {
    at: Timestamp,
    sandbox: Option<SandboxId>,
    what: AuditKind,
    /// About as much as it takes.
    bytes: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What is behind the lock is whole after every step.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audit {
    /// Opens the log in `folder`, or begins one, and repairs its end if that was cut short.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn open(folder: &Path, limits: Limits, now: Timestamp) -> Result<Self, AuditError> {
        let queue = Arc::new(Queue {
            inner: Mutex::default(),
            changed: Condvar::new(),
            bytes_max: limits.waiting_bytes_max,
        });
        let (last, seen) = watch::channel(0);
        let writer = Writer::open(folder, limits, now, queue.clone(), last)?;
        let writer = thread::Builder::new()
            .name("atoll-audit".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| AuditError { step: "write", path: folder.to_owned(), source })?;
        Ok(Self {
            folder: folder.to_owned(),
            queue,
            last: seen,
            writer: Mutex::new(Some(writer)),
            running: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// Has something recorded, behind all that was told before. Never waits.
    pub fn tell(&self, at: Timestamp, sandbox: Option<SandboxId>, what: AuditKind) {
        self.queue.push(Waiting { at, sandbox, bytes: writer::size(&what), what });
    }

    /// Has the start of an exec recorded.
    pub fn exec_started(&self, at: Timestamp, sandbox: SandboxId, exec: ExecId, what: AuditKind) {
        lock(&self.running).insert((sandbox, exec));
        self.tell(at, Some(sandbox), what);
    }

    /// Has the end of an exec recorded, once, however many saw it.
    pub fn exec_ended(&self, at: Timestamp, sandbox: SandboxId, exec: ExecId, what: AuditKind) {
        if lock(&self.running).remove(&(sandbox, exec)) {
            self.tell(at, Some(sandbox), what);
        }
    }

    /// Has something recorded unless it was before: of each sandbox, kind, host and rule the
    /// first, as far as memory goes.
    pub fn tell_first(&self, at: Timestamp, sandbox: SandboxId, what: AuditKind) {
        let key = serde_json::to_string(&what).expect("a record has string keys only");
        // What is told twice, since it was long ago, is no harm.
        if lock(&self.told).insert((sandbox, key)) {
            self.tell(at, Some(sandbox), what);
        }
    }

    /// Forgets what was remembered of a sandbox that is gone.
    pub fn gone(&self, sandbox: SandboxId) {
        lock(&self.running).retain(|(id, _)| *id != sandbox);
        lock(&self.told).retain(|(id, _)| *id != sandbox);
    }

    /// The number of the last record that is written, as it changes.
    pub fn last(&self) -> watch::Receiver<u64> {
        self.last.clone()
    }

    /// Waits until everything that was told so far is on the disk.
    pub async fn sync(&self) {
        let (done, is_done) = oneshot::channel();
        {
            let mut inner = self.queue.lock();
            if inner.is_closing {
                return;
            }
            inner.syncs.push(done);
        }
        self.queue.changed.notify_one();
        // A writer that has ended has written all.
        is_done.await.unwrap_or_default();
    }

    /// Why records wait, if they cannot be written.
    pub fn trouble(&self) -> Option<String> {
        self.queue.lock().trouble.clone()
    }

    /// Gives records behind a number, the oldest first. Reads files.
    ///
    /// # Errors
    /// If it cannot.
    pub fn read(&self, after: u64, count: usize, filter: &Filter) -> Result<Page, AuditError> {
        let last = *self.last.borrow();
        read::read(&self.folder, after, last, count, filter)
    }

    /// Writes what waits, and nothing that is told afterwards. Waits for the disk.
    pub fn close(&self) {
        self.queue.lock().is_closing = true;
        self.queue.changed.notify_one();
        let writer = lock(&self.writer).take();
        if let Some(writer) = writer {
            // One that panicked has printed why.
            drop(writer.join());
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    fn push(&self, next: Waiting) {
        let mut inner = self.lock();
        if inner.is_closing {
            return;
        }
        let is_full = inner.bytes + inner.taken_bytes + next.bytes > self.bytes_max;
        match inner.waiting.back_mut() {
            // In its place, so that it is known between which records something is missing.
            Some(Waiting { what: AuditKind::Lost { count }, .. }) if is_full => *count += 1,
            _ if is_full => {
                let what = AuditKind::Lost { count: 1 };
                inner.waiting.push_back(Waiting { sandbox: None, what, bytes: 0, ..next });
            }
            _ => {
                inner.bytes += next.bytes;
                inner.waiting.push_back(next);
            }
        }
        drop(inner);
        self.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the log of the server that the audit log is in trouble.
fn report(error: &AuditError) {
    tracing::error!(cause = chain(error), "the audit log cannot be written");
}

#[cfg(test)]
mod tests;
