//! What a tree is, as far as two have to be equal.

use super::is_root;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

/// One file as far as it has to be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    pub(super) mtime: (i64, i64),
    content: Vec<u8>,
    /// Whether it takes much less room than its length.
    is_sparse: bool,
    xattrs: BTreeMap<OsString, Vec<u8>>,
    /// The first path of the same file.
    pub(super) first_link: PathBuf,
}

impl Entry {
    /// A file that was only touched is not a change.
    pub(super) fn is_same_but_for_time(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.mtime = self.mtime;
        *self == other
    }
}

/// A whole tree.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(super) entries: BTreeMap<PathBuf, Entry>,
}

impl Manifest {
    pub(crate) fn of(root: &Path) -> Self {
        let mut manifest = Self::default();
        let (mut todo, mut opened) = (vec![PathBuf::new()], Vec::new());
        while let Some(dir) = todo.pop() {
            opened.push(Opened::with(&root.join(&dir), 0o500));
            for entry in fs::read_dir(root.join(&dir)).unwrap() {
                let path = dir.join(entry.unwrap().file_name());
                if fs::symlink_metadata(root.join(&path)).unwrap().is_dir() {
                    todo.push(path.clone());
                }
                manifest.entries.insert(path.clone(), entry_of(&root.join(&path)));
            }
        }
        manifest.find_links(root);
        // Inner directories first.
        while opened.pop().is_some() {}
        manifest
    }

    fn find_links(&mut self, root: &Path) {
        let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
        for (path, entry) in &mut self.entries {
            let ino = fs::symlink_metadata(root.join(path)).unwrap().ino();
            entry.first_link = first.entry(ino).or_insert_with(|| path.clone()).clone();
        }
    }

    #[track_caller]
    pub(super) fn assert_is(&self, expected: &Self) {
        let paths: BTreeSet<_> = self.entries.keys().chain(expected.entries.keys()).collect();
        let describe = |entry: Option<&Entry>| match entry {
            None => "nothing".into(),
            Some(entry) => {
                let mut short = entry.clone();
                short.content.truncate(80);
                format!("{short:?}")
            }
        };
        let differences: Vec<String> = paths
            .into_iter()
            .filter(|path| self.entries.get(*path) != expected.entries.get(*path))
            .map(|path| {
                let (is, should) = (self.entries.get(path), expected.entries.get(path));
                format!("{path:?}\n  is     {}\n  should {}", describe(is), describe(should))
            })
            .collect();
        assert!(differences.is_empty(), "the trees differ:\n{}", differences.join("\n"));
    }
}

/// Opens a mode up for reading while it lives.
struct Opened {
    path: PathBuf,
    /// The mode to go back to. Nothing is set without need: that would move the
    /// change time.
    mode: Option<u32>,
}

impl Opened {
    fn with(path: &Path, more: u32) -> Self {
        let mode = fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        let is_needed = mode & more != more && !is_root();
        if is_needed {
            fs::set_permissions(path, PermissionsExt::from_mode(mode | more)).unwrap();
        }
        Self { path: path.to_owned(), mode: is_needed.then_some(mode) }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            fs::set_permissions(&self.path, PermissionsExt::from_mode(mode)).unwrap();
        }
    }
}

fn entry_of(path: &Path) -> Entry {
    use std::os::unix::fs::FileTypeExt as _;
    let metadata = fs::symlink_metadata(path).unwrap();
    let kind = metadata.file_type();
    let (kind, content) = if kind.is_dir() {
        ("dir", Vec::new())
    } else if kind.is_symlink() {
        ("link", fs::read_link(path).unwrap().into_os_string().as_bytes().to_vec())
    } else if kind.is_file() {
        ("file", read_shut(path))
    } else if kind.is_fifo() {
        ("fifo", Vec::new())
    } else {
        ("special", Vec::new())
    };
    let is_sparse = kind == "file" && metadata.blocks() * 512 + 65536 < metadata.len();
    let content = if content.len() > 1 << 20 { digest(&content) } else { content };
    Entry {
        kind,
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
        content,
        is_sparse,
        xattrs: if kind == "link" { BTreeMap::new() } else { user_xattrs(path) },
        first_link: PathBuf::new(),
    }
}

fn digest(content: &[u8]) -> Vec<u8> {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish().to_ne_bytes().to_vec()
}

fn read_shut(path: &Path) -> Vec<u8> {
    let _opened = Opened::with(path, 0o400);
    let is_endless = path.metadata().unwrap().len() > 1 << 30;
    if is_endless { Vec::new() } else { fs::read(path).unwrap() }
}

fn user_xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let _opened = Opened::with(path, 0o400);
    let mut names = vec![0; 65536];
    let Ok(length) = rustix::fs::listxattr(path, names.as_mut_slice()) else {
        return BTreeMap::new();
    };
    names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user.") || name.starts_with(b"system."))
        .map(|name| {
            let mut value = vec![0; 65536];
            let name = OsStr::from_bytes(name);
            let length = rustix::fs::getxattr(path, name, value.as_mut_slice()).unwrap();
            value.truncate(length);
            (name.to_owned(), value)
        })
        .collect()
}
