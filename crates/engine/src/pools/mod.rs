//! Pools: members that are started before anybody asks for them.
//!
//! A member is a creation that has stopped halfway: its processes run and its services are ready, but it
//! has no name, no network, and no record. So nobody finds it, and a server that dies leaves nothing
//! but what the next one removes, as everything that it does not know. Who is given a member carries
//! the creation on, as the request says; from then on it is a sandbox like every other one.

pub mod book;
mod fit;
mod keeper;
mod kept;

pub(crate) use fit::fit;
pub(crate) use keeper::keep;
pub use kept::KeptPool;

use crate::engine::{Engine, Shared};
use crate::error::PoolError;
use crate::owner::{Command, Handle, Reply};
use crate::records::{PoolChange, Record};
use crate::state::Verb;
use atoll_api::audit::AuditKind;
use atoll_api::id::SandboxId;
use atoll_api::name::SandboxName;
use atoll_api::pool::{CreatePool, Pool, SetPool};
use atoll_api::time::Timestamp;
use book::Book;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// Most pools of a server.
pub const POOLS_MAX: usize = 1000;

/// One that waits to be given to a request.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) handle: Handle,
    /// What it was made as.
    pub(crate) record: Record,
}

impl Member {
    /// Has it removed. Nobody waits for that.
    pub(crate) fn dismiss(self) {
        let reply = Reply(oneshot::channel().0);
        let delete = Command::Do { verb: Verb::Delete, reply };
        self.handle.mailbox.try_send(delete).unwrap_or_default();
    }
}

/// All pools.
#[derive(Debug)]
pub(crate) struct Pools {
    book: Mutex<Book<Member>>,
    changed: Notify,
    /// Held by who changes which there are.
    changing: tokio::sync::Mutex<()>,
}

impl Pools {
    pub(crate) fn new(kept: Vec<KeptPool>, now: Timestamp) -> Self {
        let mut book = Book::default();
        for kept in kept {
            book.keep(kept, now);
        }
        let (changed, changing) = (Notify::new(), tokio::sync::Mutex::default());
        Self { book: Mutex::new(book), changed, changing }
    }

    /// For a look or a change, and never across a wait.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book<Member>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Members may be missing.
    pub(crate) fn changed(&self) {
        self.changed.notify_one();
    }

    /// A member has ended by itself.
    pub(crate) fn lost(&self, name: &SandboxName, id: SandboxId) {
        let is_it = |member: &Member| member.record.id == id;
        drop(self.book().drain(name, is_it));
        self.changed();
    }

    /// Lets go of all members: each ends by itself then.
    pub(crate) fn close(&self) {
        drop(self.book().close());
    }
}

impl Engine {
    /// Makes a pool, as `by`; its members are made afterwards.
    ///
    /// # Errors
    /// See [`PoolError`]; a request that could not be fulfilled for a sandbox cannot for a pool.
    pub async fn create_pool(&self, request: CreatePool, by: String) -> Result<Pool, PoolError> {
        request.validate()?;
        self.may_be_asked_for(&request.sandbox)
            .map_err(|error| PoolError::Members(Box::new(error)))?;
        let CreatePool { name, size, refill_ms, when_exhausted, sandbox } = request;
        let shared = self.shared();
        let created_at = shared.clock.now();
        let kept =
            KeptPool { name: name.clone(), created_at, size, refill_ms, when_exhausted, sandbox };
        let _alone = shared.pools.changing.lock().await;
        {
            let book = shared.pools.book();
            if book.has(&name) {
                return Err(PoolError::NameTaken { name });
            }
            if book.count() >= POOLS_MAX {
                return Err(PoolError::TooMany);
            }
        }
        let change = PoolChange::Keep(Box::new(kept.clone()));
        shared.records.save_pools(vec![change]).await.map_err(PoolError::Records)?;
        shared.pools.book().keep(kept, created_at);
        shared.pools.changed();
        shared.oversight.tell(None, AuditKind::PoolCreated { name: name.to_string(), by });
        self.get_pool(&name)
    }

    /// Gives one pool.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn get_pool(&self, name: &SandboxName) -> Result<Pool, PoolError> {
        let view = self.shared().pools.book().view(name);
        view.ok_or_else(|| PoolError::NotFound { name: name.clone() })
    }

    /// All pools, by name.
    pub fn pools(&self) -> Vec<Pool> {
        self.shared().pools.book().views()
    }

    /// Gives a pool another size. Members beyond it go at once.
    ///
    /// # Errors
    /// If there is none of that name, or it cannot be written: it is as it was then.
    pub async fn set_pool(&self, name: &SandboxName, set: SetPool) -> Result<Pool, PoolError> {
        set.validate()?;
        let shared = self.shared();
        let _alone = shared.pools.changing.lock().await;
        let kept = shared.pools.book().kept(name).cloned();
        let mut kept = kept.ok_or_else(|| PoolError::NotFound { name: name.clone() })?;
        kept.size = set.size;
        let change = PoolChange::Keep(Box::new(kept));
        shared.records.save_pools(vec![change]).await.map_err(PoolError::Records)?;
        let beyond = shared.pools.book().set_size(name, set.size);
        beyond.into_iter().for_each(Member::dismiss);
        shared.pools.changed();
        self.get_pool(name)
    }

    /// Deletes a pool, as `by`, and has its members removed; what was given of it stays.
    ///
    /// # Errors
    /// If there is none of that name, or it cannot be written: it is as it was then.
    pub async fn delete_pool(&self, name: &SandboxName, by: String) -> Result<(), PoolError> {
        let shared = self.shared();
        let _alone = shared.pools.changing.lock().await;
        if !shared.pools.book().has(name) {
            return Err(PoolError::NotFound { name: name.clone() });
        }
        let change = PoolChange::Forget(name.clone());
        shared.records.save_pools(vec![change]).await.map_err(PoolError::Records)?;
        let members = shared.pools.book().forget(name).unwrap_or_default();
        members.into_iter().for_each(Member::dismiss);
        shared.oversight.tell(None, AuditKind::PoolDeleted { name: name.to_string(), by });
        Ok(())
    }
}

impl Shared {
    /// What a request has of the pool that it names.
    pub(crate) fn pool_of(&self, name: &SandboxName) -> Result<KeptPool, PoolError> {
        let kept = self.pools.book().kept(name).cloned();
        kept.ok_or_else(|| PoolError::NotFound { name: name.clone() })
    }
}
