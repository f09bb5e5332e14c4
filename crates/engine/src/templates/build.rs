//! A build, from its request to the version that it makes.

use super::builder::{Builder, Made, of_api, reason};
use super::chain::{self, Key, Work};
use super::{KeptBuild, Live, TemplateError, Templates, Version, copied, state};
use crate::engine::{Engine, network_can_be};
use crate::records::TemplateChange;
use atoll_api::id::{BuildId, ID_BYTES, SnapshotId};
use atoll_api::template::{Build, BuildLog, BuildReason, BuildState, BuildStream, BuildTemplate};
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// What came of a build, before it is written down.
enum Outcome {
    Made(Box<Made>),
    Failed(BuildReason),
    Cancelled,
}

impl Engine {
    /// Takes a build on, which waits until [`Engine::carry_out_build`] is called for it.
    ///
    /// # Errors
    /// See [`TemplateError`].
    pub async fn begin_build(&self, request: BuildTemplate) -> Result<Build, TemplateError> {
        request.validate()?;
        let shared = self.shared();
        let templates = &shared.templates;
        if shared.directory().is_closing() {
            return Err(TemplateError::ShuttingDown);
        }
        if let Some(policy) = &request.network {
            network_can_be(shared, policy)?;
        }
        if let Some(base) = &request.template
            && templates.version(base).is_none()
        {
            return Err(TemplateError::NoBase { template: base.clone() });
        }
        let now = shared.clock.now();
        for (step, files) in copied(&request.steps) {
            if !templates.files.has(files) {
                return Err(TemplateError::NoFiles { files, step });
            }
            templates.files.touch(files, SystemTime::now());
        }
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes).map_err(TemplateError::Random)?;
        let build = KeptBuild::new(BuildId::from_random(bytes), request, now);
        let (id, shown) = (build.shown.id, build.shown.clone());
        let builds_max = templates.limits.builds_max;
        {
            let mut book = templates.book();
            if book.live.len() >= builds_max {
                return Err(TemplateError::TooMany { builds_max });
            }
            let live = Arc::new(Live::new(id, templates.limits.log_bytes_max));
            book.live.insert(id, live);
            book.builds.insert(id, build.clone());
        }
        let change = TemplateChange::Build(Box::new(build));
        if let Err(error) = shared.records.save_templates(vec![change]).await {
            let mut book = templates.book();
            book.live.remove(&id);
            book.builds.remove(&id);
            return Err(TemplateError::Records(error));
        }
        Ok(shown)
    }

    /// Carries a build out, to its end. If `stop` comes before, it fails.
    ///
    /// Dropping this leaves the build as it was, for the next engine to find.
    pub async fn carry_out_build(&self, id: BuildId, stop: impl Future<Output = ()>) {
        let templates = &self.shared().templates;
        let Some(live) = templates.live(id) else { return };
        let mut cancelled = live.cancelled.subscribe();
        let stop = pin!(stop);
        let outcome = tokio::select! {
            biased;
            _ = cancelled.wait_for(|&is_cancelled| is_cancelled) => Outcome::Cancelled,
            () = stop => Outcome::Failed(reason("the server shut down before it was built; build it again")),
            outcome = self.in_its_place(&live) => outcome,
        };
        self.end_build(&live, outcome).await;
    }

    /// Waits for a place, and builds.
    async fn in_its_place(&self, live: &Live) -> Outcome {
        let shared = self.shared();
        let templates = &shared.templates;
        let _place = templates.places.acquire().await;
        let Some(build) = templates.begin(live.id) else { return Outcome::Cancelled };
        let Some(request) = build.request.clone() else { return Outcome::Cancelled };
        let change = TemplateChange::Build(Box::new(build));
        if let Err(error) = shared.records.save_templates(vec![change]).await {
            return Outcome::Failed(of_api(&TemplateError::Records(error).to_api()));
        }
        let time = templates.limits.build_timeout;
        let until = shared.clock.now().after(time);
        let builder = Builder { engine: self, live, request };
        tokio::select! {
            outcome = builder.build() => match outcome {
                Ok(made) => Outcome::Made(Box::new(made)),
                Err(reason) => Outcome::Failed(*reason),
            },
            () = shared.clock.wait_until(until) => {
                Outcome::Failed(reason(format!("it took longer than {} s", time.as_secs())))
            }
        }
    }

    /// Ends a build, with its sandboxes and whatever came of it.
    async fn end_build(&self, live: &Live, outcome: Outcome) {
        let shared = self.shared();
        let templates = &shared.templates;
        let sandboxes = live.has().sandboxes.clone();
        for id in sandboxes {
            // One that is gone needs nothing; what cannot be removed the next start finds.
            self.delete(id).await.map(drop).unwrap_or_default();
        }
        let outcome = match outcome {
            Outcome::Made(made) => match self.publish(live, *made).await {
                Ok(()) => None,
                Err(error) => Some((BuildState::Failed, of_api(&error.to_api()))),
            },
            Outcome::Failed(reason) => Some((BuildState::Failed, reason)),
            Outcome::Cancelled => Some((BuildState::Cancelled, reason("it was cancelled"))),
        };
        if let Some((state, reason)) = outcome {
            self.say(live, reason.step, format!("{}: {}", state.as_str(), reason.message));
            templates.save_log(live).await;
            let mut build = templates.book().builds.get(&live.id).cloned();
            if let Some(build) = &mut build {
                build.end(state, shared.clock.now());
                build.shown.reason = Some(reason);
                let change = TemplateChange::Build(Box::new(build.clone()));
                // What cannot be written the next start finds under way, and says that it failed.
                shared.records.save_templates(vec![change]).await.unwrap_or_default();
                templates.book().builds.insert(live.id, build.clone());
            }
        }
        templates.book().live.remove(&live.id);
        live.ended.send_replace(true);
        templates.may_be_garbage();
    }

    /// Writes the version down that a build made, and the build as ready, in one step.
    async fn publish(&self, live: &Live, made: Made) -> Result<(), TemplateError> {
        let shared = self.shared();
        let templates = &shared.templates;
        let _alone = templates.order.lock().await;
        let now = shared.clock.now();
        let Made { snapshot, image, base, point, request } = made;
        let BuildTemplate { name, steps, start, limits, keep, .. } = *request;
        let (number, old, build) = {
            let book = templates.book();
            let named = book.names.get(&name);
            let number = named.map_or(0, |named| named.last) + 1;
            let keep = keep.map_or(usize::MAX, |keep| usize::try_from(keep).unwrap_or(usize::MAX));
            let versions = named.into_iter().flat_map(|named| named.versions.keys().rev());
            let old: Vec<u32> = versions.skip(keep.saturating_sub(1)).copied().collect();
            (number, old, book.builds.get(&live.id).cloned())
        };
        let mut build = build.ok_or(TemplateError::NoBuild { id: live.id })?;
        build.end(BuildState::Ready, now);
        build.shown.version = Some(number);
        let version = Version {
            name: name.clone(),
            number,
            created_at: now,
            build: live.id,
            snapshot,
            image,
            base,
            steps,
            point,
            start,
            limits,
        };
        self.say(live, None, format!("ready: {}", version.called()));
        templates.save_log(live).await;
        let mut changes = vec![
            TemplateChange::Name(name.clone(), number),
            TemplateChange::Version(Box::new(version.clone())),
            TemplateChange::Build(Box::new(build.clone())),
        ];
        changes.extend(old.iter().map(|old| TemplateChange::ForgetVersion(name.clone(), *old)));
        shared.records.save_templates(changes).await.map_err(TemplateError::Records)?;
        let mut book = templates.book();
        let named = book.names.entry(name).or_default();
        named.last = number;
        named.versions.retain(|number, _| !old.contains(number));
        named.versions.insert(number, version);
        book.builds.insert(live.id, build);
        Ok(())
    }

    /// Has a build end without an outcome, and waits for that.
    ///
    /// # Errors
    /// If there is no such build, or it has ended.
    pub async fn cancel_build(&self, id: BuildId) -> Result<Build, TemplateError> {
        let templates = &self.shared().templates;
        let state = templates.build(id)?.state;
        let live = templates.live(id).ok_or(TemplateError::Ended { id, state })?;
        let mut ended = live.ended.subscribe();
        live.cancelled.send_replace(true);
        drop(live);
        drop(ended.wait_for(|&has_ended| has_ended).await);
        match templates.build(id)? {
            build if build.state == BuildState::Cancelled => Ok(build),
            build => Err(TemplateError::Ended { id, state: build.state }),
        }
    }

    /// A part of a build's log.
    ///
    /// # Errors
    /// If there is no such build.
    pub async fn build_log(&self, id: BuildId, offset: u64) -> Result<BuildLog, TemplateError> {
        // Before the lines: what has ended writes no more.
        let state = self.shared().templates.build(id)?.state;
        let shared = self.shared().clone();
        let read = spawn_blocking(move || shared.templates.lines(id, offset)).await;
        let entries = read.expect("reading a log does not panic");
        let next = entries.last().map_or(offset, |last| last.offset + 1);
        Ok(BuildLog { entries, next, state })
    }

    /// Turns when a build says more, and ends with it; nothing of one that has ended.
    pub fn build_changes(&self, id: BuildId) -> Option<watch::Receiver<u64>> {
        self.shared().templates.changes(id)
    }

    /// Adds a line of the build itself to its log.
    pub(super) fn say(&self, live: &Live, step: Option<u32>, message: String) {
        let now = self.shared().clock.now();
        live.log.write(now, step, BuildStream::Build, message);
    }
}

