//! Removing layers that no archive names.
//!
//! Servers know nothing of each other: while one looks, another may be about to name a layer in a
//! manifest. So removing takes two looks with a long time between them.
//!
//! 1. A layer that no manifest names, and that is older than [`GRACE`](super::depot::GRACE), is condemned, by an object
//!    beside it. From then on nobody begins to use it: who has the same files sends them anew,
//!    under another name.
//! 2. One that was condemned that long ago, and that no manifest names still, is removed. Whoever
//!    decided to use it before it was condemned has named it by now: a manifest is written within
//!    half of that time after a look at all its layers, or they are looked at again.
//!
//! Only the store's own clock is asked. If a manifest cannot be read, nothing is removed.

use super::depot::Depot;
use super::error::ArchiveError;
use atoll_store::archive::Manifest;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectStoreExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Manifests that are read at once.
const READ_AT_ONCE: usize = 8;

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Layers that were condemned.
    pub condemned: usize,
    /// Layers that were removed.
    pub removed: usize,
}

impl Depot {
    /// See the module.
    pub(super) async fn sweep(&self) -> Result<Swept, ArchiveError> {
        self.put_empty("clock").await?;
        let clock = self.store.head(&self.at("clock")).await;
        let now = clock.map_err(|error| self.fault("look at the clock", error))?.last_modified;
        let is_old = |at: object_store::ObjectMeta| {
            let age = now.signed_duration_since(at.last_modified).to_std();
            age.unwrap_or(Duration::ZERO) >= self.grace
        };
        // In this order: what is named by the time that manifests are listed is seen.
        let condemned = self.names_of("condemned").await?;
        let layers = self.names_of("layers").await?;
        let named = self.named().await?;
        let mut swept = Swept::default();
        for (name, meta) in layers {
            if named.contains(&name) || condemned.contains_key(&name) || !is_old(meta) {
                continue;
            }
            self.put_empty(&format!("condemned/{name}")).await?;
            swept.condemned += 1;
        }
        for (name, meta) in condemned {
            if named.contains(&name) {
                self.remove(&self.at(&format!("condemned/{name}"))).await?;
            } else if is_old(meta) {
                self.remove(&self.at(&format!("layers/{name}"))).await?;
                self.remove(&self.at(&format!("condemned/{name}"))).await?;
                swept.removed += 1;
            }
        }
        self.sweep_folder();
        Ok(swept)
    }

    async fn names_of(
        &self,
        above: &str,
    ) -> Result<BTreeMap<String, object_store::ObjectMeta>, ArchiveError> {
        let found = self.list(above).await?.into_iter();
        let named = found.filter_map(|meta| Some((self.name_below(above, &meta.location)?, meta)));
        Ok(named.collect())
    }

    /// Every layer that a manifest names.
    async fn named(&self) -> Result<BTreeSet<String>, ArchiveError> {
        let ids = self.list("archives").await?;
        let ids = ids.iter().filter_map(|meta| self.name_below("archives", &meta.location));
        let read = futures_util::stream::iter(ids.collect::<Vec<_>>())
            .map(|id| async move { self.manifest::<Value>(&id).await })
            .buffer_unordered(READ_AT_ONCE);
        let manifests: Vec<Option<Manifest<Value>>> = read.try_collect().await?;
        let layers = manifests.into_iter().flatten().flat_map(|manifest| manifest.layers);
        Ok(layers.map(|layer| format!("{}/{}", layer.shown, layer.nonce)).collect())
    }

    /// Removes what was begun in a folder by whoever was killed: it has a number behind its name.
    fn sweep_folder(&self) {
        let Some(folder) = &self.folder else { return };
        let mut todo = vec![folder.join("layers")];
        while let Some(directory) = todo.pop() {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                let Ok(meta) = entry.metadata() else { continue };
                let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
                if meta.is_dir() {
                    todo.push(entry.path());
                } else if entry.file_name().as_encoded_bytes().contains(&b'#')
                    && age.is_some_and(|age| age >= self.grace)
                {
                    std::fs::remove_file(entry.path()).ok();
                }
            }
        }
    }
}
