//! Everything that stat(2) and its like say about a tree, a line for each file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

/// A tree as it is to be kept, its top included.
#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Listing {
    pub(crate) lines: BTreeMap<PathBuf, String>,
}

impl Listing {
    /// Looks at a tree as its owner; modes that shut us out are opened up meanwhile.
    pub(crate) fn of(root: &Path) -> Self {
        let mut listing = Self { lines: BTreeMap::new() };
        let mut first: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
        let mut opened = Vec::new();
        let mut todo = vec![PathBuf::new()];
        while let Some(path) = todo.pop() {
            let full = if path.as_os_str().is_empty() { root.into() } else { root.join(&path) };
            let stat = fs::symlink_metadata(&full).unwrap();
            let kind = stat.file_type();
            let mode = stat.mode() & 0o7777;
            let least = if kind.is_dir() { 0o500 } else { 0o400 };
            let is_shut = !super::is_root() && !kind.is_symlink() && mode & least != least;
            if is_shut {
                fs::set_permissions(&full, PermissionsExt::from_mode(mode | least)).unwrap();
                opened.push((full.clone(), mode));
            }
            let content = if kind.is_file() {
                describe_content(&full, &stat)
            } else if kind.is_symlink() {
                format!("-> {:?}", fs::read_link(&full).unwrap())
            } else if kind.is_char_device() || kind.is_block_device() {
                format!("device {}", stat.rdev())
            } else {
                String::new()
            };
            let (uid, gid) = (stat.uid(), stat.gid());
            let same = if kind.is_dir() {
                path.clone()
            } else {
                first.entry((stat.dev(), stat.ino())).or_insert_with(|| path.clone()).clone()
            };
            let line = format!(
                "{kind:?} {mode:o} {uid}:{gid} {}.{} {content} {:?} = {same:?}",
                stat.mtime(),
                stat.mtime_nsec(),
                attributes(&full),
            );
            if kind.is_dir() {
                let mut inside: Vec<_> = fs::read_dir(&full)
                    .unwrap()
                    .map(|entry| path.join(entry.unwrap().file_name()))
                    .collect();
                inside.sort();
                todo.extend(inside.into_iter().rev());
            }
            listing.lines.insert(path, line);
        }
        for (path, mode) in opened.into_iter().rev() {
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        listing
    }

    #[track_caller]
    pub(crate) fn assert_is(&self, expected: &Self) {
        let mut differences = Vec::new();
        for path in self.lines.keys().chain(expected.lines.keys()) {
            let (is, should) = (self.lines.get(path), expected.lines.get(path));
            if is != should {
                differences.push(format!("{path:?}\n  is     {is:?}\n  should {should:?}"));
            }
        }
        differences.dedup();
        assert!(differences.is_empty(), "the trees differ:\n{}", differences.join("\n"));
    }
}

fn describe_content(path: &Path, stat: &fs::Metadata) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let is_sparse = stat.blocks() * 512 + 65536 < stat.len();
    let mut hasher = DefaultHasher::new();
    if stat.len() < 1 << 28 {
        fs::read(path).unwrap().hash(&mut hasher);
    }
    format!("{} bytes, {:x}, sparse: {is_sparse}", stat.len(), hasher.finish())
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 65536];
    let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty() && *name != b"security.selinux")
        .map(|name| {
            let mut value = vec![0; 65536];
            let length =
                rustix::fs::lgetxattr(path, OsStr::from_bytes(name), value.as_mut_slice()).unwrap();
            value.truncate(length);
            (String::from_utf8_lossy(name).into_owned(), value)
        })
        .collect()
}
