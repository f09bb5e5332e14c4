//! From a registry to an image that is there.

use super::error::ImageError;
use super::jobs::Progress;
use super::registry::{Feed, Session};
use super::{Inner, blocking};
use atoll_store::catalog::{Image, Named};
use atoll_store::digest::Digest;
use atoll_store::layer::{Expected, Pin};
use atoll_store::oci::{
    Config, DOCUMENT_BYTES_MAX, Descriptor, DocumentError, Manifest, Platform, Reference, Told,
    parse_config, parse_manifest,
};
use atoll_store::room::Room;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Layers that are fetched at once.
const AT_ONCE: usize = 3;

/// Gets an image. A failure leaves nothing listed; layers that came whole stay until they are
/// collected, for who tries again.
pub(super) async fn pull(
    inner: &Arc<Inner>,
    reference: &Reference,
    told: Progress,
) -> Result<Image, ImageError> {
    let name = reference.to_string();
    let session = Arc::new(inner.registry.session(reference)?);
    let (digest, manifest) = manifest(&session, reference).await?;
    let config = session.document(&manifest.config).await?;
    let found = Digest::of(&config);
    if found != manifest.config.digest {
        return Err(session.damaged("the configuration", &manifest.config.digest, &found));
    }
    let document = |source| ImageError::Document { name: name.clone(), source: Arc::new(source) };
    let config = parse_config(&config, &Platform::own()).map_err(document)?;
    config.check_layers(manifest.layers.len()).map_err(document)?;
    let (pin, room) = prepare(inner, &name, &config).await?;
    let missing: Vec<_> = config
        .diff_ids
        .iter()
        .zip(&manifest.layers)
        .filter(|(diff_id, _)| inner.store.layers.info(diff_id).is_none())
        .map(|(diff_id, layer)| (*diff_id, layer.clone()))
        .collect();
    check_size(inner, &room, &name, &manifest, &missing)?;
    told.change(|told| {
        told.layers_total = missing.len() as u64;
        told.bytes_total = missing.iter().map(|(_, layer)| layer.size).sum();
    });
    fetch(inner, &session, (&pin, &room), missing, &told).await?;
    let named = Named { name, image: manifest.config.digest, manifest: Some(digest), stamp: None };
    let inner = inner.clone();
    let finish = move || inner.store.finish(&pin, &config, named);
    blocking(finish).await?.map_err(ImageError::of_import)
}

/// The manifest for this machine, and its digest.
async fn manifest(
    session: &Arc<Session>,
    reference: &Reference,
) -> Result<(Digest, Manifest), ImageError> {
    let name = reference.to_string();
    let document = |source| ImageError::Document { name: name.clone(), source: Arc::new(source) };
    let bytes = session.manifest(&reference.selector()).await?;
    let digest = Digest::of(&bytes);
    if let Some(wanted) = reference.digest.filter(|wanted| *wanted != digest) {
        return Err(session.damaged("the manifest", &wanted, &digest));
    }
    let index = match parse_manifest(&bytes).map_err(document)? {
        Told::Manifest(manifest) => return Ok((digest, manifest)),
        Told::Index(index) => index,
    };
    let chosen = index.for_platform(&Platform::own()).map_err(document)?;
    let bytes = session.manifest(&chosen.digest.to_string()).await?;
    let found = Digest::of(&bytes);
    if found != chosen.digest {
        return Err(session.damaged("the manifest", &chosen.digest, &found));
    }
    match parse_manifest(&bytes).map_err(document)? {
        // The name leads to the index: that is what changes when it does.
        Told::Manifest(manifest) => Ok((digest, manifest)),
        Told::Index(_) => {
            let kind = "index within an index".to_owned();
            Err(document(DocumentError::Kind { what: "manifest", kind }))
        }
    }
}

async fn prepare(
    inner: &Arc<Inner>,
    _name: &str,
    config: &Config,
) -> Result<(Arc<Pin>, Arc<Room>), ImageError> {
    let (inner, layers) = (inner.clone(), config.diff_ids.clone());
    blocking(move || {
        let pin = inner.store.layers.pin(&layers).map_err(ImageError::of_layer)?;
        let room = inner.store.room().map_err(ImageError::of_import)?;
        Ok((Arc::new(pin), Arc::new(room)))
    })
    .await?
}

/// Refuses what is too large, before anything of it is fetched.
fn check_size(
    inner: &Inner,
    room: &Room,
    name: &str,
    manifest: &Manifest,
    missing: &[(Digest, Descriptor)],
) -> Result<(), ImageError> {
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let bytes = sum(&mut manifest.layers.iter().map(|layer| layer.size));
    let bytes_max = inner.store.limits.bytes;
    if bytes > bytes_max || manifest.config.size > DOCUMENT_BYTES_MAX {
        return Err(ImageError::TooLarge { name: name.to_owned(), bytes, bytes_max });
    }
    // It takes at least as much as it has when it is packed.
    let needed = sum(&mut missing.iter().map(|(_, layer)| layer.size));
    room.check(needed).map_err(|source| ImageError::NoRoom { source: Arc::new(source) })
}

/// Fetches layers, some at once, each unpacked as it comes.
async fn fetch(
    inner: &Arc<Inner>,
    session: &Arc<Session>,
    (pin, room): (&Arc<Pin>, &Arc<Room>),
    missing: Vec<(Digest, Descriptor)>,
    told: &Progress,
) -> Result<(), ImageError> {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut fetching = JoinSet::new();
    // Threads that unpack do not end with this by themselves.
    let (_wanted, wanted) = watch::channel(());
    for (diff_id, layer) in missing {
        let (inner, session, turns) = (inner.clone(), session.clone(), turns.clone());
        let (pin, room, told, wanted) = (pin.clone(), room.clone(), told.clone(), wanted.clone());
        fetching.spawn(async move {
            let _turn = turns.acquire().await;
            let packed = Some((layer.digest, layer.size));
            let expected = Expected { diff_id, packed };
            let counter = told.clone();
            let count = move |bytes| counter.change(|told| told.bytes_done += bytes);
            let feed = Feed::new(session, layer, Handle::current(), wanted, Box::new(count));
            let failure = feed.failure();
            let add =
                move || inner.store.layers.add(&pin, feed, &expected, &inner.store.limits, &room);
            let added = blocking(add).await?;
            // What the registry did is the reason, not what unpacking made of it.
            let failed = || failure.lock().ok().and_then(|mut failure| failure.take());
            added.map_err(|error| failed().unwrap_or_else(|| ImageError::of_layer(error)))?;
            told.change(|told| told.layers_done += 1);
            Ok::<(), ImageError>(())
        });
    }
    while let Some(fetched) = fetching.join_next().await {
        // The others end with the first that fails.
        fetched.map_err(|error| ImageError::BrokenOff { reason: error.to_string() })??;
    }
    Ok(())
}
