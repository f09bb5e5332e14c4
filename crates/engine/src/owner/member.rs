//! A member of a pool: a creation that stops halfway, and is carried on by who is given it.

use super::mailbox::{Claim, Command, CreationFailure};
use super::{Handle, Owner, RETRY_AFTER};
use crate::backend::{BackendError, Progress};
use crate::error::chain;
use crate::pools::Member;
use crate::told;
use crate::workspace::Workspace;
use atoll_api::name::SandboxName;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

impl Owner {
    /// Makes a member and waits until it is given to somebody; says whether it was. If not, nothing is
    /// left of it.
    pub(super) async fn be_member(&mut self, pool: &SandboxName, handle: Handle) -> bool {
        let progress = Arc::new(Progress::new(Instant::now()));
        self.progress = Some(progress.clone());
        let made = self.make_member(&progress).await;
        self.progress = None;
        let now = self.shared.clock.now();
        if let Err(error) = made {
            told::host_failed(self.record.id, "make a member of a pool", &error);
            // Otherwise the way to it would be kept by itself.
            drop(handle);
            self.shared.pools.book().failed(pool, now, chain(&error));
            self.shared.pools.changed();
            self.dismiss().await;
            return false;
        }
        let member = Member { handle, record: self.record.clone() };
        let unwanted = self.shared.pools.book().made(pool, member);
        self.shared.pools.changed();
        drop(unwanted);
        let claim = self.await_claim().await;
        let Some(claim) = claim else {
            self.shared.pools.lost(pool, self.record.id);
            self.dismiss().await;
            return false;
        };
        self.hand_over(claim).await;
        true
    }

    async fn make_member(&mut self, progress: &Arc<Progress>) -> Result<(), BackendError> {
        let failed = |failure| match failure {
            CreationFailure::TimedOut(late) => {
                BackendError::Call { step: late.what, source: std::io::ErrorKind::TimedOut.into() }
            }
            _ => BackendError::Cancelled,
        };
        let alive = self.make_on_host(progress).await.map_err(failed)??;
        self.begins_to_live(alive)?;
        // One that does not get ready is no reason to have no member: its keeper goes on with it.
        self.start_services().await.map_err(failed)
    }

    /// Waits until somebody is given it; nothing if it is not wanted any more, or has ended.
    async fn await_claim(&mut self) -> Option<Box<Claim>> {
        loop {
            let command = match self.deferred.pop_front() {
                Some(command) => command,
                None => tokio::select! {
                    command = self.mailbox.recv() => command?,
                    () = self.exit.wait() => return None,
                },
            };
            match command {
                Command::Claim(claim) => return Some(claim),
                command if command.is_deletion() => return None,
                // Nobody knows it who could ask for more.
                _ => {}
            }
        }
    }

    /// Becomes what is wanted, and tells who waits.
    async fn hand_over(&mut self, claim: Box<Claim>) {
        let Claim { record, progress, outcome, workspace, once } = *claim;
        let env = Some(record.bound()).filter(|env| *env != self.record.bound());
        let workspace = workspace.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.record = record;
        self.once = once;
        self.publish();
        self.progress = Some(progress.clone());
        let made = self.carry_on(&progress, env, workspace).await;
        self.conclude(made, &outcome).await;
    }

    async fn carry_on(
        &mut self,
        progress: &Arc<Progress>,
        env: Option<Vec<(String, String)>>,
        workspace: Option<Workspace>,
    ) -> Result<(), CreationFailure> {
        self.announce().await?;
        // What it used while it waited is nobody's.
        let until_now = self.call(|backend, id| backend.measure(id)).await.unwrap_or_default();
        self.shared.meter.takes_over(&self.record, until_now);
        self.meter_begins();
        if let Some(env) = env {
            self.bind(env).await?;
        }
        self.finish(progress, workspace).await
    }

    /// Has its commands begin with these variables.
    async fn bind(&mut self, env: Vec<(String, String)>) -> Result<(), CreationFailure> {
        let guest = self.guest.borrow().clone();
        let Some(guest) = guest else { return Err(CreationFailure::Cancelled) };
        let bound = self.meanwhile(async move { guest.bind(env).await }).await;
        bound.map_err(|error| {
            let source = std::io::Error::other(chain(&error));
            let error = BackendError::Call { step: "set the variables of a member", source };
            told::host_failed(self.record.id, "bind", &error);
            CreationFailure::Backend(Arc::new(error))
        })
    }

    /// Removes what there is of it, of which nobody knows.
    async fn dismiss(&mut self) {
        // Nobody is given it from here on. Who was in the last moment is told that there is none.
        self.mailbox.close();
        while let Ok(command) = self.mailbox.try_recv() {
            if let Command::Claim(claim) = command {
                self.shared.directory().demote(claim.record.name.as_ref(), self.record.id);
            }
        }
        self.lives_no_more();
        if let Some(stuck) = self.unstick() {
            stuck.await;
        }
        let mut closing = self.shared.closing();
        while let Err(error) = self.take_off_host().await {
            told::host_failed(self.record.id, "remove a member of a pool", &error);
            let clock = self.shared.clock.clone();
            let again = clock.wait_until(clock.now().after(RETRY_AFTER));
            tokio::select! {
                () = again => {}
                // The next server removes what it does not know.
                _ = closing.wait_for(|&is_closing| is_closing) => break,
            }
        }
        self.shared.directory().forget(None, self.record.id);
        self.shared.pools.changed();
    }
}
