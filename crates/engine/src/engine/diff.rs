//! Asking what differs between two snapshots.

use super::Engine;
use crate::backend::{BackendError, Differences, Waiting};
use crate::error::SnapshotError;
use crate::snapshots::Kept;
use atoll_api::id::SnapshotId;
use atoll_api::snapshot::{DiffSnapshots, SnapshotDiff};
use tokio::task;

impl Engine {
    /// Tells what a snapshot has otherwise than another one, or than the one before it, or where
    /// there is none, than its image alone.
    ///
    /// If the future is dropped before, the comparison is given up.
    ///
    /// # Errors
    /// See [`SnapshotError`]; also if one of both is deleted meanwhile.
    pub async fn diff_snapshots(
        &self,
        id: SnapshotId,
        request: DiffSnapshots,
    ) -> Result<SnapshotDiff, SnapshotError> {
        let limit = request.validate()?;
        let after = self.kept_snapshot(id)?;
        let before = match (request.with, after.parent) {
            (Some(with), _) => Some(self.kept_snapshot(with)?),
            // One that is gone has left its place to its own, or to nobody.
            (None, parent) => parent.and_then(|parent| self.shared.snapshots.of_any(parent)),
        };
        let with = before.as_ref().map(|before| before.id);
        let compared = self.compare(before, after, limit).await;
        // What was deleted meanwhile is not half told.
        for id in with.into_iter().chain([id]) {
            self.shared.snapshots.of_any(id).ok_or(SnapshotError::NotFound { id })?;
        }
        let Differences { entries, uncompared, is_cut } = compared?;
        Ok(SnapshotDiff { snapshot_id: id, with_id: with, entries, uncompared, is_cut })
    }

    fn kept_snapshot(&self, id: SnapshotId) -> Result<Kept, SnapshotError> {
        self.shared.snapshots.get(id).ok_or(SnapshotError::NotFound { id })
    }

    async fn compare(
        &self,
        before: Option<Kept>,
        after: Kept,
        limit: u32,
    ) -> Result<Differences, SnapshotError> {
        let id = after.id;
        let other_image = |with| SnapshotError::OtherImages { id, with };
        let with = before.as_ref().map(|before| before.id);
        if let Some(before) = &before
            && before.image != after.image
        {
            return Err(other_image(before.id));
        }
        let _turn = self.shared.snapshots.diffs.acquire().await;
        let waiting = Waiting::begin();
        let (backend, progress) = (self.shared.backend.clone(), waiting.0.clone());
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let compared = task::spawn_blocking(move || {
            let before = before.map(|before| before.layer);
            backend.diff(before, after.layer, &after.image, most, &progress)
        });
        compared.await.expect("a backend does not panic").map_err(|source| match (source, with) {
            (BackendError::OtherImage, Some(with)) => other_image(with),
            (source, _) => SnapshotError::Uncompared { id, source },
        })
    }
}
