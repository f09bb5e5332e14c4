//! Layers: what sandboxes keep, set aside.
//!
//! ```text
//!     STATE/layers/lay_…      a layer, whole
//!     STATE/layers/.new-lay_… one that is being copied
//!     STATE/.trash/…          what nobody needs any more, being removed
//! ```
//!
//! Of a sandbox without processes its [`Top`] itself becomes the layer, by changing places with an
//! empty one that was prepared there. Until then the empty one is a layer that says to be above
//! itself, which none is; from then on the sandbox says to be above it. So the host alone tells
//! which of both has happened, whenever a server dies.
//!
//! Of one whose processes stand still a copy is made: of btrfs by a snapshot of its subvolume, of
//! others file by file ([`atoll_store::tree`]), where files that have not changed since the copy
//! before are linked to that one. Most of it is copied while they still run, and what has not changed
//! since is linked to that copy.

use super::Container;
use super::host::{self, call};
use super::identity::Ids;
use super::layers;
use super::top::Top;
use crate::backend::{BackendError, Layer, Processes, Progress, Taken};
use atoll_api::id::{LayerId, SandboxId};
use atoll_api::snapshot::SnapshotWay;
use atoll_store::tree::{self, CopyError, Index, Previous, SubvolumeError};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

/// Layers that one may have below it: more take long to look through (a first `git status` of
/// 50,000 files takes ten times as long with 120 as with one).
pub(super) const DEPTH_MAX: usize = 100;

/// A sandbox's note of the last copy of what it keeps, for the next one.
const COPIED: &str = "copied";

impl Container {
    pub(super) fn take(
        &self,
        id: SandboxId,
        layer: LayerId,
        processes: Processes,
        progress: &Progress,
    ) -> Result<Taken, BackendError> {
        self.places.check_room()?;
        match processes {
            Processes::None => self.exchange(id, layer),
            Processes::Frozen => self.copy(id, layer, progress),
            Processes::Running => Err(BackendError::Call {
                step: "copy files that are being written",
                source: io::ErrorKind::ResourceBusy.into(),
            }),
        }
    }

    /// Makes the layer of what a sandbox without processes keeps.
    fn exchange(&self, id: SandboxId, layer: LayerId) -> Result<Taken, BackendError> {
        let (top, place) = (self.places.top(id), self.places.layer(layer));
        let below = top.below_next(layer)?;
        if below.len() > DEPTH_MAX {
            let text = format!("there are {DEPTH_MAX} layers below it already");
            return Err(call("put one more layer below it")(io::Error::other(text)));
        }
        self.make_layers()?;
        let new = Top::at(self.places.layers().join(format!(".new-{layer}")));
        let prepared = self.prepare(id, &new, &top, &below);
        let step = "exchange what the sandbox keeps";
        let exchanged = prepared.and_then(|()| {
            // It says to be above itself: a layer of that name is none.
            std::fs::rename(new.path(), place.path()).map_err(call(step))?;
            top.remove_works().map_err(call(step))?;
            self.change_places(id, &place).map_err(call(step))
        });
        if let Err(error) = exchanged {
            self.discard(new.path())?;
            self.discard(place.path())?;
            return Err(error);
        }
        let below = below.len() - 1;
        Ok(Taken { way: SnapshotWay::Rename, files: None, copied_bytes: 0, below })
    }

    /// Has a sandbox keep what is at `with` from now on, which becomes what it kept before.
    fn change_places(&self, id: SandboxId, with: &Top) -> io::Result<()> {
        let top = self.places.top(id);
        renameat_with(CWD, top.path(), CWD, with.path(), RenameFlags::EXCHANGE)?;
        // The next copy is one of other files.
        std::fs::remove_file(self.places.of(id).join(COPIED)).ok();
        Ok(())
    }

    /// Makes an empty top, for the sandbox `id`, over `below`, of which `like` is the uppermost
    /// or will be.
    fn prepare(
        &self,
        id: SandboxId,
        new: &Top,
        like: &Top,
        below: &[LayerId],
    ) -> Result<(), BackendError> {
        let ids = self.places.top(id).ids()?;
        self.make_top(new)?;
        lay_over(new, like, below, ids)
    }

