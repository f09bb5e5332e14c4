//! Archives: snapshots and sandboxes in object storage, where other servers find them.
//!
//! | to know | read |
//! |---|---|
//! | what bytes there are, and how each is checked | [`atoll_store::archive`] |
//! | where they are | [`Place`] |
//! | what is asked of a store | `depot` |
//! | when layers are removed | `sweep` |
//! | how a store is spoken to | `service` |
//!
//! An archive is there from the moment that its manifest is, which is written last and only where
//! none of that id is; what was sent of one that was broken off, nobody lists, and a sweep removes
//! it. The other way, layers are filled where nobody looks, and a snapshot is written down as one
//! that is being taken (`crate::snapshots`) before they are put where layers are.

mod depot;
mod error;
mod place;
mod service;
mod sweep;

pub use error::{ArchiveError, StoreFault};
pub use place::{Access, Credentials, Place, PlaceError};
pub use sweep::Swept;

use crate::backend::{Backend, BackendError, Progress};
use crate::engine::{Engine, Shared};
use crate::error::{CreateError, SnapshotError};
use crate::images::Outside;
use crate::owner::Command;
use crate::snapshots::{How, Kept};
use atoll_api::archive::{
    Archive, ArchiveKind, ArchivePage, Archived, ListArchives, RestoredArchive, UnreadableArchive,
};
use atoll_api::audit::AuditKind;
use atoll_api::id::{ArchiveId, ID_BYTES, LayerId, SandboxId, SnapshotId};
use atoll_api::sandbox::{CreateSandbox, Sandbox, State};
use atoll_api::snapshot::SnapshotWay;
use atoll_api::time::Timestamp;
use atoll_store::archive::{ArchiveKey, Manifest, PackError, PackedLayer, UnpackError};
use depot::Depot;
use futures_util::StreamExt as _;
use object_store::ObjectStore;
use object_store::multipart::MultipartStore;
use object_store::path::Path as Location;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task;

/// Archives that are made or restored at once: each needs some ten MiB, and a processor.
const AT_ONCE: usize = 2;

/// Manifests of a page that are read at once.
const READ_AT_ONCE: usize = 8;

/// How long a snapshot may take to become a sandbox.
const PASSING: Duration = Duration::from_secs(3600);

/// How often it is looked again whether the layers of an archive are all there.
const LOOKS: usize = 4;

/// How often layers that nobody names are looked for, if nobody deletes an archive.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);

/// Where a server keeps archives.
#[derive(Debug)]
pub struct Archives {
    depot: Arc<Depot>,
    at_once: Arc<Semaphore>,
    /// A layer may be named no more.
    garbage: Notify,
}

/// What an archive is of, for the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    archived_at: Timestamp,
    /// Of what it is.
    #[serde(default)]
    kind: ArchiveKind,
    /// The digest of what is below all layers, if it has one.
    #[serde(default)]
    image_id: Option<String>,
    /// Of an archive of a sandbox, what a snapshot of it would have been.
    snapshot: Kept,
}

impl Archives {
    /// Opens a place, and keeps what is about to be sent in `own`, which is emptied. Nothing is asked
    /// of the place yet.
    ///
    /// # Errors
    /// In words, if it cannot be.
    pub fn open(
        place: &Place,
        access: &Access,
        key: Option<ArchiveKey>,
        outside: &Outside,
        own: &Path,
    ) -> Result<Self, String> {
        let opened = place::open(place, access, outside)?;
        let depot = Depot::new(opened, key, own.to_owned(), depot::GRACE);
        depot.map(Self::of).map_err(|error| format!("{}: {error}", own.display()))
    }

    /// The same on a store that is open, with another time between two looks of a sweep: for tests.
    ///
    /// # Errors
    /// If `own` cannot be used.
    pub fn on_store(
        store: Arc<dyn ObjectStore>,
        parts: Option<Arc<dyn MultipartStore>>,
        key: Option<ArchiveKey>,
        own: &Path,
        grace: Duration,
    ) -> std::io::Result<Self> {
        let opened = place::Opened { store, parts, prefix: Location::default(), folder: None };
        Depot::new(opened, key, own.to_owned(), grace).map(Self::of)
    }

    fn of(depot: Depot) -> Self {
        let (at_once, garbage) = (Arc::new(Semaphore::new(AT_ONCE)), Notify::new());
        Self { depot: Arc::new(depot), at_once, garbage }
    }

