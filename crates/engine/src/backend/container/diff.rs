//! What differs between two layers, as sandboxes that begin with them would see it.

use super::host::{self, Places, call};
use super::identity::Ids;
use super::image::{self, Ground};
use super::layers::{PLACES, format};
use super::reading::Held;
use super::top::Top;
use super::{Container, home};
use crate::backend::{BackendError, Differences, Progress};
use atoll_api::files::{FileKind, Mode};
use atoll_api::id::LayerId;
use atoll_api::octets::Octets;
use atoll_api::snapshot::{DiffEntry, DiffSide, Difference, Uncompared};
use atoll_store::node;
use atoll_store::tree::{self, Bounds, Changed, CompareError, Compared, Layer};
use std::path::{Path, PathBuf};

/// Most names that are looked at of a home, and of a root file system.
const NAMES_MAX: usize = 1_000_000;

const STEP: &str = "compare the snapshots";

impl Container {
    /// Compares what two layers show with all that is below them, over an image that is called
    /// `image`; without `before`, with the image alone and an empty home.
    pub(super) fn compare_layers(
        &self,
        before: Option<LayerId>,
        after: LayerId,
        image: &str,
        most: usize,
        progress: &Progress,
    ) -> Result<Differences, BackendError> {
        let after = self.hold_chain(after)?;
        let before = before.map(|before| self.hold_chain(before)).transpose()?;
        let (after, before) = (&*after.layers, before.as_ref().map_or(&[][..], |it| &it.layers));
        let of = |chain: &[LayerId]| chain.last().map(|layer| self.places.layer(*layer));
        let (top, other) = (of(after), of(before));
        let ground = top.as_ref().map(Top::image).transpose()?.flatten();
        if let Some(other) = &other
            && other.image()? != ground
        {
            return Err(BackendError::OtherImage);
        }
        let compare = |part: fn(&Top) -> PathBuf, ground: &[Layer]| {
            let whole = |chain| Ok([ground.to_vec(), stack(&self.places, chain, part)?].concat());
            let bounds = Bounds { told: most, names: NAMES_MAX };
            compare(&whole(before)?, &whole(after)?, bounds, STEP, &|| progress.is_cancelled())
        };
        let mut found = Differences::default();
        found.add(&home(), compare(Top::home, &[])?, |_| true)?;
        let has_root = |top: &Option<Top>| top.as_ref().is_none_or(|top| top.upper().is_dir());
        if let Some(top) = &top
            && top.upper().is_dir()
            && has_root(&other)
        {
            let ground = self.lowers(top, image)?;
            // What is mounted there is what sandboxes see.
            let is_seen = |path: &Path| !PLACES.iter().any(|place| path.starts_with(place));
            found.add(Path::new("/"), compare(Top::upper, &ground)?, is_seen)?;
        }
        found.trim(most);
        Ok(found)
    }

    /// What is below all layers of a root file system, of an image that is called `image`.
    pub(super) fn lowers(&self, top: &Top, image: &str) -> Result<Vec<Layer>, BackendError> {
        let lowers = match image::ground(top, image, self.images.as_ref())? {
            None => Vec::new(),
            Some(Ground::Root(root)) => vec![root],
            Some(Ground::Layers(lowers, _)) => lowers,
        };
        Ok(lowers.into_iter().map(|dir| Layer { dir, ids_from: 0 }).collect())
    }

    /// Keeps a layer and all that are below it, the lowest first.
    pub(super) fn hold_chain(&self, layer: LayerId) -> Result<Held<'_>, BackendError> {
        self.reading.hold(|| self.whole_layer(layer)?.below_next(layer))
    }
}

/// One directory of each of these layers, where it has that.
pub(super) fn stack(
    places: &Places,
    chain: &[LayerId],
    part: fn(&Top) -> PathBuf,
) -> Result<Vec<Layer>, BackendError> {
    let mut stack = Vec::new();
    for layer in chain {
        let top = places.layer(*layer);
        let ids_from = first_id(top.ids()?);
        let dir = part(&top);
        if dir.is_dir() {
            stack.push(Layer { dir, ids_from });
        }
    }
    Ok(stack)
}

/// Where the block of ids begins that a layer's owners are from.
pub(super) fn first_id(ids: Ids) -> u32 {
    match ids {
        Ids::Block(first) => first,
        Ids::Own { .. } => 0,
    }
}

/// Compares what layers show; `step` is what that is done for.
pub(super) fn compare(
    before: &[Layer],
    after: &[Layer],
    bounds: Bounds,
    step: &'static str,
    is_canceled: &dyn Fn() -> bool,
) -> Result<Compared, BackendError> {
    let compared = tree::compare(before, after, format(), bounds, is_canceled);
    compared.map_err(|error| match error {
        CompareError::Canceled => BackendError::Cancelled,
        error => host::other(step, error),
    })
}

impl Differences {
    /// Adds what was found below `at`, as far as it is wanted.
    fn add(
        &mut self,
        at: &Path,
        compared: Compared,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Result<(), BackendError> {
        self.is_cut |= compared.is_cut;
        for changed in compared.changes {
            if is_wanted(&changed.path) {
                self.entries.push(entry(at, changed)?);
            }
        }
        for rejected in compared.rejected {
            if is_wanted(&rejected.path) {
                let path = absolute(at, &rejected.path)?;
                self.uncompared.push(Uncompared { path, reason: rejected.why.reason() });
            }
        }
        Ok(())
    }

    /// Leaves the first ones by path.
    fn trim(&mut self, most: usize) {
        let (entries, uncompared) = (&mut self.entries, &mut self.uncompared);
        entries.sort_by(|one, other| one.path.as_path().cmp(other.path.as_path()));
        uncompared.sort_by(|one, other| one.path.as_path().cmp(other.path.as_path()));
        self.is_cut |= entries.len() > most || uncompared.len() > most;
        entries.truncate(most);
        uncompared.truncate(most);
    }
}

fn entry(at: &Path, changed: Changed) -> Result<DiffEntry, BackendError> {
    let difference = match changed.difference {
        tree::Difference::Added => Difference::Added,
        tree::Difference::Removed => Difference::Removed,
        tree::Difference::Modified => Difference::Modified,
        tree::Difference::Attributes => Difference::Attributes,
        tree::Difference::TypeChanged => Difference::Type,
    };
    let side = |found: Option<tree::Side>| found.map(side).transpose();
    let path = absolute(at, &changed.path)?;
    Ok(DiffEntry { path, difference, before: side(changed.before)?, after: side(changed.after)? })
}

fn side(found: tree::Side) -> Result<DiffSide, BackendError> {
    let kind = match found.kind {
        node::FileKind::File => FileKind::File,
        node::FileKind::Dir => FileKind::Directory,
        node::FileKind::Symlink => FileKind::Link,
        node::FileKind::Fifo
        | node::FileKind::Socket
        | node::FileKind::CharDevice
        | node::FileKind::BlockDevice
        | node::FileKind::Unknown => FileKind::Other,
    };
    let target = found.target.as_deref().map(octets).transpose()?;
    Ok(DiffSide { kind, bytes: found.size, mode: Mode::from_bits(found.mode), target })
}

fn absolute(at: &Path, path: &Path) -> Result<Octets, BackendError> {
    // Without a name there would be a slash at the end.
    if path.as_os_str().is_empty() { octets(at) } else { octets(&at.join(path)) }
}

fn octets(path: &Path) -> Result<Octets, BackendError> {
    Octets::try_from(path.as_os_str().to_owned())
        .map_err(|error| call(STEP)(std::io::Error::other(error)))
}
