//! The task that deletes snapshots whose time is over, and has layers removed that nobody needs.

use super::Snapshots;
use crate::clock::wait_until;
use crate::engine::Shared;
use crate::error::{SnapshotError, chain};
use atoll_api::audit::AuditKind;
use atoll_api::id::SnapshotId;
use atoll_api::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::task;

/// How long to wait before something that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Keeps them until the engine shuts down. What an earlier server left is looked at first.
pub(crate) async fn keep(shared: Arc<Shared>) {
    shared.until_closing(work(&shared)).await;
}

async fn work(shared: &Arc<Shared>) {
    let snapshots = &shared.snapshots;
    loop {
        let now = shared.clock.now();
        let mut again_at = snapshots.next_to_expire();
        for id in snapshots.expired(now) {
            match snapshots.forget(id, &shared.records).await {
                Ok(()) => deleted(shared, id, "delete_after_ms"),
                Err(SnapshotError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::warn!(snapshot = %id, cause = chain(&error), "it could not be deleted");
                    again_at = Some(now.after(RETRY_AFTER));
                }
            }
        }
        if !collect(shared).await {
            again_at = Some(now.after(RETRY_AFTER));
        }
        tokio::select! {
            () = snapshots.garbage.notified() => {}
            () = wait_until(&*shared.clock, again_at) => {}
        }
    }
}

/// Has it recorded that a snapshot is no more.
pub(crate) fn deleted(shared: &Shared, id: SnapshotId, reason: &str) {
    let what = AuditKind::SnapshotDeleted { snapshot_id: id, reason: reason.to_owned() };
    shared.oversight.tell(None, what);
}

/// Gives whether it could be done.
async fn collect(shared: &Arc<Shared>) -> bool {
    // While nobody makes a layer, or begins with one.
    let _alone = shared.snapshots.layers.write().await;
    let (backend, needed) = (shared.backend.clone(), shared.snapshots.layers_of_all());
    let collected = task::spawn_blocking(move || backend.collect(&needed)).await;
    match collected.expect("a backend does not panic") {
        Ok(gone) => {
            if !gone.is_empty() {
                tracing::info!(layers = gone.len(), "layers that nobody needs were removed");
            }
            true
        }
        Err(error) => {
            tracing::warn!(cause = chain(&error), "layers could not be removed");
            false
        }
    }
}

impl Snapshots {
    fn expired(&self, now: Timestamp) -> Vec<SnapshotId> {
        let kept = self.kept();
        let expired = kept.values().filter(|kept| {
            kept.taken.is_some() && kept.expires_at.is_some_and(|expires_at| expires_at <= now)
        });
        expired.map(|kept| kept.id).collect()
    }

    fn next_to_expire(&self) -> Option<Timestamp> {
        self.kept().values().filter_map(|kept| kept.expires_at).min()
    }
}
