//! Volumes: which there are, and which sandboxes have them how.
//!
//! What a volume holds is a directory on the host and no record. A volume is made there first and
//! then written down; it is forgotten first and then removed there. So what a start finds on the
//! host that nobody wrote down is half-made or on its way out, and goes.
//!
//! Who may have what at once is a pure state machine ([`book`]): a sandbox claims all that it has
//! before anything of it runs, and lets go when nothing does any more. Claims are nowhere written:
//! a start finds them by the records of sandboxes.

pub mod book;
mod copy;
mod export;
mod folder;
mod kept;
mod limit;

pub use export::Export;
pub(crate) use export::export;
pub(crate) use folder::is_granted;
pub use kept::{KeptVolume, Mount};
pub use limit::Full;
pub(crate) use limit::keep;

use crate::backend::Backend;
use crate::engine::Shared;
use crate::error::VolumeError;
use crate::records::{Record, Records, VolumeChange};
use atoll_api::id::{SandboxId, VolumeId};
use atoll_api::sandbox::State;
use atoll_api::volume::{ListVolumes, Volume, VolumeCopy, VolumeMount, VolumePage, VolumeRef};
use book::Book;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task;

/// Most volumes of a server.
pub const VOLUMES_MAX: usize = 10_000;

/// All volumes.
#[derive(Debug)]
pub(crate) struct Volumes {
    book: Mutex<Book>,
    /// Held by who copies one: two that have sandboxes stand still could wait for each other.
    copying: tokio::sync::Mutex<()>,
    /// Held by who changes the limit of one, or deletes one: it would be written down again.
    changing: tokio::sync::Mutex<()>,
}

impl Volumes {
    pub(crate) fn new(kept: Vec<KeptVolume>) -> Self {
        let (copying, changing) = Default::default();
        Self { book: Mutex::new(Book::new(kept)), copying, changing }
    }

    /// For a look or a change, and never across a wait.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one on the host, of nothing, another one or a folder, and writes it down.
    pub(crate) async fn create(
        &self,
        mut kept: KeptVolume,
        (copy_of, limit_bytes): (Option<&VolumeRef>, Option<u64>),
        shared: &Arc<Shared>,
    ) -> Result<Volume, VolumeError> {
        let id = kept.id;
        self.book().begin(kept.clone())?;
        let made = match self.make(&mut kept, (copy_of, limit_bytes), shared).await {
            Ok(used_bytes) => {
                let changes = vec![VolumeChange::Keep(Box::new(kept.clone()))];
                let written = shared.records.save_volumes(changes).await;
                written.map(|()| used_bytes).map_err(VolumeError::Records)
            }
            Err(error) => Err(error),
        };
        let used_bytes = match made {
            Ok(used_bytes) => used_bytes,
            Err(error) => {
                self.book().give_up(id);
                remove_from_host(shared.backend.clone(), id).await;
                return Err(error);
            }
        };
        self.book().finish(kept, used_bytes).ok_or_else(|| not_found(&VolumeRef::Id(id)))
    }

    /// Makes it on the host; gives what lies on it, if that is limited.
    async fn make(
        &self,
        kept: &mut KeptVolume,
        (copy_of, limit_bytes): (Option<&VolumeRef>, Option<u64>),
        shared: &Arc<Shared>,
    ) -> Result<Option<u64>, VolumeError> {
        let (id, name) = (kept.id, kept.name.clone());
        if let Some(source) = copy_of {
            kept.copied = Some(self.copy(source, id, shared).await?);
        } else {
            let (host, folder) = (shared.backend.clone(), kept.host_path.clone());
            let is_writable = !kept.is_read_only;
            let made = task::spawn_blocking(move || match folder {
                Some(path) => host.check_folder(Path::new(&path), is_writable),
                None => host.create_volume(id),
            });
            let made = made.await.expect("a backend does not panic");
            made.map_err(|source| VolumeError::Host { name, source })?;
        }
        if limit_bytes.is_none() {
            return Ok(None);
        }
        let limited = limit::limit(&shared.backend, (id, &kept.name), limit_bytes).await?;
        kept.limit = limited.map(|(limit, _)| limit);
        Ok(limited.map(|(_, used)| used))
    }

