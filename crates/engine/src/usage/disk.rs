//! How much room the files of sandboxes take: measured when somebody asks, not again for a while, and
//! few at once.

use super::LOOK_WITHIN;
use crate::engine::Shared;
use atoll_api::id::SandboxId;
use atoll_api::usage::DiskUsage;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task;
use tokio::time::timeout;

/// How long a measure is good.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// Most that are measured at once.
const AT_ONCE: usize = 2;

/// What was measured last.
#[derive(Debug)]
pub(super) struct Disks {
    known: Mutex<HashMap<SandboxId, DiskUsage>>,
    room: Arc<Semaphore>,
}

impl Default for Disks {
    fn default() -> Self {
        Self { known: Mutex::default(), room: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Disks {
    pub(super) fn gone(&self, id: SandboxId) {
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, DiskUsage>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the files of a sandbox take; as it was measured before, where that takes long.
pub(super) async fn look(shared: &Arc<Shared>, id: SandboxId) -> Option<DiskUsage> {
    let disks = &shared.meter.disks;
    let known = disks.lock().get(&id).copied();
    let is_good = |known: DiskUsage| shared.clock.now().since(known.measured_at) < GOOD_FOR;
    if known.is_some_and(is_good) {
        return known;
    }
    let Ok(room) = disks.room.clone().try_acquire_owned() else { return known };
    let all = shared.clone();
    let measure = task::spawn_blocking(move || {
        let _room = room;
        let measured_at = all.clock.now();
        let (bytes, is_complete) = all.backend.disk(id).ok()??;
        let disk = DiskUsage { bytes, measured_at, is_complete };
        // Of one that was deleted meanwhile nothing is kept.
        if all.directory().get(id).is_some() {
            all.meter.disks.lock().insert(id, disk);
        }
        Some(disk)
    });
    match timeout(LOOK_WITHIN, measure).await {
        Ok(measured) => measured.ok().flatten(),
        Err(_) => known,
    }
}
