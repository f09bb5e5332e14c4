//! Calls on the host and questions to the guest, and the end of a sandbox's first process.

use super::{CreationFailure, Late, Owner, mailbox::MAILBOX};
use crate::backend::{Alive, Backend, BackendError};
use crate::error::OperationError;
use crate::guest::{Guest, GuestError};
use crate::inside::{Inside, InsideError};
use crate::lifecycle::RunningExec;
use crate::workspace::Workspace;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::State;
use atoll_api::service::{READY_TIMEOUT_MS_DEFAULT, Service};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task;
use tokio::time::timeout;

/// How long a guest may take to say what runs in it.
const TELL_WITHIN: Duration = Duration::from_secs(2);

/// Tells when the first process of a sandbox has ended.
pub(super) struct Exit(Option<AsyncFd<OwnedFd>>);

impl Exit {
    pub(super) fn none() -> Self {
        Self(None)
    }

    fn of(process: OwnedFd) -> Result<Self, BackendError> {
        #[expect(
            deprecated,
            reason = "unsound for types that change their descriptor, which an OwnedFd never \
                      does; what replaces it is unsafe, and no code here is"
        )]
        let watched = AsyncFd::with_interest(process, Interest::READABLE);
        let watched = watched
            .map_err(|source| BackendError::Call { step: "watch the first process", source })?;
        Ok(Self(Some(watched)))
    }

    /// Waits for the end; for ever if there is no process. Dropping it loses nothing.
    pub(super) async fn wait(&self) {
        if let Some(watched) = &self.0 {
            // The descriptor stays readable; an error means that the runtime ends.
            drop(watched.readable().await);
        } else {
            std::future::pending().await
        }
    }
}

impl Owner {
    /// Notes that there are processes, which are metered from now on.
    pub(super) fn lives(&mut self, alive: Alive) -> Result<(), BackendError> {
        self.begins_to_live(alive)?;
        self.meter_begins();
        Ok(())
    }

    /// The same of one whose use is nobody's yet.
    pub(super) fn begins_to_live(&mut self, alive: Alive) -> Result<(), BackendError> {
        self.exit = Exit::of(alive.exit)?;
        self.guest.send_replace(Some(Guest::new(alive.guest)));
        Ok(())
    }

    /// Notes that there are none any more.
    pub(super) fn lives_no_more(&mut self) {
        self.exit = Exit::none();
        self.guest.send_replace(None);
        self.services.let_go();
        self.close_network();
    }

    /// Says whether the guest is frozen, so that its silence is no loss, or runs.
    pub(super) fn expect_silence(&self, is_frozen: bool) {
        if let Some(guest) = &*self.guest.borrow() {
            if is_frozen {
                guest.expect_silence();
            } else {
                guest.expect_heartbeats();
            }
        }
    }

