//! Makes one layer of several.
//!
//! Whatever it lies on, the new layer shows what the several did: what they hide of the
//! layers below is hidden by it, and where a directory of theirs goes on below, also under
//! another name, so does its own.

use super::attributes;
use super::copy::{CopyError, Step};
use super::entry::{Done, Entries, Made};
use super::stack::{Found, Layer, Layers, Merged, OpenDir, Place, Stack};
use crate::beneath;
use crate::node::Stamp;
use crate::overlay::{self, Format};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// What became of the layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flattened {
    /// Names of files that are linked to those of the layers.
    pub linked: u64,
    /// Files that had to be copied: their owners are from another block of ids, or they have
    /// as many names as they can have.
    pub copied: u64,
    pub bytes_copied: u64,
    /// The top one included.
    pub directories: u64,
    /// Names that are hidden in the layers below.
    pub whiteouts: u64,
}

/// Why layers could not be made one. What was begun is left for the caller to remove.
#[derive(Debug, thiserror::Error)]
pub enum FlattenError {
    #[error("could not open the layer {}", dir.display())]
    Open { dir: PathBuf, source: io::Error },
    /// Paths are relative to the layers.
    #[error(transparent)]
    Entry(CopyError),
}

/// Puts what `layers`, the lowest first, show into the empty directory `destination`. Owners
/// there are from the block of ids that begins with `ids_from`: files of layers that have the same
/// one are linked, others copied. Nothing is on the disk for sure before [`sync`](super::sync) has
/// been called.
///
/// A directory with a redirect that the kernel would refuse keeps what its layer has in it.
///
/// # Errors
///
/// [`FlattenError`].
pub fn flatten(
    layers: &[Layer],
    ids_from: u32,
    format: Format,
    destination: BorrowedFd<'_>,
    is_canceled: &dyn Fn() -> bool,
) -> Result<Flattened, FlattenError> {
    let mut opened = Layers::new(format, true);
    let stack = opened.open(layers).map_err(|(dir, source)| FlattenError::Open { dir, source })?;
    let mut flatten = Flatten {
        ids_from,
        layers: &opened,
        stack,
        destination,
        entries: Entries::new(false, true, is_canceled),
        is_canceled,
        copies: HashMap::new(),
        todo: Vec::new(),
        flattened: Flattened::default(),
    };
    flatten.run().map_err(FlattenError::Entry)?;
    Ok(flatten.flattened)
}

enum Task {
    /// Fill a directory, which is there.
    Fill { path: PathBuf, merged: Merged },
    /// Give it its attributes, when everything in it is done.
    Finish { path: PathBuf, top: Place, mark: Option<Mark> },
}

/// How a new directory goes on below.
enum Mark {
    Opaque,
    Redirect(OsString),
}

struct Flatten<'f> {
    layers: &'f Layers,
    stack: Stack,
    destination: BorrowedFd<'f>,
    ids_from: u32,
    entries: Entries<'f>,
    is_canceled: &'f dyn Fn() -> bool,
    /// Files with several names that were copied, and where to.
    copies: HashMap<(u64, u64), PathBuf>,
    /// The next one last.
    todo: Vec<Task>,
    flattened: Flattened,
}

type Outcome<T> = Result<T, CopyError>;

