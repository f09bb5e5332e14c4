//! What an overlay of layers would show, without mounting one.

use crate::beneath;
use crate::node::{FileKind, Stamp};
use crate::overlay::{self, Below, Format};
use rustix::io::{Errno, Result as OsResult};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// Most links that are followed on the way to a file.
const LINKS_MAX: usize = 40;

/// Layers one above the other, of which nobody changes any.
#[derive(Debug)]
pub struct Chain {
    /// Topmost first.
    trees: Vec<(PathBuf, OwnedFd)>,
    format: Format,
}

/// A file as the layers show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where it is: the topmost, if it is a directory that several have.
    pub at: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner, on the host.
    pub uid: u32,
    /// Group, on the host.
    pub gid: u32,
}

/// The trees that have a directory, which are shown as one.
type Merged = Vec<usize>;

enum Found {
    /// These trees have a directory there.
    Dir(Merged),
    /// This one has something else.
    Other(usize, Stamp),
    None,
}

impl Chain {
    /// Opens trees of layers, topmost first. A single one is just that directory.
    ///
    /// # Errors
    ///
    /// When one cannot be opened.
    pub fn open(trees: &[PathBuf], format: Format) -> io::Result<Self> {
        let open = |path: &PathBuf| Ok((path.clone(), beneath::open_root(path)?));
        Ok(Self { trees: trees.iter().map(open).collect::<io::Result<_>>()?, format })
    }

    /// What is at a path, links not followed.
    ///
    /// # Errors
    ///
    /// When a layer cannot be read.
    pub fn find(&self, path: &Path) -> io::Result<Option<Seen>> {
        let path = plain(path);
        let seen = |tree: usize, stamp: Stamp| Seen {
            at: self.trees[tree].0.join(&path),
            kind: stamp.kind,
            mode: stamp.mode,
            uid: stamp.uid,
            gid: stamp.gid,
        };
        match self.look(&path)? {
            Found::None => Ok(None),
            Found::Other(tree, stamp) => Ok(Some(seen(tree, stamp))),
            Found::Dir(merged) => {
                let Some(&top) = merged.first() else { return Ok(None) };
                Ok(self.stamp(top, &path)?.map(|stamp| seen(top, stamp)))
            }
        }
    }

    /// The names in a directory, and where what they name is; nothing if it is none.
    ///
    /// # Errors
    ///
    /// When a layer cannot be read.
    pub fn names(&self, path: &Path) -> io::Result<BTreeMap<OsString, Seen>> {
        let path = plain(path);
        let Found::Dir(merged) = self.look(&path)? else { return Ok(BTreeMap::new()) };
        let mut names = BTreeMap::new();
        for tree in merged {
            for name in beneath::names(self.trees[tree].1.as_fd(), &path)? {
                if !names.contains_key(&name)
                    && let Some(seen) = self.find(&path.join(&name))?
                {
                    names.insert(name, seen);
                }
            }
        }
        Ok(names)
    }

    /// Where a path leads within the layers, links followed as for a program whose root they
    /// are.
    ///
    /// # Errors
    ///
    /// When a layer cannot be read, or the links are endless.
    pub fn resolve(&self, path: &Path) -> io::Result<Option<(PathBuf, Seen)>> {
        let mut todo: VecDeque<OsString> = parts(path).collect();
        let mut at = PathBuf::new();
        let mut followed = 0;
        let mut last = self.find(Path::new(""))?;
        while let Some(part) = todo.pop_front() {
            if part == ".." {
                at.pop();
                last = self.find(&at)?;
                continue;
            }
            let Some(seen) = self.find(&at.join(&part))? else { return Ok(None) };
            if seen.kind != FileKind::Symlink {
                at.push(&part);
                last = Some(seen);
                continue;
            }
            followed += 1;
            if followed > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            let target = std::fs::read_link(&seen.at)?;
            if target.is_absolute() {
                at.clear();
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                todo.push_front(part);
            }
            last = self.find(&at)?;
        }
        Ok(last.map(|seen| (at, seen)))
    }

    /// The content of a regular file, links followed; nothing if there is none, or if it is
    /// longer than that.
    ///
    /// # Errors
    ///
    /// When a layer cannot be read.
    pub fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((_, seen)) = self.resolve(path)? else { return Ok(None) };
        if seen.kind != FileKind::File {
            return Ok(None);
        }
        let mut content = Vec::new();
        std::fs::File::open(&seen.at)?.take(bytes_max + 1).read_to_end(&mut content)?;
        Ok((content.len() as u64 <= bytes_max).then_some(content))
    }

    /// Whether this can be a root file system: there are programs in it.
    ///
    /// # Errors
    ///
    /// When a layer cannot be read.
    pub fn is_root(&self) -> io::Result<bool> {
        Ok(self.find(Path::new("bin"))?.is_some() || self.find(Path::new("usr/bin"))?.is_some())
    }

    fn look(&self, path: &Path) -> OsResult<Found> {
        let mut merged: Merged = (0..self.trees.len()).collect();
        let mut at = PathBuf::new();
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            at.push(part);
            match self.step(&merged, &at)? {
                Found::Dir(found) => merged = found,
                Found::Other(..) if parts.peek().is_some() => return Ok(Found::None),
                found => return Ok(found),
            }
        }
        Ok(Found::Dir(merged))
    }

    /// What is at a path whose directory `above` have.
    fn step(&self, above: &[usize], path: &Path) -> OsResult<Found> {
        let mut merged = Vec::new();
        for &tree in above {
            let Some(stamp) = self.stamp(tree, path)? else { continue };
            if self.is_whiteout(tree, path, &stamp)? {
                break;
            }
            if stamp.kind != FileKind::Dir {
                if merged.is_empty() {
                    return Ok(Found::Other(tree, stamp));
                }
                break;
            }
            merged.push(tree);
            let dir = beneath::dir(self.trees[tree].1.as_fd(), path)?;
            if matches!(overlay::dir_marks(self.format, dir)?.below, Below::Opaque) {
                break;
            }
        }
        Ok(if merged.is_empty() { Found::None } else { Found::Dir(merged) })
    }

    fn is_whiteout(&self, tree: usize, path: &Path, stamp: &Stamp) -> OsResult<bool> {
        if stamp.is_null_device() {
            return Ok(true);
        }
        if stamp.kind != FileKind::File || stamp.size != 0 {
            return Ok(false);
        }
        let root = self.trees[tree].1.as_fd();
        let above = beneath::dir(root, path.parent().unwrap_or(Path::new("")))?;
        let has_marks = overlay::dir_marks(self.format, above)?.marked_whiteouts;
        let file = beneath::handle(root, path)?;
        Ok(overlay::file_marks(self.format, file, stamp, has_marks)?.is_whiteout)
    }

    fn stamp(&self, tree: usize, path: &Path) -> OsResult<Option<Stamp>> {
        beneath::find(self.trees[tree].1.as_fd(), path)
    }
}

/// The names of a path, which begins at the root of the layers.
fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from_vec(b"..".to_vec())),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

/// A path without what is no name; `..` leads to nothing here.
fn plain(path: &Path) -> PathBuf {
    parts(path).collect()
}
