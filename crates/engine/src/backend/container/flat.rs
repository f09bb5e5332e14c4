//! Long chains of layers, made short: one layer in place of all that are below something.
//!
//! ```text
//!     STATE/layers/.flat-lay_…  one that is being made
//!     STATE/layers/lay_…/flat   a link to the layer that shows what this one shows with all below it
//! ```
//!
//! The new layer is made beside the others, compared with them, and brought to the disk; then it gets
//! its name, then the link is set, and then each list that begins with those layers is exchanged for
//! one that begins with the new layer, by a rename(2) each. Both kinds of lists lead to the same
//! files, so a death at any moment leaves nothing that would have to be undone: what has no name
//! yet is removed by the next start, what has one and is on no list goes with other layers that nobody
//! needs, and where some lists are old still the next pass finds the link and writes them too. The
//! old layers go when nobody needs them: a sandbox that runs has them until its processes end.

use super::Container;
use super::diff::{compare, first_id, stack};
use super::host::{self, Places, call};
use super::layers::format;
use super::reading::{Held, Reading};
use super::top::{self, Top};
use super::trash::Trash;
use crate::backend::{BackendError, Flat, Progress};
use atoll_api::id::{ID_BYTES, LayerId, SandboxId};
use atoll_store::tree::{self, Bounds, CopyError, FlattenError, Layer};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::PathBuf;
use std::thread;

/// The least priority that there is.
const NICE: i32 = 19;

const STEP: &str = "make one layer of several";

/// What one that is being made is called, before its id.
const UNMADE: &str = ".flat-";

/// The directories of a layer.
const PARTS: [fn(&Top) -> PathBuf; 2] = [Top::home, Top::upper];

/// What has just been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Filled,
    Verified,
    Named,
    Linked,
    /// One more list begins with it.
    Listed,
}

/// Where layers are, and who needs them.
pub(super) struct Flats<'c> {
    pub(super) places: &'c Places,
    pub(super) reading: &'c Reading,
    pub(super) trash: &'c Trash,
    /// What is below the root file system of a layer.
    pub(super) ground: &'c (dyn Fn(&Top) -> Result<Vec<Layer>, BackendError> + Sync),
    /// Told of each moment; a test lets things go wrong there.
    pub(super) at: &'c (dyn Fn(Moment) -> Result<(), BackendError> + Sync),
    pub(super) is_canceled: &'c (dyn Fn() -> bool + Sync),
}

