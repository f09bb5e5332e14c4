//! What an object store holds, and every question that is put to it.
//!
//! | name | what |
//! |---|---|
//! | `archives/ID` | the manifest of an archive: written last, removed first |
//! | `layers/SHOWN/NONCE` | a layer; several archives may name it |
//! | `condemned/SHOWN/NONCE` | no archive named that layer: see [`sweep`](super::sweep) |
//! | `clock` | written to learn what time it is there |
//!
//! Beside it this server has a directory of its own, with what it is about to send, and a note of
//! each upload in parts, so that one that was cut short can be given up.

use super::error::{ArchiveError, StoreFault};
use super::place::Opened;
use crate::images::SILENT_MAX;
use atoll_store::archive::{
    ArchiveKey, Destination, MANIFEST_BYTES_MAX, Manifest, ObjectName, Packed, PackedLayer, Source,
    check_layer, pack_layer, read_manifest, shown, unpack_layer, write_manifest,
};
use bytes::{Buf as _, Bytes};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Location;
use object_store::{
    Error as StoreError, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, PutPayload,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Bytes of a part; what is no longer is sent at once.
const PART_BYTES: u64 = 8 << 20;
/// Parts of an upload, as stores allow it.
const PARTS_MAX: u64 = 10_000;
/// Parts that are on their way at once.
const PARTS_AT_ONCE: usize = 4;
/// Most archives of a store that are listed.
pub(super) const ARCHIVES_MAX: usize = 100_000;

/// How long a layer is condemned before it is removed. Whoever decided before to use it has named it
/// in a manifest by then, or looked again: they have half of it.
pub(super) const GRACE: Duration = Duration::from_secs(3600);

/// See the module.
pub(super) struct Depot {
    pub(super) store: Arc<dyn ObjectStore>,
    parts: Option<Arc<dyn MultipartStore>>,
    prefix: Location,
    pub(super) folder: Option<PathBuf>,
    key: Option<ArchiveKey>,
    own: PathBuf,
    pub(super) grace: Duration,
}

impl std::fmt::Debug for Depot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Depot(..)")
    }
}

/// A layer that is there, and when that was seen.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) layer: PackedLayer,
    pub(super) packed: Packed,
    /// Whether it had to be sent.
    pub(super) is_sent: bool,
}

impl Depot {
    /// `own` is this server's directory, which is emptied.
    pub(super) fn new(
        opened: Opened,
        key: Option<ArchiveKey>,
        own: PathBuf,
        grace: Duration,
    ) -> io::Result<Self> {
        let Opened { store, parts, prefix, folder } = opened;
        for name in ["spool", "uploads"] {
            std::fs::create_dir_all(own.join(name))?;
        }
        for entry in std::fs::read_dir(own.join("spool"))? {
            std::fs::remove_file(entry?.path())?;
        }
        Ok(Self { store, parts, prefix, folder, key, own, grace })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.key.is_some()
    }

    pub(super) fn at(&self, name: &str) -> Location {
        let name = Location::from(name);
        self.prefix.parts().chain(name.parts()).collect()
    }

    /// What a name in the store is below `above`.
    pub(super) fn name_below(&self, above: &str, location: &Location) -> Option<String> {
        let above = self.at(above);
        let rest: Vec<_> = location.prefix_match(&above)?.collect();
        Some(rest.iter().map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"))
    }

    fn layer_at(&self, layer: &PackedLayer) -> Location {
        self.at(&format!("layers/{}/{}", layer.shown, layer.nonce))
    }

    pub(super) async fn list(&self, above: &str) -> Result<Vec<ObjectMeta>, ArchiveError> {
        let found = self.store.list(Some(&self.at(above))).take(16 * ARCHIVES_MAX);
        found.try_collect().await.map_err(|error| self.fault("list what is there", error))
    }

    pub(super) fn fault(&self, step: &'static str, source: StoreError) -> ArchiveError {
        ArchiveError::Store { step, source: StoreFault::new(&source) }
    }

    /// The manifest of that archive; nothing if there is none.
    pub(super) async fn manifest<A: DeserializeOwned>(
        &self,
        id: &str,
    ) -> Result<Option<Manifest<A>>, ArchiveError> {
        let step = "read the archive";
        let found = match self.store.get(&self.at(&format!("archives/{id}"))).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            found => found.map_err(|error| self.fault(step, error))?,
        };
        let (mut bytes, mut stream) = (Vec::new(), found.into_stream());
        while let Some(piece) = next(&mut stream).await.map_err(|error| self.fault(step, error))? {
            // What sealing adds is less than a tenth.
            if bytes.len() + piece.len() > MANIFEST_BYTES_MAX + MANIFEST_BYTES_MAX / 8 {
                return Err(ArchiveError::Unreadable { id: id.to_owned(), source: too_large() });
            }
            bytes.extend_from_slice(&piece);
        }
        let manifest = read_manifest(&bytes, self.key.as_ref(), id);
        let unreadable = |source| ArchiveError::Unreadable { id: id.to_owned(), source };
        manifest.map(Some).map_err(unreadable)
    }

