//! Who the user of a sandbox is on the host.
//!
//! An ordinary server's sandboxes are all its own user. Root's get an id each that
//! no account has, so that they are strangers to each other and to everybody. Which one
//! is written nowhere but in the owner of the sandbox's home.

use super::host::{Places, call};
use crate::backend::BackendError;
use atoll_api::id::SandboxId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};

/// Ids that are given to root's sandboxes: beyond those of accounts and of the ranges
/// that subuid(5) and systemd give out.
const RANGE: Range<u32> = 0x7100_0000..0x7110_0000;

/// A user and a group of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

#[derive(Debug)]
pub(super) struct Identities {
    /// Taken ids; only root gives any.
    taken: Mutex<BTreeMap<u32, SandboxId>>,
}

impl Identities {
    /// Finds those that sandboxes of an earlier server have.
    pub(super) fn find(places: &Places) -> Result<Self, BackendError> {
        let mut taken = BTreeMap::new();
        for id in places.list()? {
            if let Ok(home) = places.home(id).symlink_metadata() {
                taken.insert(home.uid(), id);
            }
        }
        Ok(Self { taken: Mutex::new(taken) })
    }

    /// Takes ids for a new sandbox.
    pub(super) fn take(&self, id: SandboxId, places: &Places) -> Result<Ids, BackendError> {
        if !rustix::process::geteuid().is_root() {
            return self.of(id, places);
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // Behind the last one: an id that was just given back may still own something.
        let last = taken.keys().copied().filter(|uid| RANGE.contains(uid)).max();
        let next = last.map_or(RANGE.start, |uid| uid + 1);
        let uid = (next..RANGE.end).chain(RANGE.start..next).find(|uid| !taken.contains_key(uid));
        let uid = uid.ok_or_else(|| {
            let source = std::io::Error::other("every id for sandboxes is taken");
            BackendError::Call { step: "find a user for the sandbox", source }
        })?;
        taken.insert(uid, id);
        Ok(Ids { uid, gid: uid })
    }

    /// The ids of a sandbox that is there.
    pub(super) fn of(&self, id: SandboxId, places: &Places) -> Result<Ids, BackendError> {
        let home = places.home(id).symlink_metadata();
        let home = home.map_err(call("look at the sandbox's home"))?;
        Ok(Ids { uid: home.uid(), gid: home.gid() })
    }

    /// Lets others have the ids of a sandbox that is gone.
    pub(super) fn give_back(&self, id: SandboxId) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, owner| *owner != id);
    }
}