    /// Makes what a new sandbox, whose home has its user already, keeps over a layer.
    pub(super) fn make_from(&self, id: SandboxId, layer: LayerId) -> Result<(), BackendError> {
        let (top, from) = (self.places.top(id), self.whole_layer(layer)?);
        let below = self.places.onto(layer)?;
        lay_over(&top, &from, &below, top.ids()?)?;
        self.places.lie_flat(&top, layer, &below);
        Ok(())
    }

    /// Puts a sandbox without processes back to a layer; what it kept is removed.
    pub(super) fn go_back(&self, id: SandboxId, layer: LayerId) -> Result<(), BackendError> {
        let from = self.whole_layer(layer)?;
        let below = self.places.onto(layer)?;
        let new = Top::at(self.places.of(id).join("top.new"));
        let step = "exchange what the sandbox keeps";
        // What a server left that was killed here.
        self.discard(new.path())?;
        self.prepare(id, &new, &from, &below)?;
        self.change_places(id, &new).map_err(call(step))?;
        self.places.lie_flat(&self.places.top(id), layer, &below);
        self.discard(new.path())
    }

    /// Copies most of what a sandbox keeps, while its processes run.
    pub(super) fn prepare_copy(
        &self,
        id: SandboxId,
        layer: LayerId,
        progress: &Progress,
    ) -> Result<(), BackendError> {
        self.places.check_room()?;
        self.make_layers()?;
        let (top, ahead) = (self.places.top(id), self.ahead(layer));
        if tree::is_subvolume(open(top.path())?.as_fd()).unwrap_or_default() {
            return Ok(());
        }
        let before = self.copied_before(id);
        let before = before.as_ref().map(|(top, copied)| (top, copied));
        let copied = ahead.make().map_err(call("copy what the sandbox keeps"));
        let copied = copied.and_then(|()| {
            let copy = tree::copy_ahead;
            copy_parts(&top, &ahead, before, &copy, progress)
        });
        match copied {
            Ok(copied) => drop(self.copies().insert(layer, copied)),
            Err(error) => {
                self.discard(ahead.path())?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Where what is copied ahead for a layer lies until that is made.
    fn ahead(&self, layer: LayerId) -> Top {
        Top::at(self.places.layers().join(format!(".new-{layer}-ahead")))
    }

    fn copies(&self) -> MutexGuard<'_, BTreeMap<LayerId, Copied>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies what a sandbox keeps whose processes stand still.
    fn copy(
        &self,
        id: SandboxId,
        layer: LayerId,
        progress: &Progress,
    ) -> Result<Taken, BackendError> {
        self.make_layers()?;
        let top = self.places.top(id);
        let new = Top::at(self.places.layers().join(format!(".new-{layer}")));
        let before = self.copies().remove(&layer);
        let copied = self.copy_to(id, &top, &new, (layer, before), progress);
        // Whatever came of it, what was copied ahead has served.
        self.discard(self.ahead(layer).path())?;
        let copied = copied.and_then(|taken| {
            let step = "put the layer into place";
            std::fs::rename(new.path(), self.places.layer(layer).path()).map_err(call(step))?;
            Ok(taken)
        });
        if copied.is_err() {
            self.discard(new.path())?;
            return copied;
        }
        // A hint: without it the next copy is one of everything.
        let note = self.places.of(id).join(COPIED);
        std::fs::remove_file(&note).ok();
        std::os::unix::fs::symlink(layer.to_string(), note).ok();
        copied
    }

    fn copy_to(
        &self,
        id: SandboxId,
        top: &Top,
        new: &Top,
        (layer, ahead): (LayerId, Option<Copied>),
        progress: &Progress,
    ) -> Result<Taken, BackendError> {
        let step = "copy what the sandbox keeps";
        let (source, layers) = (open(top.path())?, open(&self.places.layers())?);
        if tree::is_subvolume(source.as_fd()).map_err(call(step))? {
            let name = new.path().file_name().unwrap_or_default();
            match tree::snapshot(source.as_fd(), layers.as_fd(), name) {
                Ok(()) => {
                    new.remove_works().map_err(call(step))?;
                    let (way, below) = (SnapshotWay::Subvolume, new.below()?.len());
                    return Ok(Taken { way, files: None, copied_bytes: 0, below });
                }
                Err(SubvolumeError::Nested) => {}
                Err(error) => return Err(host::other(step, error)),
            }
        }
        self.make_top(new)?;
        let was_ahead = ahead.is_some();
        let before = match ahead {
            Some(copied) => Some((self.ahead(layer), copied)),
            None => self.copied_before(id),
        };
        let before = before.as_ref().map(|(top, copied)| (top, copied));
        let all = copy_parts(top, new, before, &tree::copy, progress)?;
        let mut counts = all.counts;
        if let Some((_, ahead)) = before.filter(|_| was_ahead) {
            counts.reflinked += ahead.counts.reflinked;
            counts.bytes_copied += ahead.counts.bytes_copied;
        }
        // It is written when the sandbox goes on.
        self.copies().insert(layer, all);
        if let Some(root) = top.image()? {
            new.note_image(&root)?;
        }
        let below = top.below()?;
        new.note_below(&below).map_err(call(step))?;
        let way = if counts.reflinked > 0 { SnapshotWay::Reflink } else { SnapshotWay::Copy };
        let (files, copied_bytes) = (Some(counts.files), counts.bytes_copied);
        Ok(Taken { way, files, copied_bytes, below: below.len() })
    }

    /// The layer of the last copy, if nothing else has been made of the sandbox since.
    fn copied_before(&self, id: SandboxId) -> Option<(Top, Copied)> {
        let note = std::fs::read_link(self.places.of(id).join(COPIED)).ok()?;
        let layer = self.places.layer(note.to_str()?.parse().ok()?);
        let directory = open(layer.path()).ok()?;
        let load = |part| Some((part, Index::load(directory.as_fd(), &index_name(part))?));
        let indexes = PARTS.into_iter().filter_map(load).collect();
        Some((layer, Copied { counts: tree::Copied::default(), indexes }))
    }

    /// What is needed of the layers, and what is not is removed, the bytes of it later.
    pub(super) fn collect_but(
        &self,
        keep: &BTreeSet<LayerId>,
    ) -> Result<Vec<LayerId>, BackendError> {
        // Nobody makes a layer now, so what was begun is left of one that failed.
        self.clear_layers()?;
        self.copies().clear();
        // Nobody begins to read one meanwhile.
        let readers = self.reading.lock();
        let mut needed = keep.clone();
        needed.extend(readers.keys());
        for layer in keep {
            // One that is kept and not there is nobody's ground.
            let top = self.places.layer(*layer);
            needed.extend(top.below()?);
            // What would be made once more for the next one that begins with it.
            needed.extend(self.places.flat(&top)?);
        }
        let sandboxes = self.places.list()?;
        for id in &sandboxes {
            for top in ["top", "top.new"] {
                needed.extend(Top::at(self.places.of(*id).join(top)).below()?);
            }
        }
        for id in sandboxes {
            let mounted = self.still_mounted(id, &needed)?;
            needed.extend(mounted);
        }
        let mut gone = Vec::new();
        for Layer { id, .. } in self.list_layers()? {
            if !needed.contains(&id) {
                self.discard(self.places.layer(id).path())?;
                gone.push(id);
            }
        }
        drop(readers);
        Ok(gone)
    }

    pub(super) fn list_layers(&self) -> Result<Vec<Layer>, BackendError> {
        let step = "list the layers";
        let entries = match std::fs::read_dir(self.places.layers()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(call(step))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(call(step))?.file_name();
            // What has another name is not ours to judge.
            let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let below = self.places.layer(id).below()?;
            found.push(Layer { id, is_whole: !below.contains(&id) });
        }
        Ok(found)
    }

    pub(super) fn whole_layer(&self, layer: LayerId) -> Result<Top, BackendError> {
        let top = self.places.layer(layer);
        if top.path().is_dir() && !top.below()?.contains(&layer) {
            return Ok(top);
        }
        let source = io::Error::new(io::ErrorKind::NotFound, format!("{layer} is not there"));
        Err(call("find the files of the snapshot")(source))
    }

    /// Takes away what a server left that was killed while it made a layer.
    pub(super) fn clear_layers(&self) -> Result<(), BackendError> {
        self.places.begun(".new-", |path| self.discard(path))
    }

    /// Brings a layer to the disk, with what the next copy needs to know of it.
    pub(super) fn bring_to_disk(&self, layer: LayerId) -> Result<(), BackendError> {
        let copied = self.copies().remove(&layer).unwrap_or_default();
        let layer = open(self.places.layer(layer).path())?;
        for (part, index) in copied.indexes {
            // Without it the next copy is one of everything.
            index.save(layer.as_fd(), &index_name(part)).ok();
        }
        tree::sync(layer.as_fd()).map_err(call("bring the snapshot to the disk"))
    }

    /// Takes something away at once, and removes it when there is time.
    pub(super) fn discard(&self, path: &Path) -> Result<(), BackendError> {
        self.trash.throw(path).map_err(call("set aside what is not needed any more"))
    }

    pub(super) fn make_layers(&self) -> Result<(), BackendError> {
        std::fs::create_dir_all(self.places.layers()).map_err(call("make the directory of layers"))
    }

    /// Makes an empty one: a subvolume where the file system has them.
    pub(super) fn make_top(&self, top: &Top) -> Result<(), BackendError> {
        let step = "make what the sandbox is to keep";
        if self.has_subvolumes {
            let above = top.path().parent().unwrap_or(Path::new("/"));
            let name = top.path().file_name().unwrap_or_default();
            tree::create_subvolume(open(above)?.as_fd(), name)
                .map_err(|error| host::other(step, error))?;
        }
        top.make().map_err(call(step))
    }
}

/// Has the sandbox with these ids keep nothing yet over `below`, of which `like` is the uppermost or
/// will be.
fn lay_over(new: &Top, like: &Top, below: &[LayerId], ids: Ids) -> Result<(), BackendError> {
    let step = "prepare what the sandbox is to keep";
    new.own_home(ids, Some(like)).map_err(call(step))?;
    layers::make_above(new, like, ids)?;
    if let Some(root) = like.image()? {
        new.note_image(&root)?;
    }
    new.note_below(below).map_err(call(step))
}

/// Whether what sandboxes keep can be made subvolumes below `state`, and be removed again, which
/// an ordinary user may not everywhere.
pub(super) fn has_subvolumes(state: &Path) -> bool {
    let name = OsStr::new(".probe-subvolume");
    let Ok(directory) = open(state) else { return false };
    let made = tree::create_subvolume(directory.as_fd(), name);
    let removed = atoll_store::remove(directory.as_fd(), name);
    matches!(made, Ok(true)) && removed.is_ok()
}

/// [`tree::copy`] or [`tree::copy_ahead`].
type Copy<'a> = &'a dyn Fn(
    BorrowedFd<'_>,
    BorrowedFd<'_>,
    Option<Previous<'_>>,
    &dyn Fn() -> bool,
) -> Result<(tree::Copied, Index), CopyError>;

/// A copy of what a sandbox keeps, and what the next copy needs to know of it.
#[derive(Debug, Default)]
pub(super) struct Copied {
    counts: tree::Copied,
    indexes: Vec<(&'static str, Index)>,
}

/// The directories of a top that are copied.
pub(super) const PARTS: [&str; 2] = ["home", "upper"];

/// Where a layer has the index of one of them.
fn index_name(part: &str) -> OsString {
    OsString::from(format!("{part}.index"))
}

/// Copies the directories of a top, and links what is as it was in `before`.
fn copy_parts(
    top: &Top,
    new: &Top,
    before: Option<(&Top, &Copied)>,
    copy: Copy<'_>,
    progress: &Progress,
) -> Result<Copied, BackendError> {
    let step = "copy what the sandbox keeps";
    let mut all = Copied::default();
    for part in PARTS {
        if !top.path().join(part).is_dir() {
            continue;
        }
        let (source, to) = (open(&top.path().join(part))?, new.path().join(part));
        std::fs::create_dir_all(&to).map_err(call(step))?;
        let previous = before.and_then(|(before, copied)| {
            let (_, index) = copied.indexes.iter().find(|(known, _)| *known == part)?;
            Some((open(&before.path().join(part)).ok()?, index))
        });
        let previous =
            previous.as_ref().map(|(tree, index)| Previous { tree: tree.as_fd(), index });
        let is_canceled = || progress.is_cancelled();
        let copied = copy(source.as_fd(), open(&to)?.as_fd(), previous, &is_canceled);
        let (counts, index) = copied.map_err(|error| match error {
            CopyError::Canceled => BackendError::Cancelled,
            error => host::other(step, error),
        })?;
        all.counts.files += counts.files;
        all.counts.reflinked += counts.reflinked;
        all.counts.bytes_copied += counts.bytes_copied;
        all.indexes.push((part, index));
    }
    Ok(all)
}

pub(super) fn open(path: &Path) -> Result<OwnedFd, BackendError> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| call("open what the sandbox keeps")(error.into()))
}
