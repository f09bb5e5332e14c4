//! The engine: what can be asked of sandboxes.
//!
//! Its methods check, find the owner, ask it and wait. Dropping the future of one
//! takes nothing back, except that a creation nobody waits for is given up.

mod create;
mod diff;
mod expose;
mod pool;
mod snapshot;
mod start;
mod template;
mod volume;

pub use create::{Beside, Got};
pub(crate) use create::{ForBuild, network_can_be};
pub use snapshot::FORKS_AT_ONCE;
pub use start::Outward;

use crate::approvals::Approvals;
use crate::archives::Archives;
use crate::audit::{Audit, AuditError, Filter, Page};
use crate::backend::{Backend, Capabilities};
use crate::clock::Clock;
use crate::config::Config;
use crate::directory::Directory;
use crate::error::OperationError;
use crate::gateway::{Gateway, Kept};
use crate::inside::Wake;
use crate::lifecycle::HoldId;
use crate::oversight::Oversight;
use crate::owner::{Command, Handle, Reply};
use crate::pools::Pools;
use crate::records::{CameTrue, Records, RecordsError};
use crate::services::is_service;
use crate::snapshots::Snapshots;
use crate::state::Verb;
use crate::templates::Templates;
use crate::usage::Meter;
use crate::volumes::Volumes;
use atoll_api::audit::{AUDIT_PAGE_COUNT_MAX, AuditKind};
use atoll_api::exec::Exec;
use atoll_api::id::SandboxId;
use atoll_api::name::SandboxName;
use atoll_api::network::NetworkPolicy;
use atoll_api::sandbox::{
    Cursor, Event, HoldCause, InvalidRequest, Lifecycle, ListSandboxes, Sandbox, SandboxPage,
    State, Tier, Timeline,
};
use atoll_api::service::ServiceStatus;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::task::{self, JoinSet};
use tokio::time::timeout;

/// How long a look at what runs in a sandbox may take.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// Most events that are read at once.
pub(crate) const EVENTS_PAGE_MAX: usize = 1000;

/// Sandboxes of one host. See the crate's documentation.
pub struct Engine {
    shared: Arc<Shared>,
    /// Every task that runs for the engine; they end with it.
    tasks: Mutex<JoinSet<()>>,
}

/// What the engine and all owners have in common.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) records: Records,
    pub(crate) oversight: Arc<Oversight>,
    pub(crate) approvals: Approvals,
    pub(crate) meter: Arc<Meter>,
    /// The way out of all sandboxes, where the server has one.
    pub(crate) gateway: Option<Gateway>,
    pub(crate) snapshots: Snapshots,
    /// For those who block for them too, and must not keep the engine for that.
    pub(crate) templates: Arc<Templates>,
    pub(crate) volumes: Volumes,
    pub(crate) pools: Pools,
    /// Where snapshots are archived, if the server has a place for that.
    pub(crate) archives: Option<Arc<Archives>>,
    /// Names that have addresses in them.
    pub(crate) names: Kept,
    /// Turns true when the engine shuts down.
    closing: watch::Sender<bool>,
    directory: Mutex<Directory>,
    came_true: Vec<CameTrue>,
}

impl Shared {
    /// Turns true when the engine shuts down.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// Works until the engine shuts down, or until that is done.
    pub(crate) async fn until_closing(&self, work: impl Future<Output = ()>) {
        let mut closing = self.closing();
        tokio::select! {
            () = work => {}
            _ = closing.wait_for(|&is_closing| is_closing) => {}
        }
    }

    /// Locks the directory, for a look or a change and never across a wait.
    pub(crate) fn directory(&self) -> MutexGuard<'_, Directory> {
        // A change of the directory cannot be left half-made by a panic.
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Gives one sandbox.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn get(&self, id: SandboxId) -> Result<Sandbox, OperationError> {
        let view = self.shared.directory().get(id).map(|handle| handle.view.borrow().clone());
        view.filter(|sandbox| sandbox.state != State::Deleted)
            .map(|sandbox| self.current(sandbox))
            .ok_or(OperationError::NotFound { id })
    }

