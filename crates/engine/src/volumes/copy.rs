//! A volume made of another one, as that is at one moment.
//!
//! Most is copied while sandboxes write. Then nobody begins to write, all that do stand still, and
//! what has changed is copied once more; on btrfs the file system does all of it at once.

use crate::backend::{Backend, BackendError, VolumeCopied};
use crate::engine::Shared;
use crate::error::{OperationError, VolumeError};
use crate::owner::{Command, Reply};
use atoll_api::id::{SandboxId, VolumeId};
use atoll_api::volume::VolumeName;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task;

/// How long it may take until all who write stand still. Those that do already wait as long.
const STILL_WITHIN: Duration = Duration::from_secs(10);

/// Makes `to`, and gives how, and how long sandboxes stood still.
pub(crate) async fn copy(
    shared: &Arc<Shared>,
    (from, name): (VolumeId, &VolumeName),
    to: VolumeId,
) -> Result<(VolumeCopied, Duration), VolumeError> {
    let failed = |source| VolumeError::Host { name: name.clone(), source };
    on_host(shared, move |backend| backend.copy_volume_ahead(from, to)).await.map_err(failed)?;
    let quiet = Quiet::begin(shared, from)
        .ok_or_else(|| VolumeError::NotFound { volume: name.to_string() })?;
    let begun = Instant::now();
    let still = stand_still(shared, &quiet, name).await?;
    let copied = on_host(shared, move |backend| backend.copy_volume(from, to)).await;
    let stood = if still.is_empty() { Duration::ZERO } else { begun.elapsed() };
    drop((still, quiet));
    let copied = copied.map_err(failed)?;
    on_host(shared, move |backend| backend.sync_volume(to)).await.map_err(failed)?;
    Ok((copied, stood))
}

async fn on_host<T: Send + 'static>(
    shared: &Shared,
    call: impl FnOnce(&dyn Backend) -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    let backend = shared.backend.clone();
    let called = task::spawn_blocking(move || call(&*backend)).await;
    called.expect("a backend does not panic")
}

/// As long as it is there, nobody begins to write to a volume.
pub(crate) struct Quiet {
    shared: Arc<Shared>,
    id: VolumeId,
    writers: Vec<SandboxId>,
}

impl Quiet {
    /// None if there is no such volume.
    pub(crate) fn begin(shared: &Arc<Shared>, id: VolumeId) -> Option<Self> {
        let writers = shared.volumes.book().be_quiet(id)?;
        Some(Self { shared: shared.clone(), id, writers })
    }

    /// Those that write all the same.
    pub(crate) fn writers(&self) -> &[SandboxId] {
        &self.writers
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.shared.volumes.book().end_quiet(self.id);
    }
}

/// Has all who write stand still, until what it gives is dropped.
async fn stand_still(
    shared: &Shared,
    quiet: &Quiet,
    name: &VolumeName,
) -> Result<Vec<oneshot::Sender<()>>, VolumeError> {
    let refused = |source| VolumeError::Writer { name: name.clone(), source: Box::new(source) };
    let (mut still, mut answers) = (Vec::new(), Vec::new());
    for &id in quiet.writers() {
        let handle = shared.directory().get(id).cloned();
        let Some(handle) = handle else { continue };
        let ((until, wait), (reply, answer)) = (oneshot::channel(), oneshot::channel());
        let command = Command::StandStill { until: wait, reply: Reply(reply) };
        handle.mailbox.try_send(command).map_err(|_| refused(OperationError::Busy { id }))?;
        still.push(until);
        answers.push((id, answer));
    }
    let all = async {
        for (id, answer) in answers {
            match answer.await {
                Ok(Ok(())) => {}
                Ok(Err(source)) => return Err(refused(source)),
                Err(_) => return Err(refused(OperationError::Lost { id })),
            }
        }
        Ok(())
    };
    match tokio::time::timeout(STILL_WITHIN, all).await {
        Ok(outcome) => outcome.map(|()| still),
        Err(_) => Err(VolumeError::Restless { name: name.clone() }),
    }
}
