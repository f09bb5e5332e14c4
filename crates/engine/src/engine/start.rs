//! Starting: what an earlier engine left behind is taken up, stopped or removed.

use super::{Engine, Shared};
use crate::approvals::{Approvals, Keeper};
use crate::archives::{self, Archives};
use crate::audit::Audit;
use crate::backend::{Alive, Backend, BackendError, KILL_WITHIN};
use crate::budgets::{self, Ledger};
use crate::clock::Clock;
use crate::config::Config;
use crate::directory::Directory;
use crate::error::StartError;
use crate::gateway::{Keeper as GatewayKeeper, Kept as KeptNames, Program};
use crate::oversight::Oversight;
use crate::owner::{Begin, Command, Owner, Reply};
use crate::pools::{self, Pools};
use crate::reconcile::{self, Action, Plan};
use crate::records::{Change, Fate, Record, Records, TemplateChange};
use crate::snapshots::{self, How, Kept, Snapshots};
use crate::state::Verb;
use crate::templates::{self, KeptBuild, Templates};
use crate::told;
use crate::usage::Meter;
use crate::volumes::{self, Volumes};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::sandbox::{EventKind, State};
use atoll_api::snapshot::SnapshotWay;
use atoll_store::secret::Secrets;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::{self, JoinSet};

/// How long what is written may not be on the disk yet.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// How long to wait before a removal that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// What leads out of this machine.
#[derive(Default)]
pub struct Outward {
    /// The gateway, without which no sandbox has a network.
    pub gateway: Option<Program>,
    /// Where snapshots are archived.
    pub archives: Option<Archives>,
}

impl Engine {
    /// Starts on the records in `path`, which are made if there are none. Secrets are beside them, and
    /// the audit log.
    ///
    /// On return every sandbox that could be taken up is, and names are right; what is
    /// to be stopped or removed is so soon after. Trouble with a single sandbox makes
    /// that one fail, and not the start.
    ///
    /// Must be called, like everything else, inside of a runtime that has its I/O driver on.
    ///
    /// # Errors
    /// If the records cannot be read, or the host not be looked at.
    pub async fn start(
        config: Config,
        backend: Arc<dyn Backend>,
        clock: Arc<dyn Clock>,
        path: PathBuf,
    ) -> Result<Self, StartError> {
        Self::start_with(config, backend, clock, path, Outward::default()).await
    }

