//! Who has which volume: a pure state machine.
//!
//! ```text
//!               claim              release
//!   (nothing) ────────► it may run ────────► it is stopped ───┐
//!       ▲                    │  ▲                │  claim     │
//!       └────────────────────┴──┼────────────────┘            │
//!               forget          └─────────────────────────────┘
//! ```
//!
//! While a sandbox may run, what it has keeps others from what does not go together with that
//! ([`VolumeAccess::goes_with`]). While it is there at all, its volumes are not deleted.

use super::{Full, KeptVolume, Mount, VOLUMES_MAX};
use crate::error::VolumeError;
use atoll_api::id::{SandboxId, VolumeId};
use atoll_api::name::SandboxName;
use atoll_api::volume::{
    ListVolumes, Volume, VolumeAccess, VolumeLimit, VolumeLimitBy, VolumeName, VolumePage,
    VolumeRef, VolumeUse,
};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default)]
pub struct Book {
    volumes: BTreeMap<VolumeId, Entry>,
    names: BTreeMap<VolumeName, VolumeId>,
}

#[derive(Debug)]
struct Entry {
    kept: KeptVolume,
    /// It is being made or deleted, so that its name is taken and nobody gets it.
    is_hidden: bool,
    /// So many read it as a whole, so that nobody begins to write.
    readers: usize,
    /// What its files took when they were measured last, in bytes.
    used_bytes: Option<u64>,
    uses: BTreeMap<SandboxId, Use>,
}

#[derive(Debug)]
struct Use {
    sandbox_name: Option<SandboxName>,
    path: String,
    access: VolumeAccess,
    is_held: bool,
}

impl Use {
    /// It may run, and write.
    fn writes_now(&self) -> bool {
        self.is_held && self.access.writes()
    }
}

impl Book {
    /// One with these volumes, which no sandbox has.
    pub fn new(kept: Vec<KeptVolume>) -> Self {
        let mut book = Self::default();
        for kept in kept {
            book.insert(kept, false);
        }
        book
    }

    fn insert(&mut self, kept: KeptVolume, is_hidden: bool) {
        self.names.insert(kept.name.clone(), kept.id);
        let entry = Entry { is_hidden, readers: 0, used_bytes: None, uses: BTreeMap::new(), kept };
        self.volumes.insert(entry.kept.id, entry);
    }

    /// Takes the name of one that is about to be made.
    ///
    /// # Errors
    /// [`VolumeError::NameTaken`], [`VolumeError::TooMany`].
    pub fn begin(&mut self, kept: KeptVolume) -> Result<(), VolumeError> {
        if let Some(holder) = self.names.get(&kept.name) {
            return Err(VolumeError::NameTaken { name: kept.name, holder: *holder });
        }
        if self.volumes.len() >= VOLUMES_MAX {
            return Err(VolumeError::TooMany);
        }
        self.insert(kept, true);
        Ok(())
    }

    /// It is made, as this, and takes so much.
    pub fn finish(&mut self, kept: KeptVolume, used_bytes: Option<u64>) -> Option<Volume> {
        let entry = self.volumes.get_mut(&kept.id)?;
        entry.used_bytes = used_bytes;
        entry.kept = kept;
        entry.is_hidden = false;
        Some(entry.view())
    }

    /// Lets nobody begin to write to one, and gives the sandboxes that do and may run; nothing if it
    /// is not there.
    pub fn be_quiet(&mut self, id: VolumeId) -> Option<Vec<SandboxId>> {
        let entry = self.volumes.get_mut(&id).filter(|entry| !entry.is_hidden)?;
        entry.readers += 1;
        let writers = entry.uses.iter().filter(|(_, it)| it.writes_now());
        Some(writers.map(|(sandbox, _)| *sandbox).collect())
    }

    /// Takes that back.
    pub fn end_quiet(&mut self, id: VolumeId) {
        if let Some(entry) = self.volumes.get_mut(&id) {
            entry.readers = entry.readers.saturating_sub(1);
        }
    }

    /// It was not made, or is deleted: its name is free.
    pub fn give_up(&mut self, id: VolumeId) {
        if let Some(entry) = self.volumes.remove(&id) {
            self.names.remove(&entry.kept.name);
        }
    }

    fn entry(&self, volume: &VolumeRef) -> Option<&Entry> {
        let id = match volume {
            VolumeRef::Id(id) => id,
            VolumeRef::Name(name) => self.names.get(name)?,
        };
        self.volumes.get(id).filter(|entry| !entry.is_hidden)
    }