    /// Makes a call on a thread that may block, and meanwhile takes commands in: they
    /// are kept for later, but a deletion cancels a creation at once.
    pub(super) async fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&dyn Backend, SandboxId) -> T + Send + 'static,
    ) -> T {
        let (backend, id) = (Arc::clone(&self.shared.backend), self.record.id);
        let work = task::spawn_blocking(move || call(&*backend, id));
        self.meanwhile(work).await.expect("a backend does not panic")
    }

    /// Has its services kept running from now on.
    pub(super) fn keep_services(&mut self) {
        if let Some(inside) = self.inside() {
            self.services.keep(&inside);
        }
    }

    /// What is inside, while there are processes.
    fn inside(&self) -> Option<Inside> {
        let guest = self.guest.borrow().clone()?;
        let hold_max = self.shared.config.hold_max;
        let oversight = self.shared.oversight.clone();
        Some(Inside::of_owner(self.record.id, guest, self.view.subscribe(), hold_max, oversight))
    }

    /// Starts its services, and waits until each is ready or will not be soon. Who wants the
    /// sandbox ended, or gives its creation up, does not wait for that.
    pub(super) async fn start_services(&mut self) -> Result<(), CreationFailure> {
        if self.record.services.is_empty() {
            return Ok(());
        }
        self.keep_services();
        let settled = self.services.settled();
        let ready_ms =
            |service: &Service| service.ready_timeout_ms.unwrap_or(READY_TIMEOUT_MS_DEFAULT);
        let longest_ms = self.record.services.iter().map(ready_ms).max().unwrap_or_default();
        // Each says by itself when it is late, unless its guest says nothing at all.
        let time = self.shared.config.create_timeout + Duration::from_millis(longest_ms);
        let (what, limit) = ("starting its services", "create_timeout_ms");
        let late = Late { what, limit, time };
        // Who wants it ended finds it running, and ends it.
        self.while_wanted(settled, late).await.map(drop).map_err(CreationFailure::TimedOut)
    }

    /// Makes the workspace of a sandbox that is being made.
    pub(super) async fn make_workspace(
        &mut self,
        workspace: Workspace,
    ) -> Result<Result<(), InsideError>, CreationFailure> {
        let inside = self.inside().ok_or(CreationFailure::Cancelled)?;
        let time = self.shared.config.workspace_timeout;
        let late = Late { what: "its workspace", limit: "workspace_timeout_ms", time };
        let made = self.while_wanted(workspace.make(inside), late).await;
        // Half a workspace is none.
        made.map_err(CreationFailure::TimedOut)?.ok_or(CreationFailure::Cancelled)
    }

    pub(super) fn restart_service(&self, name: String) -> Result<(), OperationError> {
        let (id, state) = (self.record.id, self.record.state);
        if !self.record.services.iter().any(|service| service.name == name) {
            return Err(OperationError::NoService { id, name });
        }
        if state != State::Running || !self.services.restart(&name) {
            return Err(OperationError::NotRunning { id, state });
        }
        Ok(())
    }

    /// The execs that run now, as the guest tells.
    pub(super) async fn running_execs(&mut self) -> Result<Vec<RunningExec>, GuestError> {
        let Some(guest) = self.guest.borrow().clone() else { return Ok(Vec::new()) };
        let told = async move { timeout(TELL_WITHIN, guest.execs()).await };
        let Ok(told) = self.meanwhile(told).await else {
            tracing::warn!(sandbox = %self.record.id, "its guest is silent");
            return Ok(Vec::new());
        };
        let running = told?.into_iter().filter(|exec| exec.ended.is_none());
        Ok(running
            .filter_map(|exec| {
                Some(RunningExec {
                    id: exec.id.parse().ok()?,
                    age: Duration::from_millis(exec.age_ms),
                })
            })
            .collect())
    }

    /// Waits for `work`, and meanwhile takes commands in.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(command) = self.mailbox.recv(), if self.deferred.len() < MAILBOX => {
                    self.defer(command);
                }
            }
        }
    }

    /// The same for a limited time; nothing if somebody wants the sandbox ended meanwhile, or
    /// its creation is given up.
    async fn while_wanted<T>(
        &mut self,
        work: impl Future<Output = T>,
        late: Late,
    ) -> Result<Option<T>, Late> {
        let clock = self.shared.clock.clone();
        let mut time_over = clock.wait_until(clock.now().after(late.time));
        let progress = self.progress.clone();
        let given_up = async move {
            match progress {
                Some(progress) => progress.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let (mut work, mut given_up) = (pin!(work), pin!(given_up));
        while !self.deferred.iter().any(super::Command::is_forceful) {
            tokio::select! {
                done = &mut work => return Ok(Some(done)),
                () = &mut given_up => break,
                () = &mut time_over => return Err(late),
                Some(command) = self.mailbox.recv(), if self.deferred.len() < MAILBOX => {
                    self.defer(command);
                }
            }
        }
        Ok(None)
    }

    fn defer(&mut self, command: super::Command) {
        if let Some(progress) = self.progress.as_ref().filter(|_| command.is_deletion()) {
            progress.cancel();
        }
        if let Some(archiving) = self.archiving.as_ref()
            && (command.is_forceful() || command.is_resumption())
        {
            archiving.cancel();
        }
        self.deferred.push_back(command);
    }

    /// Waits for the processes to end by themselves, for as long as they have: until the
    /// grace is over, or somebody wants them killed. Gives whether they did end.
    pub(super) async fn ended_in_time(&mut self) -> bool {
        let clock = self.shared.clock.clone();
        let mut grace = clock.wait_until(clock.now().after(self.shared.config.stop_grace));
        loop {
            if self.deferred.iter().any(super::Command::is_forceful) {
                return false;
            }
            tokio::select! {
                biased;
                () = self.exit.wait() => return true,
                () = &mut grace => return false,
                Some(command) = self.mailbox.recv(), if self.deferred.len() < MAILBOX => {
                    self.deferred.push_back(command);
                }
            }
        }
    }
}
