//! A build that is under way: what it is built on, what has to be done, what is kept of it.

use super::chain::{self, Key, Point, Work};
use super::{Cached, Live, TemplateError};
use crate::engine::{Beside, Engine, ForBuild};
use crate::error::{CreateError, SnapshotError};
use crate::owner::Command;
use crate::records::TemplateChange;
use atoll_api::error::ApiError;
use atoll_api::exec::Kept;
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::sandbox::CreateSandbox;
use atoll_api::service::{Service, ServiceState};
use atoll_api::snapshot::CreateSnapshot;
use atoll_api::template::{BuildReason, BuildTemplate, TemplateRef};
use tokio::task::spawn_blocking;

/// What a version is made of.
pub(super) struct Made {
    pub(super) snapshot: SnapshotId,
    pub(super) image: String,
    pub(super) base: Option<TemplateRef>,
    pub(super) point: Point,
    pub(super) request: Box<BuildTemplate>,
}

/// A reason that has to do with no step.
pub(super) fn reason(message: impl Into<String>) -> BuildReason {
    BuildReason { message: message.into(), step: None, exit_code: None, output: None }
}

/// What a caller would have been told, as the reason of a build.
pub(super) fn of_api(error: &ApiError) -> BuildReason {
    reason(format!("{}; {}", error.message, error.next_step))
}

/// Why a build fails.
pub(super) type Fault = Box<BuildReason>;

/// A build that is under way.
pub(super) struct Builder<'a> {
    pub(super) engine: &'a Engine,
    pub(super) live: &'a Live,
    pub(super) request: Box<BuildTemplate>,
}

/// What the steps are done to.
struct Base {
    key: Key,
    point: Point,
    /// One that was just made of it.
    sandbox: Option<SandboxId>,
    snapshot: Option<SnapshotId>,
    image: String,
    template: Option<TemplateRef>,
}