    /// One that is there.
    pub fn find(&self, volume: &VolumeRef) -> Option<&KeptVolume> {
        self.entry(volume).map(|entry| &entry.kept)
    }

    /// The same, as the API shows it.
    pub fn view(&self, volume: &VolumeRef) -> Option<Volume> {
        self.entry(volume).map(Entry::view)
    }

    /// A page of them, by name.
    pub fn list(&self, request: &ListVolumes, count: usize) -> VolumePage {
        let is_behind = |name: &VolumeName| request.after.as_ref().is_none_or(|after| name > after);
        let entries = self.names.iter().filter(|(name, _)| is_behind(name));
        let entries = entries.filter_map(|(_, id)| self.volumes.get(id));
        let shown = entries.filter(|one| !one.is_hidden && request.wants(&one.kept.labels));
        let mut volumes: Vec<Volume> = shown.take(count + 1).map(Entry::view).collect();
        let has_more = volumes.len() > count;
        volumes.truncate(count);
        let next = volumes.last().filter(|_| has_more).map(|last| last.name.clone());
        VolumePage { volumes, next }
    }

    /// Hides one that no sandbox has, so that none gets it while it is deleted.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`], [`VolumeError::InUse`], [`VolumeError::Quiet`].
    pub fn take_out(&mut self, volume: &VolumeRef) -> Result<KeptVolume, VolumeError> {
        let not_found = || VolumeError::NotFound { volume: volume.to_string() };
        let id = self.find(volume).ok_or_else(not_found)?.id;
        let entry = self.volumes.get_mut(&id).ok_or_else(not_found)?;
        if let Some((&by, _)) = entry.uses.first_key_value() {
            let (name, count) = (entry.kept.name.clone(), entry.uses.len());
            return Err(VolumeError::InUse { name, by, count });
        }
        if entry.readers > 0 {
            return Err(VolumeError::Quiet { name: entry.kept.name.clone() });
        }
        entry.is_hidden = true;
        Ok(entry.kept.clone())
    }

    /// It could not be deleted.
    pub fn put_back(&mut self, kept: KeptVolume) {
        self.insert(kept, false);
    }

    /// Has a sandbox have all of `mounts`, as one that may run. One that had them already and was
    /// stopped claims them anew.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`], [`VolumeError::ReadOnly`], [`VolumeError::Full`],
    /// [`VolumeError::Quiet`], [`VolumeError::Held`]; nothing has changed then.
    pub fn claim(
        &mut self,
        sandbox: SandboxId,
        name: Option<&SandboxName>,
        mounts: &[Mount],
    ) -> Result<(), VolumeError> {
        for mount in mounts {
            let entry = self.volumes.get(&mount.volume).filter(|entry| !entry.is_hidden);
            let not_found = || VolumeError::NotFound { volume: mount.name.to_string() };
            let entry = entry.ok_or_else(not_found)?;
            if mount.access.writes() && entry.kept.is_read_only {
                return Err(VolumeError::ReadOnly { name: mount.name.clone() });
            }
            if let Some(full) = entry.full().filter(|_| mount.access.writes()) {
                return Err(VolumeError::Full(full));
            }
            if mount.access.writes() && entry.readers > 0 {
                return Err(VolumeError::Quiet { name: mount.name.clone() });
            }
            let mut others = entry.uses.iter().filter(|(id, it)| **id != sandbox && it.is_held);
            if let Some((id, it)) = others.find(|(_, it)| !it.access.goes_with(mount.access)) {
                return Err(VolumeError::Held {
                    name: mount.name.clone(),
                    wanted: mount.access,
                    holder: *id,
                    holder_name: it.sandbox_name.clone(),
                    held: it.access,
                });
            }
        }
        self.found(sandbox, name, mounts, true);
        Ok(())
    }

    /// A sandbox has these, whatever others have.
    pub fn found(
        &mut self,
        sandbox: SandboxId,
        name: Option<&SandboxName>,
        mounts: &[Mount],
        is_held: bool,
    ) {
        for mount in mounts {
            let Some(entry) = self.volumes.get_mut(&mount.volume) else { continue };
            let (sandbox_name, path) = (name.cloned(), mount.path.clone());
            entry.uses.insert(sandbox, Use { sandbox_name, path, access: mount.access, is_held });
        }
    }

