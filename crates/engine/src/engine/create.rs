//! Asking for a sandbox: checks, admission, and waiting for its owner.

use super::{Engine, Shared};
use crate::backend::Progress;
use crate::directory::Refusal;
use crate::error::CreateError;
use crate::exposure::Exposures;
use crate::gateway::Remembered;
use crate::network::{Network, NetworkError, NetworkProblem};
use crate::owner::{Begin, Creation, CreationFailure, Handle, Late, Owner, Waiter};
use crate::records::{Once, Record};
use crate::secrets::stored_name;
use crate::snapshots::Kept;
use crate::workspace::{Archive, Workspace};
use atoll_api::exec::User;
use atoll_api::id::{BuildId, ID_BYTES, SandboxId, SnapshotId};
use atoll_api::network::NetworkPolicy;
use atoll_api::sandbox::{CreateSandbox, InvalidRequest, Limits, Sandbox, Stage, State, Timeline};
use atoll_api::service::{Ready, Service};
use atoll_egress::secret::carried;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// How often a name is asked for again whose holder went away meanwhile.
const TRIES: usize = 10;

/// What get-or-create gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Whether this request made it.
    pub is_new: bool,
}

/// What comes beside a request for a sandbox.
#[derive(Default)]
pub struct Beside {
    /// A tar archive of what is to be in its workspace. It is read while the sandbox is made,
    /// and not at all where none is.
    pub archive: Option<Archive>,
    /// The request as one that is to come true once: with the sandbox it is written down that it
    /// did. Whoever sends it again is the caller's to tell; see [`Engine::came_true`].
    pub once: Option<Once>,
}

/// What a sandbox of a build begins with.
pub(crate) struct ForBuild {
    pub(crate) id: BuildId,
    /// The files of what was done before, in place of an image.
    pub(crate) snapshot: Option<SnapshotId>,
}

/// What became of a request for a place.
pub(super) enum Admission {
    /// It has one, and its creation is under way.
    Made(Handle, Waiter),
    /// Its name belongs to another.
    Taken(Handle),
}

impl Engine {
    /// Makes a sandbox and waits until it runs.
    ///
    /// If the future is dropped before, the sandbox is given up and removed.
    ///
    /// # Errors
    /// See [`CreateError`]; nothing is left of the sandbox then, or is being removed.
    pub async fn create(&self, request: CreateSandbox) -> Result<Sandbox, CreateError> {
        self.create_with(request, Beside::default()).await
    }

    /// The same, with what comes beside the request.
    ///
    /// # Errors
    /// The same.
    pub async fn create_with(
        &self,
        request: CreateSandbox,
        beside: Beside,
    ) -> Result<Sandbox, CreateError> {
        self.create_for(request, beside, None).await
    }

    /// The same, for a build if there is one.
    pub(crate) async fn create_for(
        &self,
        request: CreateSandbox,
        mut beside: Beside,
        build: Option<ForBuild>,
    ) -> Result<Sandbox, CreateError> {
        let name = request.name.clone();
        match self.admit(&request, &mut beside, build.as_ref(), Instant::now())? {
            Admission::Made(handle, waiter) => wait(&handle, Some(waiter)).await,
            Admission::Taken(handle) => Err(CreateError::NameTaken {
                name: name.expect("only who has a name can find it taken"),
                holder: handle.id,
            }),
        }
    }

    /// Gives the sandbox of the request's name, made if there is none.
    ///
    /// However many ask at once, one is made and all get it. One that is there is given
    /// as it is, also if it is stopped or was made of something else. Without a name it
    /// is [`Engine::create`].
    ///
    /// # Errors
    /// As for [`Engine::create`]; who waits for a creation of somebody else learns its error.
    pub async fn get_or_create(&self, request: CreateSandbox) -> Result<Got, CreateError> {
        self.get_or_create_with(request, Beside::default()).await
    }

