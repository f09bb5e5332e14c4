//! Who the users of a sandbox are on the host.
//!
//! An ordinary server's sandboxes are all its own user. Root's get a block of ids each
//! that no account has, so that they are strangers to each other and to everybody. Which
//! one is written nowhere but in the owner of the sandbox's home. Layers keep the owners that they
//! were written with, though the block may be another sandbox's one day: nobody reaches them but
//! through mounts that show them as that sandbox's to whom they are shown.

use super::host::Places;
use crate::backend::BackendError;
use atoll_api::id::SandboxId;
use atoll_spawner::order::{self, User};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The user inside, and its group.
pub(super) const UID: u32 = 1000;

/// First ids of the blocks that are given to root's sandboxes: beyond those of accounts
/// and of the ranges that subuid(5) and systemd give out.
const RANGE: Range<u32> = 0x7100_0000..0x7F00_0000;

/// Ids in a block: those of a system's own accounts, of the first user and of nobody.
pub(super) const COUNT: u32 = 1024;

/// The block that files of volumes have: nobody's, and not root's, so that what a sandbox makes of
/// a file has no power on the host.
pub(super) const OF_VOLUMES: u32 = RANGE.end;

/// Nobody inside, the last id of a block outside.
const NOBODY: u32 = 65_534;

/// The ids of a sandbox on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// The user alone, who is the server's own.
    Own { uid: u32, gid: u32 },
    /// The block that begins with this one, for users and groups alike.
    Block(u32),
}

impl Ids {
    /// Those that layers have that no sandbox here has written.
    pub(super) fn of_layers() -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if uid.is_root() {
            return Self::Block(RANGE.start);
        }
        Self::Own { uid: uid.as_raw(), gid: gid.as_raw() }
    }

    /// The owner and the group of what belongs to the user.
    pub(super) fn user(self) -> (u32, u32) {
        match self {
            Self::Own { uid, gid } => (uid, gid),
            Self::Block(first) => (first + UID, first + UID),
        }
    }

    /// The user, as the spawner is told.
    pub(super) fn as_user(self) -> User {
        let (outside_uid, outside_gid) = self.user();
        User { inside_uid: UID, inside_gid: UID, outside_uid, outside_gid }
    }

    /// All others.
    pub(super) fn others(self) -> Vec<order::Ids> {
        let Self::Block(first) = self else { return Vec::new() };
        let (after, last) = (UID + 1, COUNT - 1);
        vec![
            order::Ids { inside: 0, outside: first, count: UID },
            order::Ids { inside: after, outside: first + after, count: last - after },
            order::Ids { inside: NOBODY, outside: first + last, count: 1 },
        ]
    }

    /// The owner and the group of what belongs to root, or to the user where there is none.
    pub(super) fn root(self) -> (u32, u32) {
        self.outside(0, 0)
    }

    /// Who an owner and a group of the image are outside; root for who is not there.
    pub(super) fn outside(self, uid: u32, gid: u32) -> (u32, u32) {
        let Self::Block(first) = self else { return self.user() };
        let of = |id| match id {
            NOBODY => first + COUNT - 1,
            id if id < COUNT - 1 => first + id,
            _ => first,
        };
        (of(uid), of(gid))
    }

    /// Whose home it is.
    pub(super) fn of_home(uid: u32, gid: u32) -> Self {
        let first = uid.checked_sub(UID).filter(|first| RANGE.contains(first));
        match first {
            Some(first) if first % COUNT == 0 && gid == uid => Self::Block(first),
            _ => Self::Own { uid, gid },
        }
    }
}

#[derive(Debug)]
pub(super) struct Identities {
    /// First ids of the blocks that are taken; only root gives any.
    taken: Mutex<BTreeMap<u32, SandboxId>>,
}

impl Identities {
    /// Finds those that sandboxes of an earlier server have.
    pub(super) fn find(places: &Places) -> Result<Self, BackendError> {
        let mut taken = BTreeMap::new();
        for id in places.list()? {
            if let Ok(Ids::Block(first)) = places.top(id).ids() {
                taken.insert(first, id);
            }
        }
        Ok(Self { taken: Mutex::new(taken) })
    }

    /// Takes ids for a new sandbox.
    pub(super) fn take(&self, id: SandboxId, places: &Places) -> Result<Ids, BackendError> {
        if !rustix::process::geteuid().is_root() {
            return places.top(id).ids();
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let first = next(&taken).ok_or_else(|| {
            let source = std::io::Error::other("every id for sandboxes is taken");
            BackendError::Call { step: "find a user for the sandbox", source }
        })?;
        taken.insert(first, id);
        Ok(Ids::Block(first))
    }

    /// Lets others have the ids of a sandbox that is gone.
    pub(super) fn give_back(&self, id: SandboxId) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, owner| *owner != id);
    }
}

/// A block that nobody has, behind the last one: ids that were just given back may still
/// own something.
fn next(taken: &BTreeMap<u32, SandboxId>) -> Option<u32> {
    let of = |range: Range<u32>| range.step_by(COUNT as usize);
    let last = taken.keys().next_back().copied();
    let after = last.map_or(RANGE.start, |first| first + COUNT);
    of(after..RANGE.end).chain(of(RANGE.start..after)).find(|first| !taken.contains_key(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_meet_and_are_known_by_their_user() {
        let mut taken = BTreeMap::new();
        let mut owners = std::collections::BTreeSet::new();
        for number in 0..50 {
            let first = next(&taken).unwrap();
            let ids = Ids::Block(first);
            let (uid, gid) = ids.user();
            assert_eq!(Ids::of_home(uid, gid), ids);
            assert!(owners.insert(uid));
            for range in ids.others() {
                assert!(range.outside >= RANGE.start && range.outside + range.count <= RANGE.end);
                for id in range.outside..range.outside + range.count {
                    assert!(owners.insert(id), "{id} twice");
                }
            }
            taken.insert(first, SandboxId::from_random([number; 10]));
        }
        // What was given back comes last; when all are taken there is none.
        let given_back = *taken.keys().nth(7).unwrap();
        taken.remove(&given_back);
        assert_ne!(next(&taken), Some(given_back));
        taken.insert(RANGE.end - COUNT, SandboxId::from_random([99; 10]));
        assert_eq!(next(&taken), Some(given_back));
    }

    #[test]
    fn other_owners_have_just_themselves() {
        for (uid, gid) in [(0, 0), (1000, 1000), (RANGE.start + 1, 0), (RANGE.start + UID, 0)] {
            let ids = Ids::of_home(uid, gid);
            assert_eq!((ids.user(), ids.others()), ((uid, gid), Vec::new()));
        }
    }
}