    /// How the creation of a sandbox went. Where nobody has seen yet that its first command
    /// ended, it is asked.
    ///
    /// # Errors
    /// If there is none of that id.
    pub async fn timeline(&self, id: SandboxId) -> Result<Timeline, OperationError> {
        let timeline = self.get(id)?.timeline;
        if timeline.first_command_done_us.is_some() {
            return Ok(timeline);
        }
        let Ok(inside) = self.inside(id, Wake::Never).await else { return Ok(timeline) };
        let has_ended = |exec: &Exec| exec.ended.is_some() && !is_service(exec.id);
        let Ok(Ok(execs)) = timeout(LOOK_WITHIN, inside.execs()).await else { return Ok(timeline) };
        if !execs.iter().any(has_ended) {
            return Ok(timeline);
        }
        // Its owner was told.
        let mut view = self.handle(id)?.view;
        let is_known = |shown: &Sandbox| shown.timeline.first_command_done_us.is_some();
        drop(timeout(LOOK_WITHIN, view.wait_for(is_known)).await);
        Ok(self.get(id)?.timeline)
    }

    /// Gives the sandbox that has a name, if there is one.
    pub fn find(&self, name: &SandboxName) -> Option<Sandbox> {
        let view = self.shared.directory().named(name).map(|handle| handle.view.borrow().clone());
        view.filter(|sandbox| sandbox.state != State::Deleted).map(|sandbox| self.current(sandbox))
    }

    /// Gives a page of the sandboxes that there are, oldest first.
    ///
    /// A sandbox that is there the whole time is on exactly one page, whatever comes
    /// and goes meanwhile.
    ///
    /// # Errors
    /// If the request is wrong.
    pub fn list(&self, request: &ListSandboxes) -> Result<SandboxPage, InvalidRequest> {
        let count = request.validate()?;
        let place = |sandbox: &Sandbox| Cursor::of(sandbox.created_at, sandbox.id);
        let mut sandboxes: Vec<Sandbox> = {
            let directory = self.shared.directory();
            let views = directory.handles().map(|handle| handle.view.borrow().clone());
            views
                .filter(|sandbox| sandbox.state != State::Deleted && request.wants(sandbox))
                .filter(|sandbox| request.cursor.is_none_or(|cursor| place(sandbox) > cursor))
                .collect()
        };
        sandboxes.sort_by_key(place);
        let has_more = sandboxes.len() > count;
        sandboxes.truncate(count);
        let next = sandboxes.last().filter(|_| has_more).map(place);
        let sandboxes = sandboxes.into_iter().map(|sandbox| self.current(sandbox)).collect();
        Ok(SandboxPage { sandboxes, next })
    }

    /// Leaves away holds that have ended since the owner looked.
    fn current(&self, mut sandbox: Sandbox) -> Sandbox {
        let now = self.shared.clock.now();
        sandbox.holds.retain(|hold| hold.until > now);
        sandbox
    }

    /// Freezes its processes. One that is paused already is no mistake.
    ///
    /// # Errors
    /// See [`OperationError`]; after a failure of the host it runs on, if it can.
    pub async fn pause(&self, id: SandboxId) -> Result<Sandbox, OperationError> {
        self.act(id, Verb::Pause).await
    }

    /// Lets it run again, whether it was paused or stopped.
    ///
    /// # Errors
    /// See [`OperationError`]; after a failure of the host it is as it was before.
    pub async fn resume(&self, id: SandboxId) -> Result<Sandbox, OperationError> {
        self.act(id, Verb::Resume).await
    }

