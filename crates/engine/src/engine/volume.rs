//! Asking for volumes.

use super::Engine;
use crate::error::VolumeError;
use crate::volumes::{Export, KeptVolume, export, is_granted};
use atoll_api::audit::AuditKind;
use atoll_api::id::{ID_BYTES, VolumeId};
use atoll_api::volume::{CreateVolume, ListVolumes, SetVolumeLimit, Volume, VolumePage, VolumeRef};
use std::future::Future;
use std::path::Path;
use tokio::sync::oneshot;

impl Engine {
    /// Makes a volume, as `by`. It is carried through also if this is dropped.
    ///
    /// # Errors
    /// See [`VolumeError`]. There is none then, and nothing of it on the host that the next start
    /// would not remove.
    pub async fn create_volume(
        &self,
        request: CreateVolume,
        by: String,
    ) -> Result<Volume, VolumeError> {
        request.validate()?;
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes).map_err(VolumeError::Random)?;
        let (id, created_at) = (VolumeId::from_random(bytes), self.shared.clock.now());
        let CreateVolume { name, labels, copy_of, is_read_only, limit_bytes, host_path } = request;
        if let Some(path) = &host_path
            && !is_granted(Path::new(path), &self.shared.config.host_folders)
        {
            return Err(VolumeError::NotGranted { path: path.clone() });
        }
        let kept = KeptVolume {
            id,
            name: name.clone(),
            labels,
            created_at,
            is_read_only,
            copied: None,
            limit: None,
            host_path: host_path.clone(),
        };
        let shared = self.shared.clone();
        self.carry_through(async move {
            let wanted = (copy_of.as_ref(), limit_bytes);
            let made = shared.volumes.create(kept, wanted, &shared).await?;
            let copy_of = made.copied.as_ref().map(|copied| copied.of);
            let what = AuditKind::VolumeCreated { volume_id: id, name, copy_of, host_path, by };
            shared.oversight.tell(None, what);
            Ok(made)
        })
        .await
    }

    /// Gives a volume another limit, or none, as `by`. What lies on it is measured first.
    ///
    /// # Errors
    /// See [`VolumeError`]; [`VolumeError::Full`] if more lies on it. The limit is as it was then.
    pub async fn set_volume_limit(
        &self,
        volume: VolumeRef,
        wanted: SetVolumeLimit,
        by: String,
    ) -> Result<Volume, VolumeError> {
        wanted.validate()?;
        let shared = self.shared.clone();
        self.carry_through(async move {
            let set = shared.volumes.set_limit(&volume, wanted.bytes, &shared).await?;
            let (volume_id, name) = (set.id, set.name.clone());
            let what = AuditKind::VolumeLimited { volume_id, name, bytes: wanted.bytes, by };
            shared.oversight.tell(None, what);
            Ok(set)
        })
        .await
    }

    /// Gives one volume.
    ///
    /// # Errors
    /// If there is none that is called so.
    pub fn get_volume(&self, volume: &VolumeRef) -> Result<Volume, VolumeError> {
        self.shared.volumes.get(volume)
    }

    /// Gives a page of volumes, by name.
    ///
    /// # Errors
    /// If the request is wrong.
    pub fn list_volumes(&self, request: &ListVolumes) -> Result<VolumePage, VolumeError> {
        let count = request.validate()?;
        Ok(self.shared.volumes.list(request, count))
    }

    /// Deletes a volume that no sandbox has, as `by`. On return it is gone; the room that it took
    /// is free afterwards.
    ///
    /// # Errors
    /// See [`VolumeError`]. It is as it was then.
    pub async fn delete_volume(&self, volume: VolumeRef, by: String) -> Result<(), VolumeError> {
        let shared = self.shared.clone();
        self.carry_through(async move {
            let backend = shared.backend.clone();
            let KeptVolume { id, name, .. } =
                shared.volumes.delete(&volume, backend, &shared.records).await?;
            shared.oversight.tell(None, AuditKind::VolumeDeleted { volume_id: id, name, by });
            Ok(())
        })
        .await
    }

    /// Begins to give what a volume holds as a tar archive: regular files, directories and links, with
    /// their modes and times and without owners. Nobody begins to write to it before it is over.
    ///
    /// # Errors
    /// If there is none that is called so, or a sandbox that may run writes to it.
    pub fn export_volume(&self, volume: &VolumeRef) -> Result<Export, VolumeError> {
        if self.shared.directory().is_closing() {
            return Err(VolumeError::ShuttingDown);
        }
        export(&self.shared, volume)
    }

    /// Does something to its end, whether somebody waits for that or not.
    async fn carry_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, VolumeError>> + Send + 'static,
    ) -> Result<T, VolumeError> {
        if self.shared.directory().is_closing() {
            return Err(VolumeError::ShuttingDown);
        }
        let (reply, answer) = oneshot::channel();
        self.spawn(async move { drop(reply.send(work.await)) });
        answer.await.unwrap_or(Err(VolumeError::ShuttingDown))
    }
}