    /// The same with ways out of this machine.
    ///
    /// # Errors
    /// The same; where the gateway cannot be started, sandboxes wait for it.
    pub async fn start_with(
        config: Config,
        backend: Arc<dyn Backend>,
        clock: Arc<dyn Clock>,
        path: PathBuf,
        outward: Outward,
    ) -> Result<Self, StartError> {
        let Outward { gateway, archives } = outward;
        let host = backend.clone();
        let (host_clock, meter_clock, begun_at) = (clock.clone(), clock.clone(), clock.now());
        let settings = config.clone();
        let beside = path.parent().unwrap_or(Path::new(".")).to_owned();
        let names = KeptNames::of(&beside);
        let state = beside.clone();
        let looked = task::spawn_blocking(move || {
            let (records, known) =
                Records::open(&path, settings.records_bytes_max).map_err(StartError::Records)?;
            let inventory = host.inventory().map_err(StartError::Inventory)?;
            let audit = Audit::open(&beside.join("audit"), settings.audit, begun_at);
            let audit = audit.map_err(StartError::Audit)?;
            let oversight = Oversight::new(host_clock, audit, Secrets::of(beside));
            // What changes from here on by another program is told; those that cannot be read are
            // told to who asks for them.
            drop(oversight.secrets_now());
            let ledger = Ledger::new(settings.budgets, &known.drawn);
            let meter = Meter::new(known.usage, &known.records, ledger, meter_clock);
            let plan = reconcile::plan(known.records, &inventory);
            let taken = snapshots_found(known.snapshots, &*host)?;
            // Of nobody: sandboxes have only those that are written down.
            volumes::clear(&known.volumes, &*host).map_err(StartError::Inventory)?;
            let volumes = Volumes::new(known.volumes);
            let pools = Pools::new(known.pools, begun_at);
            let broken_off = templates::broken_off(&known.templates.builds);
            let templates = Templates::open(settings.templates, &state, known.templates);
            let templates = (templates.map_err(StartError::Templates)?, broken_off);
            let (came_true, approvals) = (known.came_true, known.approvals);
            let beside = (taken, templates, volumes, pools);
            Ok((records, plan, came_true, approvals, oversight, meter, beside))
        });
        let (records, plan, came_true, asked, oversight, meter, beside) =
            looked.await.expect("neither of them panics")?;
        let ((snapshots, unmade), templates, volumes, pools) = beside;
        let (oversight, meter) = (Arc::new(oversight), Arc::new(meter));
        let (approvals, keeper) = Approvals::new(asked, oversight.clone());
        let gateway = gateway.map(|program| {
            let (oversight, approvals) = (oversight.clone(), approvals.clone());
            GatewayKeeper::new(program, oversight, approvals, names.clone(), meter.clone())
        });
        let (gateway, gateway_keeper) = gateway.unzip();
        let sandboxes_max = config.sandboxes_max;
        let shared = Arc::new(Shared {
            gateway,
            names,
            config,
            backend,
            clock,
            records,
            oversight,
            approvals,
            snapshots: Snapshots::new(snapshots),
            templates: Arc::new(templates.0),
            volumes,
            pools,
            archives: archives.map(Arc::new),
            meter,
            closing: watch::Sender::new(false),
            directory: Mutex::new(Directory::new(sandboxes_max)),
            came_true,
        });
        let engine = Self { shared, tasks: Mutex::new(JoinSet::new()) };
        let (known, unknown) = (plan.known.len(), plan.unknown.len());
        tracing::info!(known, unknown, "sandboxes of earlier servers");
        engine.spawn(keep_synchronised(engine.shared.clone()));
        for snapshot in unmade {
            // What cannot be written is found out again by the next start.
            let shared = &engine.shared;
            shared.snapshots.forget(snapshot, &shared.records).await.unwrap_or_default();
        }
        engine.spawn(keep_approvals(engine.shared.clone(), keeper));
        engine.spawn(keep_usage(engine.shared.clone()));
        engine.spawn(keep_budgets(engine.shared.clone()));
        engine.spawn(keep_volumes(engine.shared.clone()));
        if let Some(keeper) = gateway_keeper {
            engine.spawn(keep_gateway(engine.shared.clone(), keeper));
        }
        let of_builds = plan.known.iter().filter(|(record, _)| record.build.is_some());
        let of_builds: Vec<_> = of_builds.map(|(record, _)| record.id).collect();
        engine.carry_out(plan).await;
        engine.end_builds(templates.1, of_builds).await;
        engine.spawn(snapshots::keep(engine.shared.clone()));
        engine.spawn(templates::keep(engine.shared.clone()));
        engine.spawn(snapshots::shorten(engine.shared.clone()));
        engine.spawn(archives::keep(engine.shared.clone()));
        engine.spawn(pools::keep(engine.shared.clone()));
        Ok(engine)
    }

    async fn carry_out(&self, plan: Plan) {
        for (record, action) in plan.known {
            let (record, begin) = self.prepare(record, action).await;
            self.shared.volumes.found(&record);
            let name = record.name.clone().filter(|_| record.state != State::Deleted);
            let id = record.id;
            let (owner, handle) = Owner::new(self.shared.clone(), record);
            self.shared.directory().insert(name.as_ref(), id, handle);
            self.spawn(owner.run(begin));
        }
        for id in plan.unknown {
            self.spawn(remove_unknown(self.shared.clone(), id));
        }
    }

