//! Layers one above the other, read as an overlay shows them: what is at a name, in which
//! layers, and where it goes on below them.
//!
//! Source: the kernel's `fs/overlayfs/namei.c`.

use super::entry::may_open_up;
use crate::beneath;
use crate::node::{FileKind, Stamp};
use crate::overlay::{self, Below, Format};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// What the owner needs to list and enter a directory.
const ENTER: u32 = 0o500;

/// One layer: a directory with the marks of an overlay, which nobody changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub dir: PathBuf,
    /// The first user and group id of the block that its owners are from: owners count from
    /// here, since layers of two sandboxes have the same owners in different blocks.
    pub ids_from: u32,
}

/// A directory of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the layer.
    pub(super) layer: usize,
    pub(super) path: PathBuf,
}

/// A directory as an overlay shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merged {
    /// Topmost first.
    pub(super) places: Vec<Place>,
    /// What shines through from below all layers, as a path there; nothing if it is hidden.
    pub(super) below: Option<PathBuf>,
}

/// What is at a name.
pub(super) enum Found {
    /// Nothing, also not below the layers if it is hidden there.
    Nothing {
        is_hidden: bool,
    },
    /// A file of whatever kind, in the directory of this number of [`OpenDir`].
    File(usize, Stamp),
    Dir(Merged),
    /// A directory with a mark that the kernel would refuse.
    Forged(Place),
}

/// All layers that there are to do with, each opened once.
pub(super) struct Layers {
    opened: Vec<Opened>,
    pub(super) format: Format,
    /// Whether directories are made readable for their owner meanwhile.
    opens_up: bool,
    /// Those that were, with the modes that they really have.
    opened_up: RefCell<Vec<(Place, u32)>>,
}

struct Opened {
    id: (u64, u64),
    root: OwnedFd,
    ids_from: u32,
}

/// Layers of a stack by number, the lowest first.
pub(super) type Stack = Vec<usize>;

/// A directory as an overlay shows it, opened in every layer that has it.
pub(super) struct OpenDir {
    pub(super) merged: Merged,
    /// Beside each place: the directory, and whether empty files may be whiteouts in it.
    pub(super) dirs: Vec<(OwnedFd, bool)>,
}

impl Layers {
    pub(super) fn new(format: Format, opens_up: bool) -> Self {
        Self { opened: Vec::new(), format, opens_up, opened_up: RefCell::default() }
    }

    /// Opens the layers of a stack, lowest first; one that was opened before has the number
    /// that it had.
    pub(super) fn open(
        &mut self,
        layers: &[Layer],
    ) -> std::result::Result<Stack, (PathBuf, io::Error)> {
        let mut stack = Stack::new();
        for layer in layers {
            let failed = |error| (layer.dir.clone(), error);
            let root = beneath::open_root(&layer.dir).map_err(failed)?;
            let id = beneath::stamp(&root).map_err(|errno| failed(errno.into()))?.id();
            let is_it = |opened: &Opened| (opened.id, opened.ids_from) == (id, layer.ids_from);
            let number = self.opened.iter().position(is_it).unwrap_or_else(|| {
                self.opened.push(Opened { id, root, ids_from: layer.ids_from });
                self.opened.len() - 1
            });
            stack.push(number);
        }
        Ok(stack)
    }

