//! The end: a deleted sandbox is removed from the host.
//!
//! Its name is free as soon as it is deleted; its place is free only when nothing
//! is left of it, so that a host that cannot get rid of sandboxes takes no more.

use super::{Command, Owner};
use crate::backend::{BackendError, KILL_WITHIN};
use crate::error::{OperationError, chain};
use crate::records::{Fate, RecordsError};
use crate::state::{Step, Verb};
use crate::told;
use atoll_api::sandbox::{EventKind, State};
use std::pin::pin;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// How long to wait before a removal is tried again: at first, and at most.
const RETRY_AFTER: Duration = Duration::from_secs(30);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// How long who deletes one without volumes waits for killed processes to be gone. Forgetting
/// 50,000 files of an overlay, which is part of the end of the last process that sees it, takes
/// the kernel 0.1 s.
const DELETE_WITHIN: Duration = Duration::from_millis(2);

/// How far it is with taking a deleted sandbox off the host.
#[derive(Debug, Clone, Copy)]
pub(super) enum Removal {
    /// Nothing was tried.
    Due,
    /// Something may be left.
    Failed { retry_after: Duration },
    /// Nothing is left.
    Done,
}

impl Removal {
    fn failed(self) -> Self {
        let retry_after = match self {
            Self::Failed { retry_after } => (2 * retry_after).min(RETRY_AFTER_MAX),
            Self::Due | Self::Done => RETRY_AFTER,
        };
        Self::Failed { retry_after }
    }
}

impl Owner {
    /// Deletes it: on return its name is free and none of its processes runs, unless they could
    /// not be killed, which the removal tries again. The kernel may still be at its files: who
    /// deletes waits for that only if it has volumes, which the next call may be about.
    pub(super) async fn delete(&mut self, reason: &str) -> Result<(), OperationError> {
        let what = EventKind::Deleted { reason: reason.to_owned() };
        let kept_archive = self.record.archive.take_if(|_| self.leaves_archive);
        match self.intend(Step::Delete, what).await {
            // Deleting is what makes room, so it may not need any.
            Ok(()) | Err(RecordsError::Full { .. }) => {}
            Err(source) => {
                self.record.archive = self.record.archive.or(kept_archive);
                return Err(OperationError::Records { id: self.record.id, source });
            }
        }
        if self.record.state != State::Deleted {
            self.enter(Step::Delete, None);
            self.publish();
        }
        self.free_name();
        self.services.let_go();
        self.meter_last().await;
        let within = if self.record.volumes.is_empty() { DELETE_WITHIN } else { KILL_WITHIN };
        if self.call(move |backend, id| backend.kill(id, within)).await.is_ok() {
            // Nothing of it runs ever again.
            self.shared.volumes.forget(self.record.id);
        }
        Ok(())
    }

    /// Deletes it for a reason of its own; there is nobody to refuse to.
    pub(super) async fn leave(&mut self, reason: String) {
        let cause = Some(reason.clone());
        self.settle(Step::Delete, cause, EventKind::Deleted { reason }).await;
        self.free_name();
    }

    /// Removes it from the host, again and again until it worked. What is left when
    /// the server ends is removed by the next one.
    pub(super) async fn remove(mut self) {
        // Its sockets would be served, and its network kept, for as long as the gateway lives.
        self.close_network();
        if let Some(back) = self.unstick()
            && !self.refuse_until(back).await
        {
            return;
        }
        loop {
            match self.removal {
                Removal::Done => break,
                Removal::Due => {}
                Removal::Failed { retry_after } => {
                    if !self.can_retry(retry_after).await {
                        return;
                    }
                }
            }
            self.remove_once().await;
        }
        while let Some(command) = self.deferred.pop_front() {
            self.refuse(command);
        }
    }

    /// Does what a call to make it may wait for that has not come back; the end of that call, if there is one.
    pub(super) fn unstick(&mut self) -> Option<impl Future<Output = ()> + use<>> {
        let stuck = self.stuck.take()?;
        let (backend, id) = (self.shared.backend.clone(), self.record.id);
        drop(spawn_blocking(move || backend.kill(id, KILL_WITHIN)));
        Some(async { drop(stuck.await) })
    }

