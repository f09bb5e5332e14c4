//! Members of pools: begun, and given to requests.

use super::create::{Admission, Beside, resolve};
use super::{Engine, Shared};
use crate::backend::Progress;
use crate::directory::Refusal;
use crate::error::{CreateError, PoolError};
use crate::owner::{Begin, Claim, Command, Creation, Owner};
use crate::pools::book::NotGiven;
use crate::pools::{KeptPool, Member, fit};
use crate::records::Record;
use crate::workspace::Workspace;
use atoll_api::pool::{OfPool, WhenExhausted};
use atoll_api::sandbox::{CreateSandbox, Stage};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::watch;

/// What is said of a pool that had no member ready.
const EXHAUSTED: &str = "exhausted";

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

    /// Has a member be what a request wants; nothing if one is to be made from the start, as the record
    /// says then.
    pub(super) fn admit_member(
        &self,
        pool: &KeptPool,
        record: &mut Record,
        asked_at: Instant,
        (workspace, beside): (&mut Option<Workspace>, &mut Beside),
    ) -> Result<Option<Admission>, CreateError> {
        loop {
            let holder = record.name.as_ref();
            let holder = holder.and_then(|name| self.shared.directory().named(name).cloned());
            if let Some(holder) = holder {
                beside.archive = workspace.take().and_then(Workspace::into_archive);
                return Ok(Some(Admission::Taken(holder)));
            }
            let Some(member) = self.shared.take_member(pool, record)? else { return Ok(None) };
            // One that has ended in between makes place for the next.
            let given = self.give(pool, member, record, asked_at, (workspace, beside))?;
            if given.is_some() {
                return Ok(given);
            }
        }
    }

    /// Gives a member to a request; nothing if it has ended.
    fn give(
        &self,
        pool: &KeptPool,
        member: Member,
        wanted: &Record,
        asked_at: Instant,
        (workspace, beside): (&mut Option<Workspace>, &mut Beside),
    ) -> Result<Option<Admission>, CreateError> {
        let record = match self.shared.as_member(&member, wanted) {
            Ok(record) => record,
            Err(error) => {
                member.dismiss();
                return Err(error);
            }
        };
        let progress = Arc::new(Progress::new(asked_at));
        let (outcome, creation) = watch::channel(Creation::UnderWay);
        let Member { handle, record: made_as } = member;
        let (claimed, waiter) = handle.clone().with_creation(progress.clone(), creation);
        let promoted = self.shared.directory().promote(record.name.as_ref(), claimed.clone());
        if let Err(refused) = promoted {
            let member = Member { handle, record: made_as };
            if let Some(member) = self.shared.pools.book().put_back(&pool.name, member) {
                member.dismiss();
            }
            return match refused {
                Refusal::NameTaken(holder) => {
                    beside.archive = workspace.take().and_then(Workspace::into_archive);
                    Ok(Some(Admission::Taken(holder)))
                }
                Refusal::Closing | Refusal::Full => Err(CreateError::ShuttingDown),
            };
        }
        // Nobody can have cancelled it yet.
        progress.reached(Stage::Accepted).unwrap_or_default();
        let (once, brought) = (beside.once.take(), Mutex::new(workspace.take()));
        let (name, id) = (record.name.clone(), record.id);
        let claim = Claim { record, progress, outcome, workspace: brought, once };
        self.shared.pools.changed();
        let sent = handle.mailbox.try_send(Command::Claim(Box::new(claim)));
        let Err(TrySendError::Full(command) | TrySendError::Closed(command)) = sent else {
            return Ok(Some(Admission::Made(claimed, waiter)));
        };
        self.shared.directory().forget(name.as_ref(), id);
        if let Command::Claim(claim) = command {
            let Claim { workspace: brought, once, .. } = *claim;
            *workspace = brought.into_inner().unwrap_or_else(PoisonError::into_inner);
            beside.once = once;
        }
        Ok(None)
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
            Ok(member) => return Ok(Some(member)),
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
    fn as_member(&self, member: &Member, wanted: &Record) -> Result<Record, CreateError> {
        let mut record =
            Record { id: member.record.id, pool: member.record.pool.clone(), ..wanted.clone() };
        if let (Some(had), Some(asked)) = (&member.record.network, &wanted.network) {
            let policy = asked.policy.clone();
            let understood = super::network_can_be(self, &policy).map_err(CreateError::Network)?;
            let changed = had.changed(policy, &understood).map_err(CreateError::Prepare)?;
            record.network = Some(changed);
        }
        Ok(record)
    }
}