    pub(crate) async fn turn(&self) -> Result<tokio::sync::OwnedSemaphorePermit, ArchiveError> {
        self.at_once.clone().acquire_owned().await.map_err(|_| ArchiveError::BrokenOff)
    }

    fn view(&self, id: ArchiveId, manifest: Manifest<About>) -> Archive {
        let Manifest { layers, about, .. } = manifest;
        let About { archived_at, kind, snapshot, .. } = about;
        Archive {
            id,
            kind,
            sandbox_id: snapshot.sandbox,
            sandbox_name: snapshot.sandbox_name,
            snapshot_id: Some(snapshot.id).filter(|_| kind == ArchiveKind::Snapshot),
            archived_at,
            labels: snapshot.labels,
            image: snapshot.image,
            tier: snapshot.tier,
            limits: snapshot.limits,
            layers: layers.len() as u64,
            bytes: layers.iter().map(|layer| layer.bytes).sum(),
            is_encrypted: self.depot.is_encrypted(),
        }
    }

    pub(crate) async fn get(&self, id: ArchiveId) -> Result<Option<Archive>, ArchiveError> {
        let manifest = self.depot.manifest::<About>(&id.to_string()).await?;
        Ok(manifest.map(|manifest| self.view(id, manifest)))
    }

    /// Takes the name of an archive away, if there is one.
    pub(crate) async fn forget(&self, id: ArchiveId) -> Result<(), ArchiveError> {
        if self.depot.unpublish(&id.to_string()).await? {
            self.garbage.notify_one();
        }
        Ok(())
    }