    /// Leaves nothing of it on the host.
    pub(super) async fn take_off_host(&mut self) -> Result<(), BackendError> {
        let removed = self.call(|backend, id| {
            backend.kill(id, KILL_WITHIN)?;
            backend.remove(id)
        });
        removed.await
    }

    /// Removes it, if the host lets it.
    pub(super) async fn remove_once(&mut self) {
        if let Err(error) = self.take_off_host().await {
            self.removal = self.removal.failed();
            told::host_failed(self.record.id, "remove", &error);
            let what = EventKind::NotRemoved { cause: error.to_string() };
            return self.write(what, Fate::Keep).await.unwrap_or_default();
        }
        if let Err(error) = self.drop_archives().await {
            self.removal = self.removal.failed();
            let what = EventKind::NotRemoved { cause: chain(&error) };
            return self.write(what, Fate::Keep).await.unwrap_or_default();
        }
        self.removal = Removal::Done;
        if self.record.snapshot.is_some() || self.record.stopped_at.is_some() {
            self.shared.snapshots.may_be_garbage();
        }
        self.shared.volumes.forget(self.record.id);
        self.shared.names.gone(self.record.id);
        self.shared.directory().forget(self.record.name.as_ref(), self.record.id);
        // If it cannot be forgotten now, the next start finds nothing to remove and
        // forgets it then.
        self.write(EventKind::Removed, Fate::Forget).await.unwrap_or_default();
    }

    /// Answers commands until it is time; gives false if nobody can send any more.
    async fn can_retry(&mut self, after: Duration) -> bool {
        let clock = self.shared.clock.clone();
        self.refuse_until(clock.wait_until(clock.now().after(after))).await
    }

    /// The same until something is so.
    async fn refuse_until(&mut self, is_so: impl Future<Output = ()>) -> bool {
        let mut is_so = pin!(is_so);
        loop {
            while let Some(command) = self.deferred.pop_front() {
                self.refuse(command);
            }
            tokio::select! {
                () = &mut is_so => return true,
                command = self.mailbox.recv() => match command {
                    Some(command) => self.deferred.push_back(command),
                    None => return false,
                },
            }
        }
    }

    /// Answers for a sandbox that is not there any more.
    fn refuse(&self, command: Command) {
        let gone = OperationError::NotFound { id: self.record.id };
        match command {
            Command::Do { verb: Verb::Delete, reply } | Command::DeleteButArchive { reply } => {
                reply.give(Ok(self.view.borrow().clone()));
            }
            Command::Do { reply, .. }
            | Command::SetLifecycle { reply, .. }
            | Command::SetBudget { reply, .. } => {
                reply.give(Err(gone));
            }
            Command::Hold { reply, .. } => reply.give(Err(gone)),
            Command::StandStill { reply, .. } => reply.give(Err(gone)),
            Command::Meter { reply } => reply.give(Err(gone)),
            Command::Network { reply } => reply.give(Err(gone)),
            Command::SetNetwork { reply, .. } => reply.give(Err(gone)),
            Command::RestartService { reply, .. } => reply.give(Err(gone)),
            Command::Expose { reply, .. } => reply.give(Err(gone)),
            Command::Unexpose { reply, .. } => reply.give(Err(gone)),
            Command::Archive { reply, .. } => reply.give(Err(gone.into())),
            Command::Snapshot { reply, .. } => reply.give(Err(gone.into())),
            Command::Restore { reply, .. } => reply.give(Err(gone.into())),
            Command::Claim(_)
            | Command::Release { .. }
            | Command::Overdrawn
            | Command::SecretsChanged
            | Command::Worked
            | Command::FirstDone { .. } => {}
        }
    }

    fn free_name(&self) {
        self.shared.directory().free_name(self.record.name.as_ref(), self.record.id);
    }
}