    /// Names an archive, unless there is one of that id already: says whether there was none.
    pub(super) async fn publish<A: Serialize>(
        &self,
        manifest: &Manifest<A>,
    ) -> Result<bool, ArchiveError> {
        let object = write_manifest(manifest, self.key.as_ref());
        let unreadable = |source| ArchiveError::Unreadable { id: manifest.id.clone(), source };
        let object = PutPayload::from(object.map_err(unreadable)?);
        let at = self.at(&format!("archives/{}", manifest.id));
        let options = PutOptions::from(PutMode::Create);
        match self.store.put_opts(&at, object, options).await {
            Ok(_) => Ok(true),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.fault("name the archive", error)),
        }
    }

    /// Takes the name of an archive away; whether there was one.
    pub(super) async fn unpublish(&self, id: &str) -> Result<bool, ArchiveError> {
        let at = self.at(&format!("archives/{id}"));
        match self.store.head(&at).await {
            Err(StoreError::NotFound { .. }) => return Ok(false),
            found => found.map_err(|error| self.fault("look for the archive", error))?,
        };
        self.remove(&at).await.map(|()| true)
    }

    pub(super) async fn remove(&self, at: &Location) -> Result<(), ArchiveError> {
        match self.store.delete(at).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.fault("remove an object", error)),
        }
    }

    pub(super) async fn put_empty(&self, name: &str) -> Result<(), ArchiveError> {
        let put = self.store.put(&self.at(name), PutPayload::default()).await;
        put.map(drop).map_err(|error| self.fault("write an object", error))
    }

    /// Packs a layer, and sends it unless it is there. Blocks.
    pub(super) fn keep_layer(
        &self,
        source: &Source<'_>,
        runtime: &Handle,
        is_canceled: &dyn Fn() -> bool,
    ) -> Result<Kept, ArchiveError> {
        let nonce = nonce()?;
        let spool = Spooled(self.own.join("spool").join(&nonce));
        let spooling = |source| ArchiveError::Spool { source };
        let mut file = File::options().read(true).write(true).create_new(true).open(&spool.0);
        let file = file.as_mut().map_err(|error| spooling(io::Error::from(error.kind())))?;
        let (key, name) = (self.key.as_ref(), ObjectName::of_layer(&nonce));
        let buffered = io::BufWriter::with_capacity(256 << 10, &mut *file);
        let packed = pack_layer(source, key, &name, buffered, is_canceled);
        let packed = packed.map_err(|source| ArchiveError::Pack { source })?;
        let layer = PackedLayer {
            shown: shown(&packed.digest, key),
            nonce,
            bytes: packed.bytes,
            digest: packed.digest,
            packed_bytes: packed.packed_bytes,
            entries: packed.entries,
        };
        runtime.block_on(async {
            if let Some(layer) = self.find_layer(&layer).await? {
                return Ok(Kept { layer, packed, is_sent: false });
            }
            self.send(&self.layer_at(&layer), file, layer.bytes).await?;
            Ok(Kept { layer, packed, is_sent: true })
        })
    }

    /// The same layer in an object that nobody is about to remove.
    async fn find_layer(&self, like: &PackedLayer) -> Result<Option<PackedLayer>, ArchiveError> {
        let above = format!("layers/{}", like.shown);
        for found in self.list(&above).await? {
            let Some(nonce) = self.name_below(&above, &found.location) else { continue };
            let is_whole = found.size == like.bytes && nonce.len() == like.nonce.len();
            let layer = PackedLayer { nonce, ..like.clone() };
            if is_whole && !self.is_condemned(&layer).await? {
                return Ok(Some(layer));
            }
        }
        Ok(None)
    }

    async fn is_condemned(&self, layer: &PackedLayer) -> Result<bool, ArchiveError> {
        let at = self.at(&format!("condemned/{}/{}", layer.shown, layer.nonce));
        match self.store.head(&at).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.fault("look for a layer", error)),
        }
    }

    /// Whether all of these are there, and nobody is about to remove any. What this says holds for
    /// half of [`GRACE`].
    pub(super) async fn are_kept(&self, layers: &[PackedLayer]) -> Result<bool, ArchiveError> {
        for layer in layers {
            match self.store.head(&self.layer_at(layer)).await {
                Ok(found) if found.size == layer.bytes => {}
                Ok(_) | Err(StoreError::NotFound { .. }) => return Ok(false),
                Err(error) => return Err(self.fault("look for a layer", error)),
            }
            if self.is_condemned(layer).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How long a manifest may take that names what was looked at.
    pub(super) fn is_late(&self, looked_at: Instant) -> bool {
        looked_at.elapsed() > self.grace / 2
    }

    async fn send(&self, at: &Location, file: &File, bytes: u64) -> Result<(), ArchiveError> {
        let failed = |error| self.fault("send a layer", error);
        if bytes <= PART_BYTES {
            let whole = read_part(file, 0, bytes)?;
            return self.store.put(at, whole.into()).await.map(drop).map_err(failed);
        }
        let part_bytes = PART_BYTES.max(bytes.div_ceil(PARTS_MAX - 1));
        let offsets = || (0..bytes.div_ceil(part_bytes)).map(|number| number * part_bytes);
        let Some(parts) = &self.parts else {
            let mut upload = self.store.put_multipart(at).await.map_err(failed)?;
            let mut sent = Ok(());
            for offset in offsets() {
                let part = read_part(file, offset, part_bytes.min(bytes - offset))?;
                sent = upload.put_part(part.into()).await;
                if sent.is_err() {
                    break;
                }
            }
            if sent.is_ok() {
                sent = upload.complete().await.map(drop);
            }
            if sent.is_err() {
                upload.abort().await.unwrap_or_default();
            }
            return sent.map_err(failed);
        };
        let id = parts.create_multipart(at).await.map_err(failed)?;
        let note = Noted::new(&self.own, at, &id)?;
        let sending = futures_util::stream::iter(offsets().enumerate()).map(|(number, offset)| {
            let (parts, id) = (parts.clone(), id.clone());
            async move {
                let part = read_part(file, offset, part_bytes.min(bytes - offset))?;
                let sent = parts.put_part(at, &id, number, part.into()).await;
                sent.map_err(|error| self.fault("send a layer", error))
            }
        });
        let sent: Result<Vec<PartId>, _> = sending.buffered(PARTS_AT_ONCE).try_collect().await;
        let whole = match sent {
            Ok(ids) => parts.complete_multipart(at, &id, ids).await.map(drop).map_err(failed),
            Err(error) => Err(error),
        };
        if whole.is_err() {
            // If it cannot be given up now, the next start does.
            if parts.abort_multipart(at, &id).await.is_err() {
                return whole;
            }
        }
        note.over();
        whole
    }

    /// Gives up what an earlier server had begun to send; how many that were.
    pub(super) async fn give_up_uploads(&self) -> Result<usize, ArchiveError> {
        let Some(parts) = &self.parts else { return Ok(0) };
        let mut count = 0;
        let noted = Noted::all(&self.own).map_err(|source| ArchiveError::Spool { source })?;
        for note in noted {
            let Some((at, id)) = note.read() else {
                note.over();
                continue;
            };
            match parts.abort_multipart(&at, &id).await {
                Ok(()) => count += 1,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(self.fault("give up an upload", error)),
            }
            note.over();
        }
        Ok(count)
    }

    /// Fetches a layer and unpacks it. Blocks.
    pub(super) fn fetch_layer(
        &self,
        layer: &PackedLayer,
        to: &Destination<'_>,
        runtime: &Handle,
        is_canceled: &dyn Fn() -> bool,
    ) -> Result<(), ArchiveError> {
        let feed = self.feed(layer, runtime)?;
        let name = ObjectName::of_layer(&layer.nonce);
        let expected = layer.expected();
        let unpacked = unpack_layer(feed, self.key.as_ref(), &name, &expected, to, is_canceled);
        unpacked.map_err(|source| ArchiveError::Unpack { source })
    }

    /// Fetches a layer, and looks whether it is whole and what it is to be. Blocks.
    pub(super) fn check_layer(
        &self,
        layer: &PackedLayer,
        runtime: &Handle,
        is_canceled: &dyn Fn() -> bool,
    ) -> Result<(), ArchiveError> {
        let feed = self.feed(layer, runtime)?;
        let name = ObjectName::of_layer(&layer.nonce);
        let checked = check_layer(feed, self.key.as_ref(), &name, &layer.expected(), is_canceled);
        checked.map_err(|source| ArchiveError::Unpack { source })
    }

    fn feed<'f>(
        &self,
        layer: &PackedLayer,
        runtime: &'f Handle,
    ) -> Result<Feed<'f, BoxStream<'static, Result<Bytes, StoreError>>>, ArchiveError> {
        let found = runtime.block_on(self.store.get(&self.layer_at(layer)));
        let found = found.map_err(|error| self.fault("fetch a layer", error))?;
        let stream = found.into_stream();
        Ok(Feed { stream, piece: Bytes::new(), left: layer.bytes, runtime })
    }
}

