//! Asking for snapshots, and for sandboxes made of them.

use super::Engine;
use crate::error::{CreateError, SnapshotError, chain};
use crate::owner::Command;
use crate::snapshots::deleted;
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::name::SandboxName;
use atoll_api::sandbox::{CreateSandbox, InvalidRequest, Sandbox};
use atoll_api::snapshot::{
    CreateSnapshot, Fork, ForkSnapshot, Forks, ListSnapshots, Snapshot, SnapshotPage,
};
use futures_util::StreamExt as _;

/// Forks that are made at once.
pub const FORKS_AT_ONCE: usize = 16;

impl Engine {
    /// Takes a snapshot of a sandbox, which stands still meanwhile if it runs.
    ///
    /// # Errors
    /// See [`SnapshotError`]. There is none then, and the sandbox goes on.
    pub async fn snapshot(
        &self,
        id: SandboxId,
        request: CreateSnapshot,
    ) -> Result<Snapshot, SnapshotError> {
        request.validate()?;
        let keep_last = request.keep_last;
        let taken: Snapshot =
            self.ask(id, |reply| Command::Snapshot { request, build: None, reply }).await?;
        if let Some(count) = keep_last {
            self.keep_last(&taken, count).await;
        }
        Ok(taken)
    }

    /// Deletes the older ones of the same sandbox with the same labels, beyond so many with this one.
    /// What cannot be deleted is, or not, when the next one is taken.
    async fn keep_last(&self, taken: &Snapshot, count: u64) {
        let mut others = self.shared.snapshots.of_series(taken.sandbox_id, &taken.labels);
        // Whatever the clock says, this one is the last.
        others.retain(|id| *id != taken.id);
        let kept = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
        let beyond = others.len().saturating_sub(kept);
        for id in others.into_iter().take(beyond) {
            match self.shared.snapshots.forget(id, &self.shared.records).await {
                Ok(()) => deleted(&self.shared, id, "keep_last"),
                Err(error) => {
                    let cause = chain(&error);
                    tracing::warn!(snapshot = %id, cause, "an older one stays");
                }
            }
        }
    }

    /// Puts a sandbox back to a snapshot: what it has kept since is gone. One that runs is stopped
    /// for it and started anew.
    ///
    /// # Errors
    /// See [`SnapshotError`]. It may be stopped then, with all that it keeps.
    pub async fn restore(
        &self,
        id: SandboxId,
        snapshot: SnapshotId,
    ) -> Result<Sandbox, SnapshotError> {
        self.ask(id, |reply| Command::Restore { snapshot, reply }).await
    }

    /// Gives one snapshot.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn get_snapshot(&self, id: SnapshotId) -> Result<Snapshot, SnapshotError> {
        let kept = self.shared.snapshots.get(id);
        kept.and_then(|kept| kept.view()).ok_or(SnapshotError::NotFound { id })
    }

    /// Gives a page of snapshots, the oldest first.
    ///
    /// # Errors
    /// If the request is wrong.
    pub fn list_snapshots(&self, request: &ListSnapshots) -> Result<SnapshotPage, SnapshotError> {
        let count = request.validate()?;
        Ok(self.shared.snapshots.list(request, count))
    }

    /// Deletes a snapshot. Sandboxes that were made of it stay as they are; files that nobody has
    /// any more are removed afterwards.
    ///
    /// # Errors
    /// If there is none of that id, or it cannot be recorded.
    pub async fn delete_snapshot(&self, id: SnapshotId) -> Result<(), SnapshotError> {
        // One that is being taken is nobody's yet.
        self.get_snapshot(id)?;
        self.shared.snapshots.forget(id, &self.shared.records).await?;
        deleted(&self.shared, id, "request");
        Ok(())
    }

    /// Gives the request for each of the sandboxes that are to be made of a snapshot.
    ///
    /// # Errors
    /// If the request is wrong, or there is no such snapshot.
    pub fn forks(
        &self,
        id: SnapshotId,
        request: &ForkSnapshot,
    ) -> Result<Vec<CreateSandbox>, SnapshotError> {
        request.validate()?;
        self.get_snapshot(id)?;
        let wanted = (1..=request.count).map(|number| {
            let name = name(request, number)?;
            Ok(CreateSandbox { name, snapshot: Some(id), ..request.sandbox.clone() })
        });
        Ok(wanted.collect::<Result<_, InvalidRequest>>()?)
    }

    /// Makes sandboxes of a snapshot, each of which succeeds or fails by itself.
    ///
    /// If the future is dropped before, those that are not made yet are given up.
    ///
    /// # Errors
    /// See [`Engine::forks`].
    pub async fn fork(
        &self,
        id: SnapshotId,
        request: ForkSnapshot,
    ) -> Result<Forks, SnapshotError> {
        let wanted = self.forks(id, &request)?;
        let made = futures_util::stream::iter(wanted).map(|wanted| async {
            match self.create(wanted).await {
                Ok(sandbox) => Fork::Sandbox(Box::new(sandbox)),
                Err(error) => Fork::Error(Box::new(CreateError::to_api(&error))),
            }
        });
        let forks = made.buffered(FORKS_AT_ONCE).collect().await;
        Ok(Forks { snapshot_id: id, forks })
    }
}

/// The name of the sandbox with this number.
fn name(request: &ForkSnapshot, number: u32) -> Result<Option<SandboxName>, InvalidRequest> {
    let Some(name) = &request.sandbox.name else { return Ok(None) };
    if request.count == 1 {
        return Ok(Some(name.clone()));
    }
    let too_long = InvalidRequest::Malformed {
        field: "sandbox.name".to_owned(),
        reason: "is too long to have a number behind it",
    };
    format!("{name}-{number}").parse().map(Some).map_err(|_| too_long)
}
