//! Layers that go into archives, and that come from there.
//!
//! ```text
//!     STATE/arriving/lay_…/   layers that are being filled, below the id of the uppermost
//! ```
//!
//! What arrives is made there, outside of all that is looked through or collected, with what is to
//! be below it, and becomes layers by renames: the uppermost last, so that it is never above less
//! than it says.

use super::Container;
use super::host::call;
use super::identity::{COUNT, Ids, UID};
use super::image::{self, Base};
use super::layers::format;
use super::snapshot::{PARTS, open};
use super::top::Top;
use crate::backend::{BackendError, Fill, Progress, Show, Spec};
use atoll_api::id::LayerId;
use atoll_api::image::ImagePull;
use atoll_api::sandbox::{Env, Limits};
use atoll_store::archive::{Destination, Owners, Source};
use atoll_store::digest::Digest;
use atoll_store::room::{Quota, Room};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

const ARRIVING: &str = "arriving";
const STEP: &str = "make the layers of the archive";

impl Container {
    pub(super) fn show(
        &self,
        layer: LayerId,
        show: Show<'_>,
    ) -> Result<Option<String>, BackendError> {
        let held = self.hold_chain(layer)?;
        for layer in &held.layers {
            let top = self.places.layer(*layer);
            let (owners, format) = (owners(top.ids()?), format());
            show(*layer, &Source { root: top.path(), parts: &PARTS, owners, format })?;
        }
        let uppermost = self.places.layer(layer);
        Ok(uppermost.image()?.as_deref().and_then(digest).map(|digest| digest.to_string()))
    }

    pub(super) fn stage(
        &self,
        layers: &[LayerId],
        (name, id): (&str, Option<&str>),
        fill: Fill<'_>,
        progress: &Progress,
    ) -> Result<(), BackendError> {
        self.places.check_room()?;
        let base = self.base_of(name, id, progress)?;
        let stage = self.stage_of(layers);
        self.discard(&stage)?;
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&stage).map_err(call(STEP))?;
        let staged = layers.iter().enumerate().try_for_each(|(number, layer)| {
            let top = Top::at(stage.join(layer.to_string()));
            self.make_empty(&top)?;
            self.fill(&top, number, fill)?;
            self.note_base(&top, &base)?;
            top.note_below(&layers[..number]).map_err(call(STEP))
        });
        if staged.is_err() {
            self.discard(&stage)?;
        }
        staged
    }

    /// What new layers are over; it must be what they were over when they were archived.
    fn base_of(
        &self,
        name: &str,
        id: Option<&str>,
        progress: &Progress,
    ) -> Result<Base, BackendError> {
        let spec = Spec {
            image: name.to_owned(),
            pull: ImagePull::default(),
            layer: None,
            directory: None,
            hostname: String::new(),
            env: Env::default(),
            limits: Limits::default(),
            capture: None,
            certificate: None,
            secrets: Vec::new(),
            volumes: Vec::new(),
        };
        let base = image::base(&spec, &self.places, self.images.as_ref(), progress)?;
        let found = match &base {
            Base::Host => None,
            Base::Root(root) => digest(root),
            Base::Layers(held) => Some(held.image.record.id),
        };
        match id {
            Some(id) if found.is_none_or(|found| found.to_string() != id) => {
                let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
                let reason =
                    format!("the archive is over {id}, and what has that name here is {found}");
                Err(BackendError::Image { image: name.to_owned(), reason })
            }
            _ => Ok(base),
        }
    }

    fn make_empty(&self, top: &Top) -> Result<(), BackendError> {
        // A subvolume where sandboxes have them, so that it is removed as one.
        self.make_top(top)?;
        top.remove(&top.home()).map_err(call(STEP))
    }

    fn fill(&self, top: &Top, number: usize, fill: Fill<'_>) -> Result<(), BackendError> {
        let ids = Ids::of_layers();
        let quota = Quota::default();
        let room = Room::new(top.path(), quota, 0).map_err(call(STEP))?;
        let (owners, format) = (owners(ids), format());
        let to = Destination { root: top.path(), parts: &PARTS, owners, format, room: &room };
        fill(number, &to)?;
        if !top.home().is_dir() {
            let none = io::Error::new(io::ErrorKind::InvalidData, "it has no home");
            return Err(call(STEP)(none));
        }
        // By its owner the ids of all are known.
        let mode = top.home().symlink_metadata().map_err(call(STEP))?.permissions();
        top.own_home(ids, None).map_err(call(STEP))?;
        std::fs::set_permissions(top.home(), mode).map_err(call(STEP))
    }

    fn note_base(&self, top: &Top, base: &Base) -> Result<(), BackendError> {
        match base {
            Base::Host => Ok(()),
            Base::Root(root) => top.note_image(root),
            Base::Layers(held) => {
                let gone = || BackendError::Image {
                    image: held.image.record.id.to_string(),
                    reason: "it is gone".to_owned(),
                };
                let images = self.images.as_ref().ok_or_else(gone)?;
                let catalog = &images.store().catalog;
                let noted = catalog.while_there(&held.image.record.id, |path| top.note_image(path));
                noted
                    .map_err(|error| super::host::other(STEP, error))?
                    .unwrap_or_else(|| Err(gone()))
            }
        }
    }

    pub(super) fn place(&self, layers: &[LayerId]) -> Result<(), BackendError> {
        let stage = self.stage_of(layers);
        let placed = self.make_layers().and_then(|()| self.place_from(&stage, layers));
        self.discard(&stage)?;
        placed
    }

    fn place_from(&self, stage: &Path, layers: &[LayerId]) -> Result<(), BackendError> {
        atoll_store::tree::sync(open(stage)?.as_fd()).map_err(call(STEP))?;
        for layer in layers {
            let name = layer.to_string();
            std::fs::rename(stage.join(&name), self.places.layer(*layer).path())
                .map_err(call(STEP))?;
        }
        let placed = open(&self.places.layers())?;
        rustix::fs::fsync(&placed).map_err(|error| call(STEP)(error.into()))
    }

    fn stage_of(&self, layers: &[LayerId]) -> PathBuf {
        let uppermost = layers.last().map(ToString::to_string).unwrap_or_default();
        self.places.state().join(ARRIVING).join(uppermost)
    }

    /// Takes away what a server left that was killed while something arrived.
    pub(super) fn clear_stages(&self) -> Result<(), BackendError> {
        self.discard(&self.places.state().join(ARRIVING))
    }
}

/// The digest that something is called by, if it is.
fn digest(path: &Path) -> Option<Digest> {
    Digest::from_file_name(path.file_stem()?.to_str()?)
}

fn owners(ids: Ids) -> Owners {
    match ids {
        Ids::Own { uid, gid } => Owners::One { uid, gid, inside: UID },
        Ids::Block(first) => Owners::Block { first, count: COUNT },
    }
}
