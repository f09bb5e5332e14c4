//! Carrying out what is asked for: an intent, calls on the host, an outcome.

use super::{Creation, CreationFailure, Late, Owner};
use crate::archives::ArchiveError;
use crate::backend::{Alive, BackendError, KILL_WITHIN, Progress};
use crate::error::{OperationError, chain, verb_word};
use crate::lifecycle::{OVERDRAWN, VOLUME_FULL};
use crate::records::{Fate, RecordsError};
use crate::state::{self, Answer, Step, Verb};
use crate::told;
use crate::workspace::Workspace;
use atoll_api::audit::AuditKind;
use atoll_api::sandbox::{EventKind, Stage, State};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task;

impl Owner {
    /// Does what `verb` says, if that makes sense now. `reason` says who wants it.
    pub(super) async fn act(&mut self, verb: Verb, reason: &str) -> Result<(), OperationError> {
        let (id, state) = (self.record.id, self.record.state);
        match state::judge(verb, state) {
            Answer::Already => return Ok(()),
            Answer::Refuse => return Err(OperationError::WrongState { id, verb, state }),
            Answer::Begin(_) => {}
        }
        if let (Verb::Resume, Some(spent)) = (verb, self.shared.meter.spent_of(&self.record)) {
            return Err(OperationError::Spent { id, spent });
        }
        match verb {
            Verb::Pause => self.pause().await,
            Verb::Resume if state == State::Paused => self.thaw().await,
            Verb::Resume => self.start_again().await,
            Verb::Stop => self.stop(reason).await,
            Verb::Kill => self.kill(reason).await,
            Verb::Archive => {
                let archived = self.archive(reason).await;
                archived.map(drop).map_err(|source| self.not_archived(verb, source))
            }
            Verb::Delete if self.is_stranded() => {
                Err(self.not_archived(verb, ArchiveError::NoPlace))
            }
            Verb::Delete => self.delete(reason).await,
        }
    }

    /// Makes the sandbox, or removes what was made of it, and tells who waits.
    pub(super) async fn create(
        &mut self,
        progress: Arc<Progress>,
        creation: &watch::Sender<Creation>,
        workspace: Option<Workspace>,
    ) {
        self.progress = Some(progress.clone());
        let made = self.make(&progress, workspace).await;
        self.conclude(made, creation).await;
    }

    /// The end of a creation: tells who waits, and removes before what was made of one that failed.
    pub(super) async fn conclude(
        &mut self,
        made: Result<(), CreationFailure>,
        creation: &watch::Sender<Creation>,
    ) {
        self.progress = None;
        let outcome = match made {
            Ok(()) => Creation::Done,
            Err(failure) => {
                self.unmake(&failure).await;
                Creation::Failed(failure)
            }
        };
        creation.send_replace(outcome);
    }

    async fn make(
        &mut self,
        progress: &Arc<Progress>,
        workspace: Option<Workspace>,
    ) -> Result<(), CreationFailure> {
        self.announce().await?;
        self.shared.meter.begins(&self.record);
        let alive = self.make_on_host(progress).await?;
        let alive = alive.and_then(|alive| self.lives(alive));
        alive.map_err(|error| match error {
            BackendError::Cancelled => CreationFailure::Cancelled,
            error => {
                told::host_failed(self.record.id, "create", &error);
                CreationFailure::Backend(Arc::new(error))
            }
        })?;
        self.finish(progress, workspace).await
    }

    /// Writes that it is wanted: one that is not there later is removed by the next start.
    pub(super) async fn announce(&mut self) -> Result<(), CreationFailure> {
        self.write(EventKind::Requested, Fate::Keep).await.map_err(unwritten)?;
        self.tell_shared().await;
        Ok(())
    }

