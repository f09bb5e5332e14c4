//! The owner of a sandbox: the one task that changes its state.
//!
//! Callers send commands to a bounded mailbox and wait for the answer. One that
//! stops to wait changes nothing: what was begun comes to its end. The exception is
//! a creation, which is given up, and what was made of it removed, once nobody
//! waits for it any more.
//!
//! What a lifecycle brings about goes through the same code as a request. Every
//! intent is written to the records before anything happens on the host.

mod archive;
mod expose;
mod host;
mod mailbox;
mod member;
mod meter;
mod network;
mod removal;
mod snapshot;
mod transitions;

pub(crate) use mailbox::{Claim, Command, Creation, CreationFailure, Handle, Late, Reply, Waiter};

use crate::backend::{Alive, Progress};
use crate::clock::wait_until;
use crate::engine::Shared;
use crate::error::{OperationError, chain};
use crate::exposure::Exposures;
use crate::guest::Guest;
use crate::lifecycle::{self, Activity, Decision, Facts};
use crate::records::{Change, Fate, Once, Record, RecordsError};
use crate::services::Services;
use crate::state::{self, Step, Verb};
use crate::told;
use crate::workspace::Workspace;
use atoll_api::name::SandboxName;
use atoll_api::sandbox::{EventKind, Lifecycle, Sandbox, Stage, State};
use atoll_api::time::Timestamp;
use host::Exit;
use removal::Removal;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// How long to wait before something that failed by itself is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// How often the use of the processor is looked at: so many times in the idle time, but
/// neither all the time nor so seldom that a little work in a long while counts as none.
const SAMPLES_PER_IDLE_TIME: u64 = 4;
const SAMPLE_MS_MIN: u64 = 1_000;
const SAMPLE_MS_MAX: u64 = 60_000;

/// How an owner begins.
pub(crate) enum Begin {
    /// Make the sandbox.
    Create {
        progress: Arc<Progress>,
        outcome: watch::Sender<Creation>,
        workspace: Option<Workspace>,
    },
    /// Make a member of a pool, reached by this, and wait until it is given to somebody.
    Member { pool: SandboxName, handle: Handle },
    /// Go on with what was found on the host.
    Found(Option<Alive>),
    /// Stop it: a server that died had begun to.
    FinishStop(Option<Alive>),
}

/// See the module.
pub(crate) struct Owner {
    shared: Arc<Shared>,
    record: Record,
    activity: Activity,
    exit: Exit,
    mailbox: mpsc::Receiver<Command>,
    /// Commands that came while another one was carried out; at most as many as fit
    /// into the mailbox.
    deferred: VecDeque<Command>,
    view: watch::Sender<Sandbox>,
    /// Its guest, while there are processes.
    guest: watch::Sender<Option<Guest>>,
    exposures: watch::Sender<Arc<Exposures>>,
    /// What is to run in it.
    services: Services,
    /// The creation that is under way, to be cancelled by a deletion.
    progress: Option<Arc<Progress>>,
    /// The archiving that is under way, to be given up for who wants its files.
    archiving: Option<Arc<Progress>>,
    chores: archive::Chores,
    /// Whoever deletes it wants its archive to stay.
    leaves_archive: bool,
    /// Until when nothing is tried by itself, after a failure.
    patience_until: Option<Timestamp>,
    /// The time of the lifecycle for which something happens now, if nobody asked.
    alone: Option<&'static str>,
    removal: Removal,
    /// A call to make it that did not come back in time. Until it does, nothing can be removed.
    stuck: Option<JoinHandle<()>>,
    /// The request that made it, until it is written that it came true.
    once: Option<Once>,
    /// The gateway serves it.
    has_network: bool,
    /// When what it uses is looked at next.
    metering: meter::Metering,
}

/// What an owner that waits is woken by.
enum Woken {
    Command(Command),
    Closed,
    Time,
    Meter,
    Chores,
    Exit,
}

