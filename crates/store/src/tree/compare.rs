//! How two stacks of layers differ.
//!
//! Of layers that both have at the bottom only what the others touch is looked at. Marks are
//! followed as the kernel does; what it would refuse to show is reported, and so are files
//! that have no content of their own (metacopy).

use super::stack::{Found, Layer, Layers, Merged, OpenDir, Place, Stack};
use crate::beneath;
use crate::changes::compare::same_bytes;
use crate::changes::{RejectReason, Rejected};
use crate::node::{FileKind, Stamp};
use crate::overlay::{self, Format};
use crate::xattr;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Difference {
    Added,
    Removed,
    /// Other content, or another target of a symbolic link.
    Modified,
    /// Something of another kind, such as a directory in place of a file.
    TypeChanged,
    /// Other permission bits, owner, group or extended attributes; the content is equal.
    Attributes,
}

/// What one of the stacks has at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    pub kind: FileKind,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// Owner and group, counted from the beginning of the layer's block of ids.
    pub uid: u32,
    pub gid: u32,
    /// Length of a regular file in bytes, else nothing.
    pub size: u64,
    /// Where a symbolic link points.
    pub target: Option<PathBuf>,
}

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Relative to the top; the empty path is the top itself.
    pub path: PathBuf,
    pub difference: Difference,
    pub before: Option<Side>,
    pub after: Option<Side>,
}

/// How much is looked at, and how much of that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most differences, and most paths that could not be compared: the first of each.
    pub told: usize,
    /// Most names that are looked at, which is what the memory follows that is needed.
    pub names: usize,
}

/// The outcome of [`compare`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// Ordered by path, a directory before what is in it.
    pub changes: Vec<Changed>,
    /// What could not be compared, ordered by path.
    pub rejected: Vec<Rejected>,
    /// There may be more: a bound was met.
    pub is_cut: bool,
}

/// Why two stacks could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("the comparison was canceled")]
    Canceled,
    #[error("could not open the layer {}", dir.display())]
    Open { dir: PathBuf, source: io::Error },
    #[error("could not read {:?}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// Compares what two stacks of layers show, the lowest layer first, and lists as many
/// differences as `bounds` says. An empty stack shows nothing.
///
/// # Errors
///
/// [`CompareError`]; single entries that cannot be read are in [`Compared::rejected`].
pub fn compare(
    before: &[Layer],
    after: &[Layer],
    format: Format,
    bounds: Bounds,
    is_canceled: &dyn Fn() -> bool,
) -> Result<Compared, CompareError> {
    let mut layers = Layers::new(format, false);
    let open = |(dir, source)| CompareError::Open { dir, source };
    let before = layers.open(before).map_err(open)?;
    let after = layers.open(after).map_err(open)?;
    let shared = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let mut compare = Compare {
        shared: before[..shared].iter().copied().collect(),
        layers: &layers,
        before,
        after,
        bounds,
        names: 0,
        last: None,
        is_canceled,
        todo: Vec::new(),
        compared: Compared::default(),
    };
    compare.run()?;
    compare.trim();
    Ok(compare.compared)
}

/// A directory of the result that is still to be compared.
struct Frame {
    path: PathBuf,
    before: Option<Merged>,
    after: Option<Merged>,
}

/// One side of a frame.
struct Half {
    dir: Option<OpenDir>,
    names: BTreeSet<OsString>,
}

/// A file or directory of one side, opened if it is needed.
enum Item<'d> {
    /// In which layer, the directory that it is in, and under which name.
    File {
        layer: usize,
        dir: &'d OwnedFd,
        stamp: Stamp,
    },
    Dir {
        merged: Merged,
        stamp: Stamp,
    },
}

struct Compare<'c> {
    layers: &'c Layers,
    before: Stack,
    after: Stack,
    /// Layers at the bottom of both.
    shared: BTreeSet<usize>,
    bounds: Bounds,
    /// How many were looked at.
    names: usize,
    /// Differences behind this path are not told any more.
    last: Option<PathBuf>,
    is_canceled: &'c dyn Fn() -> bool,
    todo: Vec<Frame>,
    compared: Compared,
}

type Outcome<T> = Result<T, CompareError>;

