//! Volumes of a machine in memory: names, and how much lies on them.

use super::{Call, Fake, Host, Parts};
use crate::backend::{BackendError, VolumeCopied, VolumePlace, unsent};
use atoll_api::id::{SandboxId, VolumeId};
use atoll_api::snapshot::SnapshotWay;
use atoll_api::volume::VolumeLimitBy;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

#[derive(Default)]
pub(super) struct Volumes {
    there: BTreeSet<VolumeId>,
    bytes: BTreeMap<VolumeId, u64>,
    /// Bytes that lie on all others.
    bytes_else: u64,
    /// Limits that the file system sees to.
    limits: BTreeMap<VolumeId, u64>,
    has_quotas: bool,
}

impl Volumes {
    /// Whether all are there that are to be shown.
    pub(super) fn have_all(&self, places: &[VolumePlace]) -> Result<(), BackendError> {
        let mut own = places.iter().filter(|place| place.host_path.is_none());
        let gone = own.find(|place| !self.there.contains(&place.id));
        gone.map_or(Ok(()), |place| Err(BackendError::NoVolume { id: place.id }))
    }
}

impl Host {
    /// The volumes of which something is on it.
    pub fn volumes(&self) -> Vec<VolumeId> {
        self.state().volumes.there.iter().copied().collect()
    }

    /// The sandboxes whose processes can write to a volume.
    pub fn writers(&self, volume: VolumeId) -> Vec<SandboxId> {
        let state = self.state();
        let writes = |place: &VolumePlace| place.id == volume && place.is_writable;
        let has = |parts: &Parts| parts.group.is_some() && parts.volumes.iter().any(writes);
        state.sandboxes.iter().filter(|(_, parts)| has(parts)).map(|(id, _)| *id).collect()
    }

    /// Lets so many bytes lie on a volume.
    pub fn fill_volume(&self, id: VolumeId, bytes: u64) {
        self.state().volumes.bytes.insert(id, bytes);
    }

    /// Lets so many bytes lie on every volume that nothing else is said of.
    pub fn fill_volumes(&self, bytes: u64) {
        self.state().volumes.bytes_else = bytes;
    }

    /// Lets the file system see to limits of volumes.
    pub fn have_quotas(&self) {
        self.state().volumes.has_quotas = true;
    }

    /// The limit of a volume that the file system sees to.
    pub fn volume_limit(&self, id: VolumeId) -> Option<u64> {
        self.state().volumes.limits.get(&id).copied()
    }
}

impl Fake {
    pub(super) fn make_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.host.simple(Call::CreateVolume, |state| {
            state.volumes.there.insert(id);
            Ok(())
        })
    }

    pub(super) fn volume_copy(
        &self,
        from: VolumeId,
        to: VolumeId,
    ) -> Result<VolumeCopied, BackendError> {
        self.host.simple(Call::CopyVolume, |state| {
            if !state.volumes.there.contains(&from) {
                return Err(BackendError::NoVolume { id: from });
            }
            state.volumes.there.insert(to);
            Ok(())
        })?;
        Ok(VolumeCopied { way: SnapshotWay::Copy, bytes: 0 })
    }

    pub(super) fn write_volume(
        &self,
        id: VolumeId,
        out: &mut dyn Write,
    ) -> Result<(), BackendError> {
        self.host.simple(Call::ExportVolume, |state| match state.volumes.there.contains(&id) {
            true => out.write_all(id.to_string().as_bytes()).map_err(unsent),
            false => Err(BackendError::NoVolume { id }),
        })
    }

    pub(super) fn have_limited(
        &self,
        id: VolumeId,
        bytes: Option<u64>,
    ) -> Result<VolumeLimitBy, BackendError> {
        let mut by = VolumeLimitBy::Measurement;
        self.host.simple(Call::LimitVolume, |state| {
            if state.volumes.has_quotas {
                by = VolumeLimitBy::FileSystem;
                match bytes {
                    Some(bytes) => drop(state.volumes.limits.insert(id, bytes)),
                    None => drop(state.volumes.limits.remove(&id)),
                }
            }
            Ok(())
        })?;
        Ok(by)
    }

    pub(super) fn volume_bytes(&self, id: VolumeId) -> Result<u64, BackendError> {
        let mut bytes = 0;
        self.host.simple(Call::MeasureVolume, |state| {
            let volumes = &state.volumes;
            bytes = volumes.bytes.get(&id).copied().unwrap_or(volumes.bytes_else);
            Ok(())
        })?;
        Ok(bytes)
    }

    pub(super) fn discard_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.host.simple(Call::RemoveVolume, |state| {
            state.volumes.there.remove(&id);
            Ok(())
        })
    }
}

pub(super) fn look_at_folder(path: &Path) -> Result<(), BackendError> {
    if path.ends_with("no-folder") {
        let reason = "it is no directory".to_owned();
        return Err(BackendError::Folder { path: path.to_owned(), reason });
    }
    Ok(())
}