    /// The same, with what comes beside the request.
    ///
    /// # Errors
    /// The same.
    pub async fn get_or_create_with(
        &self,
        request: CreateSandbox,
        mut beside: Beside,
    ) -> Result<Got, CreateError> {
        let asked_at = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let (handle, waiter, is_new) =
                match self.admit(&request, &mut beside, None, asked_at)? {
                    Admission::Made(handle, waiter) => (handle, Some(waiter), true),
                    Admission::Taken(handle) => {
                        let waiter = handle.creation.as_ref().map(Waiter::join);
                        (handle, waiter, false)
                    }
                };
            match wait(&handle, waiter).await {
                // Given up by those who wanted it first, and not by this caller.
                Err(CreateError::Cancelled { .. }) if !is_new && tries < TRIES => {}
                other => return other.map(|sandbox| Got { sandbox, is_new }),
            }
        }
    }

    /// Checks a request, and gives it a place and an owner, in one step for all callers.
    fn admit(
        &self,
        request: &CreateSandbox,
        beside: &mut Beside,
        build: Option<&ForBuild>,
        asked_at: Instant,
    ) -> Result<Admission, CreateError> {
        let pool = request.pool.as_ref().map(|name| self.shared.pool_of(name));
        let pool = pool.transpose().map_err(CreateError::Pool)?;
        if pool.is_some() {
            request.validate()?;
        }
        let filled = pool.as_ref().map(|pool| pool.fill(request));
        let request = filled.as_ref().unwrap_or(request);
        let mut record = resolve(&self.shared, request, build)?;
        let mut workspace = Workspace::asked_for(request, beside.archive.take())
            .map_err(|source| CreateError::Workspace { source: Arc::new(source) })?;
        if let Some(workspace) = &workspace {
            record.workspace = Some(workspace.path.clone());
        }
        if let Some(pool) = &pool {
            let given = self.admit_member(pool, &mut record, asked_at, (&mut workspace, beside))?;
            if let Some(admission) = given {
                return Ok(admission);
            }
        }
        let progress = Arc::new(Progress::new(asked_at));
        let (outcome, creation) = watch::channel(Creation::UnderWay);
        let (owner, handle) = Owner::new(self.shared.clone(), record.clone());
        let (handle, waiter) = handle.with_creation(progress.clone(), creation);
        let admitted = {
            let mut directory = self.shared.directory();
            let admitted = directory.admit(record.name.as_ref(), record.id, || handle.clone());
            // In one step with that, so that nobody waits for one that is not made.
            if admitted.is_ok()
                && let Err(refused) = self.shared.volumes.claim(&record)
            {
                directory.forget(record.name.as_ref(), record.id);
                return Err(CreateError::Volume(refused));
            }
            admitted
        };
        match admitted {
            Ok(()) => {
                // Nobody can have cancelled it yet.
                progress.reached(Stage::Accepted).unwrap_or_default();
                let owner = owner.once(beside.once.take());
                self.spawn(owner.run(Begin::Create { progress, outcome, workspace }));
                Ok(Admission::Made(handle, waiter))
            }
            Err(Refusal::NameTaken(holder)) => {
                // It may be asked for again, when that one is given up.
                beside.archive = workspace.and_then(Workspace::into_archive);
                Ok(Admission::Taken(holder))
            }
            Err(Refusal::Closing) => Err(CreateError::ShuttingDown),
            Err(Refusal::Full) => {
                Err(CreateError::Capacity { sandboxes_max: self.shared.config.sandboxes_max })
            }
        }
    }
}

/// Waits until a sandbox is made, if it still is, and gives it as it is then.
async fn wait(handle: &Handle, waiter: Option<Waiter>) -> Result<Sandbox, CreateError> {
    let id = handle.id;
    if let Some(waiter) = waiter {
        waiter.wait().await.map_err(|failure| match failure {
            CreationFailure::Backend(source) => CreateError::Backend { id, source },
            CreationFailure::Workspace(source) => CreateError::Workspace { source },
            CreationFailure::Records(source) => CreateError::Records { id, source },
            CreationFailure::Network(source) => CreateError::Gateway { id, source },
            CreationFailure::Cancelled => CreateError::Cancelled { id },
            CreationFailure::TimedOut(Late { what, limit, time }) => {
                CreateError::TimedOut { id, what, limit, time }
            }
        })?;
    }
    let sandbox = handle.view.borrow().clone();
    if sandbox.state == State::Deleted {
        return Err(CreateError::Cancelled { id });
    }
    Ok(sandbox)
}

/// Checks the patterns by which services say that they are ready.
fn check_services(services: &[Service]) -> Result<(), InvalidRequest> {
    for (index, service) in services.iter().enumerate() {
        let Some(Ready::Log(line)) = &service.ready else { continue };
        if crate::inside::check_pattern(&line.pattern).is_err() {
            let field = format!("services.{index}.ready.log.pattern");
            return Err(InvalidRequest::Malformed { field, reason: "is no regular expression" });
        }
    }
    Ok(())
}

/// Whether its budgets are enforced, and let it begin.
fn check_budgets(
    shared: &Shared,
    request: &CreateSandbox,
    limits: &Limits,
) -> Result<(), CreateError> {
    if let Some(spent) = shared.meter.spent_by(&request.labels) {
        return Err(CreateError::Spent(spent));
    }
    let counts =
        request.budget.memory_mib_seconds.is_some() || shared.meter.counts_memory(&request.labels);
    if counts && limits.memory_bytes.is_none() {
        // Between two looks at it nobody would know how much it has.
        return Err(InvalidRequest::Malformed {
            field: "limits.memory_bytes".to_owned(),
            reason: "is needed where a budget counts memory",
        }
        .into());
    }
    Ok(())
}

/// What it may reach: understood, with all secrets that it names kept here.
fn network(shared: &Shared, request: &CreateSandbox) -> Result<Option<Remembered>, CreateError> {
    let Some(policy) = &request.network else { return Ok(None) };
    let tier = shared.backend.tier();
    let lacks = |capability| CreateError::Unsupported { tier, capability };
    if shared.gateway.is_none() {
        return Err(lacks("network"));
    }
    let understood = network_can_be(shared, policy).map_err(CreateError::Network)?;
    Remembered::new(policy.clone(), &understood).map(Some).map_err(CreateError::Prepare)
}