impl Compare<'_> {
    fn run(&mut self) -> Outcome<()> {
        let (before, after) = (Layers::top(&self.before), Layers::top(&self.after));
        if let (Some(one), Some(other)) = (before.places.first(), after.places.first())
            && one != other
        {
            let pair = self.dir_stamp(one).and_then(|one| Ok((one, self.dir_stamp(other)?)));
            if let Some((one, other)) = self.absorb(Path::new(""), pair)? {
                let before = Item::Dir { merged: before.clone(), stamp: one };
                let after = Item::Dir { merged: after.clone(), stamp: other };
                self.pair(PathBuf::new(), Some(before), Some(after))?;
            }
        }
        if self.todo.is_empty() {
            self.todo.push(Frame {
                path: PathBuf::new(),
                before: Some(before),
                after: Some(after),
            });
        }
        while let Some(frame) = self.todo.pop() {
            if self.last.as_ref().is_none_or(|last| frame.path <= *last) {
                self.frame(frame)?;
            }
        }
        Ok(())
    }

    /// Sorts what there is to tell, and leaves out what is too much.
    fn trim(&mut self) {
        let (compared, most) = (&mut self.compared, self.bounds.told);
        compared.changes.sort_by(|one, other| one.path.cmp(&other.path));
        compared.rejected.sort_by(|one, other| one.path.cmp(&other.path));
        compared.rejected.dedup();
        if compared.changes.len() > most {
            compared.is_cut = true;
            compared.changes.truncate(most);
            self.last = compared.changes.last().map(|change| change.path.clone());
        }
        if compared.rejected.len() > most {
            compared.is_cut = true;
            compared.rejected.truncate(most);
        }
    }

    /// Trims when there is so much that it pays.
    fn trim_sometimes(&mut self) {
        let most = self.bounds.told.max(1).saturating_mul(2);
        if self.compared.changes.len() >= most || self.compared.rejected.len() >= most {
            self.trim();
        }
    }

    fn frame(&mut self, frame: Frame) -> Outcome<()> {
        let Frame { path, before, after } = frame;
        let is_shared = |place: &Place| self.shared.contains(&place.layer);
        let same = match (&before, &after) {
            (Some(before), Some(after)) => {
                let pairs = before.places.iter().rev().zip(after.places.iter().rev());
                pairs.take_while(|(one, other)| one == other && is_shared(one)).count()
            }
            _ => 0,
        };
        let (before, after) = (self.open(before, same), self.open(after, same));
        // Nothing in here is compared by halves.
        let Some(before) = self.absorb(&path, before)? else { return Ok(()) };
        let Some(after) = self.absorb(&path, after)? else { return Ok(()) };
        for name in before.names.union(&after.names) {
            if (self.is_canceled)() {
                return Err(CompareError::Canceled);
            }
            if self.names >= self.bounds.names {
                self.compared.is_cut = true;
                self.todo.clear();
                break;
            }
            self.names += 1;
            let path = path.join(name);
            let one = self.item(&self.before, before.dir.as_ref(), name);
            let Some(one) = self.absorb(&path, one)? else { continue };
            let other = self.item(&self.after, after.dir.as_ref(), name);
            let Some(other) = self.absorb(&path, other)? else { continue };
            match (one, other) {
                (Seen::Rejected(why), _) | (_, Seen::Rejected(why)) => self.reject(&path, why),
                (Seen::Item(one), Seen::Item(other)) => self.pair(path, one, other)?,
            }
        }
        Ok(())
    }

    /// Opens one side, and lists the names in all but the lowest `same` of its places.
    fn open(&self, merged: Option<Merged>, same: usize) -> rustix::io::Result<Half> {
        let Some(merged) = merged else { return Ok(Half { dir: None, names: BTreeSet::new() }) };
        let own = merged.places.len() - same;
        if own == 0 && same == 0 {
            return Ok(Half { dir: None, names: BTreeSet::new() });
        }
        let dir = self.layers.open_dir(merged).map_err(|(_, errno)| errno)?;
        // One more tells that there are too many.
        let most = (self.bounds.names - self.names).saturating_add(1);
        let names = dir.names(own, most).map_err(|(_, errno)| errno)?;
        Ok(Half { dir: Some(dir), names })
    }

    fn item<'d>(
        &self,
        stack: &[usize],
        dir: Option<&'d OpenDir>,
        name: &OsStr,
    ) -> rustix::io::Result<Seen<'d>> {
        let Some(dir) = dir else { return Ok(Seen::Item(None)) };
        Ok(match self.layers.look(stack, dir, name)? {
            Found::Nothing { .. } => Seen::Item(None),
            Found::Forged(_) => Seen::Rejected(RejectReason::ForgedMark),
            Found::File(number, stamp) => {
                let (fd, _) = &dir.dirs[number];
                let layer = dir.merged.places[number].layer;
                Seen::Item(Some(Item::File { layer, dir: fd, stamp }))
            }
            Found::Dir(merged) => {
                let Some(top) = merged.places.first() else { return Ok(Seen::Item(None)) };
                let stamp = self.dir_stamp(top)?;
                Seen::Item(Some(Item::Dir { merged, stamp }))
            }
        })
    }

    fn dir_stamp(&self, place: &Place) -> rustix::io::Result<Stamp> {
        beneath::stamp(beneath::dir(self.layers.root(place.layer), &place.path)?)
    }

    /// Compares what the two have at a path, and queues what is in it.
    fn pair(
        &mut self,
        path: PathBuf,
        before: Option<Item<'_>>,
        after: Option<Item<'_>>,
    ) -> Outcome<()> {
        let name = path.file_name().unwrap_or_default();
        let difference = match (&before, &after) {
            (None, None) => Ok(None),
            (None, Some(_)) => Ok(Some(Difference::Added)),
            (Some(_), None) => Ok(Some(Difference::Removed)),
            (Some(one), Some(other)) if one.stamp().kind != other.stamp().kind => {
                Ok(Some(Difference::TypeChanged))
            }
            (Some(one), Some(other)) => self.difference(name, one, other),
        };
        let difference = match difference {
            Err(Judged::Reject(why)) => {
                self.reject(&path, why);
                None
            }
            Err(Judged::Failed(errno)) => self.absorb(&path, Err(errno))?.flatten(),
            Ok(difference) => difference,
        };
        if let Some(difference) = difference {
            let side = |item: &Option<Item<'_>>| {
                item.as_ref().map(|item| self.side(item, name)).transpose()
            };
            let sides = side(&before).and_then(|before| Ok((before, side(&after)?)));
            if let Some((before, after)) = self.absorb(&path, sides)? {
                let path = path.clone();
                self.compared.changes.push(Changed { path, difference, before, after });
                self.trim_sometimes();
            }
        }
        let (before, after) = (before.and_then(Item::into_dir), after.and_then(Item::into_dir));
        let is_same = match (&before, &after) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.places == other.places
                    && one.places.iter().all(|place| self.shared.contains(&place.layer))
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            self.todo.push(Frame { path, before, after });
        }
        Ok(())
    }

    /// Compares two of the same kind.
    fn difference(
        &self,
        name: &OsStr,
        one: &Item<'_>,
        other: &Item<'_>,
    ) -> Result<Option<Difference>, Judged> {
        let is_same = is_same_file(one.stamp(), other.stamp());
        if let (Item::File { dir, stamp, .. }, Item::File { dir: other_dir, stamp: other, .. }) =
            (one, other)
            && !is_same
        {
            for (dir, stamp) in [(dir, stamp), (other_dir, other)] {
                self.check_content(dir, name, stamp)?;
            }
            let pair = ((*dir, stamp), (*other_dir, other));
            if !is_same_content(pair, name, self.is_canceled)? {
                return Ok(Some(Difference::Modified));
            }
        }
        let has_modes = one.stamp().kind != FileKind::Symlink;
        let same_mode = !has_modes || one.stamp().mode == other.stamp().mode;
        let same_owner = self.owner(one) == self.owner(other);
        let is_equal = same_mode
            && same_owner
            && (is_same
                || !has_modes
                || self.attributes(one, name)? == self.attributes(other, name)?);
        Ok((!is_equal).then_some(Difference::Attributes))
    }

    /// Refuses a file whose content is elsewhere.
    fn check_content(&self, dir: &OwnedFd, name: &OsStr, stamp: &Stamp) -> Result<(), Judged> {
        if stamp.kind != FileKind::File {
            return Ok(());
        }
        let file = beneath::handle(dir.as_fd(), Path::new(name))?;
        let marks = overlay::file_marks(self.layers.format, file, stamp, false)?;
        if marks.has_no_data { Err(Judged::Reject(RejectReason::NoContent)) } else { Ok(()) }
    }

    fn owner(&self, item: &Item<'_>) -> (u32, u32) {
        self.layers.owner(item.layer(), item.stamp())
    }

    fn attributes(&self, item: &Item<'_>, name: &OsStr) -> Result<xattr::Xattrs, Judged> {
        let object = match item {
            Item::File { dir, .. } => beneath::handle(dir.as_fd(), Path::new(name))?,
            Item::Dir { merged, .. } => {
                let Some(top) = merged.places.first() else { return Ok(xattr::Xattrs::new()) };
                beneath::dir(self.layers.root(top.layer), &top.path)?
            }
        };
        Ok(xattr::carried(object)?)
    }

    fn side(&self, item: &Item<'_>, name: &OsStr) -> rustix::io::Result<Side> {
        let stamp = item.stamp();
        let (uid, gid) = self.owner(item);
        let target = match item {
            Item::File { dir, stamp, .. } if stamp.kind == FileKind::Symlink => {
                Some(beneath::read_link(dir, name)?)
            }
            Item::File { .. } | Item::Dir { .. } => None,
        };
        let size = if stamp.kind == FileKind::File { stamp.size } else { 0 };
        Ok(Side { kind: stamp.kind, mode: stamp.mode, uid, gid, size, target })
    }

    /// Sorts a failure into one that is reported and one that ends everything.
    fn absorb<T>(&mut self, path: &Path, outcome: rustix::io::Result<T>) -> Outcome<Option<T>> {
        let why = match outcome {
            Ok(value) => return Ok(Some(value)),
            Err(Errno::ACCESS | Errno::PERM) => RejectReason::Unreadable,
            Err(Errno::XDEV) => RejectReason::OtherFileSystem,
            Err(Errno::NAMETOOLONG) => RejectReason::TooLong,
            Err(Errno::CANCELED) => return Err(CompareError::Canceled),
            Err(errno) => {
                return Err(CompareError::Read { path: path.to_owned(), source: errno.into() });
            }
        };
        self.reject(path, why);
        Ok(None)
    }

    fn reject(&mut self, path: &Path, why: RejectReason) {
        self.compared.rejected.push(Rejected { path: path.to_owned(), why });
        self.trim_sometimes();
    }
}