impl Builder<'_> {
    pub(super) async fn build(self) -> Result<Made, Fault> {
        let base = self.base().await?;
        let (works, point) = chain::plan(&base.key, base.point.clone(), &self.request.steps);
        let snapshot = self.done(&base, &works).await?;
        if let Some(start) = &self.request.start {
            let service = start.service(point.user, point.workdir.clone());
            self.try_start(snapshot, service, &point).await?;
        }
        let Base { image, template, .. } = base;
        Ok(Made { snapshot, image, base: template, point, request: self.request })
    }

    /// Does what has to be done, and gives the files at the end.
    async fn done(&self, base: &Base, works: &[Work]) -> Result<SnapshotId, Fault> {
        let shared = self.engine.shared();
        // What is built on an image and does nothing has files too: those of the image.
        let nothing =
            Work { step: 0, what: chain::What::Directory("/".to_owned()), key: base.key.clone() };
        let is_empty = works.is_empty() && base.snapshot.is_none();
        let works = if is_empty { std::slice::from_ref(&nothing) } else { works };
        let found = match self.request.no_cache {
            true => None,
            false => {
                let there = |id| shared.snapshots.of_any(id).is_some();
                let at = (shared.clock.now(), there);
                shared.templates.deepest(works, self.live, at)
            }
        };
        let (count, mut snapshot) = match found {
            Some((count, snapshot, changes)) => {
                // What cannot be written is only forgotten sooner.
                shared.records.save_templates(changes).await.unwrap_or_default();
                (count, Some(snapshot))
            }
            None => (0, base.snapshot),
        };
        let steps_count = u32::try_from(self.request.steps.len()).unwrap_or(u32::MAX);
        let cached = match (works.get(count), count) {
            (_, 0) => 0,
            (Some(next), _) => next.step - 1,
            (None, _) => steps_count,
        };
        shared.templates.show(self.live.id, |shown| shown.steps_cached_count = cached);
        if cached > 0 {
            self.say(None, format!("steps 1 to {cached} were done before"));
        }
        let rest = &works[count..];
        let mut sandbox = base.sandbox;
        if let (Some(made), true) = (sandbox, count > 0) {
            self.remove(made).await;
            sandbox = None;
        }
        for (place, work) in rest.iter().enumerate() {
            let id = match sandbox {
                Some(id) => id,
                None => self.make(snapshot, None).await?,
            };
            sandbox = Some(id);
            if work.step > 0 {
                self.show_step(work);
                self.step(id, work).await.map_err(|fault| {
                    let step = Some(work.step);
                    Box::new(BuildReason { step, ..*fault })
                })?;
            }
            snapshot = Some(self.keep(id, work).await?);
            if place + 1 < rest.len() {
                self.engine.resume(id).await.map_err(|error| Box::new(of_api(&error.to_api())))?;
            }
            shared.templates.save_log(self.live).await;
        }
        if let Some(id) = sandbox {
            self.remove(id).await;
        }
        snapshot.ok_or_else(|| Box::new(reason("there is nothing that it could begin with")))
    }

    fn show_step(&self, work: &Work) {
        let templates = &self.engine.shared().templates;
        templates.show(self.live.id, |shown| shown.step = work.step);
        let count = self.request.steps.len();
        self.say(Some(work.step), format!("step {} of {count}: {}", work.step, work.what));
    }

    pub(super) fn say(&self, step: Option<u32>, message: String) {
        self.engine.say(self.live, step, message);
    }

    /// Looks what it is built on; an image comes here with a sandbox that is made of it.
    async fn base(&self) -> Result<Base, Fault> {
        let shared = self.engine.shared();
        if let Some(wanted) = &self.request.template {
            let gone = || {
                let template = wanted.clone();
                Box::new(of_api(&TemplateError::NoBase { template }.to_api()))
            };
            let version = shared.templates.version(wanted).ok_or_else(gone)?;
            self.live.has().snapshots.push(version.snapshot);
            // It may have been deleted before it was held.
            let kept = shared.snapshots.of_any(version.snapshot).ok_or_else(gone)?;
            self.say(None, format!("built on {}", version.called()));
            return Ok(Base {
                key: Key::of_snapshot(version.snapshot),
                template: Some(version.called()),
                point: version.point,
                sandbox: None,
                snapshot: Some(version.snapshot),
                image: kept.image,
            });
        }
        let image = self.request.image.clone();
        self.say(None, format!("built on {image}"));
        let id = self.make(None, None).await?;
        let (backend, name) = (shared.backend.clone(), image.clone());
        let ground = spawn_blocking(move || backend.ground(id, &name)).await;
        let ground = ground.expect("a backend does not panic").map_err(|error| {
            tracing::error!(build = %self.live.id, %error, "its image cannot be told");
            Box::new(reason("the host cannot tell what its image is"))
        })?;
        let (key, sandbox) = (Key::of_image(&ground), Some(id));
        let (point, snapshot, template) = (Point::default(), None, None);
        Ok(Base { key, point, sandbox, snapshot, image, template })
    }

    /// Makes a sandbox of the image, or of what was done before, that goes with the build.
    async fn make(
        &self,
        snapshot: Option<SnapshotId>,
        runs: Option<(Service, &Point)>,
    ) -> Result<SandboxId, Fault> {
        let is_of_image = snapshot.is_none();
        let (services, env) =
            runs.map(|(service, point)| (vec![service], point.env.clone())).unzip();
        let request = CreateSandbox {
            image: match is_of_image {
                true => self.request.image.clone(),
                false => CreateSandbox::default().image,
            },
            image_pull: self.request.image_pull,
            limits: self.request.limits,
            network: self.request.network.clone(),
            services: services.unwrap_or_default(),
            env: env.unwrap_or_default(),
            ..CreateSandbox::default()
        };
        let build = Some(ForBuild { id: self.live.id, snapshot });
        let made = self.engine.create_for(request, Beside::default(), build).await;
        let failed = |error: CreateError| Box::new(of_api(&error.to_api()));
        let id = made.map_err(failed)?.id;
        self.live.has().sandboxes.push(id);
        self.engine.shared().templates.show(self.live.id, |shown| shown.sandbox_id = Some(id));
        Ok(id)
    }

    /// Removes a sandbox that is needed no longer; its files are removed afterwards.
    async fn remove(&self, id: SandboxId) {
        // The end of the build tries it once more.
        self.engine.delete(id).await.map(drop).unwrap_or_default();
        self.engine.shared().templates.show(self.live.id, |shown| shown.sandbox_id = None);
    }

    /// Sets aside what came of a step, for this build and later ones.
    async fn keep(&self, id: SandboxId, work: &Work) -> Result<SnapshotId, Fault> {
        let shared = self.engine.shared();
        // What is stopped can be set aside everywhere, at once, and nothing is half written.
        self.engine.stop(id).await.map_err(|error| Box::new(of_api(&error.to_api())))?;
        let (request, build) = (CreateSnapshot::default(), Some(self.live.id));
        let taken = self.engine.ask(id, |reply| Command::Snapshot { request, build, reply }).await;
        let taken: Result<_, SnapshotError> = taken;
        let snapshot = taken.map_err(|error| Box::new(of_api(&error.to_api())))?.id;
        let cached = Cached { key: work.key.clone(), snapshot, used_at: shared.clock.now() };
        let written = shared.records.save_templates(vec![TemplateChange::Step(cached.clone())]);
        let failed = |error| Box::new(of_api(&TemplateError::Records(error).to_api()));
        written.await.map_err(failed)?;
        shared.templates.book().steps.insert(cached.key.clone(), cached);
        Ok(snapshot)
    }

    /// Starts what is to run in sandboxes of it once, to see whether it becomes ready.
    async fn try_start(
        &self,
        snapshot: SnapshotId,
        service: Service,
        point: &Point,
    ) -> Result<(), Fault> {
        self.say(None, format!("start: {}", service.shell.as_deref().unwrap_or_default()));
        let has_check = service.ready.is_some();
        let id = self.make(Some(snapshot), Some((service, point))).await?;
        let services = self.engine.services(id);
        let services = services.map_err(|error| Box::new(of_api(&error.to_api())))?;
        for status in services {
            let printed = match status.exec_id {
                Some(exec) => self.printed(id, exec).await,
                None => String::new(),
            };
            let is_over = status.state == ServiceState::Stopped && !has_check;
            if status.state == ServiceState::Ready || is_over {
                continue;
            }
            let cause = status.cause.unwrap_or_else(|| "it is not ready".to_owned());
            let message = format!("the start command is not ready: {cause}");
            return Err(Box::new(BuildReason { output: Some(printed), ..reason(message) }));
        }
        self.say(None, "the start command is ready".to_owned());
        self.remove(id).await;
        Ok(())
    }
}

/// The last of what was printed, as text.
pub(super) fn tail(kept: &Kept) -> String {
    let last = kept.tail.as_ref().unwrap_or(&kept.head);
    String::from_utf8_lossy(last.as_bytes()).into_owned()
}
