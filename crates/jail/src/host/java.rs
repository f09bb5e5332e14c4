//! The stores of certificates that runtimes of Java have: they ask no variable where to look.

use crate::spec::{Entry, Kind, Source, What};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Stores that systems keep for all runtimes.
const STORES: [&str; 3] = [
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/ca-trust/extracted/java/cacerts",
    "/var/lib/ca-certificates/java-cacerts",
];

/// Directories that have a directory of each runtime.
const RUNTIMES: [&str; 6] =
    ["/usr/lib/jvm", "/usr/lib64/jvm", "/usr/java", "/usr/local", "/opt", "/opt/java"];

/// The same, below HOME.
const RUNTIMES_OF_USER: [&str; 3] =
    [".asdf/installs/java", ".local/share/mise/installs/java", ".sdkman/candidates/java"];

/// Where a runtime has its store; the second is Java 8's.
const STORES_OF_RUNTIME: [&str; 2] = ["lib/security/cacerts", "jre/lib/security/cacerts"];

/// Most bytes that a store has.
const BYTES_MAX: u64 = 8 << 20;
/// Stores that are looked for, at most.
const STORES_MAX: usize = 64;

/// What comes to a view that is whole otherwise for each store in it to be another: `other` makes
/// it from what is there, or leaves it as it is.
pub fn java_trust(
    view: &[Entry],
    home: &Path,
    other: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Vec<Entry> {
    let of_user = RUNTIMES_OF_USER.iter().map(|below| home.join(below));
    let directories = RUNTIMES.iter().map(PathBuf::from).chain(of_user);
    let runtimes = directories.flat_map(|directory| names(view, &directory));
    let theirs = runtimes.flat_map(|runtime| STORES_OF_RUNTIME.map(|store| runtime.join(store)));
    let known = STORES.iter().map(PathBuf::from);
    let found = known.chain(theirs).filter_map(|at| Some((other(&read(view, &at)?)?, at)));
    let entries = found.take(STORES_MAX).enumerate().flat_map(|(number, (store, at))| {
        let of = PathBuf::from(format!("/run/atoll-trust/java-{number}.jks"));
        [Entry::file(&of, store), Entry::new(at, What::Twin { of })]
    });
    entries.collect()
}

/// What is in a directory of the view, by its path inside.
fn names(view: &[Entry], directory: &Path) -> Vec<PathBuf> {
    let Some((root, below)) = source(view, directory) else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(root.join(below)) else { return Vec::new() };
    let mut names: Vec<PathBuf> =
        entries.flatten().map(|entry| directory.join(entry.file_name())).collect();
    names.sort();
    names
}

/// Reads a file of the view. Behind a link there is none: what it leads to is another one of
/// those that are asked for.
fn read(view: &[Entry], at: &Path) -> Option<Vec<u8>> {
    let (root, below) = source(view, at)?;
    let flags = OFlags::CLOEXEC | OFlags::PATH | OFlags::DIRECTORY;
    let root = rustix::fs::open(root, flags, Mode::empty()).ok()?;
    let file = File::from(open_below(&root, below)?);
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    let mut bytes = Vec::new();
    (is_file && file.take(BYTES_MAX).read_to_end(&mut bytes).is_ok()).then_some(bytes)
}

fn open_below(root: &OwnedFd, below: &Path) -> Option<OwnedFd> {
    let flags = OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, below, flags, Mode::empty(), resolve).ok()
}

/// The directory outside that a place of the view comes from, and the path from there.
fn source<'a>(view: &'a [Entry], at: &'a Path) -> Option<(&'a Path, &'a Path)> {
    let covering = view.iter().filter(|entry| at.starts_with(&entry.at));
    let entry = covering.max_by_key(|entry| entry.at.components().count())?;
    let below = at.strip_prefix(&entry.at).ok()?;
    match &entry.what {
        What::Bind { source: Source::Path { path, .. }, kind: Kind::Directory, .. } => {
            Some((path, below))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Access;
    use std::os::unix::fs::symlink;

    fn bind(at: &str, path: &Path) -> Entry {
        let source = Source::Path { path: path.to_owned(), expect: None };
        Entry::new(at, What::Bind { source, kind: Kind::Directory, access: Access::ReadOnly })
    }

    #[test]
    fn each_store_of_the_view_is_another_and_links_are_left() {
        let base = tempfile::tempdir().unwrap();
        let store = |below: &str| {
            let path = base.path().join(below);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, below).unwrap();
        };
        store("usr/lib/jvm/a/lib/security/cacerts");
        store("usr/lib/jvm/b/jre/lib/security/cacerts");
        store("etc/ssl/certs/java/cacerts");
        store("hidden/c/lib/security/cacerts");
        store("home/.sdkman/candidates/java/21/lib/security/cacerts");
        symlink("a", base.path().join("usr/lib/jvm/link")).unwrap();
        let view = [
            bind("/etc", &base.path().join("etc")),
            bind("/usr", &base.path().join("usr")),
            Entry::private("/opt", 0o755),
            bind("/h/.sdkman", &base.path().join("home/.sdkman")),
        ];
        let home = Path::new("/h");
        let made = java_trust(&view, home, |kept| Some([b"other ", kept].concat()));
        let twins = made.iter().filter(|entry| matches!(entry.what, What::Twin { .. }));
        let places: Vec<&str> = twins.map(|entry| entry.at.to_str().unwrap()).collect();
        let expected = [
            "/etc/ssl/certs/java/cacerts",
            "/usr/lib/jvm/a/lib/security/cacerts",
            "/usr/lib/jvm/b/jre/lib/security/cacerts",
            "/h/.sdkman/candidates/java/21/lib/security/cacerts",
        ];
        assert_eq!(places, expected);
        let first = made.iter().find_map(|entry| match &entry.what {
            What::File { content, .. } => Some(content.as_slice()),
            _ => None,
        });
        assert_eq!(first, Some(&b"other etc/ssl/certs/java/cacerts"[..]));
        assert_eq!(java_trust(&view, home, |_| None), []);
    }
}
