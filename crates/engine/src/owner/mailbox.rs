//! How others reach an owner.

use crate::archives::ArchiveError;
use crate::backend::{BackendError, Progress};
use crate::error::{OperationError, SnapshotError};
use crate::exposure::{Exposure, Exposures, Wanted};
use crate::gateway::OpenError;
use crate::guest::Guest;
use crate::inside::InsideError;
use crate::lifecycle::HoldId;
use crate::records::{Once, Record, RecordsError};
use crate::services::Statuses;
use crate::state::Verb;
use crate::workspace::Workspace;
use atoll_api::archive::Archived;
use atoll_api::budget::Budget;
use atoll_api::id::{BuildId, SandboxId, SnapshotId};
use atoll_api::network::NetworkPolicy;
use atoll_api::sandbox::{HoldCause, Lifecycle, Sandbox};
use atoll_api::snapshot::{CreateSnapshot, Snapshot};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};

/// Commands that wait at most; another one is refused.
pub(super) const MAILBOX: usize = 64;

/// What an owner is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Do {
        verb: Verb,
        reply: Reply<Sandbox>,
    },
    DeleteButArchive {
        reply: Reply<Sandbox>,
    },
    Archive {
        /// Stop it first, if it runs.
        stops: bool,
        reply: Reply<Archived, ArchiveError>,
    },
    SetLifecycle {
        lifecycle: Lifecycle,
        reply: Reply<Sandbox>,
    },
    SetBudget {
        budget: Budget,
        reply: Reply<Sandbox>,
    },
    Network {
        reply: Reply<Option<NetworkPolicy>>,
    },
    SetNetwork {
        policy: Box<NetworkPolicy>,
        by: String,
        reply: Reply<NetworkPolicy>,
    },
    Hold {
        cause: HoldCause,
        bound: Duration,
        reply: Reply<HoldId>,
    },
    Release {
        hold: HoldId,
    },
    Expose {
        wanted: Wanted,
        reply: Reply<Exposure>,
    },
    Unexpose {
        port: u16,
        reply: Reply<()>,
    },
    Snapshot {
        request: CreateSnapshot,
        /// The build that it is for, if it is for one.
        build: Option<BuildId>,
        reply: Reply<Snapshot, SnapshotError>,
    },
    Restore {
        snapshot: SnapshotId,
        reply: Reply<Sandbox, SnapshotError>,
    },
    /// Become what a request wants: only for a member of a pool.
    Claim(Box<Claim>),
    /// Have its processes stand still until `until` ends, for what else they write to.
    StandStill {
        until: oneshot::Receiver<()>,
        reply: Reply<()>,
    },
    /// A budget of it may be used up, or a volume full.
    Overdrawn,
    /// Secrets are others than they were.
    SecretsChanged,
    /// Something has worked inside, however short it was.
    Worked,
    /// A command that somebody asked for has ended.
    FirstDone {
        at: Instant,
    },
    /// Look at what it uses.
    Meter {
        reply: Reply<()>,
    },
    /// Start one of its services anew.
    RestartService {
        name: String,
        reply: Reply<()>,
    },
}

/// What a member of a pool is to become.
pub(crate) struct Claim {
    pub(crate) record: Record,
    pub(crate) progress: Arc<Progress>,
    pub(crate) outcome: watch::Sender<Creation>,
    /// Behind a lock that nobody waits for: what comes in is read by one at a time.
    pub(crate) workspace: Mutex<Option<Workspace>>,
    pub(crate) once: Option<Once>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("id", &self.record.id).finish_non_exhaustive()
    }
}

impl Command {
    /// Whether it makes waiting for processes to end by themselves pointless.
    pub(super) fn is_forceful(&self) -> bool {
        matches!(
            self,
            Self::Do { verb: Verb::Kill | Verb::Delete, .. } | Self::DeleteButArchive { .. }
        )
    }

    pub(super) fn is_deletion(&self) -> bool {
        matches!(self, Self::Do { verb: Verb::Delete, .. } | Self::DeleteButArchive { .. })
    }

    /// Whether it needs the files that are being put away.
    pub(super) fn is_resumption(&self) -> bool {
        matches!(self, Self::Do { verb: Verb::Resume, .. } | Self::Restore { .. })
    }
}

