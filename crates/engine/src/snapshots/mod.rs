//! Snapshots: which there are, and what of their layers is needed.
//!
//! One is written down before its layer is made, and once more when that is there. Whoever finds
//! only the first looks at the host: where the layer is whole, the snapshot was taken, and else
//! nothing came of it. A layer stays for as long as a snapshot has it or something is above it;
//! the keeper has the others removed.

mod flattener;
mod keeper;
mod kept;

pub(crate) use flattener::shorten;
pub(crate) use keeper::{deleted, keep};
pub use kept::{How, Kept};

use crate::error::SnapshotError;
use crate::records::{Records, SnapshotChange};
use atoll_api::id::{LayerId, SandboxId, SnapshotId};
use atoll_api::snapshot::{ListSnapshots, Snapshot, SnapshotPage, SnapshotWay};
use atoll_api::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, RwLock, Semaphore};

/// Most snapshots of a server.
pub const SNAPSHOTS_MAX: usize = 100_000;

/// Layers that something has below it for long: with more, finding a name takes longer.
pub const LAYERS_MAX: usize = 10;

/// Comparisons that are made at once: each may need some hundred MiB.
const DIFFS_AT_ONCE: usize = 2;

/// All snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    kept: Mutex<BTreeMap<SnapshotId, Kept>>,
    /// Read by who makes a layer or begins with one, written by who removes those that nobody
    /// needs: so that what is being begun with is not taken for garbage.
    pub(crate) layers: RwLock<()>,
    /// Something may not be needed any more.
    garbage: Notify,
    /// A chain of layers may be too long.
    deep: Notify,
    /// Held by who compares two.
    pub(crate) diffs: Semaphore,
}

impl Snapshots {
    pub(crate) fn new(kept: Vec<Kept>) -> Self {
        let kept = kept.into_iter().map(|kept| (kept.id, kept)).collect();
        Self {
            kept: Mutex::new(kept),
            layers: RwLock::default(),
            garbage: Notify::default(),
            deep: Notify::default(),
            diffs: Semaphore::new(DIFFS_AT_ONCE),
        }
    }

    /// For a look or a change of the map, and never across a wait.
    fn kept(&self) -> MutexGuard<'_, BTreeMap<SnapshotId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that was taken, and that belongs to no template.
    pub(crate) fn get(&self, id: SnapshotId) -> Option<Kept> {
        self.of_any(id).filter(|kept| kept.build.is_none())
    }

    /// One that was taken, whatever it belongs to.
    pub(crate) fn of_any(&self, id: SnapshotId) -> Option<Kept> {
        self.kept().get(&id).filter(|kept| kept.taken.is_some()).cloned()
    }

    /// Those that were taken by builds, each with the sandbox that it was taken of.
    pub(crate) fn of_builds(&self) -> Vec<(SnapshotId, SandboxId)> {
        let kept = self.kept();
        let taken = kept.values().filter(|kept| kept.build.is_some() && kept.taken.is_some());
        taken.map(|kept| (kept.id, kept.sandbox)).collect()
    }

    /// A page of those that were taken.
    pub(crate) fn list(&self, request: &ListSnapshots, count: usize) -> SnapshotPage {
        let kept = self.kept();
        let mut all: Vec<(Timestamp, SnapshotId)> =
            kept.values().map(|kept| (kept.created_at, kept.id)).collect();
        all.sort_unstable();
        let from = request.after.map_or(0, |after| {
            // One that is gone is known by nothing but its place, so the list begins anew.
            all.iter().position(|(_, id)| *id == after).map_or(0, |at| at + 1)
        });
        let shown = all[from..].iter().filter_map(|(_, id)| kept.get(id));
        let views = shown.filter(|kept| kept.build.is_none()).filter_map(Kept::view);
        let mut snapshots: Vec<Snapshot> =
            views.filter(|view| request.wants(view)).take(count + 1).collect();
        let has_more = snapshots.len() > count;
        snapshots.truncate(count);
        let next = snapshots.last().filter(|_| has_more).map(|last| last.id);
        SnapshotPage { snapshots, next }
    }

    /// Those that were taken of a sandbox with exactly these labels, the oldest first. What came of an
    /// archive is there since somebody wanted it back.
    pub(crate) fn of_series(
        &self,
        sandbox: SandboxId,
        labels: &BTreeMap<String, String>,
    ) -> Vec<SnapshotId> {
        let kept = self.kept();
        let views = kept.values().filter(|kept| kept.build.is_none()).filter_map(Kept::view);
        let of_it = |view: &Snapshot| {
            (view.sandbox_id, &view.labels) == (sandbox, labels) && view.way != SnapshotWay::Archive
        };
        let mut found: Vec<(Timestamp, SnapshotId)> =
            views.filter(of_it).map(|view| (view.created_at, view.id)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Writes that one is being taken.
    pub(crate) async fn begin(&self, kept: Kept, records: &Records) -> Result<(), SnapshotError> {
        if self.kept().len() >= SNAPSHOTS_MAX {
            return Err(SnapshotError::TooMany);
        }
        self.kept().insert(kept.id, kept.clone());
        let id = kept.id;
        let written = records.save_snapshots(vec![SnapshotChange::Keep(Box::new(kept))]).await;
        if written.is_err() {
            self.kept().remove(&id);
        }
        written.map_err(SnapshotError::Records)
    }

    /// Writes that one was taken.
    pub(crate) async fn finish(&self, kept: Kept, records: &Records) -> Result<(), SnapshotError> {
        let change = SnapshotChange::Keep(Box::new(kept.clone()));
        let written = records.save_snapshots(vec![change]).await;
        if written.is_ok() {
            self.kept().insert(kept.id, kept);
        }
        written.map_err(SnapshotError::Records)
    }

    /// Forgets one. Those that were made after it have its parent from then on.
    pub(crate) async fn forget(
        &self,
        id: SnapshotId,
        records: &Records,
    ) -> Result<(), SnapshotError> {
        let mut changes = vec![SnapshotChange::Forget(id)];
        let mut children = Vec::new();
        {
            let kept = self.kept();
            let Some(gone) = kept.get(&id) else { return Err(SnapshotError::NotFound { id }) };
            for child in kept.values().filter(|child| child.parent == Some(id)) {
                let child = Kept { parent: gone.parent, ..child.clone() };
                changes.push(SnapshotChange::Keep(Box::new(child.clone())));
                children.push(child);
            }
        }
        records.save_snapshots(changes).await.map_err(SnapshotError::Records)?;
        let mut kept = self.kept();
        kept.remove(&id);
        for child in children {
            // One that was deleted meanwhile stays so.
            kept.entry(child.id).and_modify(|known| known.parent = child.parent);
        }
        drop(kept);
        self.may_be_garbage();
        Ok(())
    }

    /// Has somebody look for layers that nobody needs any more.
    pub(crate) fn may_be_garbage(&self) {
        self.garbage.notify_one();
    }

    /// Looks whether a layer with so many below it makes a chain that is too long.
    pub(crate) fn taken_above(&self, below: usize) {
        if below >= LAYERS_MAX {
            self.deep.notify_one();
        }
    }

    /// The layers that snapshots have, those included that are being taken.
    fn layers_of_all(&self) -> BTreeSet<LayerId> {
        self.kept().values().map(|kept| kept.layer).collect()
    }
}