    /// Says of builds that they failed, as the server ended that carried them out, and has their
    /// sandboxes removed.
    async fn end_builds(&self, builds: Vec<KeptBuild>, sandboxes: Vec<SandboxId>) {
        let change = |build: KeptBuild| TemplateChange::Build(Box::new(build));
        let mut failed = builds;
        failed.iter_mut().for_each(|build| build.shown.ended_at = Some(self.shared.clock.now()));
        self.shared.templates.broke_off(&failed);
        if !failed.is_empty() {
            let changes = failed.into_iter().map(change).collect();
            // What cannot be written is found out again by the next start.
            self.shared.records.save_templates(changes).await.unwrap_or_default();
        }
        for id in sandboxes {
            let Ok(handle) = self.handle(id) else { continue };
            // Nobody waits for it: it is removed as one that somebody deletes.
            let reply = Reply(oneshot::channel().0);
            let delete = Command::Do { verb: Verb::Delete, reply };
            handle.mailbox.try_send(delete).unwrap_or_default();
        }
    }

    /// Brings a record up to what is the case, and says what its owner begins with.
    ///
    /// States are set here, not stepped through: what led to them, nobody saw.
    async fn prepare(&self, record: Record, action: Action) -> (Record, Begin) {
        let (mut state, mut alive, mut cause) = (State::Failed, None, None);
        match action {
            Action::Remove => state = State::Deleted,
            Action::Settle(found) => state = found,
            Action::Adopt(found) => match self.adopt(record.id).await {
                Ok(taken) => {
                    (state, alive) = (self.thawed(&record, found).await, Some(taken));
                }
                // Its processes ended in between.
                Err(BackendError::NotFound { .. }) => state = State::Stopped,
                Err(error) => {
                    told::host_failed(record.id, "adopt", &error);
                    cause = Some(format!("it could not be taken up: {error}"));
                }
            },
            // Without its descriptor it is killed after the grace.
            Action::StopAgain => {
                (state, alive) = (State::Stopping, self.adopt(record.id).await.ok());
            }
        }
        let begin = match action {
            Action::StopAgain => Begin::FinishStop(alive),
            Action::Adopt(_) | Action::Settle(_) | Action::Remove => Begin::Found(alive),
        };
        (self.note(record, state, cause, action).await, begin)
    }

    /// Lets one go on that stood still for a snapshot, of whose end nobody is left to see to.
    async fn thawed(&self, record: &Record, found: State) -> State {
        if (record.state, found) != (State::Running, State::Paused) {
            return found;
        }
        let (backend, id) = (self.shared.backend.clone(), record.id);
        let thawed = task::spawn_blocking(move || backend.thaw(id)).await;
        match thawed.expect("a backend does not panic") {
            Ok(()) => State::Running,
            Err(error) => {
                told::host_failed(id, "thaw", &error);
                found
            }
        }
    }

    async fn adopt(&self, id: SandboxId) -> Result<Alive, BackendError> {
        let backend = self.shared.backend.clone();
        let adopted = task::spawn_blocking(move || backend.adopt(id)).await;
        adopted.expect("a backend does not panic")
    }

    /// Writes what was found out, if it is news.
    async fn note(
        &self,
        mut record: Record,
        state: State,
        cause: Option<String>,
        action: Action,
    ) -> Record {
        let is_news = record.state != state;
        tracing::info!(
            sandbox = %record.id, before = %record.state, %state, cause = cause.as_deref(),
            "found at the start"
        );
        if !is_news && !matches!(action, Action::Adopt(_)) {
            return record;
        }
        let now = self.shared.clock.now();
        let cause = cause.or_else(|| gone(state).map(str::to_owned));
        let what = match (state, &cause) {
            (State::Failed, Some(cause)) => EventKind::Failed { cause: cause.clone() },
            (State::Stopped, _) => EventKind::Stopped { forced: false },
            (State::Stopping, _) => EventKind::Stopping { reason: "start".to_owned() },
            (State::Deleted, _) => EventKind::Deleted { reason: "start".to_owned() },
            _ => EventKind::Adopted,
        };
        if is_news {
            (record.state, record.state_since, record.cause) = (state, now, cause);
            if matches!(state, State::Running | State::Paused | State::Stopped | State::Stopping) {
                record.stopped_at = None;
                record.is_here();
            }
        }
        let change = Change {
            record: record.clone(),
            fate: Fate::Keep,
            what: Some(what),
            at: now,
            once: None,
        };
        if state == State::Deleted {
            self.shared.meter.gone(record.id, now);
        }
        // What cannot be written is found out again by the next start.
        self.shared.records.apply(change, || {}).await.unwrap_or_default();
        record
    }
}