impl KeptBuild {
    fn end(&mut self, state: BuildState, now: atoll_api::time::Timestamp) {
        self.shown.state = state;
        self.shown.ended_at = Some(now);
        self.shown.sandbox_id = None;
        self.request = None;
    }
}

impl Templates {
    /// Has a build be under way.
    fn begin(&self, id: BuildId) -> Option<KeptBuild> {
        let mut book = self.book();
        let build = book.builds.get_mut(&id)?;
        if !state::may_follow(build.shown.state, BuildState::Building) {
            return None;
        }
        build.shown.state = BuildState::Building;
        Some(build.clone())
    }

    /// Writes what a build has said to the disk. A log that cannot be written is not what a build
    /// fails for.
    pub(super) async fn save_log(&self, live: &Live) {
        let (text, path) = (live.log.text(), self.log_path(live.id));
        let written = spawn_blocking(move || {
            let part = path.with_extension("part");
            std::fs::write(&part, text).and_then(|()| std::fs::rename(part, path))
        });
        if let Ok(Err(error)) = written.await {
            tracing::warn!(build = %live.id, %error, "its log could not be written");
        }
    }

    /// The deepest outcome that is kept of these steps, which stays until the end of the build; with
    /// how many of them need not be done, and what is to be written of its use.
    pub(super) fn deepest(
        &self,
        works: &[Work],
        live: &Live,
        (now, is_there): (atoll_api::time::Timestamp, impl Fn(SnapshotId) -> bool),
    ) -> Option<(usize, SnapshotId, Vec<TemplateChange>)> {
        let mut book = self.book();
        let has = |key: &Key| book.steps.get(key).is_some_and(|step| is_there(step.snapshot));
        let done = chain::cached(works, has);
        let last = works.get(done.checked_sub(1)?)?;
        let mut changes = Vec::new();
        for work in &works[..done] {
            if let Some(step) = book.steps.get_mut(&work.key) {
                step.used_at = now;
                changes.push(TemplateChange::Step(step.clone()));
            }
        }
        let snapshot = book.steps.get(&last.key)?.snapshot;
        live.has().snapshots.push(snapshot);
        Some((done, snapshot, changes))
    }
}