    /// Makes all of it whose processes run.
    pub(super) async fn finish(
        &mut self,
        progress: &Arc<Progress>,
        workspace: Option<Workspace>,
    ) -> Result<(), CreationFailure> {
        self.open_network().await.map_err(|error| CreationFailure::Network(Arc::new(error)))?;
        let has_dependencies = workspace.is_some() || !self.record.services.is_empty();
        if let Some(workspace) = workspace {
            let made = self.make_workspace(workspace).await?;
            made.map_err(|error| CreationFailure::Workspace(Arc::new(error)))?;
        }
        if !self.services.are_kept() {
            self.start_services().await?;
        }
        if has_dependencies && self.services.are_ready() {
            progress.reached(Stage::DependenciesReady).unwrap_or_default();
        }
        if progress.is_cancelled() {
            return Err(CreationFailure::Cancelled);
        }
        self.record.timeline = progress.timeline();
        self.activity.runs(self.shared.clock.now(), Some(Duration::ZERO));
        // A creation that is not written down would be removed by the next start.
        self.intend(Step::Runs, EventKind::Started).await.map_err(unwritten)?;
        let (name, image) = (self.record.name.clone(), self.record.image.clone());
        let what = AuditKind::SandboxCreated { name, image };
        self.shared.oversight.tell(Some(self.record.id), what);
        self.once = None;
        Ok(())
    }

    /// Has the host make it and start it, for as long as that may take.
    pub(super) async fn make_on_host(
        &mut self,
        progress: &Arc<Progress>,
    ) -> Result<Result<Alive, BackendError>, CreationFailure> {
        let (spec, reports) = (self.spec().await, progress.clone());
        let (backend, id) = (Arc::clone(&self.shared.backend), self.record.id);
        let shared = self.shared.clone();
        // What it begins with is not collected meanwhile.
        let making = match spec.layer {
            Some(_) => Some(shared.snapshots.layers.read().await),
            None => None,
        };
        let mut work = task::spawn_blocking(move || {
            backend.create(id, &spec, &reports)?;
            backend.start(id, &spec, &reports)
        });
        let (clock, time) = (self.shared.clock.clone(), self.shared.config.create_timeout);
        let late = clock.wait_until(clock.now().after(time));
        let done = self.meanwhile(async {
            tokio::select! {
                done = &mut work => Some(done.expect("a backend does not panic")),
                () = late => None,
            }
        });
        let done = done.await;
        drop(making);
        if let Some(done) = done {
            return Ok(done);
        }
        progress.cancel();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(sandbox = %self.record.id, time_ms, "the host hangs while it is made");
        // What it gives is of no use any more.
        self.stuck = Some(tokio::spawn(async move { drop(work.await) }));
        let what = "its image and its first process";
        Err(CreationFailure::TimedOut(Late { what, limit: "create_timeout_ms", time }))
    }

    async fn unmake(&mut self, failure: &CreationFailure) {
        let reason = match failure {
            CreationFailure::Backend(error) => format!("it could not be made: {error}"),
            CreationFailure::Workspace(error) => {
                format!("its workspace could not be made: {error}")
            }
            CreationFailure::Records(error) => format!("it could not be recorded: {error}"),
            CreationFailure::Network(error) => {
                format!("its network could not be opened: {}", chain(&**error))
            }
            CreationFailure::Cancelled => "its creation was cancelled".to_owned(),
            CreationFailure::TimedOut(late) => format!("{} took too long", late.what),
        };
        self.lives_no_more();
        self.leave(reason).await;
        if self.stuck.is_none() {
            // Tried once before anybody is told, so that a failed creation has left nothing.
            self.remove_once().await;
        }
    }

    async fn pause(&mut self) -> Result<(), OperationError> {
        let id = self.record.id;
        if !self.shared.backend.capabilities().pause {
            let tier = self.record.tier;
            return Err(OperationError::Unsupported { id, tier, capability: "pause" });
        }
        self.intend(Step::Pause, EventKind::Pausing).await.map_err(self.unwritten())?;
        self.expect_silence(true);
        let Err(source) = self.call(|backend, id| backend.freeze(id)).await else {
            self.settle(Step::Frozen, None, EventKind::Paused).await;
            return Ok(());
        };
        // Some of its processes may be frozen.
        let cause = source.to_string();
        match self.call(|backend, id| backend.thaw(id)).await {
            Ok(()) => {
                self.expect_silence(false);
                self.settle(Step::Runs, None, EventKind::Undone { cause }).await;
            }
            Err(BackendError::NotFound { .. }) => self.ended().await,
            Err(_) => self.give_up(cause).await,
        }
        Err(self.failed(Verb::Pause, source))
    }

