//! From a file with images to an image that is there.

use crate::beneath;
use crate::catalog::{self, Catalog, CatalogError, Image, Named, Record};
use crate::digest::Digest;
use crate::image::Limits;
use crate::layer::{Chain, Collected, LayerError, Layers, Pin};
use crate::oci::{Bundle, BundleError, Config, Platform, Source};
use crate::room::{NoRoom, Quota, Room};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Where images and their layers are kept, and what may be written there.
#[derive(Debug)]
pub struct Store {
    state: PathBuf,
    /// The layers.
    pub layers: Layers,
    /// The images.
    pub catalog: Catalog,
    /// What they may take.
    pub quota: Quota,
    /// What one may hold.
    pub limits: Limits,
}

/// Why an image could not be had from a file.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("could not read the images in {}", path.display())]
    Bundle { path: PathBuf, source: Box<BundleError> },
    #[error("could not add a layer")]
    Layer(#[source] LayerError),
    #[error("could not write the image down")]
    Catalog(#[source] CatalogError),
    #[error("there is no room for it")]
    NoRoom(#[source] NoRoom),
    #[error("it is no root file system: there is neither bin nor usr/bin in it")]
    NotARoot,
    #[error("could not look at {}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl Store {
    /// Opens the layers and images below `state`.
    ///
    /// # Errors
    ///
    /// When they cannot be made or opened.
    pub fn open(state: &Path, quota: Quota) -> Result<Self, ImportError> {
        Ok(Self {
            state: state.to_owned(),
            layers: Layers::open(state).map_err(ImportError::Layer)?,
            catalog: Catalog::open(state).map_err(ImportError::Catalog)?,
            quota,
            limits: Limits::default(),
        })
    }

    /// The room there is for more.
    ///
    /// # Errors
    ///
    /// When it cannot be told.
    pub fn room(&self) -> Result<Room, ImportError> {
        let used = self.layers.used_bytes().map_err(ImportError::Layer)?;
        Room::new(&self.state, self.quota, used)
            .map_err(|source| ImportError::Read { path: self.state.clone(), source })
    }

    /// Imports an image from files that hold images, under the name that it was asked for by.
    /// Nothing if `source` is a registry, or a directory or an archive of other files. What has
    /// not changed since the last time is not read again.
    ///
    /// # Errors
    ///
    /// [`ImportError`].
    pub fn import(&self, source: &Source, name: &str) -> Result<Option<Image>, ImportError> {
        let (path, tag, is_sure) = match source {
            Source::Registry(_) => return Ok(None),
            Source::Layout { path, tag } | Source::Archive { path, tag } => {
                (path, tag.as_deref(), true)
            }
            Source::Path(path) => (path, None, false),
        };
        let stamp =
            stamp(path).map_err(|source| ImportError::Read { path: path.clone(), source })?;
        let known = self.catalog.find_unchanged(name, &stamp).map_err(ImportError::Catalog)?;
        if let Some(image) = known.filter(|image| self.has_all(&image.record.layers)) {
            return Ok(Some(image));
        }
        let failed = |source| ImportError::Bundle { path: path.clone(), source: Box::new(source) };
        let bundle = Bundle::detect(path, &self.state, &self.limits).map_err(failed)?;
        let Some(bundle) = bundle else {
            let error = BundleError::NoImage { path: path.clone() };
            return if is_sure { Err(failed(error)) } else { Ok(None) };
        };
        let chosen = bundle.choose(tag, &Platform::own()).map_err(failed)?;
        let diff_ids = &chosen.config.diff_ids;
        let pin = self.layers.pin(diff_ids).map_err(ImportError::Layer)?;
        let room = self.room()?;
        for (expected, file) in &chosen.layers {
            if self.layers.info(&expected.diff_id).is_none() {
                let reader = bundle.open(file).map_err(failed)?;
                self.layers
                    .add(&pin, reader, expected, &self.limits, &room)
                    .map_err(ImportError::Layer)?;
            }
        }
        let named = Named {
            name: name.to_owned(),
            image: chosen.id,
            manifest: chosen.manifest,
            stamp: Some(stamp),
        };
        self.finish(&pin, &chosen.config, named).map(Some)
    }

    /// Writes an image down whose layers are all there, and pinned.
    ///
    /// # Errors
    ///
    /// [`ImportError`].
    pub fn finish(&self, _pin: &Pin, config: &Config, named: Named) -> Result<Image, ImportError> {
        let chain = self.layers.chain(&config.diff_ids).map_err(ImportError::Layer)?;
        if !is_root(&chain) {
            return Err(ImportError::NotARoot);
        }
        let infos = config.diff_ids.iter().filter_map(|id| self.layers.info(id));
        let record = Record {
            id: named.image,
            layers: config.diff_ids.clone(),
            settings: config.settings.clone(),
            architecture: config.platform.architecture.clone(),
            created: config.created.clone(),
            added: catalog::now(),
            bytes: infos.map(|info| info.bytes).sum(),
        };
        self.catalog.add(&record, &named).map_err(ImportError::Catalog)?;
        let used = record.added;
        Ok(Image { record, names: vec![named], used })
    }

    /// Removes all layers that no image has, nobody is about to use, and `others` do not name:
    /// it says what else needs layers, while nobody can begin to.
    ///
    /// # Errors
    ///
    /// When it cannot be told what is used, or something not be removed.
    pub fn collect(
        &self,
        others: impl FnOnce() -> io::Result<BTreeSet<Digest>>,
    ) -> Result<Collected, ImportError> {
        let state = &self.state;
        let collected = self.layers.collect(|| {
            let mut kept = self.catalog.layers().map_err(Collecting::Catalog)?;
            kept.extend(others().map_err(Collecting::Others)?);
            Ok(kept)
        });
        collected.map_err(|error| match error {
            Collecting::Layer(error) => ImportError::Layer(error),
            Collecting::Catalog(error) => ImportError::Catalog(error),
            Collecting::Others(source) => ImportError::Read { path: state.clone(), source },
        })
    }

    /// Whether all of them are there.
    #[must_use]
    pub fn has_all(&self, layers: &[Digest]) -> bool {
        layers.iter().all(|layer| self.layers.info(layer).is_some())
    }
}

enum Collecting {
    Layer(LayerError),
    Catalog(CatalogError),
    Others(io::Error),
}

impl From<LayerError> for Collecting {
    fn from(error: LayerError) -> Self {
        Self::Layer(error)
    }
}

fn is_root(chain: &Chain) -> bool {
    chain.is_root().unwrap_or(false)
}

/// What changes when a file, or the list of what a layout holds, does.
fn stamp(path: &Path) -> io::Result<String> {
    let is_dir = path.metadata()?.is_dir();
    let path = if is_dir { path.join("index.json") } else { path.to_owned() };
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let file = match rustix::fs::open(&path, flags, rustix::fs::Mode::empty()) {
        Err(_) if is_dir => return Ok(String::new()),
        opened => opened?,
    };
    let stamp = beneath::stamp(&file)?;
    let (mtime, ctime) = (stamp.mtime, stamp.ctime);
    Ok(format!(
        "{} {} {} {}.{} {}.{}",
        stamp.dev, stamp.ino, stamp.size, mtime.sec, mtime.nsec, ctime.sec, ctime.nsec
    ))
}