fn too_large() -> atoll_store::archive::ManifestError {
    atoll_store::archive::ManifestError::TooLarge
}

fn nonce() -> Result<String, ArchiveError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ArchiveError::Spool { source: error.into() })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read_part(file: &File, offset: u64, length: u64) -> Result<Bytes, ArchiveError> {
    let mut part = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let read = file.read_exact_at(&mut part, offset);
    read.map_err(|source| ArchiveError::Spool { source })?;
    Ok(part.into())
}

async fn next<S>(stream: &mut S) -> Result<Option<Bytes>, StoreError>
where
    S: futures_util::Stream<Item = Result<Bytes, StoreError>> + Unpin,
{
    match timeout(SILENT_MAX, stream.next()).await {
        Ok(piece) => piece.transpose(),
        Err(_) => {
            Err(StoreError::Generic { store: "archives", source: "it says nothing more".into() })
        }
    }
}

/// What arrives, for who reads without waiting otherwise; at most as much as is expected.
struct Feed<'f, S> {
    stream: S,
    piece: Bytes,
    left: u64,
    runtime: &'f Handle,
}

impl<S> Read for Feed<'_, S>
where
    S: futures_util::Stream<Item = Result<Bytes, StoreError>> + Unpin,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let next = self.runtime.block_on(next(&mut self.stream));
            match next.map_err(io::Error::other)? {
                None => return Ok(0),
                Some(piece) => self.piece = piece,
            }
            // More than the object has is somebody else's.
            self.left = self.left.checked_sub(self.piece.len() as u64).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "it is longer than the archive says")
            })?;
        }
        let count = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