    /// Asks its processes to end, and kills those that have not after a grace.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn stop(&self, id: SandboxId) -> Result<Sandbox, OperationError> {
        self.act(id, Verb::Stop).await
    }

    /// Kills its processes, also while they are being stopped.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn kill(&self, id: SandboxId) -> Result<Sandbox, OperationError> {
        self.act(id, Verb::Kill).await
    }

    /// Deletes it. On return its name is free; its files are removed afterwards, and its archive if
    /// it is archived.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn delete(&self, id: SandboxId) -> Result<Sandbox, OperationError> {
        self.act(id, Verb::Delete).await
    }

    /// The same, but for the archive of one that is archived, which stays.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn delete_but_archive(&self, id: SandboxId) -> Result<Sandbox, OperationError> {
        self.ask(id, |reply| Command::DeleteButArchive { reply }).await
    }

    /// Sets the times of its lifecycle, and begins its lease anew.
    ///
    /// # Errors
    /// Above a cap, and as for every operation.
    pub async fn set_lifecycle(
        &self,
        id: SandboxId,
        lifecycle: Lifecycle,
    ) -> Result<Sandbox, OperationError> {
        let config = &self.shared.config;
        let lifecycle = config.caps.lifecycle(lifecycle, config.defaults.lifecycle)?;
        if lifecycle.archive_after_ms.is_some() && self.shared.archives.is_none() {
            return Err(OperationError::NoArchives { id });
        }
        self.ask(id, |reply| Command::SetLifecycle { lifecycle, reply }).await
    }

    /// What it may reach; none if it has no network but its own loopback.
    ///
    /// # Errors
    /// As for every operation.
    pub async fn network(&self, id: SandboxId) -> Result<Option<NetworkPolicy>, OperationError> {
        self.ask(id, |reply| Command::Network { reply }).await
    }

    /// Has it reach what `policy` says from now on, all at once: connections that are not allowed
    /// any more are broken off. `by` is who wants that.
    ///
    /// # Errors
    /// If it was made without a network, where the policy is not understood, and as for every
    /// operation. Where the gateway does not take it, nothing is reached.
    pub async fn set_network(
        &self,
        id: SandboxId,
        policy: NetworkPolicy,
        by: String,
    ) -> Result<NetworkPolicy, OperationError> {
        self.ask(id, |reply| Command::SetNetwork { policy: Box::new(policy), by, reply }).await
    }

    /// Holds it awake for `bound` at most, or until it is released.
    ///
    /// # Errors
    /// For longer than the cap, more often than the limit, and as for every operation.
    pub async fn hold(
        &self,
        id: SandboxId,
        cause: HoldCause,
        bound: Duration,
    ) -> Result<HoldId, OperationError> {
        self.ask(id, |reply| Command::Hold { cause, bound, reply }).await
    }

    /// Takes a hold back; one that has ended is no mistake.
    ///
    /// # Errors
    /// If the sandbox is gone.
    pub async fn release(&self, id: SandboxId, hold: HoldId) -> Result<(), OperationError> {
        let mailbox = self.mailbox(id)?;
        mailbox.send(Command::Release { hold }).await.map_err(|_| OperationError::NotFound { id })
    }

    /// How its services are.
    ///
    /// # Errors
    /// If there is no such sandbox.
    pub fn services(&self, id: SandboxId) -> Result<Vec<ServiceStatus>, OperationError> {
        self.get(id)?;
        Ok(self.handle(id)?.services.borrow().clone())
    }

    /// Ends one of its services, if it runs, and starts it anew; does not wait for that.
    ///
    /// # Errors
    /// If it has no such service, or does not run.
    pub async fn restart_service(&self, id: SandboxId, name: &str) -> Result<(), OperationError> {
        let name = name.to_owned();
        self.ask(id, |reply| Command::RestartService { name, reply }).await
    }

    /// Tells everything that happens from now on, in the order in which it is kept.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.shared.records.subscribe()
    }

    /// Gives up to `count` events with numbers above `after`, the oldest first.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub async fn events(&self, after: u64, count: usize) -> Result<Vec<Event>, RecordsError> {
        self.shared.records.events(after, count.min(EVENTS_PAGE_MAX)).await
    }

    /// Gives the number of the latest event, 0 if there was none.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub async fn last_event(&self) -> Result<u64, RecordsError> {
        self.shared.records.last_event().await
    }

    /// What sandboxes ask for and people decide.
    pub fn approvals(&self) -> &Approvals {
        &self.shared.approvals
    }

    /// The audit log, for what tells it something beside the engine.
    pub fn audit(&self) -> &Audit {
        &self.shared.oversight.audit
    }

    /// Gives records of the audit log with numbers above `after`, the oldest first.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn audit_page(
        &self,
        after: u64,
        count: usize,
        filter: Filter,
    ) -> Result<Page, AuditError> {
        let oversight = self.shared.oversight.clone();
        let count = count.min(AUDIT_PAGE_COUNT_MAX);
        let read = task::spawn_blocking(move || oversight.audit.read(after, count, &filter));
        read.await.expect("a look does not panic")
    }

    /// Writes to the records what is there already, to learn whether they can be written.
    ///
    /// # Errors
    /// If not, in the words that a change would fail with.
    pub async fn check_records(&self) -> Result<(), RecordsError> {
        self.shared.records.check().await
    }

    /// Counts the sandboxes in each state, those included that are being removed.
    pub fn states(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::from(State::ALL.map(|state| (state, 0)));
        for handle in self.shared.directory().handles() {
            *counts.entry(handle.view.borrow().state).or_default() += 1;
        }
        counts
    }

    /// Requests that came true while earlier engines ran, the oldest first.
    pub fn came_true(&self) -> &[CameTrue] {
        &self.shared.came_true
    }

    /// The operator's settings.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The tier of its sandboxes, and what that can do on this host.
    pub fn tier(&self) -> (Tier, Capabilities) {
        (self.shared.backend.tier(), self.shared.backend.capabilities())
    }

    /// Why flags of [`Engine::tier`] are missing: the flag, and the reason in words.
    pub fn missing(&self) -> Vec<(&'static str, String)> {
        self.shared.backend.missing()
    }

    /// Takes nothing more on, and waits until everything that was begun has come to its
    /// end. The sandboxes stay as they are; the next engine takes them up.
    pub async fn shutdown(self) {
        self.shared.directory().close();
        self.shared.closing.send_replace(true);
        let mut tasks = self.tasks.into_inner().unwrap_or_else(PoisonError::into_inner);
        while tasks.join_next().await.is_some() {}
        let (records, now) = (&self.shared.records, self.shared.clock.now());
        // Whoever cannot be told has heard of it when the records failed before.
        self.shared.meter.write(records, now).await.unwrap_or_default();
        let oversight = self.shared.oversight.clone();
        oversight.tell(None, AuditKind::ServerStopped);
        // It waits for the disk.
        drop(task::spawn_blocking(move || oversight.audit.close()).await);
    }

    async fn act(&self, id: SandboxId, verb: Verb) -> Result<Sandbox, OperationError> {
        self.ask(id, |reply| Command::Do { verb, reply }).await
    }

    pub(crate) async fn ask<T, E: From<OperationError>>(
        &self,
        id: SandboxId,
        command: impl FnOnce(Reply<T, E>) -> Command,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        // The way to the owner is let go of before the wait, or else an engine that
        // shuts down would wait for it.
        self.mailbox(id)?.try_send(command(Reply(reply))).map_err(|error| match error {
            tokio::sync::mpsc::error::TrySendError::Full(_) => OperationError::Busy { id },
            tokio::sync::mpsc::error::TrySendError::Closed(_) => OperationError::NotFound { id },
        })?;
        answer.await.unwrap_or_else(|_| Err(self.without_answer(id).into()))
    }

    /// An owner that ended without an answer: with its sandbox, or before it could.
    fn without_answer(&self, id: SandboxId) -> OperationError {
        if self.shared.directory().get(id).is_some() {
            OperationError::Lost { id }
        } else {
            OperationError::NotFound { id }
        }
    }

    fn mailbox(&self, id: SandboxId) -> Result<tokio::sync::mpsc::Sender<Command>, OperationError> {
        Ok(self.handle(id)?.mailbox)
    }

    /// The way to a sandbox's owner. Who keeps it keeps the engine from shutting down.
    pub(crate) fn handle(&self, id: SandboxId) -> Result<Handle, OperationError> {
        let directory = self.shared.directory();
        if directory.is_closing() {
            return Err(OperationError::ShuttingDown);
        }
        directory.get(id).cloned().ok_or(OperationError::NotFound { id })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs a task that ends with the engine.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are let go of, so that their number does not grow.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
