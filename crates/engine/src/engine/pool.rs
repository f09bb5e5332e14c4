//! Members of pools: begun, and given to requests.

use super::create::{Admission, Beside, resolve};
use super::{Engine, Shared};
use crate::backend::Progress;
use crate::directory::Refusal;
use crate::error::{CreateError, PoolError};
use crate::owner::{Begin, Claim, Command, Creation, Owner};
use crate::pools::book::NotGiven;
use crate::pools::{KeptPool, Member, fit};
use crate::records::{Once, Record};
use crate::workspace::Workspace;
use atoll_api::pool::{OfPool, WhenExhausted};
use atoll_api::sandbox::{CreateSandbox, Stage};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// What is said of a pool that had no member ready.
const EXHAUSTED: &str = "exhausted";

/// A creation, as it is told to who waits for it.
pub(super) struct Making {
    pub(super) progress: Arc<Progress>,
    pub(super) outcome: watch::Sender<Creation>,
    pub(super) creation: watch::Receiver<Creation>,
}

impl Engine {
    /// Whether a request could be fulfilled, as far as that can be told without trying.
    pub(crate) fn may_be_asked_for(&self, request: &CreateSandbox) -> Result<(), CreateError> {
        resolve(&self.shared, request, None).map(drop)
    }

    /// What is recorded of the next member of a pool.
    pub(crate) fn member_of(shared: &Shared, pool: &KeptPool) -> Result<Record, CreateError> {
        let record = resolve(shared, &pool.sandbox, None)?;
        Ok(Record { pool: Some(OfPool { name: pool.name.clone(), cold_because: None }), ..record })
    }

    /// Gives a member that is to be made a place, and its owner.
    pub(crate) fn member(
        shared: &Arc<Shared>,
        pool: &KeptPool,
    ) -> Result<(Owner, Begin), CreateError> {
        let record = Self::member_of(shared, pool)?;
        let id = record.id;
        shared.directory().admit_member(id).map_err(|refused| match refused {
            Refusal::Full => CreateError::Capacity { sandboxes_max: shared.config.sandboxes_max },
            Refusal::Closing | Refusal::NameTaken(_) => CreateError::ShuttingDown,
        })?;
        let (owner, handle) = Owner::new(shared.clone(), record);
        Ok((owner, Begin::Member { pool: pool.name.clone(), handle }))
    }

    /// Has a member be what a request wants. One that has ended in between makes place for the next.
    pub(super) fn give(
        &self,
        pool: &KeptPool,
        member: Member,
        mut record: Record,
        making: Making,
        (workspace, beside): (Option<Workspace>, &mut Beside),
    ) -> Result<Admission, CreateError> {
        let Making { progress, outcome, creation } = making;
        let Member { handle, record: made_as } = member;
        record.id = handle.id;
        let (claimed, waiter) = handle.clone().with_creation(progress.clone(), creation);
        let promoted = self.shared.directory().promote(record.name.as_ref(), claimed.clone());
        if let Err(refused) = promoted {
            let member = Member { handle, record: made_as };
            if let Some(member) = self.shared.pools.book().put_back(&pool.name, member) {
                member.dismiss();
            }
            return match refused {
                Refusal::NameTaken(holder) => {
                    beside.archive = workspace.and_then(Workspace::into_archive);
                    Ok(Admission::Taken(holder))
                }
                Refusal::Closing | Refusal::Full => Err(CreateError::ShuttingDown),
            };
        }
        // Nobody can have cancelled it yet.
        progress.reached(Stage::Accepted).unwrap_or_default();
        let once: Option<Once> = beside.once.take();
        let workspace = Mutex::new(workspace);
        let claim = Claim { record, progress, outcome, workspace, once };
        // Where its owner has ended meanwhile, who waits is told that it was cancelled.
        handle.mailbox.try_send(Command::Claim(Box::new(claim))).unwrap_or_default();
        self.shared.pools.changed();
        Ok(Admission::Made(claimed, waiter))
    }
}

impl Shared {
    /// Takes a member for a sandbox that is to be `wanted`; nothing if one is to be made from the start,
    /// as the record says then.
    pub(super) fn take_member(
        &self,
        pool: &KeptPool,
        wanted: &mut Record,
    ) -> Result<Option<Member>, CreateError> {
        let taken = self.pools.book().take(&pool.name, |member| fit(&member.record, wanted));
        let (given, stale) = taken;
        stale.into_iter().for_each(Member::dismiss);
        self.pools.changed();
        let cold_because = match given {
            Ok(member) => {
                self.as_member(&member, wanted)?;
                return Ok(Some(member));
            }
            Err(NotGiven::NoPool) => {
                let name = pool.name.clone();
                return Err(PoolError::NotFound { name }.into());
            }
            Err(NotGiven::Exhausted) if pool.when_exhausted == WhenExhausted::Refuse => {
                let (name, size) = (pool.name.clone(), pool.size);
                return Err(PoolError::Exhausted { name, size }.into());
            }
            Err(NotGiven::Exhausted) => EXHAUSTED,
            Err(NotGiven::Unfit(what)) => what,
        };
        let cold_because = Some(cold_because.to_owned());
        wanted.pool = Some(OfPool { name: pool.name.clone(), cold_because });
        Ok(None)
    }

    /// What is wanted, with what a member has for its whole life.
    fn as_member(&self, member: &Member, wanted: &mut Record) -> Result<(), CreateError> {
        wanted.pool.clone_from(&member.record.pool);
        if let (Some(had), Some(asked)) = (&member.record.network, &wanted.network) {
            let policy = asked.policy.clone();
            let understood = super::network_can_be(self, &policy).map_err(CreateError::Network)?;
            let changed = had.changed(policy, &understood).map_err(CreateError::Prepare)?;
            wanted.network = Some(changed);
        }
        Ok(())
    }
}