/// The snapshots that there are, by what is recorded and what is on the host, and those that a
/// server died over before they were taken.
fn snapshots_found(
    recorded: Vec<Kept>,
    host: &dyn Backend,
) -> Result<(Vec<Kept>, Vec<SnapshotId>), StartError> {
    if recorded.iter().all(|kept| kept.taken.is_some()) {
        return Ok((recorded, Vec::new()));
    }
    let layers = host.layers().map_err(StartError::Inventory)?;
    let mut unmade = Vec::new();
    let judge = |mut kept: Kept| {
        let is_whole = layers.iter().any(|layer| layer.id == kept.layer && layer.is_whole);
        if kept.taken.is_none() && is_whole {
            tracing::info!(snapshot = %kept.id, "a server died before it could say that it was taken");
            // Whether files were copied nobody can say; the sandbox has what it had in any case.
            kept.taken = Some(How::unseen(SnapshotWay::Rename));
        } else if kept.taken.is_none() {
            tracing::info!(snapshot = %kept.id, "a server died before it was taken");
            unmade.push(kept.id);
        }
        kept
    };
    let kept = recorded.into_iter().map(judge).collect();
    Ok((kept, unmade))
}

/// Why a sandbox is in a state that nobody asked for.
fn gone(state: State) -> Option<&'static str> {
    match state {
        State::Stopped => Some("its processes ended while no server ran"),
        State::Failed => Some("it was not on the host any more, or not whole, at a server's start"),
        State::Creating
        | State::Running
        | State::Pausing
        | State::Paused
        | State::Resuming
        | State::Stopping
        | State::Archived
        | State::Deleted => None,
    }
}

/// Brings the records to the disk soon after they were written; closing them does, too.
async fn keep_synchronised(shared: Arc<Shared>) {
    let keep = async {
        loop {
            shared.records.written().await;
            shared.clock.wait_until(shared.clock.now().after(SYNC_AFTER)).await;
            // A disk that fails now fails the next write, which is told to somebody.
            shared.records.sync().await.unwrap_or_default();
        }
    };
    shared.until_closing(keep).await;
}

/// Keeps the book of approvals until the engine shuts down; who waits for a decision is told.
async fn keep_approvals(shared: Arc<Shared>, keeper: Keeper) {
    shared.until_closing(keeper.run(&shared.records)).await;
}

/// Keeps what sandboxes use until the engine shuts down, which writes the last of it.
async fn keep_usage(shared: Arc<Shared>) {
    shared.until_closing(Meter::keep(shared.clone())).await;
}

/// Has sandboxes stopped whose budgets are used up.
async fn keep_budgets(shared: Arc<Shared>) {
    shared.until_closing(budgets::keep(shared.clone())).await;
}

/// Has volumes measured that have a limit.
async fn keep_volumes(shared: Arc<Shared>) {
    shared.until_closing(crate::volumes::keep(shared.clone())).await;
}

async fn keep_gateway(shared: Arc<Shared>, mut keeper: GatewayKeeper) {
    shared.until_closing(keeper.run()).await;
    keeper.end().await;
}

/// Removes what is on the host though nothing is recorded of it. What is left when the
/// engine shuts down is left to the next one.
async fn remove_unknown(shared: Arc<Shared>, id: SandboxId) {
    let mut closing = shared.closing.subscribe();
    loop {
        let backend = shared.backend.clone();
        let removed = task::spawn_blocking(move || {
            backend.kill(id, KILL_WITHIN)?;
            backend.remove(id)
        });
        match removed.await.expect("a backend does not panic") {
            Ok(()) => {
                tracing::info!(sandbox = %id, "what nobody knew of was removed");
                return;
            }
            Err(error) => told::host_failed(id, "remove what nobody knows of", &error),
        }
        let again_at = shared.clock.now().after(RETRY_AFTER);
        tokio::select! {
            () = shared.clock.wait_until(again_at) => {}
            _ = closing.wait_for(|&is_closing| is_closing) => return,
        }
    }
}