    async fn list(&self, request: &ListArchives) -> Result<ArchivePage, ArchiveError> {
        let count = request.validate()?;
        let found = self.depot.list("archives").await?;
        let names = found.iter().filter_map(|it| self.depot.name_below("archives", &it.location));
        let ids = names.filter_map(|name| name.parse::<ArchiveId>().ok());
        let mut ids: Vec<_> =
            ids.filter(|id| request.after.is_none_or(|after| *id > after)).collect();
        ids.sort_unstable();
        let has_more = ids.len() > count;
        ids.truncate(count);
        let next = ids.last().filter(|_| has_more).copied();
        let read = futures_util::stream::iter(ids)
            .map(|id| async move { (id, self.get(id).await) })
            .buffered(READ_AT_ONCE);
        let mut page = ArchivePage { archives: Vec::new(), unreadable: Vec::new(), next };
        for (id, read) in read.collect::<Vec<_>>().await {
            match read {
                Ok(Some(archive)) => page.archives.push(archive),
                // It was deleted meanwhile.
                Ok(None) => {}
                Err(error @ ArchiveError::Unreadable { .. }) => {
                    page.unreadable.push(UnreadableArchive { id, reason: error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    /// Removes layers that no archive names; see `sweep` for when.
    ///
    /// # Errors
    /// If the store cannot be asked, or a manifest not be read.
    pub async fn sweep(&self) -> Result<Swept, ArchiveError> {
        self.depot.sweep().await
    }
}

/// Packs the layers of a snapshot and sends those that are not there. Blocks.
fn keep_layers(
    backend: &dyn Backend,
    depot: &Depot,
    layer: LayerId,
    progress: &Progress,
) -> Result<(Vec<depot::Kept>, Option<String>), ArchiveError> {
    let runtime = Handle::current();
    let (mut kept, mut failed) = (Vec::new(), None);
    let shown =
        backend.show_chain(layer, &mut |_, source| match depot
            .keep_layer(source, &runtime, &|| progress.is_cancelled())
        {
            Ok(layer) => {
                kept.push(layer);
                Ok(())
            }
            Err(error) => {
                failed = Some(error);
                Err(BackendError::Cancelled)
            }
        });
    match (shown, failed) {
        (_, Some(ArchiveError::Pack { source: PackError::Canceled })) => {
            Err(ArchiveError::BrokenOff)
        }
        (_, Some(error)) => Err(error),
        (Err(source), None) => Err(ArchiveError::Host { source }),
        (Ok(image), None) => Ok((kept, image)),
    }
}

/// Fetches the layers of an archive, and fills new ones with them. Blocks.
fn fetch_layers(
    backend: &dyn Backend,
    depot: &Depot,
    (layers, wanted): (&[LayerId], &[PackedLayer]),
    image: (&str, Option<&str>),
    progress: &Progress,
) -> Result<(), ArchiveError> {
    let runtime = Handle::current();
    let mut failed = None;
    let mut fill = |number: usize, to: &atoll_store::archive::Destination<'_>| {
        let fetched = depot.fetch_layer(&wanted[number], to, &runtime, &|| progress.is_cancelled());
        fetched.map_err(|error| {
            failed = Some(error);
            BackendError::Cancelled
        })
    };
    let staged = backend.stage_chain(layers, image, &mut fill, progress);
    match (staged, failed) {
        (_, Some(ArchiveError::Unpack { source: UnpackError::Canceled })) => {
            Err(ArchiveError::BrokenOff)
        }
        (_, Some(error)) => Err(error),
        (Err(source), None) => Err(ArchiveError::Host { source }),
        (Ok(()), None) => Ok(()),
    }
}

pub(crate) fn random() -> Result<[u8; ID_BYTES], ArchiveError> {
    let mut bytes = [0; ID_BYTES];
    let filled = getrandom::fill(&mut bytes);
    filled.map(|()| bytes).map_err(|error| ArchiveError::Spool { source: error.into() })
}

/// Has work on threads that may block, and carries it through if whoever asked goes away.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    task::spawn_blocking(work).await.unwrap_or(Err(ArchiveError::BrokenOff))
}

/// Cancels what is under way when the server ends.
pub(crate) fn until_closing(shared: &Arc<Shared>) -> Arc<Progress> {
    let progress = Arc::new(Progress::new(Instant::now()));
    let (mut closing, told) = (shared.closing(), Arc::downgrade(&progress));
    task::spawn(async move {
        if closing.wait_for(|&is_closing| is_closing).await.is_ok()
            && let Some(progress) = told.upgrade()
        {
            progress.cancel();
        }
    });
    progress
}

impl Engine {
    fn archives(&self) -> Result<Arc<Archives>, ArchiveError> {
        self.shared().archives.clone().ok_or(ArchiveError::NoPlace)
    }

    /// Puts a snapshot into the object store; what is there already is not sent. One that is archived
    /// is not archived again. It is carried through also when the caller goes away.
    ///
    /// # Errors
    /// See [`ArchiveError`]. There is no archive then, and the snapshot is as it was.
    pub async fn archive_snapshot(&self, id: SnapshotId) -> Result<Archived, ArchiveError> {
        self.get_snapshot(id)?;
        let (archives, shared) = (self.archives()?, self.shared().clone());
        let work = async move {
            let _turn = archives.turn().await?;
            let progress = until_closing(&shared);
            archive(&shared, &archives, id, &progress).await
        };
        self.carried_through(work).await
    }

    /// What an archive is.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub async fn get_archive(&self, id: ArchiveId) -> Result<Archive, ArchiveError> {
        self.archives()?.get(id).await?.ok_or(ArchiveError::NotFound { id })
    }

    /// Gives a page of the archives that the object store has, whoever made them.
    ///
    /// # Errors
    /// If the request is wrong, or the store cannot be asked.
    pub async fn list_archives(&self, request: &ListArchives) -> Result<ArchivePage, ArchiveError> {
        self.archives()?.list(request).await
    }

    /// Deletes an archive. Layers that no other one names are removed afterwards.
    ///
    /// # Errors
    /// If there is none, or the store cannot be asked.
    pub async fn delete_archive(&self, id: ArchiveId) -> Result<(), ArchiveError> {
        let archives = self.archives()?;
        if let Some(sandbox) = self.archived_in(id) {
            return Err(ArchiveError::InUse { id, sandbox });
        }
        if !archives.depot.unpublish(&id.to_string()).await? {
            return Err(ArchiveError::NotFound { id });
        }
        archives.garbage.notify_one();
        self.shared().oversight.tell(None, AuditKind::ArchiveDeleted { archive_id: id });
        Ok(())
    }

    /// Archives a sandbox: its files go into the object store, and away from here. One that runs is
    /// stopped first if it `stops`. It is carried through also when the caller goes away, but is
    /// given up for who resumes or deletes it meanwhile.
    ///
    /// # Errors
    /// See [`ArchiveError`]. It is stopped then, with all its files, unless it ran and still does.
    pub async fn archive_sandbox(
        &self,
        id: SandboxId,
        stops: bool,
    ) -> Result<Archived, ArchiveError> {
        self.archives()?;
        self.ask(id, |reply| Command::Archive { stops, reply }).await
    }

    /// Makes a snapshot here of the archive of one, which is carried through also when the caller
    /// goes away; and of the archive of a sandbox a sandbox, which runs. That has an id of its own,
    /// and its name if nobody has it.
    ///
    /// # Errors
    /// See [`ArchiveError`]. Nothing is left of it then.
    pub async fn restore_archive(&self, id: ArchiveId) -> Result<RestoredArchive, ArchiveError> {
        let (archives, shared) = (self.archives()?, self.shared().clone());
        let work = async move {
            let _turn = archives.turn().await?;
            let progress = until_closing(&shared);
            restore(&shared, &archives, id, &progress).await
        };
        let (kept, kind) = self.carried_through(work).await?;
        if kind == ArchiveKind::Sandbox {
            return self.begin_again(id, kept).await;
        }
        let snapshot = kept.view().expect("it says how it was taken");
        Ok(RestoredArchive::Snapshot(Box::new(snapshot)))
    }

    /// Makes the sandbox again whose files are in a snapshot now, which goes.
    async fn begin_again(
        &self,
        id: ArchiveId,
        kept: Kept,
    ) -> Result<RestoredArchive, ArchiveError> {
        let nameless = CreateSandbox {
            snapshot: Some(kept.id),
            labels: kept.labels,
            ..CreateSandbox::default()
        };
        let named = CreateSandbox { name: kept.sandbox_name, ..nameless.clone() };
        let made = match self.create(named).await {
            Err(CreateError::NameTaken { .. }) => self.create(nameless).await,
            made => made,
        };
        let shared = self.shared();
        // What cannot be forgotten now is when its time is over.
        shared.snapshots.forget(kept.id, &shared.records).await.unwrap_or_default();
        let made = made.map_err(|error| ArchiveError::Create { id, source: Box::new(error) })?;
        Ok(RestoredArchive::Sandbox(Box::new(made)))
    }

    /// The sandbox here whose files an archive has.
    fn archived_in(&self, id: ArchiveId) -> Option<SandboxId> {
        let directory = self.shared().directory();
        let mut views = directory.handles().map(|handle| handle.view.borrow().clone());
        let has = |view: &Sandbox| view.archive_id == Some(id) && view.state != State::Deleted;
        views.find(has).map(|view| view.id)
    }

    /// Runs as a task of the engine, and waits for it.
    async fn carried_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ArchiveError>> + Send + 'static,
    ) -> Result<T, ArchiveError> {
        let (told, answer) = tokio::sync::oneshot::channel();
        self.spawn(async move { drop(told.send(work.await)) });
        answer.await.unwrap_or(Err(ArchiveError::BrokenOff))
    }
}

async fn archive(
    shared: &Arc<Shared>,
    archives: &Arc<Archives>,
    id: SnapshotId,
    progress: &Arc<Progress>,
) -> Result<Archived, ArchiveError> {
    let archive_id = error::of_snapshot(id);
    if let Some(archive) = archives.get(archive_id).await? {
        return Ok(Archived { archive, sent_layers: 0, sent_bytes: 0 });
    }
    let snapshot = || Ok(shared.snapshots.get(id).ok_or(SnapshotError::NotFound { id })?);
    let done = send(shared, archives, (archive_id, ArchiveKind::Snapshot), &snapshot, progress);
    let done = done.await?;
    shared.oversight.tell(None, AuditKind::SnapshotArchived { snapshot_id: id, archive_id });
    Ok(done)
}

/// Sends the layers of what `of` gives as far as they are not there, and then names an archive that
/// has them. The layers of a sandbox are read back before, since they go away here.
pub(crate) async fn send(
    shared: &Arc<Shared>,
    archives: &Arc<Archives>,
    (archive_id, kind): (ArchiveId, ArchiveKind),
    of: &(dyn Fn() -> Result<Kept, ArchiveError> + Sync),
    progress: &Arc<Progress>,
) -> Result<Archived, ArchiveError> {
    let (mut sent_layers, mut sent_bytes) = (0, 0);
    for _ in 0..LOOKS {
        let snapshot = of()?;
        let (backend, depot) = (shared.backend.clone(), archives.depot.clone());
        let (layer, under_way) = (snapshot.layer, progress.clone());
        let kept = move || {
            let (kept, image_id) = keep_layers(&*backend, &depot, layer, &under_way)?;
            if kind == ArchiveKind::Sandbox {
                check_layers(&depot, &kept, &under_way)?;
            }
            Ok((kept, image_id))
        };
        let (kept, image_id) = blocking(kept).await?;
        for layer in kept.iter().filter(|kept| kept.is_sent) {
            (sent_layers, sent_bytes) = (sent_layers + 1, sent_bytes + layer.packed.bytes);
        }
        // It took a while to send them: whoever removes layers may have begun to.
        let looked_at = Instant::now();
        let layers: Vec<PackedLayer> = kept.into_iter().map(|kept| kept.layer).collect();
        if !archives.depot.are_kept(&layers).await? || archives.depot.is_late(looked_at) {
            continue;
        }
        if progress.is_cancelled() {
            return Err(ArchiveError::BrokenOff);
        }
        let about = About { archived_at: shared.clock.now(), kind, image_id, snapshot };
        let manifest = Manifest::new(archive_id.to_string(), layers, about);
        archives.depot.publish(&manifest).await?;
        let archive = archives.get(archive_id).await?;
        let archive = archive.ok_or(ArchiveError::NotFound { id: archive_id })?;
        return Ok(Archived { archive, sent_layers, sent_bytes });
    }
    Err(ArchiveError::Unsettled)
}

/// Reads layers back. Blocks.
fn check_layers(
    depot: &Depot,
    layers: &[depot::Kept],
    progress: &Progress,
) -> Result<(), ArchiveError> {
    let runtime = Handle::current();
    for depot::Kept { layer, .. } in layers {
        let checked = depot.check_layer(layer, &runtime, &|| progress.is_cancelled());
        checked.map_err(|error| match error {
            ArchiveError::Unpack { source: UnpackError::Canceled } => ArchiveError::BrokenOff,
            error => error,
        })?;
    }
    Ok(())
}

/// Fetches the files of a sandbox into layers that are nobody's yet, the uppermost last.
pub(crate) async fn fetch_sandbox(
    shared: &Arc<Shared>,
    archives: &Arc<Archives>,
    id: ArchiveId,
    (sandbox, image): (SandboxId, &str),
    progress: &Arc<Progress>,
) -> Result<Vec<LayerId>, ArchiveError> {
    let manifest = archives.depot.manifest::<About>(&id.to_string()).await?;
    let manifest = manifest.ok_or(ArchiveError::NotFound { id })?;
    let of = (manifest.about.kind, manifest.about.snapshot.sandbox);
    let (snapshot, image_id) = check(id, manifest.about, shared)?;
    if of != (ArchiveKind::Sandbox, sandbox) || snapshot.image != image {
        return Err(malformed(id, "it is of something else"));
    }
    let layers = new_layers(id, &manifest.layers)?;
    let image = (snapshot.image, image_id);
    stage(shared, archives, (&layers, manifest.layers), image, progress).await?;
    Ok(layers)
}

/// Puts layers that were fetched where layers are. Nothing is to be collected before something is
/// above them.
pub(crate) async fn place(shared: &Arc<Shared>, layers: &[LayerId]) -> Result<(), ArchiveError> {
    let (backend, placed) = (shared.backend.clone(), layers.to_vec());
    blocking(move || backend.place_chain(&placed).map_err(|source| ArchiveError::Host { source }))
        .await
}

fn malformed(id: ArchiveId, reason: &str) -> ArchiveError {
    let source = atoll_store::archive::ManifestError::Malformed { reason: reason.to_owned() };
    ArchiveError::Unreadable { id: id.to_string(), source }
}

/// An id for each layer.
fn new_layers(id: ArchiveId, wanted: &[PackedLayer]) -> Result<Vec<LayerId>, ArchiveError> {
    if wanted.is_empty() {
        return Err(malformed(id, "it has no layers"));
    }
    wanted.iter().map(|_| random().map(LayerId::from_random)).collect()
}

/// What an archive says of itself, as far as it can be had here.
fn check(
    id: ArchiveId,
    about: About,
    shared: &Shared,
) -> Result<(Kept, Option<String>), ArchiveError> {
    let About { image_id, snapshot, .. } = about;
    if snapshot.tier != shared.backend.tier() {
        return Err(ArchiveError::OtherTier { id, tier: snapshot.tier });
    }
    // Whatever comes of it is asked for as what anybody asks for.
    let request = snapshot.fill(&CreateSandbox::default());
    let request = CreateSandbox { labels: snapshot.labels.clone(), ..request };
    request.validate().map_err(|source| ArchiveError::Refused { id, source })?;
    Ok((snapshot, image_id))
}

async fn restore(
    shared: &Arc<Shared>,
    archives: &Arc<Archives>,
    id: ArchiveId,
    progress: &Arc<Progress>,
) -> Result<(Kept, ArchiveKind), ArchiveError> {
    let begun = Instant::now();
    let manifest = archives.depot.manifest::<About>(&id.to_string()).await?;
    let manifest = manifest.ok_or(ArchiveError::NotFound { id })?;
    let kind = manifest.about.kind;
    let (snapshot, image_id) = check(id, manifest.about, shared)?;
    let wanted = manifest.layers;
    let layers = new_layers(id, &wanted)?;
    let layer = *layers.last().expect("there is one");
    let now = shared.clock.now();
    // Nobody asked for one of a sandbox: it goes when that is made, or a server died before.
    let expires_at = (kind == ArchiveKind::Sandbox).then(|| now.after(PASSING));
    let kept = Kept {
        id: SnapshotId::from_random(random()?),
        layer,
        taken: None,
        parent: None,
        created_at: now,
        expires_at,
        template: None,
        build: None,
        ..snapshot.clone()
    };
    shared.snapshots.begin(kept.clone(), &shared.records).await?;
    let image = (snapshot.image, image_id);
    if let Err(error) = fill(shared, archives, (&layers, wanted), image, progress).await {
        // What cannot be forgotten now the next start forgets.
        shared.snapshots.forget(kept.id, &shared.records).await.unwrap_or_default();
        return Err(error);
    }
    let how = How::new(
        crate::backend::Taken {
            way: SnapshotWay::Archive,
            files: None,
            copied_bytes: 0,
            below: layers.len() - 1,
        },
        begun.elapsed(),
        Duration::ZERO,
    );
    let kept = Kept { taken: Some(how), ..kept };
    shared.snapshots.finish(kept.clone(), &shared.records).await?;
    shared.snapshots.taken_above(layers.len() - 1);
    let snapshot_id = kept.id;
    shared.oversight.tell(None, AuditKind::ArchiveRestored { archive_id: id, snapshot_id });
    Ok((kept, kind))
}

/// Fetches what is to be in layers, and puts them where layers are.
async fn fill(
    shared: &Arc<Shared>,
    archives: &Arc<Archives>,
    (layers, wanted): (&[LayerId], Vec<PackedLayer>),
    image: (String, Option<String>),
    progress: &Arc<Progress>,
) -> Result<(), ArchiveError> {
    stage(shared, archives, (layers, wanted), image, progress).await?;
    // Nothing is collected before the uppermost is there, which is above the others.
    let _making = shared.snapshots.layers.read().await;
    place(shared, layers).await
}

/// Fetches what is to be in layers, which are nobody's yet.
async fn stage(
    shared: &Arc<Shared>,
    archives: &Arc<Archives>,
    (layers, wanted): (&[LayerId], Vec<PackedLayer>),
    (image, image_id): (String, Option<String>),
    progress: &Arc<Progress>,
) -> Result<(), ArchiveError> {
    let (backend, depot) = (shared.backend.clone(), archives.depot.clone());
    let (staged, under_way) = (layers.to_vec(), progress.clone());
    blocking(move || {
        let image = (image.as_str(), image_id.as_deref());
        fetch_layers(&*backend, &depot, (&staged, &wanted), image, &under_way)
    })
    .await
}

/// Gives up what an earlier server had begun to send, and looks for layers that no archive names,
/// until the engine shuts down.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let Some(archives) = shared.archives.clone() else { return };
    let clock = shared.clock.clone();
    let keep = async {
        loop {
            match archives.depot.give_up_uploads().await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "uploads of an earlier server were given up"),
                Err(error) => {
                    tracing::warn!(cause = crate::error::chain(&error), "an upload stays open");
                }
            }
            tokio::select! {
                () = archives.garbage.notified() => {}
                () = clock.wait_until(clock.now().after(SWEEP_EVERY)) => {}
            }
            match archives.sweep().await {
                Ok(Swept { condemned: 0, removed: 0 }) => {}
                Ok(Swept { condemned, removed }) => {
                    tracing::info!(condemned, removed, "layers that no archive names");
                }
                Err(error) => {
                    tracing::warn!(cause = crate::error::chain(&error), "archives are not swept");
                }
            }
        }
    };
    shared.until_closing(keep).await;
}
