//! Which sandboxes there are, and who has which name.
//!
//! Behind one lock that is held for a look or a change, never across a wait. A
//! sandbox is in here from its admission until nothing is left of it on the host,
//! so that what is admitted and what is there cannot drift apart.

use crate::owner::Handle;
use atoll_api::id::SandboxId;
use atoll_api::name::SandboxName;
use std::collections::{HashMap, HashSet};

/// See the module.
#[derive(Debug)]
pub(crate) struct Directory {
    by_id: HashMap<SandboxId, Handle>,
    by_name: HashMap<SandboxName, SandboxId>,
    /// Members of pools: nobody finds them, and they take places.
    members: HashSet<SandboxId>,
    sandboxes_max: usize,
    is_closing: bool,
}

/// Why a sandbox is not admitted.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The engine shuts down.
    Closing,
    /// There are as many as there may be.
    Full,
    /// Its name belongs to this one.
    NameTaken(Handle),
}

impl Directory {
    pub(crate) fn new(sandboxes_max: usize) -> Self {
        let (by_id, by_name, members) = Default::default();
        Self { by_id, by_name, members, sandboxes_max, is_closing: false }
    }

    /// Admits a new sandbox. Whoever has the name is told before anything else is,
    /// since a caller that wants the name needs no room if there is one.
    pub(crate) fn admit(
        &mut self,
        name: Option<&SandboxName>,
        id: SandboxId,
        make: impl FnOnce() -> Handle,
    ) -> Result<(), Refusal> {
        if self.is_closing {
            return Err(Refusal::Closing);
        }
        if let Some(holder) = name.and_then(|name| self.named(name)) {
            return Err(Refusal::NameTaken(holder.clone()));
        }
        self.check_room()?;
        self.insert(name, id, make());
        Ok(())
    }

    fn check_room(&self) -> Result<(), Refusal> {
        let is_full = self.by_id.len() + self.members.len() >= self.sandboxes_max;
        if is_full { Err(Refusal::Full) } else { Ok(()) }
    }

    /// Gives a place to a member of a pool.
    pub(crate) fn admit_member(&mut self, id: SandboxId) -> Result<(), Refusal> {
        if self.is_closing {
            return Err(Refusal::Closing);
        }
        self.check_room()?;
        self.members.insert(id);
        Ok(())
    }

    /// Has a member be a sandbox like every other one, which has its place already.
    pub(crate) fn promote(
        &mut self,
        name: Option<&SandboxName>,
        handle: Handle,
    ) -> Result<(), Refusal> {
        if self.is_closing {
            return Err(Refusal::Closing);
        }
        if let Some(holder) = name.and_then(|name| self.named(name)) {
            return Err(Refusal::NameTaken(holder.clone()));
        }
        self.members.remove(&handle.id);
        self.insert(name, handle.id, handle);
        Ok(())
    }

    /// Takes that back: it is found by nobody, and has its place until nothing is left of it.
    pub(crate) fn demote(&mut self, name: Option<&SandboxName>, id: SandboxId) {
        self.forget(name, id);
        self.members.insert(id);
    }

    /// Puts in a sandbox that is there already, whatever the limit is now.
    pub(crate) fn insert(&mut self, name: Option<&SandboxName>, id: SandboxId, handle: Handle) {
        self.by_id.insert(id, handle);
        if let Some(name) = name {
            self.by_name.insert(name.clone(), id);
        }
    }

    pub(crate) fn get(&self, id: SandboxId) -> Option<&Handle> {
        self.by_id.get(&id)
    }

    pub(crate) fn named(&self, name: &SandboxName) -> Option<&Handle> {
        self.by_id.get(self.by_name.get(name)?)
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = &Handle> {
        self.by_id.values()
    }

    /// Frees the name of a sandbox that is deleted.
    pub(crate) fn free_name(&mut self, name: Option<&SandboxName>, id: SandboxId) {
        if let Some(name) = name.filter(|name| self.by_name.get(*name) == Some(&id)) {
            self.by_name.remove(name);
        }
    }

    /// Frees the place of a sandbox of which nothing is left.
    pub(crate) fn forget(&mut self, name: Option<&SandboxName>, id: SandboxId) {
        self.free_name(name, id);
        self.by_id.remove(&id);
        self.members.remove(&id);
    }

    /// Admits nothing more, and lets go of every owner: each ends when it has done
    /// what it was asked for.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
        self.by_id.clear();
        self.by_name.clear();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }
}