/// Where an answer goes. Whoever asked may have gone.
#[derive(Debug)]
pub(crate) struct Reply<T, E = OperationError>(pub(crate) oneshot::Sender<Result<T, E>>);

impl<T, E> Reply<T, E> {
    pub(super) fn give(self, answer: Result<T, E>) {
        drop(self.0.send(answer));
    }
}

/// How a creation stands.
#[derive(Debug, Clone)]
pub(crate) enum Creation {
    UnderWay,
    Done,
    Failed(CreationFailure),
}

/// Why a creation failed; everybody who waits for it is told.
#[derive(Debug, Clone)]
pub(crate) enum CreationFailure {
    Backend(Arc<BackendError>),
    Workspace(Arc<InsideError>),
    Records(Arc<RecordsError>),
    Network(Arc<OpenError>),
    Cancelled,
    TimedOut(Late),
}

/// What was not there in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late {
    /// What, as in "its workspace".
    pub(crate) what: &'static str,
    /// The limit's name, its unit last.
    pub(crate) limit: &'static str,
    pub(crate) time: Duration,
}

/// The way to an owner.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub(crate) id: SandboxId,
    pub(crate) mailbox: mpsc::Sender<Command>,
    pub(crate) view: watch::Receiver<Sandbox>,
    /// Its guest, while there are processes.
    pub(crate) guest: watch::Receiver<Option<Guest>>,
    /// Its ports that can be reached from outside.
    pub(crate) exposures: watch::Receiver<Arc<Exposures>>,
    /// How its services are.
    pub(crate) services: Statuses,
    /// The creation, if this server made it.
    pub(crate) creation: Option<Arc<Waiting>>,
}

impl Handle {
    pub(super) fn new(
        id: SandboxId,
        view: watch::Receiver<Sandbox>,
        guest: watch::Receiver<Option<Guest>>,
        exposures: watch::Receiver<Arc<Exposures>>,
        services: Statuses,
    ) -> (Self, mpsc::Receiver<Command>) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        (Self { id, mailbox: sender, view, guest, exposures, services, creation: None }, mailbox)
    }

    /// The same for a sandbox that is being made, with the one who wants it.
    pub(crate) fn with_creation(
        self,
        progress: Arc<Progress>,
        outcome: watch::Receiver<Creation>,
    ) -> (Self, Waiter) {
        let waiting = Arc::new(Waiting { progress, outcome, count: AtomicUsize::new(1) });
        let waiter = Waiter { waiting: waiting.clone(), is_counted: true };
        (Self { creation: Some(waiting), ..self }, waiter)
    }
}

/// A creation, and how many wait for it. Once nobody does it is given up for good.
#[derive(Debug)]
pub(crate) struct Waiting {
    progress: Arc<Progress>,
    outcome: watch::Receiver<Creation>,
    count: AtomicUsize,
}

/// One who waits for a creation. When the last one goes, it is given up.
#[derive(Debug)]
pub(crate) struct Waiter {
    waiting: Arc<Waiting>,
    /// Not so if it came when the creation was given up: then it learns that.
    is_counted: bool,
}

impl Waiter {
    /// Joins those who wait.
    pub(crate) fn join(waiting: &Arc<Waiting>) -> Self {
        let one_more = |count| (count > 0).then_some(count + 1);
        let counted = waiting.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        Self { waiting: waiting.clone(), is_counted: counted.is_ok() }
    }

    /// Waits for the end of the creation.
    pub(crate) async fn wait(self) -> Result<(), CreationFailure> {
        let mut outcome = self.waiting.outcome.clone();
        let over = outcome.wait_for(|creation| !matches!(creation, Creation::UnderWay)).await;
        match over.as_deref() {
            Ok(Creation::Done | Creation::UnderWay) => Ok(()),
            Ok(Creation::Failed(failure)) => Err(failure.clone()),
            // The owner was ended with the engine.
            Err(_) => Err(CreationFailure::Cancelled),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.is_counted && self.waiting.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            // After the end of the creation this means nothing.
            self.waiting.progress.cancel();
        }
    }
}
