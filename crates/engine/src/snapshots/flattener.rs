//! The task that has long chains of layers made short, one after the other, while everything else
//! goes on.

use super::LAYERS_MAX;
use crate::backend::{BackendError, Flat, Waiting};
use crate::engine::Shared;
use crate::error::chain;
use std::sync::Arc;
use std::time::Duration;
use tokio::task;

/// How long to wait before what failed is tried again: at first, and at most.
const RETRY_AFTER: Duration = Duration::from_secs(30);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Does so until the engine shuts down, and begins with what an earlier server left.
pub(crate) async fn shorten(shared: Arc<Shared>) {
    shared.until_closing(work(&shared)).await;
}

async fn work(shared: &Arc<Shared>) {
    let mut retry_after = RETRY_AFTER;
    loop {
        match shorten_one(shared).await {
            Ok(Some(flat)) => {
                let Flat { layers, linked, copied, copied_bytes, directories: _ } = flat;
                tracing::info!(layers, linked, copied, copied_bytes, "layers were made one");
                shared.snapshots.may_be_garbage();
                retry_after = RETRY_AFTER;
            }
            Ok(None) => {
                retry_after = RETRY_AFTER;
                shared.snapshots.deep.notified().await;
            }
            // Everything shows what it did, so nothing but time is lost.
            Err(error) => {
                let (cause, again_ms) = (chain(&error), retry_after.as_millis());
                tracing::warn!(cause, again_ms, "layers could not be made one");
                let clock = shared.clock.clone();
                clock.wait_until(clock.now().after(retry_after)).await;
                retry_after = (2 * retry_after).min(RETRY_AFTER_MAX);
            }
        }
    }
}

async fn shorten_one(shared: &Arc<Shared>) -> Result<Option<Flat>, BackendError> {
    let waiting = Waiting::begin();
    let (backend, progress) = (shared.backend.clone(), waiting.0.clone());
    let keep = shared.snapshots.layers_of_all();
    let work = task::spawn_blocking(move || backend.flatten(&keep, LAYERS_MAX, &progress));
    work.await.expect("a backend does not panic")
}
