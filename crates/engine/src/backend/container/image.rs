//! What a sandbox is made of: this machine's system, a root file system, or the layers of an image.
//!
//! A sandbox notes what it has by a link, which what is set aside of it has too: to the root file
//! system, or to the file in which the image is written down. While there is such a link the image
//! is not removed.

use super::host::{Places, call};
use super::layers;
use super::top::Top;
use crate::backend::{BackendError, Progress, Spec};
use crate::error::{chain, is_full};
use crate::images::{Held, ImageError, Images};
use atoll_api::image::ImagePull;
use atoll_store::catalog::Record;
use atoll_store::digest::Digest;
use atoll_store::image::Limits;
use atoll_store::layer::Chain;
use atoll_store::oci::Settings;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;

/// What a sandbox is made of.
pub(super) enum Base {
    /// The system of this machine.
    Host,
    /// The root file system in this directory.
    Root(PathBuf),
    /// The layers of an image.
    Layers(Box<Held>),
}

/// What is below everything that a sandbox writes.
pub(super) enum Ground {
    /// The root file system in this directory.
    Root(PathBuf),
    /// These directories, the lowest first, and how the image wants to be run.
    Layers(Vec<PathBuf>, Settings),
}

/// What a new sandbox is to be made of, pulled or unpacked if it is not there.
pub(super) fn base(
    spec: &Spec,
    places: &Places,
    images: Option<&Images>,
    progress: &Progress,
) -> Result<Base, BackendError> {
    let name = &spec.image;
    if name == "host" {
        return Ok(Base::Host);
    }
    if let Some(images) = images
        && !(name.starts_with('/') && is_shown_whole(Path::new(name), places))
        && let Some(held) = ensure(images, name, spec.pull, progress)?
    {
        return Ok(Base::Layers(Box::new(held)));
    }
    root(name, places).map(Base::Root)
}

/// Waits for an image, unless nobody wants the sandbox any more.
fn ensure(
    images: &Images,
    name: &str,
    pull: ImagePull,
    progress: &Progress,
) -> Result<Option<Held>, BackendError> {
    let failed = |source| BackendError::Images { source: Arc::new(source) };
    let runtime = Handle::try_current()
        .map_err(|error| failed(ImageError::BrokenOff { reason: error.to_string() }))?;
    runtime.block_on(async {
        tokio::select! {
            held = images.ensure(name, pull) => held.map_err(failed),
            () = progress.cancelled() => Err(BackendError::Cancelled),
        }
    })
}

/// The root file system at a path, unpacked if it is an archive that was not there.
fn root(name: &str, places: &Places) -> Result<PathBuf, BackendError> {
    let refused = |reason: String| BackendError::Image { image: name.to_owned(), reason };
    if !name.starts_with('/') {
        let text = "it is neither host nor the absolute path of a directory or a tar archive";
        return Err(refused(text.to_owned()));
    }
    let path = Path::new(name);
    if is_shown_whole(path, places) {
        let text =
            "it is this machine's own root, or holds sandboxes; the machine's system is host";
        return Err(refused(text.to_owned()));
    }
    atoll_store::image::root(path, places.state(), &Limits::default()).map_err(|error| {
        if is_full(&error) {
            return BackendError::DiskFull { step: "while the image was unpacked" };
        }
        refused(chain(&error))
    })
}

/// What a sandbox has below what it writes; none if that is this machine's system.
pub(super) fn ground(
    top: &Top,
    name: &str,
    images: Option<&Images>,
) -> Result<Option<Ground>, BackendError> {
    let Some(root) = top.image()? else { return Ok(None) };
    let gone = || {
        let reason = format!("{} is gone", root.display());
        BackendError::Image { image: name.to_owned(), reason }
    };
    if root.is_dir() {
        return Ok(Some(Ground::Root(root)));
    }
    let store = images.map(Images::store).filter(|store| store.catalog.has_file(&root));
    let store = store.ok_or_else(gone)?;
    let failed = |error| BackendError::Images { source: Arc::new(error) };
    let record = store.catalog.read_file(&root).map_err(|error| failed(error.into()))?;
    let Record { layers, settings, .. } = record.ok_or_else(gone)?;
    let lowers = store.layers.lowers(&layers);
    let mut lowers = lowers.map_err(|error| failed(ImageError::of_layer(error)))?;
    lowers.reverse();
    Ok(Some(Ground::Layers(lowers, settings)))
}

/// Makes what a new sandbox writes to its root file system, over this.
pub(super) fn make(
    base: &Base,
    top: &Top,
    ids: super::identity::Ids,
    images: Option<&Images>,
) -> Result<(), BackendError> {
    let step = "open the sandbox's image";
    match base {
        Base::Host => Ok(()),
        Base::Root(root) => {
            let chain = Chain::open(std::slice::from_ref(root), layers::format());
            layers::make(top, &chain.map_err(call(step))?, ids, None)?;
            top.note_image(root)
        }
        Base::Layers(held) => {
            let record = &held.image.record;
            let failed = |error| BackendError::Images { source: Arc::new(error) };
            let store = images.map(Images::store).ok_or(BackendError::Cancelled)?;
            let chain = store.layers.chain(&record.layers);
            let chain = chain.map_err(|error| failed(ImageError::of_layer(error)))?;
            layers::make(top, &chain, ids, workdir(&record.settings))?;
            let noted = store.catalog.while_there(&record.id, |path| top.note_image(path));
            let name = record.id.to_string();
            noted
                .map_err(|error| failed(error.into()))?
                .unwrap_or_else(|| Err(failed(ImageError::NotFound { name })))
        }
    }
}

/// Where an image wants commands to begin; nothing if that is nowhere.
pub(super) fn workdir(settings: &Settings) -> Option<&Path> {
    let workdir = settings.workdir.as_deref().map(Path::new)?;
    let is_plain =
        workdir.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    (workdir.is_absolute() && is_plain && workdir != Path::new("/")).then_some(workdir)
}

/// Which images are below sandboxes, and below what was set aside of some.
pub(super) fn used(state: &Path) -> io::Result<Vec<(String, Digest)>> {
    let mut used = Vec::new();
    let mut look = |directory: &Path, name: &str| -> io::Result<()> {
        match std::fs::read_link(directory.join("image")) {
            Ok(root) => {
                let id = root.file_stem().and_then(|stem| Digest::from_file_name(stem.to_str()?));
                used.extend(id.map(|id| (name.to_owned(), id)));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
            Err(error) => Err(error),
        }
    };
    let names = |directory: &Path| -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let name = |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name());
        let names: Vec<_> = entries.map(name).collect::<io::Result<_>>()?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    };
    for name in names(state)?.iter().filter(|name| name.starts_with("sbx_")) {
        look(&state.join(name).join("top"), name)?;
        look(&state.join(name).join("top.new"), name)?;
    }
    let layers = state.join("layers");
    for name in names(&layers)? {
        look(&layers.join(&name), &name)?;
    }
    Ok(used)
}

/// Whether what is there would show what `host` hides, or what other sandboxes keep.
fn is_shown_whole(path: &Path, places: &Places) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let id = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let state = places.state();
    id(&path) == id(Path::new("/")) || state.starts_with(&path) || path.starts_with(state)
}
