//! How much lies on volumes that have a limit.
//!
//! Where the file system does not see to it, what they take is measured while sandboxes write to
//! them. Those that write to a full one are stopped by their owners, as for a budget that is used up,
//! and none begins to before there is room.

use super::{Volumes, not_found};
use crate::backend::Backend;
use crate::engine::Shared;
use crate::error::VolumeError;
use crate::owner::Command;
use crate::records::{Record, VolumeChange};
use atoll_api::id::VolumeId;
use atoll_api::volume::{Volume, VolumeLimit, VolumeName, VolumeRef};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task;

/// How often they are measured.
const EVERY: Duration = Duration::from_secs(3);

/// Of the time, so much at most goes by in measuring.
const SHARE: u32 = 20;

/// A volume on which there is no room left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// Which.
    pub name: VolumeName,
    /// Bytes that it took when it was measured last.
    pub used_bytes: u64,
    /// Bytes that it may take.
    pub limit_bytes: u64,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, used_bytes, limit_bytes } = self;
        write!(f, "volume {name} is full: it takes {used_bytes} of at most {limit_bytes} bytes")
    }
}

impl Volumes {
    /// Gives one another limit, or none.
    pub(crate) async fn set_limit(
        &self,
        volume: &VolumeRef,
        bytes: Option<u64>,
        shared: &Shared,
    ) -> Result<Volume, VolumeError> {
        let _alone = self.changing.lock().await;
        let found = self.book().find(volume).cloned();
        let mut kept = found.ok_or_else(|| not_found(volume))?;
        if kept.host_path.is_some() {
            return Err(VolumeError::OfHost { name: kept.name, what: "limited" });
        }
        let before = kept.limit;
        let used = limit(&shared.backend, (kept.id, &kept.name), bytes).await?;
        kept.limit = used.map(|(limit, _)| limit);
        let written =
            shared.records.save_volumes(vec![VolumeChange::Keep(Box::new(kept.clone()))]).await;
        if let Err(error) = written {
            let (backend, before) = (shared.backend.clone(), before.map(|limit| limit.bytes));
            let undone = task::spawn_blocking(move || backend.limit_volume(kept.id, before)).await;
            if let Err(error) = undone.expect("a backend does not panic") {
                let cause = crate::error::chain(&error);
                tracing::warn!(volume = %kept.id, cause, "its old limit could not be set again");
            }
            return Err(VolumeError::Records(error));
        }
        let shown = self.book().set_limit(kept.id, kept.limit, used.map(|(_, used)| used));
        shown.ok_or_else(|| not_found(volume))
    }

    /// The volume to which a sandbox writes and on which there is no room left.
    pub(crate) fn full(&self, record: &Record) -> Option<Full> {
        self.book().full(record.id, &record.volumes)
    }
}

/// Has the host limit a volume, and gives the limit with what lies on it now; nothing for no limit.
pub(super) async fn limit(
    backend: &Arc<dyn Backend>,
    (id, name): (VolumeId, &VolumeName),
    bytes: Option<u64>,
) -> Result<Option<(VolumeLimit, u64)>, VolumeError> {
    let (host, name) = (backend.clone(), name.clone());
    let limited = task::spawn_blocking(move || {
        let failed = |source| VolumeError::Limit { name: name.clone(), source };
        let Some(bytes) = bytes else {
            return host.limit_volume(id, None).map(|_| None).map_err(failed);
        };
        let used = host.measure_volume(id).map_err(failed)?;
        if used > bytes {
            let (used_bytes, limit_bytes) = (used, bytes);
            return Err(VolumeError::Full(Full { name, used_bytes, limit_bytes }));
        }
        let enforced_by = host.limit_volume(id, Some(bytes)).map_err(failed)?;
        Ok(Some((VolumeLimit { bytes, enforced_by }, used)))
    });
    limited.await.expect("a backend does not panic")
}

/// Measures volumes to which sandboxes write, again and again, and tells the owners of those that
/// write to a full one.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut took = Duration::ZERO;
    loop {
        let pause = EVERY.max(took * SHARE);
        shared.clock.wait_until(shared.clock.now().after(pause)).await;
        let begun = Instant::now();
        let volumes = shared.volumes.book().to_measure();
        for id in volumes {
            let backend = shared.backend.clone();
            let measured = task::spawn_blocking(move || backend.measure_volume(id)).await;
            match measured.expect("a backend does not panic") {
                Ok(used_bytes) => shared.volumes.book().measured(id, used_bytes),
                Err(error) => {
                    let cause = crate::error::chain(&error);
                    tracing::warn!(volume = %id, cause, "it could not be measured");
                }
            }
        }
        took = begun.elapsed();
        let writers = shared.volumes.book().writers_of_full();
        for id in writers {
            if let Some(handle) = shared.directory().get(id) {
                // One that has no room for it is busy, and sees it when it decides next.
                handle.mailbox.try_send(Command::Overdrawn).ok();
            }
        }
    }
}