    async fn thaw(&mut self) -> Result<(), OperationError> {
        self.intend(Step::Resume, EventKind::Resuming).await.map_err(self.unwritten())?;
        match self.call(|backend, id| backend.thaw(id)).await {
            Ok(()) => {
                self.expect_silence(false);
                // An earlier server may have frozen it.
                self.open_network_again().await;
                if !self.services.are_kept() {
                    // An earlier server had frozen it.
                    self.keep_services();
                }
                self.activity.runs(self.shared.clock.now(), None);
                self.settle(Step::Runs, None, EventKind::Started).await;
                Ok(())
            }
            Err(source) => {
                // Some of its processes may run.
                let cause = source.to_string();
                match self.call(|backend, id| backend.freeze(id)).await {
                    Ok(()) => self.settle(Step::Frozen, None, EventKind::Undone { cause }).await,
                    Err(BackendError::NotFound { .. }) => self.ended().await,
                    Err(_) => self.give_up(cause).await,
                }
                Err(self.failed(Verb::Resume, source))
            }
        }
    }

    async fn start_again(&mut self) -> Result<(), OperationError> {
        let id = self.record.id;
        let claimed = self.shared.volumes.claim(&self.record);
        claimed.map_err(|source| OperationError::Volume { id, source })?;
        let intended = self.intend(Step::Resume, EventKind::Resuming).await;
        if intended.is_err() {
            self.shared.volumes.release(id);
        }
        intended.map_err(self.unwritten())?;
        if let Err(error) = self.fetch_back().await {
            self.shared.volumes.release(id);
            return Err(error);
        }
        self.tell_shared().await;
        self.shared.meter.begins(&self.record);
        let (spec, progress) = (self.spec().await, Progress::new(Instant::now()));
        let alive = self.call(move |backend, id| backend.start(id, &spec, &progress)).await;
        match alive.and_then(|alive| self.lives(alive)) {
            Ok(()) => {
                self.open_network_again().await;
                // One whose guest is silent is found out by whoever asks it for something.
                self.start_services().await.unwrap_or_default();
                self.activity.runs(self.shared.clock.now(), Some(Duration::ZERO));
                self.settle(Step::Runs, None, EventKind::Started).await;
                self.chores.due_later(&self.record, &*self.shared.clock);
                Ok(())
            }
            Err(source) => {
                let cause = source.to_string();
                match self.call(|backend, id| backend.kill(id, KILL_WITHIN)).await {
                    Ok(()) => {
                        self.shared.volumes.release(id);
                        self.settle(Step::Ended, None, EventKind::Undone { cause }).await;
                        self.chores.due_later(&self.record, &*self.shared.clock);
                    }
                    Err(_) => self.give_up(cause).await,
                }
                Err(self.failed(Verb::Resume, source))
            }
        }
    }

    /// Tells with whom it shares volumes. What cannot be written, the volume shows all the same.
    async fn tell_shared(&self) {
        for (volume_id, with) in self.shared.volumes.shared_by(self.record.id) {
            let what = EventKind::VolumeShared { volume_id, with };
            self.write(what, Fate::Keep).await.unwrap_or_default();
        }
    }

    async fn stop(&mut self, reason: &str) -> Result<(), OperationError> {
        let was_frozen = self.record.state == State::Paused;
        let what = EventKind::Stopping { reason: reason.to_owned() };
        self.intend(Step::Stop, what).await.map_err(self.unwritten())?;
        self.ask_and_wait(was_frozen).await
    }

    async fn kill(&mut self, reason: &str) -> Result<(), OperationError> {
        let what = EventKind::Stopping { reason: reason.to_owned() };
        self.intend(Step::Stop, what).await.map_err(self.unwritten())?;
        self.end_processes(true).await
    }

    /// Goes on with a stop that another server had begun.
    pub(super) async fn finish_stop(&mut self) {
        if self.record.state == State::Stopping {
            // What came of it is in the state, and an event.
            drop(self.ask_and_wait(true).await);
        }
    }