impl Container {
    /// Makes one of the chains short that are longer than `most`, if there are any. It takes what
    /// others leave of the processors.
    pub(super) fn shorten(
        &self,
        keep: &BTreeSet<LayerId>,
        most: usize,
        progress: &Progress,
    ) -> Result<Option<Flat>, BackendError> {
        let flats = Flats {
            places: &self.places,
            reading: &self.reading,
            trash: &self.trash,
            ground: &|top| self.lowers(top, "below it"),
            at: &|_| Ok(()),
            is_canceled: &|| progress.is_cancelled(),
        };
        thread::scope(|scope| {
            let work = || {
                // Without it this is only less kind to others.
                rustix::process::setpriority_process(None, NICE).ok();
                flats.shorten(keep, most)
            };
            let builder = thread::Builder::new().name("atoll-flatten".to_owned());
            let thread = builder.spawn_scoped(scope, work).map_err(call(STEP))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// What is below a sandbox that is about to be started, and stays while its processes are there.
    pub(super) fn hold_for_start(&self, id: SandboxId) -> Result<Held<'_>, BackendError> {
        self.reading.hold(|| {
            let below = self.places.top(id).below()?;
            self.places.note_mounted(id, &below)?;
            Ok(below)
        })
    }

    /// Layers that a sandbox which runs has below it, though its list may not name all of `needed`.
    pub(super) fn still_mounted(
        &self,
        id: SandboxId,
        needed: &BTreeSet<LayerId>,
    ) -> Result<Vec<LayerId>, BackendError> {
        let note = match File::open(self.places.mounted(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            note => note.map_err(call("read what is below a sandbox that runs"))?,
        };
        match top::read(&note) {
            Ok(layers) if layers.iter().all(|layer| needed.contains(layer)) => Ok(Vec::new()),
            layers if self.guest(id)?.is_some() => layers,
            // It is of a start that is over, or came to nothing.
            _ => Ok(Vec::new()),
        }
    }

    /// Notes what is below sandboxes that a server started which did not do so.
    pub(super) fn note_what_is_mounted(&self) -> Result<(), BackendError> {
        for id in self.places.list()? {
            if self.places.mounted(id).exists() || self.guest(id)?.is_none() {
                continue;
            }
            self.places.note_mounted(id, &self.places.top(id).below()?)?;
        }
        Ok(())
    }
}

impl Flats<'_> {
    pub(super) fn shorten(
        &self,
        keep: &BTreeSet<LayerId>,
        most: usize,
    ) -> Result<Option<Flat>, BackendError> {
        let chain = self.reading.hold(|| self.deep(keep, most))?;
        let Some(last) = chain.layers.last().map(|last| self.places.layer(*last)) else {
            return Ok(None);
        };
        self.places.check_room()?;
        let find = || self.places.flat(&last).map(|flat| flat.into_iter().collect());
        let found = self.reading.hold(find)?;
        let mut done = Flat { layers: chain.layers.len(), ..Flat::default() };
        let flat =
            if found.layers.is_empty() { self.make(&chain.layers, &mut done)? } else { found };
        let Some(id) = flat.layers.first() else { return Ok(None) };
        let lists = self.list(&chain.layers, *id, keep)?;
        // What nothing comes of is not tried without end.
        Ok((lists > 0 || done.directories > 0).then_some(done))
    }

    /// The shortest chain that is too long, of those that are below a sandbox, or would be below one
    /// that began with a layer; else nothing.
    fn deep(&self, keep: &BTreeSet<LayerId>, most: usize) -> Result<Vec<LayerId>, BackendError> {
        let mut chains = Vec::new();
        for id in self.places.list()? {
            chains.push(self.places.top(id).below()?);
        }
        for layer in keep {
            let top = self.places.layer(*layer);
            // One that is only half there is nobody's ground.
            if top.path().is_dir() && !top.below()?.contains(layer) {
                chains.push(self.places.onto(*layer)?);
            }
        }
        chains.retain(|chain| chain.len() > most);
        Ok(chains.into_iter().min_by_key(Vec::len).unwrap_or_default())
    }

    /// Makes the layer that shows what these show, and gives it its name.
    fn make(&self, chain: &[LayerId], done: &mut Flat) -> Result<Held<'_>, BackendError> {
        clear(self.places, self.trash)?;
        let mut random = [0; ID_BYTES];
        getrandom::fill(&mut random).map_err(|error| host::other(STEP, error))?;
        let id = LayerId::from_random(random);
        let new = Top::at(self.places.layers().join(format!("{UNMADE}{id}")));
        // From its first moment on it is needed.
        let held = self.reading.hold(|| Ok::<_, BackendError>(vec![id]))?;
        let named = self.fill(&new, chain, done).and_then(|()| self.name(&new, id, chain));
        if let Err(error) = named {
            // One that has its name goes with those that nobody needs.
            self.trash.throw(new.path()).map_err(call(STEP))?;
            return Err(error);
        }
        Ok(held)
    }

    fn fill(&self, new: &Top, chain: &[LayerId], done: &mut Flat) -> Result<(), BackendError> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder.create(new.path()).map_err(call(STEP))?;
        let (Some(first), Some(last)) = (chain.first(), chain.last()) else { return Ok(()) };
        // Most files are in the lowest one, and those of the same block are linked.
        let ids_from = first_id(self.places.layer(*first).ids()?);
        let last = self.places.layer(*last);
        let grounds = [Vec::new(), (self.ground)(&last)?];
        let mut parts = Vec::new();
        for (part, ground) in PARTS.into_iter().zip(grounds) {
            let layers = stack(self.places, chain, part)?;
            if layers.is_empty() {
                continue;
            }
            let dir = part(new);
            builder.create(&dir).map_err(call(STEP))?;
            let to = super::snapshot::open(&dir)?;
            let made = tree::flatten(&layers, ids_from, format(), to.as_fd(), self.is_canceled);
            let made = made.map_err(|error| match error {
                FlattenError::Entry(CopyError::Canceled) => BackendError::Cancelled,
                error => host::other(STEP, error),
            })?;
            done.linked += made.linked;
            done.copied += made.copied;
            done.copied_bytes += made.bytes_copied;
            done.directories += made.directories;
            let flat = [&ground[..], &[Layer { dir, ids_from }]].concat();
            parts.push(([ground, layers].concat(), flat));
        }
        if let Some(root) = last.image()? {
            new.note_image(&root)?;
        }
        (self.at)(Moment::Filled)?;
        for (layers, flat) in parts {
            self.verify(&layers, &flat)?;
        }
        (self.at)(Moment::Verified)?;
        tree::sync(super::snapshot::open(new.path())?.as_fd()).map_err(call(STEP))
    }