    async fn copy(
        &self,
        source: &VolumeRef,
        to: VolumeId,
        shared: &Arc<Shared>,
    ) -> Result<VolumeCopy, VolumeError> {
        let _alone = self.copying.lock().await;
        let found = self.book().find(source).cloned();
        let KeptVolume { id: of, name, host_path, .. } =
            found.ok_or_else(|| VolumeError::NoSource { volume: source.to_string() })?;
        if host_path.is_some() {
            return Err(VolumeError::OfHost { name, what: "copied" });
        }
        let (copied, stood) = copy::copy(shared, (of, &name), to).await?;
        let frozen_us = u64::try_from(stood.as_micros()).unwrap_or(u64::MAX);
        Ok(VolumeCopy { of, way: copied.way, copied_bytes: copied.bytes, frozen_us })
    }

    /// Gives one as it is now.
    pub(crate) fn get(&self, volume: &VolumeRef) -> Result<Volume, VolumeError> {
        self.book().view(volume).ok_or_else(|| not_found(volume))
    }

    /// A page of them.
    pub(crate) fn list(&self, request: &ListVolumes, count: usize) -> VolumePage {
        self.book().list(request, count)
    }

    /// Forgets one that no sandbox has, and has what it holds removed.
    pub(crate) async fn delete(
        &self,
        volume: &VolumeRef,
        backend: Arc<dyn Backend>,
        records: &Records,
    ) -> Result<KeptVolume, VolumeError> {
        let _alone = self.changing.lock().await;
        let kept = self.book().take_out(volume)?;
        let written = records.save_volumes(vec![VolumeChange::Forget(kept.id)]).await;
        if let Err(error) = written {
            self.book().put_back(kept);
            return Err(VolumeError::Records(error));
        }
        self.book().give_up(kept.id);
        remove_from_host(backend, kept.id).await;
        Ok(kept)
    }

    /// What a sandbox is to have, by what a request calls it.
    pub(crate) fn resolve(&self, mounts: &[VolumeMount]) -> Result<Vec<Mount>, VolumeError> {
        let book = self.book();
        let mut found: Vec<Mount> = Vec::new();
        for mount in mounts {
            let kept = book.find(&mount.volume).ok_or_else(|| not_found(&mount.volume))?;
            if found.iter().any(|other| other.volume == kept.id) {
                return Err(VolumeError::Twice { name: kept.name.clone() });
            }
            found.push(Mount {
                volume: kept.id,
                name: kept.name.clone(),
                path: mount.path.clone(),
                access: mount.access,
                host_path: kept.host_path.clone(),
            });
        }
        Ok(found)
    }

    /// Claims all that a sandbox has, or nothing; see [`Book::claim`].
    pub(crate) fn claim(&self, record: &Record) -> Result<(), VolumeError> {
        self.book().claim(record.id, record.name.as_ref(), &record.volumes)
    }

    /// Notes what one has that an earlier server made.
    pub(crate) fn found(&self, record: &Record) {
        let may_run = !matches!(record.state, State::Stopped | State::Archived);
        self.book().found(record.id, record.name.as_ref(), &record.volumes, may_run);
    }

    /// Nothing of a sandbox runs any more.
    pub(crate) fn release(&self, sandbox: SandboxId) {
        self.book().release(sandbox);
    }

    /// A sandbox is gone.
    pub(crate) fn forget(&self, sandbox: SandboxId) {
        self.book().forget(sandbox);
    }

    /// The volumes to which a sandbox writes beside others, with these.
    pub(crate) fn shared_by(&self, sandbox: SandboxId) -> Vec<(VolumeId, Vec<SandboxId>)> {
        self.book().shared_by(sandbox)
    }
}

fn not_found(volume: &VolumeRef) -> VolumeError {
    VolumeError::NotFound { volume: volume.to_string() }
}

/// What cannot be removed now the next start removes.
async fn remove_from_host(backend: Arc<dyn Backend>, id: VolumeId) {
    let removed = task::spawn_blocking(move || backend.remove_volume(id)).await;
    if let Err(error) = removed.expect("a backend does not panic") {
        let cause = crate::error::chain(&error);
        tracing::warn!(volume = %id, cause, "what it holds could not be removed");
    }
}

/// Removes what is on the host that is not among `known`.
///
/// # Errors
/// If the host cannot be looked at.
pub(crate) fn clear(
    known: &[KeptVolume],
    host: &dyn Backend,
) -> Result<(), crate::backend::BackendError> {
    for id in host.volumes()? {
        if known.iter().any(|kept| kept.id == id) {
            continue;
        }
        match host.remove_volume(id) {
            Ok(()) => tracing::info!(volume = %id, "what nobody wrote down was removed"),
            // The next start tries it again.
            Err(error) => {
                let cause = crate::error::chain(&error);
                tracing::warn!(volume = %id, cause, "what nobody wrote down could not be removed");
            }
        }
    }
    Ok(())
}