    /// Asks the processes to end, and kills those that have not when their time is over.
    async fn ask_and_wait(&mut self, may_be_frozen: bool) -> Result<(), OperationError> {
        // What ends now is not to be started again.
        self.services.let_go();
        let asked = self.call(move |backend, id| {
            if may_be_frozen {
                // Frozen processes do not hear.
                backend.thaw(id)?;
            }
            backend.stop(id)
        });
        let has_ended = asked.await.is_ok() && self.ended_in_time().await;
        self.end_processes(!has_ended).await
    }

    /// Makes sure that no process is left, whether the first one has ended or not.
    async fn end_processes(&mut self, forced: bool) -> Result<(), OperationError> {
        self.services.let_go();
        self.meter_last().await;
        match self.call(|backend, id| backend.kill(id, KILL_WITHIN)).await {
            Ok(()) => {
                self.lives_no_more();
                let cause = self.alone.map(|reason| self.why(reason));
                self.shared.volumes.release(self.record.id);
                self.settle(Step::Ended, cause, EventKind::Stopped { forced }).await;
                Ok(())
            }
            Err(source) => {
                self.give_up(format!("its processes could not be killed: {source}")).await;
                Err(self.failed(Verb::Kill, source))
            }
        }
    }

    /// Why it is stopped though nobody asked, in words.
    fn why(&self, reason: &str) -> String {
        if let Some(full) = self.shared.volumes.full(&self.record).filter(|_| reason == VOLUME_FULL)
        {
            return full.to_string();
        }
        let spent = self.shared.meter.spent_of(&self.record).filter(|_| reason == OVERDRAWN);
        spent.map_or_else(
            || format!("nothing worked in it for as long as {reason} says"),
            |spent| spent.to_string(),
        )
    }

    /// Notes that the first process has ended though nobody asked.
    pub(super) async fn ended(&mut self) {
        self.meter_last().await;
        self.lives_no_more();
        if let Err(error) = self.call(|backend, id| backend.kill(id, KILL_WITHIN)).await {
            return self.give_up(format!("its processes could not be killed: {error}")).await;
        }
        self.shared.volumes.release(self.record.id);
        let cause = Some("its first process ended by itself".to_owned());
        self.settle(Step::Ended, cause, EventKind::Stopped { forced: false }).await;
    }

    /// Takes up what was found on the host when the server started.
    pub(super) async fn take_up(&mut self, alive: Option<Alive>) {
        self.chores.due(&self.record, &*self.shared.clock);
        let Some(alive) = alive else { return self.meter_found().await };
        match self.lives(alive) {
            Ok(()) => {
                self.expect_silence(self.record.state == State::Paused);
                if self.record.state == State::Running {
                    self.open_network_again().await;
                    self.keep_services();
                }
            }
            Err(error) => self.give_up(error.to_string()).await,
        }
    }

    /// Looks at what it does: the use of the processor, and what runs in it.
    pub(super) async fn sample(&mut self) {
        if self.record.state != State::Running {
            return;
        }
        let cpu_us = self.measure().await.and_then(|measured| measured.cpu_us);
        let now = self.shared.clock.now();
        match cpu_us.map(Duration::from_micros) {
            Some(cpu) => self.activity.sample(now, cpu),
            None => self.activity.sample_failed(now),
        }
        // A guest that does not tell runs nothing that counts.
        let running = self.running_execs().await.unwrap_or_else(|error| {
            let cause = chain(&error);
            tracing::warn!(sandbox = %self.record.id, cause, "its guest does not tell what runs");
            Vec::new()
        });
        self.activity.running(self.shared.clock.now(), running, &self.record.services);
        self.publish();
    }

    pub(super) async fn give_up(&mut self, cause: String) {
        self.meter_last().await;
        self.lives_no_more();
        self.settle(Step::Broke, Some(cause.clone()), EventKind::Failed { cause }).await;
    }

    fn unwritten(&self) -> impl FnOnce(RecordsError) -> OperationError + use<> {
        let id = self.record.id;
        move |source| OperationError::Records { id, source }
    }

    fn failed(&self, verb: Verb, source: BackendError) -> OperationError {
        told::host_failed(self.record.id, verb_word(verb), &source);
        OperationError::Backend { id: self.record.id, verb, state: self.record.state, source }
    }
}

/// A creation that cannot be written down.
fn unwritten(error: RecordsError) -> CreationFailure {
    CreationFailure::Records(Arc::new(error))
}