/// Understands a policy, and looks whether the secrets that it names are kept, and can be used so.
pub(crate) fn network_can_be(
    shared: &Shared,
    policy: &NetworkPolicy,
) -> Result<Network, NetworkError> {
    let understood = crate::network::policy(policy)?;
    let secrets = &shared.oversight.secrets;
    for (index, secret) in policy.secrets.iter().enumerate() {
        let (name, bound) = (secret.name.clone(), understood.secrets());
        let problem = match secrets.get(&stored_name(&name)) {
            Ok(None) => NetworkProblem::NoSecret(name),
            Ok(Some(value)) => {
                let Some(bound) = bound.iter().find(|bound| bound.name == name) else { continue };
                match carried(value.as_bytes(), &bound.form) {
                    Ok(_) => continue,
                    Err(why) => NetworkProblem::Unusable { name, why },
                }
            }
            // What cannot be read is told of when it is used.
            Err(_) => continue,
        };
        return Err(NetworkError { field: format!("network.secrets.{index}.name"), problem });
    }
    Ok(understood)
}

/// The files that a sandbox is to begin with, with what goes along with them.
fn begin_with(
    shared: &Shared,
    request: &CreateSandbox,
    build: Option<&ForBuild>,
) -> Result<Option<Kept>, CreateError> {
    let gone = |id| CreateError::NoSnapshot { id };
    if let Some(id) = build.and_then(|build| build.snapshot) {
        return shared.snapshots.of_any(id).ok_or_else(|| gone(id)).map(Some);
    }
    if let Some(wanted) = &request.template {
        let none = || CreateError::NoTemplate { template: wanted.clone() };
        let version = shared.templates.version(wanted).ok_or_else(none)?;
        let kept = shared.snapshots.of_any(version.snapshot).ok_or_else(none)?;
        return Ok(Some(version.begin(kept)));
    }
    request.snapshot.map(|id| shared.snapshots.get(id).ok_or_else(|| gone(id))).transpose()
}

/// Turns a request into what will be recorded: checked, with defaults, within the caps
/// and within what the tier can do.
pub(super) fn resolve(
    shared: &Shared,
    request: &CreateSandbox,
    build: Option<&ForBuild>,
) -> Result<Record, CreateError> {
    request.validate()?;
    let from = begin_with(shared, request, build)?;
    // What is for a build says all that it has.
    let filled = from.as_ref().filter(|_| build.is_none()).map(|kept| kept.fill(request));
    let request = filled.as_ref().unwrap_or(request);
    let config = &shared.config;
    let limits = config.caps.limits(request.limits, config.defaults.limits)?;
    let lifecycle = config.caps.lifecycle(request.lifecycle, config.defaults.lifecycle)?;
    if lifecycle.archive_after_ms.is_some() && shared.archives.is_none() {
        return Err(CreateError::NoArchives);
    }
    let tier = shared.backend.tier();
    if let Some(capability) = shared.backend.capabilities().lacks(&limits) {
        return Err(CreateError::Unsupported { tier, capability });
    }
    if let Some(capability) = shared.backend.capabilities().lacks_of(&request.budget) {
        return Err(CreateError::Unsupported { tier, capability });
    }
    check_budgets(shared, request, &limits)?;
    check_services(&request.services)?;
    let network = network(shared, request)?;
    if !request.volumes.is_empty() && !shared.backend.capabilities().volumes {
        return Err(CreateError::Unsupported { tier, capability: "volumes" });
    }
    let volumes = shared.volumes.resolve(&request.volumes)?;
    let wants_root = request.services.iter().any(|service| service.user == User::Root);
    if wants_root && !shared.backend.capabilities().user_root {
        return Err(CreateError::Unsupported { tier, capability: "user_root" });
    }
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(CreateError::Random)?;
    let now = shared.clock.now();
    Ok(Record {
        pool: None,
        id: SandboxId::from_random(bytes),
        name: request.name.clone(),
        state: State::Creating,
        cause: None,
        state_since: now,
        stopped_at: None,
        archive: None,
        stale_archive: None,
        image: from.as_ref().map_or_else(|| request.image.clone(), |kept| kept.image.clone()),
        image_pull: request.image_pull,
        layer: from.as_ref().map(|kept| kept.layer),
        snapshot: from.as_ref().filter(|kept| kept.build.is_none()).map(|kept| kept.id),
        template: from.as_ref().and_then(|kept| kept.template.clone()),
        directory: from.as_ref().and_then(|kept| kept.directory.clone()),
        build: build.map(|build| build.id),
        tier,
        env: request.env.clone(),
        limits,
        labels: request.labels.clone(),
        lifecycle,
        budget: request.budget,
        created_at: now,
        lease_from: now,
        timeline: Timeline::default(),
        exposures: Exposures::default(),
        services: request.services.clone(),
        workspace: from.and_then(|kept| kept.workspace),
        exec_ask: request.exec_ask.clone(),
        network,
        volumes,
    })
}