impl Owner {
    /// Makes an owner and the handle by which it is reached.
    pub(crate) fn new(shared: Arc<Shared>, record: Record) -> (Self, Handle) {
        let view = watch::Sender::new(record.view(Vec::new()));
        let guest = watch::Sender::new(None);
        let exposures = watch::Sender::new(Arc::new(record.exposures.clone()));
        let services = Services::new(&record.services, shared.clock.clone());
        let (handle, mailbox) = Handle::new(
            record.id,
            view.subscribe(),
            guest.subscribe(),
            exposures.subscribe(),
            services.statuses(),
        );
        let owner = Self {
            activity: Activity::new(
                shared.clock.now(),
                shared.config.hold_max,
                shared.config.service_hold_max,
            ),
            shared,
            record,
            exit: Exit::none(),
            mailbox,
            deferred: VecDeque::new(),
            view,
            guest,
            exposures,
            services,
            progress: None,
            archiving: None,
            chores: archive::Chores::default(),
            leaves_archive: false,
            patience_until: None,
            alone: None,
            removal: Removal::Due,
            stuck: None,
            once: None,
            has_network: false,
            metering: meter::Metering::default(),
        };
        (owner, handle)
    }

    /// The same for a request that is to come true once.
    pub(crate) fn once(self, once: Option<Once>) -> Self {
        Self { once, ..self }
    }

    /// Lives until nothing is left of the sandbox, or nobody can reach it any more.
    pub(crate) async fn run(mut self, begin: Begin) {
        match begin {
            Begin::Create { progress, outcome, workspace } => {
                self.create(progress, &outcome, workspace).await;
            }
            Begin::Member { pool, handle } => {
                if !self.be_member(&pool, handle).await {
                    return;
                }
            }
            Begin::Found(alive) => self.take_up(alive).await,
            Begin::FinishStop(alive) => {
                self.take_up(alive).await;
                self.finish_stop().await;
            }
        }
        loop {
            if self.record.state == State::Deleted {
                return self.remove().await;
            }
            let decision = self.decide();
            if let Some(due) = decision.due {
                self.act_alone(due).await;
                continue;
            }
            match self.wait(decision.look_at).await {
                Woken::Command(command) => self.handle(command).await,
                Woken::Exit => self.ended().await,
                Woken::Time => self.sample().await,
                Woken::Meter => self.meter().await,
                Woken::Chores => self.do_chores().await,
                Woken::Closed => return,
            }
        }
    }

    /// Waits for whatever comes first. Nothing is lost by the branches that lose.
    async fn wait(&mut self, look_at: Option<Timestamp>) -> Woken {
        if let Some(command) = self.deferred.pop_front() {
            return Woken::Command(command);
        }
        let clock = self.shared.clock.clone();
        let (chores_at, dropping) = self.chores.parts();
        tokio::select! {
            command = self.mailbox.recv() => command.map_or(Woken::Closed, Woken::Command),
            () = self.exit.wait() => Woken::Exit,
            () = wait_until(&*clock, look_at) => Woken::Time,
            () = wait_until(&*clock, self.metering.look_at()) => Woken::Meter,
            () = wait_until(&*clock, chores_at) => Woken::Chores,
            () = archive::dropped(dropping) => Woken::Chores,
        }
    }