    /// A sandbox is stopped: it keeps nobody from anything.
    pub fn release(&mut self, sandbox: SandboxId) {
        for entry in self.volumes.values_mut() {
            if let Some(it) = entry.uses.get_mut(&sandbox) {
                it.is_held = false;
            }
        }
    }

    /// A sandbox is no more.
    pub fn forget(&mut self, sandbox: SandboxId) {
        for entry in self.volumes.values_mut() {
            entry.uses.remove(&sandbox);
        }
    }

    /// One has another limit, and takes so much.
    pub fn set_limit(
        &mut self,
        id: VolumeId,
        limit: Option<VolumeLimit>,
        used_bytes: Option<u64>,
    ) -> Option<Volume> {
        let entry = self.volumes.get_mut(&id)?;
        entry.kept.limit = limit;
        entry.used_bytes = used_bytes;
        Some(entry.view())
    }

    /// Those that have to be measured: sandboxes may write to them, and nobody else sees to their limit.
    pub fn to_measure(&self) -> Vec<VolumeId> {
        let is_written = |entry: &Entry| entry.uses.values().any(Use::writes_now);
        let entries = self.volumes.iter().filter(|(_, entry)| entry.is_measured());
        entries.filter(|(_, entry)| is_written(entry)).map(|(id, _)| *id).collect()
    }

    /// One takes so much.
    pub fn measured(&mut self, id: VolumeId, used_bytes: u64) {
        if let Some(entry) = self.volumes.get_mut(&id).filter(|entry| entry.kept.limit.is_some()) {
            entry.used_bytes = Some(used_bytes);
        }
    }

    /// The first of a sandbox's volumes to which it may write and on which there is no room left.
    pub fn full(&self, sandbox: SandboxId, mounts: &[Mount]) -> Option<Full> {
        mounts.iter().find_map(|mount| {
            let entry = self.volumes.get(&mount.volume)?;
            entry.uses.get(&sandbox).filter(|it| it.writes_now())?;
            entry.full()
        })
    }

    /// The sandboxes that may write to a volume on which there is no room left.
    pub fn writers_of_full(&self) -> BTreeSet<SandboxId> {
        let full = self.volumes.values().filter(|entry| entry.full().is_some());
        let writers = full.flat_map(|entry| entry.uses.iter().filter(|(_, it)| it.writes_now()));
        writers.map(|(sandbox, _)| *sandbox).collect()
    }

    /// The volumes to which a sandbox writes beside others that may run, with these.
    pub fn shared_by(&self, sandbox: SandboxId) -> Vec<(VolumeId, Vec<SandboxId>)> {
        let is_shared = |it: &&Use| it.is_held && it.access == VolumeAccess::Shared;
        let shared = self.volumes.iter().filter_map(|(id, entry)| {
            entry.uses.get(&sandbox).filter(is_shared)?;
            let others =
                entry.uses.iter().filter(|(other, it)| **other != sandbox && is_shared(it));
            let others: Vec<SandboxId> = others.map(|(other, _)| *other).collect();
            (!others.is_empty()).then_some((*id, others))
        });
        shared.collect()
    }
}

impl Entry {
    fn view(&self) -> Volume {
        let KeptVolume { id, name, labels, created_at, is_read_only, copied, limit, host_path } =
            self.kept.clone();
        let used_bytes = self.used_bytes;
        let used_by = self.uses.iter().map(|(sandbox_id, it)| VolumeUse {
            sandbox_id: *sandbox_id,
            sandbox_name: it.sandbox_name.clone(),
            path: it.path.clone(),
            access: it.access,
            is_held: it.is_held,
        });
        let used_by = used_by.collect();
        Volume {
            id,
            name,
            labels,
            created_at,
            is_read_only,
            copied,
            limit,
            used_bytes,
            host_path,
            used_by,
        }
    }

    /// Whether nobody but the server sees to its limit.
    fn is_measured(&self) -> bool {
        self.kept.limit.is_some_and(|limit| limit.enforced_by == VolumeLimitBy::Measurement)
    }

    /// It has no room left, as far as is known.
    fn full(&self) -> Option<Full> {
        let limit = self.kept.limit.filter(|_| self.is_measured())?;
        let used_bytes = self.used_bytes.filter(|used| *used > limit.bytes)?;
        Some(Full { name: self.kept.name.clone(), used_bytes, limit_bytes: limit.bytes })
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