/// A file that is there only while it is sent.
struct Spooled(PathBuf);

impl Drop for Spooled {
    fn drop(&mut self) {
        // What stays the next start removes.
        std::fs::remove_file(&self.0).ok();
    }
}

/// A note of an upload in parts, which the store would keep for ever.
struct Noted(PathBuf);

impl Noted {
    fn new(own: &Path, at: &Location, id: &str) -> Result<Self, ArchiveError> {
        let spool = |source| ArchiveError::Spool { source };
        let path = own.join("uploads").join(nonce()?);
        let text = serde_json::to_vec(&(at.as_ref(), id)).map_err(io::Error::other);
        let new = path.with_extension("new");
        std::fs::write(&new, text.map_err(spool)?).map_err(spool)?;
        std::fs::rename(&new, &path).map_err(spool)?;
        Ok(Self(path))
    }

    fn all(own: &Path) -> io::Result<Vec<Self>> {
        let entries = std::fs::read_dir(own.join("uploads"))?;
        entries.map(|entry| Ok(Self(entry?.path()))).collect()
    }

    /// Nothing if it was cut short itself: then nothing was sent.
    fn read(&self) -> Option<(Location, String)> {
        let text = std::fs::read(&self.0).ok()?;
        let (at, id): (String, String) = serde_json::from_slice(&text).ok()?;
        Some((Location::parse(at).ok()?, id))
    }

    fn over(self) {
        std::fs::remove_file(&self.0).ok();
    }
}
