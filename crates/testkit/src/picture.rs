//! What a tree holds, for comparing before with after.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Each path below a root with its kind, mode, owner, number of names and content.
pub type Picture = BTreeMap<PathBuf, String>;

/// Takes a picture of `root` itself and everything below it, hidden names too.
/// Links are not followed. Times are left out.
///
/// # Panics
///
/// If something cannot be read.
#[must_use]
pub fn picture(root: &Path) -> Picture {
    let mut picture = Picture::new();
    add(root, Path::new(""), &mut picture);
    picture
}

fn add(root: &Path, relative: &Path, picture: &mut Picture) {
    let path = if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) };
    let found = path.symlink_metadata().expect("look at a path");
    let kind = found.file_type();
    let content = if kind.is_file() {
        let bytes = std::fs::read(&path).expect("read a file");
        format!("file of {}: {}", bytes.len(), bytes.escape_ascii())
    } else if kind.is_symlink() {
        let target = path.read_link().expect("read a link");
        format!("link to {}", target.as_os_str().as_bytes().escape_ascii())
    } else if kind.is_dir() {
        "directory".to_owned()
    } else if kind.is_fifo() {
        "fifo".to_owned()
    } else {
        "other".to_owned()
    };
    let names = if kind.is_dir() { 1 } else { found.nlink() };
    let (mode, uid, gid) = (found.mode() & 0o7777, found.uid(), found.gid());
    picture.insert(relative.to_owned(), format!("{mode:o} {uid}:{gid} {names} {content}"));
    if kind.is_dir() {
        for entry in std::fs::read_dir(&path).expect("list a directory") {
            add(root, &relative.join(entry.expect("list a directory").file_name()), picture);
        }
    }
}