    pub(super) fn root(&self, layer: usize) -> BorrowedFd<'_> {
        self.opened[layer].root.as_fd()
    }

    /// Owner and group, counted from the beginning of the layer's block.
    pub(super) fn owner(&self, layer: usize, stamp: &Stamp) -> (u32, u32) {
        let from = self.opened[layer].ids_from;
        (stamp.uid.wrapping_sub(from), stamp.gid.wrapping_sub(from))
    }

    pub(super) fn ids_from(&self, layer: usize) -> u32 {
        self.opened[layer].ids_from
    }

    /// The directory at the top of a stack.
    pub(super) fn top(stack: &[usize]) -> Merged {
        let place = |layer: &usize| Place { layer: *layer, path: PathBuf::new() };
        Merged { places: stack.iter().rev().map(place).collect(), below: Some(PathBuf::new()) }
    }

    pub(super) fn open_dir(&self, merged: Merged) -> std::result::Result<OpenDir, (Place, Errno)> {
        let mut dirs = Vec::new();
        for place in &merged.places {
            let opened = self.open_place(place);
            let opened = opened.and_then(|dir| {
                let marked = overlay::dir_marks(self.format, &dir)?.marked_whiteouts;
                Ok((dir, marked))
            });
            dirs.push(opened.map_err(|errno| (place.clone(), errno))?);
        }
        Ok(OpenDir { merged, dirs })
    }

    fn open_place(&self, place: &Place) -> Result<OwnedFd> {
        let dir = beneath::dir(self.root(place.layer), &place.path)?;
        self.open_up(place, &dir)?;
        beneath::open(dir.as_fd(), Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Lets us list a directory, enter it and read its marks.
    fn open_up(&self, place: &Place, dir: &OwnedFd) -> Result<()> {
        if !self.opens_up {
            return Ok(());
        }
        let stamp = beneath::stamp(dir)?;
        if may_open_up(&stamp) && stamp.mode & ENTER != ENTER {
            self.opened_up.borrow_mut().push((place.clone(), stamp.mode));
            beneath::chmod(dir, stamp.mode | ENTER)?;
        }
        Ok(())
    }

    /// The mode that a directory has apart from what [`Self::open_dir`] did to it.
    pub(super) fn true_mode(&self, place: &Place, stamp: &Stamp) -> u32 {
        let opened_up = self.opened_up.borrow();
        let found = opened_up.iter().rev().find(|(opened, _)| opened == place);
        found.map_or(stamp.mode, |(_, mode)| *mode)
    }

    /// What is at `name` in a directory of `stack`.
    pub(super) fn look(&self, stack: &[usize], dir: &OpenDir, name: &OsStr) -> Result<Found> {
        let mut name = name.to_owned();
        let mut merged = Merged {
            places: Vec::new(),
            below: dir.merged.below.as_ref().map(|below| below.join(&name)),
        };
        let mut is_hidden = false;
        for (number, (place, (fd, has_marks))) in
            dir.merged.places.iter().zip(&dir.dirs).enumerate()
        {
            let Some(stamp) = beneath::look(fd, &name)? else { continue };
            let is_whiteout = self.is_whiteout(fd, &name, &stamp, *has_marks)?;
            if stamp.kind != FileKind::Dir || is_whiteout {
                if merged.places.is_empty() && !is_whiteout {
                    return Ok(Found::File(number, stamp));
                }
                (is_hidden, merged.below) = (true, None);
                break;
            }
            let found = Place { layer: place.layer, path: place.path.join(&name) };
            let object = beneath::dir(fd.as_fd(), Path::new(&name))?;
            self.open_up(&found, &object)?;
            let marks = overlay::dir_marks(self.format, object)?;
            merged.places.push(found);
            match marks.below {
                Below::Same => {}
                Below::Opaque => {
                    merged.below = None;
                    break;
                }
                Below::Sibling(old) => {
                    merged.below = dir.merged.below.as_ref().map(|below| below.join(&old));
                    name = old;
                }
                Below::Path(path) => {
                    let lower = stack.iter().position(|layer| *layer == place.layer);
                    let lower = &stack[..lower.unwrap_or(0)];
                    let Some(rest) = self.resolve(lower, &path)? else {
                        return Ok(Found::Forged(merged.places.swap_remove(0)));
                    };
                    merged.places.extend(rest.places);
                    merged.below = rest.below;
                    break;
                }
                Below::Forged => return Ok(Found::Forged(merged.places.swap_remove(0))),
            }
        }
        Ok(if merged.places.is_empty() { Found::Nothing { is_hidden } } else { Found::Dir(merged) })
    }

    /// The directory at a path that a redirect names, in the layers below its own. Each one
    /// leads to fewer layers, so this ends.
    fn resolve(&self, stack: &[usize], path: &Path) -> Result<Option<Merged>> {
        let mut merged = Self::top(stack);
        for part in path.components() {
            let Component::Normal(name) = part else { return Ok(None) };
            let dir = self.open_dir(merged).map_err(|(_, errno)| errno)?;
            merged = match self.look(stack, &dir, name)? {
                Found::Dir(found) => found,
                Found::Nothing { is_hidden: false } => Merged {
                    places: Vec::new(),
                    below: dir.merged.below.map(|below| below.join(name)),
                },
                Found::Nothing { is_hidden: true } | Found::File(..) => {
                    return Ok(Some(Merged { places: Vec::new(), below: None }));
                }
                Found::Forged(_) => return Ok(None),
            };
        }
        Ok(Some(merged))
    }

    fn is_whiteout(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        stamp: &Stamp,
        has_marks: bool,
    ) -> Result<bool> {
        if stamp.is_null_device() {
            return Ok(true);
        }
        if !has_marks || stamp.kind != FileKind::File || stamp.size != 0 {
            return Ok(false);
        }
        let file = beneath::handle(dir.as_fd(), Path::new(name))?;
        Ok(overlay::file_marks(self.format, file, stamp, has_marks)?.is_whiteout)
    }
}

impl OpenDir {
    /// The names in the topmost `count` places; of each at most so many.
    pub(super) fn names(
        &self,
        count: usize,
        most: usize,
    ) -> std::result::Result<BTreeSet<OsString>, (Place, Errno)> {
        let mut names = BTreeSet::new();
        for (place, (dir, _)) in self.merged.places.iter().zip(&self.dirs).take(count) {
            let listed = beneath::some_names(dir.as_fd(), Path::new(""), most);
            names.extend(listed.map_err(|errno| (place.clone(), errno))?);
        }
        Ok(names)
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        // What is within another was opened up after it.
        for (place, mode) in self.opened_up.borrow_mut().drain(..).rev() {
            // Nothing can be done about a failure here.
            beneath::dir(self.opened[place.layer].root.as_fd(), &place.path)
                .and_then(|dir| beneath::chmod(dir, mode))
                .ok();
        }
    }
}