    async fn handle(&mut self, command: Command) {
        match command {
            Command::Do { verb, reply } => {
                let done = self.act(verb, "request").await;
                reply.give(done.map(|()| self.view.borrow().clone()));
            }
            Command::DeleteButArchive { reply } => {
                self.leaves_archive = true;
                let done = self.act(Verb::Delete, "request").await;
                self.leaves_archive = false;
                reply.give(done.map(|()| self.view.borrow().clone()));
            }
            Command::Archive { stops, reply } => {
                let done = self.archive_for(stops).await;
                reply.give(done);
            }
            Command::SetLifecycle { lifecycle, reply } => {
                let now = self.shared.clock.now();
                let set = |record: &mut Record| {
                    (record.lifecycle, record.lease_from) = (lifecycle, now);
                };
                reply.give(self.set(set, EventKind::LifecycleSet).await);
            }
            Command::SetBudget { budget, reply } => {
                let set = |record: &mut Record| record.budget = budget;
                let done = self.set(set, EventKind::BudgetSet).await;
                self.shared.meter.has_budget(&self.record);
                reply.give(done);
            }
            // It is decided about after every command.
            Command::Overdrawn => {}
            Command::Network { reply } => self.tell_network(reply),
            Command::SecretsChanged => self.renew_secrets().await,
            Command::SetNetwork { policy, by, reply } => {
                let set = self.set_network(*policy, by).await;
                reply.give(set);
            }
            Command::Hold { cause, bound, reply } => {
                let held = self.activity.hold(self.shared.clock.now(), cause, bound);
                self.publish();
                let id = self.record.id;
                reply.give(held.map_err(|source| OperationError::Hold { id, source }));
            }
            Command::Release { hold } => {
                self.activity.release(self.shared.clock.now(), hold);
                self.publish();
            }
            Command::Expose { wanted, reply } => reply.give(self.expose(wanted).await),
            Command::Snapshot { request, build, reply } => {
                reply.give(self.snapshot(&request, build).await);
            }
            Command::Restore { snapshot, reply } => {
                let restored = self.restore(snapshot).await;
                reply.give(restored.map(|()| self.view.borrow().clone()));
            }
            Command::StandStill { until, reply } => self.stand_still(until, reply).await,
            // It is nobody's to be given any more; who sent that learns of it by the end of its creation.
            Command::Claim(_) => {}
            Command::Unexpose { port, reply } => reply.give(self.unexpose(port).await),
            Command::Worked => self.activity.worked(self.shared.clock.now()),
            Command::FirstDone { at } => self.command_done(at).await,
            Command::RestartService { name, reply } => reply.give(self.restart_service(name)),
            Command::Meter { reply } => {
                self.meter().await;
                reply.give(Ok(()));
            }
        }
    }

    /// Changes what is said of it, and writes that down, or nothing changes.
    async fn set(
        &mut self,
        set: impl FnOnce(&mut Record),
        what: EventKind,
    ) -> Result<Sandbox, OperationError> {
        let before = self.record.clone();
        set(&mut self.record);
        let written = self.write(what, Fate::Keep).await;
        if let Err(source) = written {
            self.record = before;
            return Err(OperationError::Records { id: self.record.id, source });
        }
        Ok(self.view.borrow().clone())
    }

    /// What is due now, and when to look again.
    fn decide(&self) -> Decision {
        let now = self.shared.clock.now();
        let facts = Facts {
            state: self.record.state,
            state_since: self.record.state_since,
            stopped_at: self.record.stopped_at,
            created_at: self.record.created_at,
            lease_from: self.record.lease_from,
            works_until: self.activity.works_until(),
            is_overdrawn: self.shared.meter.spent(self.record.id).is_some(),
            has_full_volume: self.shared.volumes.full(&self.record).is_some(),
        };
        // A server that has no place for archives any more leaves it where it is.
        let archive_after_ms =
            self.record.lifecycle.archive_after_ms.filter(|_| self.shared.archives.is_some());
        let times = Lifecycle { archive_after_ms, ..self.record.lifecycle };
        let mut decision = lifecycle::decide(now, &times, &facts);
        // What has just failed is not tried at once.
        let patience = self.patience_until.filter(|&until| until > now && decision.due.is_some());
        if patience.is_some() {
            decision.due = None;
        }
        let look_at = [decision.look_at, self.sample_at(now), patience];
        Decision { look_at: look_at.into_iter().flatten().min(), ..decision }
    }

    /// When to look at what it does: only what may idle is looked at.
    fn sample_at(&self, now: Timestamp) -> Option<Timestamp> {
        let idle_stop_ms =
            self.record.lifecycle.idle_stop_ms.filter(|_| self.record.state == State::Running)?;
        let period_ms = (idle_stop_ms / SAMPLES_PER_IDLE_TIME).clamp(SAMPLE_MS_MIN, SAMPLE_MS_MAX);
        let period = Duration::from_millis(period_ms);
        Some(self.activity.sampled_at().unwrap_or(now).after(period))
    }