/// What one side has at a name.
enum Seen<'d> {
    Item(Option<Item<'d>>),
    Rejected(RejectReason),
}

/// Why two files were not compared.
enum Judged {
    Reject(RejectReason),
    Failed(Errno),
}

impl From<Errno> for Judged {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

impl Item<'_> {
    fn stamp(&self) -> &Stamp {
        match self {
            Self::File { stamp, .. } | Self::Dir { stamp, .. } => stamp,
        }
    }

    fn layer(&self) -> usize {
        match self {
            Self::File { layer, .. } => *layer,
            Self::Dir { merged, .. } => merged.places.first().map_or(0, |place| place.layer),
        }
    }

    fn into_dir(self) -> Option<Merged> {
        match self {
            Self::File { .. } => None,
            Self::Dir { merged, .. } => Some(merged),
        }
    }
}

/// Whether two files are one, or one and what a snapshot of its subvolume has: the same inode
/// with the same times, of which no program can set the change time.
fn is_same_file(one: &Stamp, other: &Stamp) -> bool {
    if one.id() == other.id() {
        return true;
    }
    // Times of whole seconds say less.
    if one.ctime.nsec == 0 {
        return false;
    }
    let facts = |stamp: &Stamp| (stamp.ino, stamp.kind, stamp.size, stamp.mtime, stamp.ctime);
    facts(one) == facts(other)
}

fn is_same_content(
    ((one, stamp), (other, other_stamp)): ((&OwnedFd, &Stamp), (&OwnedFd, &Stamp)),
    name: &OsStr,
    is_canceled: &dyn Fn() -> bool,
) -> rustix::io::Result<bool> {
    match stamp.kind {
        FileKind::File if stamp.size != other_stamp.size => Ok(false),
        FileKind::File => {
            let open = |dir: &OwnedFd| beneath::file(dir.as_fd(), Path::new(name));
            same_bytes(&open(one)?, &open(other)?, stamp.size, is_canceled)
        }
        FileKind::Symlink => Ok(beneath::read_link(one, name)? == beneath::read_link(other, name)?),
        FileKind::CharDevice | FileKind::BlockDevice => Ok(stamp.rdev == other_stamp.rdev),
        FileKind::Dir | FileKind::Fifo | FileKind::Socket | FileKind::Unknown => Ok(true),
    }
}