    /// Makes sure that layers show what others do.
    fn verify(&self, layers: &[Layer], flat: &[Layer]) -> Result<(), BackendError> {
        let bounds = Bounds { told: 1, names: usize::MAX };
        let compared = compare(layers, flat, bounds, STEP, self.is_canceled)?;
        // What nobody can read is the same file, or was made by us with the same rights.
        match compared.changes.first() {
            None => Ok(()),
            Some(changed) => {
                let text = format!("it shows {:?} otherwise than those", changed.path);
                Err(call(STEP)(io::Error::other(text)))
            }
        }
    }

    /// Gives it its name, and has the uppermost of the others lead to it.
    fn name(&self, new: &Top, id: LayerId, chain: &[LayerId]) -> Result<(), BackendError> {
        std::fs::rename(new.path(), self.places.layer(id).path()).map_err(call(STEP))?;
        (self.at)(Moment::Named)?;
        if let Some(last) = chain.last() {
            let link = self.places.layer(*last).path().join(FLAT);
            // One that led to what is gone.
            match std::fs::remove_file(&link) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(call(STEP)(error));
                }
                Ok(()) | Err(_) => {}
            }
            symlink(id.to_string(), link).map_err(call(STEP))?;
        }
        (self.at)(Moment::Linked)
    }

    /// Has every list begin with the new layer that begins with these; gives how many did.
    fn list(
        &self,
        chain: &[LayerId],
        flat: LayerId,
        keep: &BTreeSet<LayerId>,
    ) -> Result<usize, BackendError> {
        let layers = keep.iter().map(|layer| self.places.layer(*layer));
        let sandboxes = self.places.list()?.into_iter().map(|id| self.places.top(id));
        let mut count = 0;
        for top in layers.chain(sandboxes) {
            if top.replace_below(chain, flat)? {
                count += 1;
                (self.at)(Moment::Listed)?;
            }
        }
        Ok(count)
    }
}

/// A layer's link to the one that shows what it shows with all that are below it.
const FLAT: &str = "flat";

impl Places {
    /// Where it is noted what is below a sandbox that runs.
    fn mounted(&self, id: SandboxId) -> PathBuf {
        self.of(id).join("mounted")
    }

    fn note_mounted(&self, id: SandboxId, below: &[LayerId]) -> Result<(), BackendError> {
        if below.is_empty() {
            return Ok(());
        }
        std::fs::write(self.mounted(id), top::text(below))
            .map_err(call("note what is below the sandbox"))
    }

    /// Where a layer leads that shows what this one shows with all below it, if that is there.
    pub(super) fn flat(&self, layer: &Top) -> Result<Option<LayerId>, BackendError> {
        let link = match std::fs::read_link(layer.path().join(FLAT)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            link => link.map_err(call("read what a layer leads to"))?,
        };
        let id = link.to_str().and_then(|text| text.parse().ok());
        Ok(id.filter(|id| self.layer(*id).path().is_dir()))
    }

    /// The layers below what begins with this one: it and those below it, or one in their place.
    pub(super) fn onto(&self, layer: LayerId) -> Result<Vec<LayerId>, BackendError> {
        let top = self.layer(layer);
        match self.flat(&top)? {
            Some(flat) => Ok(vec![flat]),
            None => top.below_next(layer),
        }
    }

    /// Looks once more when something has been made over a layer with these below it: a list that was
    /// written in the moment in which one layer came in their place would stay long. If that cannot be
    /// written, it stays so, and is right.
    pub(super) fn lie_flat(&self, top: &Top, layer: LayerId, below: &[LayerId]) {
        if let Ok([flat]) = self.onto(layer).as_deref()
            && below != [*flat]
        {
            top.replace_below(below, *flat).ok();
        }
    }
}

/// Takes away what was begun and has no name.
pub(super) fn clear(places: &Places, trash: &Trash) -> Result<(), BackendError> {
    places.begun(UNMADE, |path| trash.throw(path).map_err(call("clear the directory of layers")))
}

#[cfg(test)]
mod tests;
