//! Calls on the host, and the end of a sandbox's first process.

use super::{Owner, mailbox::MAILBOX};
use crate::backend::{Alive, Backend, BackendError};
use atoll_api::id::SandboxId;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task;

/// Tells when the first process of a sandbox has ended.
pub(super) struct Exit(Option<AsyncFd<OwnedFd>>);

impl Exit {
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn of(alive: Alive) -> Result<Self, BackendError> {
        #[expect(
            deprecated,
            reason = "unsound for types that change their descriptor, which an OwnedFd never \
                      does; what replaces it is unsafe, and no code here is"
        )]
        let watched = AsyncFd::with_interest(alive.exit, Interest::READABLE);
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
    /// Makes a call on a thread that may block, and meanwhile takes commands in: they
    /// are kept for later, but a deletion cancels a creation at once.
    pub(super) async fn call<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&dyn Backend, SandboxId) -> T + Send + 'static,
    ) -> T {
        let (backend, id) = (Arc::clone(&self.shared.backend), self.record.id);
        let mut work = task::spawn_blocking(move || call(&*backend, id));
        loop {
            tokio::select! {
                done = &mut work => return done.expect("a backend does not panic"),
                Some(command) = self.mailbox.recv(), if self.deferred.len() < MAILBOX => {
                    if let Some(progress) = self.progress.as_ref().filter(|_| command.is_deletion()) {
                        progress.cancel();
                    }
                    self.deferred.push_back(command);
                }
            }
        }
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
