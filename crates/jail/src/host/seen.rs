//! What a view shows at a place, before it is made: for who has something else shown in its stead.
//!
//! Some of what is looked at was written by those inside, so no link is followed, nothing is waited
//! for, and nothing long is read.

use crate::spec::{Entry, Kind, Source, What};
use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// Most bytes of a file.
const BYTES_MAX: u64 = 8 << 20;
/// Most names of a directory.
const NAMES_MAX: usize = 1000;

const FLAGS: OFlags = OFlags::CLOEXEC
    .union(OFlags::RDONLY)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);

/// Marks of an overlay that say that a directory covers the one below, or that it was moved here
/// from elsewhere (kernel, `Documentation/filesystems/overlayfs.rst`).
const OPAQUE: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];
const REDIRECT: [&str; 2] = ["trusted.overlay.redirect", "user.overlay.redirect"];

/// Directories of the host one over the other, as an overlay shows them.
#[derive(Debug, Clone)]
pub struct Stack<'a> {
    /// Where inside: `/` is behind the view.
    pub at: &'a Path,
    /// The uppermost first.
    pub layers: Vec<&'a Path>,
}

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) view: &'a [Entry],
    /// In place of what the view has there.
    pub(super) stacks: &'a [Stack<'a>],
}

impl Seen<'_> {
    /// A file; behind a link there is none.
    pub(super) fn file(self, at: &Path) -> Option<File> {
        let file = File::from(self.open(at, OFlags::empty())?.pop()?);
        file.metadata().is_ok_and(|about| about.is_file()).then_some(file)
    }

    /// What is in one.
    pub(super) fn read(self, at: &Path) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(at)?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// What is in a directory, by its path inside.
    pub(super) fn names(self, directory: &Path) -> Vec<PathBuf> {
        let layers = self.open(directory, OFlags::DIRECTORY).unwrap_or_default();
        let mut names: Vec<PathBuf> = layers
            .iter()
            .filter_map(|layer| Dir::read_from(layer).ok())
            .flat_map(|entries| entries.flatten().take(NAMES_MAX))
            .map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()))
            .filter(|name| name != "." && name != "..")
            .map(|name| directory.join(name))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// What is at a place: of a directory of several layers each of them, and else one.
    fn open(self, at: &Path, flags: OFlags) -> Option<Vec<OwnedFd>> {
        let depth = |at: &Path| at.components().count();
        let covering = self.view.iter().filter(|entry| at.starts_with(&entry.at));
        let entry = covering.max_by_key(|entry| depth(&entry.at));
        let stacks = self.stacks.iter().filter(|stack| at.starts_with(stack.at));
        let stack = stacks
            .max_by_key(|stack| depth(stack.at))
            .filter(|stack| entry.is_none_or(|entry| depth(&entry.at) <= depth(stack.at)));
        if let Some(stack) = stack {
            return layered(&stack.layers, at.strip_prefix(stack.at).ok()?, flags);
        }
        let entry = entry?;
        let below = at.strip_prefix(&entry.at).ok()?;
        let What::Bind { source: Source::Path { path, .. }, kind: Kind::Directory, .. } =
            &entry.what
        else {
            return None;
        };
        let root = directory(path)?;
        if below.as_os_str().is_empty() {
            return Some(vec![root]);
        }
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let found = rustix::fs::openat2(&root, below, FLAGS | flags, Mode::empty(), resolve);
        Some(vec![found.ok()?])
    }
}

fn directory(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::CLOEXEC | OFlags::RDONLY | OFlags::DIRECTORY;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// As an overlay of them would show it, step by step. What was moved by its mark is not found.
fn layered(layers: &[&Path], below: &Path, flags: OFlags) -> Option<Vec<OwnedFd>> {
    let mut layers: Vec<OwnedFd> =
        layers.iter().map(|layer| directory(layer)).collect::<Option<_>>()?;
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return None };
        let flags = if parts.peek().is_some() { OFlags::DIRECTORY } else { flags };
        let mut found = Vec::new();
        for layer in layers {
            match rustix::fs::openat(&layer, name, FLAGS | flags, Mode::empty()) {
                Ok(one) => {
                    let covers = !flags.contains(OFlags::DIRECTORY) || has(one.as_fd(), &OPAQUE);
                    if has(one.as_fd(), &REDIRECT) {
                        return None;
                    }
                    found.push(one);
                    if covers {
                        break;
                    }
                }
                Err(Errno::NOENT) => {}
                // Something that hides what is below: a whiteout, a link, something else.
                Err(_) => break,
            }
        }
        layers = found;
    }
    (!layers.is_empty()).then_some(layers)
}

fn has(of: BorrowedFd<'_>, marks: &[&str; 2]) -> bool {
    marks.iter().any(|mark| {
        let mut value = [0; 256];
        // Long ones are there too.
        !matches!(
            rustix::fs::fgetxattr(of, *mark, &mut value[..]),
            Err(Errno::NODATA | Errno::NOTSUP)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn layers_are_seen_as_an_overlay_shows_them() {
        let base = tempfile::tempdir().unwrap();
        let (lower, upper) = (base.path().join("lower"), base.path().join("upper"));
        for path in ["a/b", "a/only-lower", "gone", "opaque"] {
            create_dir_all(lower.join(path)).unwrap();
        }
        for path in ["a/b", "opaque", "new"] {
            create_dir_all(upper.join(path)).unwrap();
        }
        for (path, text) in [("a/b/f", "lower"), ("a/b/g", "lower"), ("opaque/f", "lower")] {
            write(lower.join(path), text).unwrap();
        }
        write(upper.join("a/b/f"), "upper").unwrap();
        write(upper.join("new/f"), "upper").unwrap();
        write(upper.join("gone"), "no directory any more").unwrap();
        symlink("f", upper.join("a/b/link")).unwrap();
        symlink("a", upper.join("way")).unwrap();
        rustix::fs::setxattr(
            upper.join("opaque"),
            "user.overlay.opaque",
            b"y",
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
        let stacks = [Stack { at: Path::new("/"), layers: vec![&upper, &lower] }];
        let seen = Seen { view: &[], stacks: &stacks };
        let text =
            |at: &str| seen.read(Path::new(at)).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(text("/a/b/f").as_deref(), Some("upper"));
        assert_eq!(text("/a/b/g").as_deref(), Some("lower"));
        assert_eq!(text("/new/f").as_deref(), Some("upper"));
        for absent in ["/opaque/f", "/a/b/link", "/way/b/f", "/a/b", "/gone/x", "/none"] {
            assert_eq!(text(absent), None, "{absent}");
        }
        let names = |at: &str| seen.names(Path::new(at));
        assert_eq!(names("/a"), ["/a/b", "/a/only-lower"].map(PathBuf::from));
        assert_eq!(names("/a/b"), ["/a/b/f", "/a/b/g", "/a/b/link"].map(PathBuf::from));
        assert_eq!(names("/opaque"), Vec::<PathBuf>::new());
        assert_eq!(names("/way"), Vec::<PathBuf>::new());
        // What the view has at a place is not the layers'.
        let view = [Entry::private("/a", 0o755)];
        assert_eq!(Seen { view: &view, stacks: &stacks }.read(Path::new("/a/b/f")), None);
        let stacks = [Stack { at: Path::new("/a"), layers: vec![&upper, &lower] }];
        let seen = Seen { view: &view, stacks: &stacks };
        assert_eq!(seen.read(Path::new("/a/new/f")).as_deref(), Some(&b"upper"[..]));
    }
}