    /// Does what is due. Before a sandbox is stopped for being idle, its use of the
    /// processor, and what runs in it, is looked at once more.
    async fn act_alone(&mut self, due: lifecycle::Due) {
        if due.verb == Verb::Stop {
            self.sample().await;
            if self.decide().due != Some(due) {
                return;
            }
        }
        self.alone = Some(due.reason);
        let done = self.act(due.verb, due.reason).await;
        self.alone = None;
        if done.is_err() {
            self.patience_until = Some(self.shared.clock.now().after(RETRY_AFTER));
        }
    }

    /// Goes a step that is an intent: it is written, or nothing happens.
    async fn intend(&mut self, step: Step, what: EventKind) -> Result<(), RecordsError> {
        let before = self.record.clone();
        self.enter(step, None);
        let written = self.write(what, Fate::Keep).await;
        if written.is_err() {
            self.record = before;
        }
        written
    }

    /// Goes a step that has happened already. If it cannot be written it is so all
    /// the same: the next write carries it, and a start before that sees it on the host.
    async fn settle(&mut self, step: Step, cause: Option<String>, what: EventKind) {
        self.enter(step, cause);
        if self.write(what, Fate::Keep).await.is_err() {
            self.publish();
        }
    }

    fn enter(&mut self, step: Step, cause: Option<String>) {
        let next = state::next(self.record.state, step);
        self.record.state = next.expect("the owner takes only steps that are there");
        self.record.state_since = self.shared.clock.now();
        match step {
            Step::Ended => {
                self.record.stopped_at = Some(self.record.state_since);
                self.record.is_here();
            }
            Step::Runs | Step::Frozen => {
                self.record.stopped_at = None;
                self.record.is_here();
                self.chores.forget_layer();
            }
            Step::Broke => self.record.stopped_at = None,
            _ => {}
        }
        self.record.cause = cause;
    }

    /// Notes when the first command ended.
    async fn command_done(&mut self, at: Instant) {
        if self.record.timeline.first_command_done_us.is_some() {
            return;
        }
        let since = self.shared.clock.now().since(self.record.created_at);
        let took = since.saturating_sub(at.elapsed());
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.record.timeline.mark(Stage::FirstCommandDone, took_us);
        if self.write_as(None, Fate::Keep).await.is_err() {
            // The next write carries it.
            self.publish();
        }
    }

    /// Writes the record with what happened, shows it, and has it told to who listens.
    async fn write(&self, what: EventKind, fate: Fate) -> Result<(), RecordsError> {
        self.write_as(Some(what), fate).await
    }

    async fn write_as(&self, what: Option<EventKind>, fate: Fate) -> Result<(), RecordsError> {
        let at = self.shared.clock.now();
        if let Some(what) = &what {
            told::happened(self.record.id, self.record.state, what);
        }
        // It came true when the sandbox runs: one that is half-made is removed by the next start.
        let once = self.once.clone().filter(|_| what == Some(EventKind::Started));
        let deleted = what.clone().filter(|what| matches!(what, EventKind::Deleted { .. }));
        let change = Change { record: self.record.clone(), fate, what, at, once };
        let shown = self.record.view(self.activity.holds(at));
        let view = self.view.clone();
        let publish = move || drop(view.send_replace(shown));
        let written = self.shared.records.apply(change, publish).await;
        if let Err(error) = &written {
            let id = self.record.id;
            tracing::error!(sandbox = %id, cause = chain(error), "it could not be recorded");
        }
        if let Some(EventKind::Deleted { reason }) = deleted {
            self.shared.meter.gone(self.record.id, at);
            self.shared.oversight.deleted(self.record.id, reason);
            self.shared.approvals.gone(self.record.id).await;
        }
        written
    }

    fn publish(&self) {
        let holds = self.activity.holds(self.shared.clock.now());
        self.view.send_replace(self.record.view(holds));
    }
}