impl Flatten<'_> {
    fn run(&mut self) -> Outcome<()> {
        let top = Layers::top(&self.stack);
        let failed = |errno| CopyError::new(Path::new(""), Step::SetAttribute, errno);
        beneath::dir(self.destination, Path::new(""))
            .and_then(attributes::clear)
            .map_err(failed)?;
        self.push(PathBuf::new(), top, None);
        while let Some(task) = self.todo.pop() {
            match task {
                Task::Fill { path, merged } => self.fill(&path, merged)?,
                Task::Finish { path, top, mark } => {
                    let finished = self.finish(&path, &top, mark);
                    finished.map_err(|(step, errno)| CopyError::new(&path, step, errno))?;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, path: PathBuf, merged: Merged, mark: Option<Mark>) {
        self.flattened.directories += 1;
        if let Some(top) = merged.places.first() {
            self.todo.push(Task::Finish { path: path.clone(), top: top.clone(), mark });
            self.todo.push(Task::Fill { path, merged });
        }
    }

    fn fill(&mut self, path: &Path, merged: Merged) -> Outcome<()> {
        let failed = |step| move |errno| CopyError::new(path, step, errno);
        let count = merged.places.len();
        let dir = self.layers.open_dir(merged).map_err(|(_, errno)| failed(Step::Open)(errno))?;
        let names = dir.names(count, usize::MAX).map_err(|(_, errno)| failed(Step::List)(errno))?;
        let copy = beneath::dir(self.destination, path).map_err(failed(Step::Open))?;
        for name in names {
            if (self.is_canceled)() {
                return Err(CopyError::Canceled);
            }
            let path = path.join(&name);
            let put = self.put(&path, &dir, &copy, &name);
            put.map_err(|(step, errno)| CopyError::new(&path, step, errno))?;
        }
        Ok(())
    }

    /// Puts what the layers have at a name into the new directory.
    fn put(
        &mut self,
        path: &Path,
        dir: &OpenDir,
        copy: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), (Step, Errno)> {
        let found = self.layers.look(&self.stack, dir, name);
        let merged = match found.map_err(|errno| (Step::Inspect, errno))? {
            Found::Nothing { is_hidden } => {
                // Nothing shines through that would have to be hidden.
                if is_hidden && dir.merged.below.is_some() {
                    let made = rustix::fs::mknodat(
                        copy,
                        name,
                        FileType::CharacterDevice,
                        Mode::empty(),
                        0,
                    );
                    made.map_err(|errno| (Step::Make, errno))?;
                    // Where there is nothing below after all, this is how the kernel knows
                    // that there are names which it may not list.
                    overlay::set_copied(self.layers.format, copy)
                        .map_err(|errno| (Step::SetAttribute, errno))?;
                    self.flattened.whiteouts += 1;
                }
                return Ok(());
            }
            Found::File(number, stamp) => {
                let layer = dir.merged.places[number].layer;
                return self.file(path, layer, &dir.dirs[number].0, copy, &stamp, name);
            }
            Found::Dir(merged) => merged,
            Found::Forged(place) => Merged { places: vec![place], below: None },
        };
        rustix::fs::mkdirat(copy, name, Mode::RWXU).map_err(|errno| (Step::Make, errno))?;
        let mark = mark(dir.merged.below.as_deref(), name, merged.below.as_deref());
        self.push(path.to_owned(), merged, mark);
        Ok(())
    }

    fn file(
        &mut self,
        path: &Path,
        layer: usize,
        from: &OwnedFd,
        to: &OwnedFd,
        stamp: &Stamp,
        name: &OsStr,
    ) -> Result<(), (Step, Errno)> {
        let is_same_block = self.layers.ids_from(layer) == self.ids_from;
        if is_same_block {
            match rustix::fs::linkat(from, name, to, name, AtFlags::empty()) {
                Ok(()) => {
                    self.flattened.linked += 1;
                    return Ok(());
                }
                Err(Errno::MLINK | Errno::XDEV | Errno::PERM) => {}
                Err(errno) => return Err((Step::Link, errno)),
            }
        }
        if let Some(copy) = self.copies.get(&stamp.id()) {
            let (dir, first) =
                beneath::parent(self.destination, copy).map_err(|errno| (Step::Open, errno))?;
            match rustix::fs::linkat(dir, first, to, name, AtFlags::empty()) {
                Ok(()) => {
                    self.flattened.linked += 1;
                    return Ok(());
                }
                Err(Errno::MLINK) => {}
                Err(errno) => return Err((Step::Link, errno)),
            }
        }
        let wanted = self.owned_here(layer, *stamp);
        let done = self.entries.copy(from, to, stamp, &wanted, name)?;
        if let Some(Done { made, .. }) = done {
            self.flattened.copied += 1;
            if let Made::Copied { bytes } = made {
                self.flattened.bytes_copied += bytes;
            }
            if stamp.nlink > 1 {
                self.copies.insert(stamp.id(), path.to_owned());
            }
        }
        Ok(())
    }

    fn finish(&self, path: &Path, top: &Place, mark: Option<Mark>) -> Result<(), (Step, Errno)> {
        let format = self.layers.format;
        let original = beneath::dir(self.layers.root(top.layer), &top.path)
            .map_err(|errno| (Step::Open, errno))?;
        let mut stamp = beneath::stamp(&original).map_err(|errno| (Step::Inspect, errno))?;
        stamp.mode = self.layers.true_mode(top, &stamp);
        let stamp = self.owned_here(top.layer, stamp);
        let mut attributes =
            attributes::read(&original).map_err(|errno| (Step::ReadAttributes, errno))?;
        attributes.retain(|(name, _)| !overlay::is_mark(format, name));
        attributes.extend(mark.map(|mark| match mark {
            Mark::Opaque => overlay::opaque(format),
            Mark::Redirect(to) => overlay::redirect(format, to),
        }));
        let copy = beneath::dir(self.destination, path).map_err(|errno| (Step::Open, errno))?;
        attributes::set(&copy, &stamp, &attributes)
    }

    /// What a file is to be, with its owner from the block of the new layer.
    fn owned_here(&self, layer: usize, mut stamp: Stamp) -> Stamp {
        let (uid, gid) = self.layers.owner(layer, &stamp);
        stamp.uid = uid.wrapping_add(self.ids_from);
        stamp.gid = gid.wrapping_add(self.ids_from);
        stamp
    }
}

/// The mark of a directory `name` that goes on at `below`, in one that goes on at `above`.
fn mark(above: Option<&Path>, name: &OsStr, below: Option<&Path>) -> Option<Mark> {
    match (above, below) {
        (None, None) => None,
        (Some(_), None) => Some(Mark::Opaque),
        (Some(above), Some(below)) if below == above.join(name) => None,
        (Some(above), Some(below)) if below.parent() == Some(above) => {
            Some(Mark::Redirect(below.file_name()?.to_owned()))
        }
        (_, Some(below)) => {
            let mut path = vec![b'/'];
            path.extend(below.as_os_str().as_bytes());
            Some(Mark::Redirect(OsString::from_vec(path)))
        }
    }
}
