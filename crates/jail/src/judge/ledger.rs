//! What the judge remembers: which repositories are old, which it saw being
//! born, and which other paths are protected because of them.
//!
//! Everything is kept by path and moved along when a directory is renamed. A
//! path that is not here counts as old, which is the stricter class.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, lstat, statx};

use super::denial::Rule;
use super::git::repository;
use super::names::fold;
use super::survey::exists;

/// Directories whose surroundings were looked at; forgotten all at once beyond.
const MAX_SEEN: usize = 65_536;
/// Names told at the end.
const MAX_NOTED: usize = 1_000;

/// A directory's identity. With its time of birth, so that a number that is
/// used again is somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
}

impl Identity {
    pub(super) fn of(path: &[u8]) -> Option<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let fields = StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(CWD, path, flags, fields).ok()?;
        let born = if found.stx_mask & StatxFlags::BTIME.bits() == 0 {
            (0, 0)
        } else {
            (found.stx_btime.tv_sec, found.stx_btime.tv_nsec)
        };
        let device = (found.stx_dev_major, found.stx_dev_minor);
        Some(Self { device, inode: found.stx_ino, born })
    }
}

/// Why a path is protected that has no protected name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Why {
    /// The rule for what names it.
    pub(super) rule: Rule,
    /// The protected name that is a link to it, where it is not a configuration
    /// that names it.
    pub(super) link: Option<Vec<u8>>,
}

/// A protected path, and as what it is compared.
#[derive(Debug)]
struct Linked {
    path: Vec<u8>,
    folded: Vec<u8>,
    why: Why,
}

impl Linked {
    fn new(path: Vec<u8>, why: Why) -> Self {
        let folded = fold(&path).into_owned();
        Self { path, folded, why }
    }

    /// What follows the folded `base`, as it was written.
    fn below(&self, base: &[u8]) -> Option<Vec<u8>> {
        let rest = within(&self.folded, base).filter(|rest| !rest.is_empty())?;
        let depth = rest.split(|byte| *byte == b'/').count();
        let names: Vec<&[u8]> = self.path.split(|byte| *byte == b'/').collect();
        Some(names[names.len().saturating_sub(depth)..].join(&b'/'))
    }
}

#[derive(Debug)]
struct Free {
    path: Vec<u8>,
    device: u64,
}

impl Free {
    /// If the host takes the directory away that it is mounted on, it is gone.
    fn holds(&self, path: &[u8]) -> bool {
        within(path, &self.path).is_some()
            && lstat(self.path.as_slice()).is_ok_and(|found| found.st_dev == self.device)
    }
}

#[derive(Debug)]
struct Born {
    path: Vec<u8>,
    identity: Identity,
}

#[derive(Debug)]
pub(super) struct Ledger {
    /// The workspace's root, and directories beside it that may be written too:
    /// tools on the host open each of them.
    roots: Vec<Vec<u8>>,
    /// A file system within one of them that no name is judged in.
    free: Option<Free>,
    /// Git directories that are not found by their name, or lie outside.
    git_directories: Vec<Vec<u8>>,
    /// Paths that configurations name, links lead to, and the like.
    linked: Vec<Linked>,
    /// Directories of old repositories: the places where tools open a project.
    places: HashSet<Vec<u8>>,
    born: Vec<Born>,
    /// `.git` files that the judge wrote.
    born_pointers: HashSet<Vec<u8>>,
    seen: HashSet<Vec<u8>>,
    noted: Vec<Vec<u8>>,
    is_cut: bool,
}

impl Ledger {
    pub(super) fn new(roots: &[PathBuf]) -> Self {
        let roots: Vec<Vec<u8>> = roots.iter().map(|path| bytes(path)).collect();
        let mut ledger = Self {
            roots: roots.clone(),
            free: None,
            git_directories: Vec::new(),
            linked: Vec::new(),
            places: roots.iter().cloned().collect(),
            born: Vec::new(),
            born_pointers: HashSet::new(),
            seen: HashSet::new(),
            noted: Vec::new(),
            is_cut: false,
        };
        for root in &roots {
            ledger.discover(root);
        }
        ledger
    }

    /// Leaves names at and below `path` unjudged, while the file system `device`
    /// is there. Where no root is above, they are so anyway.
    pub(super) fn leave_free(&mut self, path: &Path, device: u64) {
        let path = bytes(path);
        self.free = self.root_of(&path).is_some().then_some(Free { path, device });
    }

    /// Whether `path` lies where no name is judged.
    pub(super) fn is_free(&self, path: &[u8]) -> bool {
        self.free.as_ref().is_some_and(|free| free.holds(path))
    }

    /// Takes in every old repository that `directory` lies in. Each directory
    /// costs one look, once.
    pub(super) fn discover(&mut self, directory: &[u8]) {
        let mut current = directory;
        while self.root_of(current).is_some() && !self.seen.contains(current) {
            if self.seen.len() >= MAX_SEEN {
                self.seen.clear();
            }
            self.seen.insert(current.to_vec());
            self.discover_one(current);
            match current.iter().rposition(|byte| *byte == b'/') {
                Some(slash) if slash > 0 => current = &current[..slash],
                _ => break,
            }
        }
    }

    fn discover_one(&mut self, directory: &[u8]) {
        let dot_git = join(directory, b".git");
        if self.is_born(&dot_git) || self.is_born_pointer(&dot_git) {
            return;
        }
        let Some(found) = repository::load(Path::new(OsStr::from_bytes(directory))) else { return };
        self.places.insert(directory.to_vec());
        for path in found.git_directories.iter().map(|path| bytes(path)) {
            if !self.git_directories.contains(&path) {
                self.git_directories.push(path);
            }
        }
        for path in found.linked.iter().map(|path| bytes(path)) {
            self.link(path, Why { rule: Rule::GitLinked, link: None });
        }
    }

    /// Protects `path` and what is below it. The first reason under each rule stays.
    pub(super) fn link(&mut self, path: Vec<u8>, why: Why) {
        if !self.linked.iter().any(|linked| linked.path == path && linked.why.rule == why.rule) {
            self.linked.push(Linked::new(path, why));
        }
    }

    /// The innermost root that `path` is or lies in.
    pub(super) fn root_of(&self, path: &[u8]) -> Option<&[u8]> {
        let found = self.roots.iter().filter(|root| within(path, root).is_some());
        found.max_by_key(|root| root.len()).map(Vec::as_slice)
    }

    pub(super) fn is_place(&self, directory: &[u8]) -> bool {
        self.places.contains(directory)
    }

    /// The longest known git directory that `path` is or lies in.
    pub(super) fn git_directory_of(&self, path: &[u8]) -> Option<&[u8]> {
        let found = self.git_directories.iter().filter(|known| within(path, known).is_some());
        found.max_by_key(|known| known.len()).map(Vec::as_slice)
    }

    /// Why `path` is protected, if it is. What the user denies, nothing lifts, so
    /// that comes first.
    pub(super) fn linked(&self, path: &[u8]) -> Option<&Why> {
        let path = fold(path);
        let found = self.linked.iter().filter(|linked| within(&path, &linked.folded).is_some());
        found.map(|linked| &linked.why).min_by_key(|why| why.rule != Rule::UserDeny)
    }

    /// What is protected below `path`, relative to it, by which rule.
    pub(super) fn linked_below(&self, path: &[u8]) -> impl Iterator<Item = (Rule, Vec<u8>)> {
        let path = fold(path);
        let below = move |linked: &Linked| linked.below(&path).map(|rest| (linked.why.rule, rest));
        self.linked.iter().filter_map(below)
    }

    /// Whether there is anything outside the workspace to look after.
    pub(super) fn reaches_outside(&self) -> bool {
        let roots: Vec<_> = self.roots.iter().map(|root| fold(root)).collect();
        let is_outside = |folded: &[u8]| !roots.iter().any(|root| within(folded, root).is_some());
        self.git_directories.iter().any(|path| self.root_of(path).is_none())
            || self.linked.iter().any(|linked| is_outside(&linked.folded))
    }

    /// Whether the git directory, or one that it lies in, came in this session.
    pub(super) fn is_born(&self, git_directory: &[u8]) -> bool {
        self.born.iter().any(|born| {
            within(git_directory, &born.path).is_some()
                && Identity::of(&born.path) == Some(born.identity)
        })
    }

    pub(super) fn is_born_pointer(&self, path: &[u8]) -> bool {
        self.born_pointers.contains(path)
    }

    /// Remembers a directory that was just made, or just became a repository.
    pub(super) fn birth(&mut self, path: Vec<u8>) {
        if let Some(identity) = Identity::of(&path) {
            self.born.retain(|born| born.path != path);
            self.born.push(Born { path, identity });
        }
    }

    pub(super) fn birth_pointer(&mut self, path: Vec<u8>) {
        self.born_pointers.insert(path);
    }

    /// Forgets what was removed.
    pub(super) fn removed(&mut self, path: &[u8]) {
        self.born.retain(|born| born.path != path);
        self.born_pointers.remove(path);
    }

    /// Follows a directory to its new path.
    pub(super) fn moved(&mut self, from: &[u8], to: &[u8]) {
        let moved = |path: &[u8]| within(path, from).map(|rest| join(to, rest));
        for born in &mut self.born {
            if let Some(path) = moved(&born.path) {
                born.path = path;
            }
        }
        for path in &mut self.git_directories {
            if let Some(new) = moved(path) {
                *path = new;
            }
        }
        let folded = fold(from);
        for linked in &mut self.linked {
            if let Some(rest) = linked.below(&folded) {
                *linked = Linked::new(join(to, &rest), linked.why.clone());
            }
        }
        // What is mounted moves along with the directory that it is mounted in.
        if let Some(free) = &mut self.free
            && let Some(path) = moved(&free.path)
        {
            free.path = path;
        }
        for set in [&mut self.born_pointers, &mut self.places] {
            *set = set.drain().map(|path| moved(&path).unwrap_or(path)).collect();
        }
        self.seen.clear();
    }

    /// Follows two that changed places.
    pub(super) fn exchanged(&mut self, one: &[u8], other: &[u8]) {
        // No path has a NUL, so nothing is there.
        let nowhere = b"\0";
        self.moved(one, nowhere);
        self.moved(other, one);
        self.moved(nowhere, other);
    }

    /// Notes something that is let through but told at the end.
    pub(super) fn note(&mut self, path: Vec<u8>) {
        if self.noted.contains(&path) {
            return;
        }
        if self.noted.len() < MAX_NOTED {
            self.noted.push(path);
        } else {
            self.is_cut = true;
        }
    }

    pub(super) fn report(&self) -> super::denial::Report {
        let path = |bytes: &Vec<u8>| PathBuf::from(OsStr::from_bytes(bytes));
        // Parts of a repository that is listed itself say nothing new.
        let is_top = |candidate: &Born| {
            !self.born.iter().any(|other| {
                within(&candidate.path, &other.path).is_some_and(|rest| !rest.is_empty())
            })
        };
        let is_entry = |born: &Born| {
            born.path.rsplit(|byte| *byte == b'/').nth(1).is_some_and(|name| name == b"worktrees")
        };
        let born = self.born.iter().filter(|born| {
            !is_entry(born) && is_top(born) && Identity::of(&born.path) == Some(born.identity)
        });
        let mut noted = self.noted.clone();
        noted.retain(|path| exists(path));
        noted.sort();
        super::denial::Report {
            born_repositories: born.map(|born| path(&born.path)).collect(),
            tool_files_elsewhere: noted.iter().map(path).collect(),
            told_files: Vec::new(),
            is_truncated: self.is_cut,
        }
    }
}

pub(super) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Gives what follows `base` in `path`, without a slash, if `path` is `base` or
/// lies below it.
pub(super) fn within<'a>(path: &'a [u8], base: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(base)?;
    match rest.first() {
        None => Some(rest),
        Some(b'/') => Some(&rest[1..]),
        Some(_) if base == b"/" => Some(rest),
        Some(_) => None,
    }
}

pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if !name.is_empty() {
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_goes_by_whole_names() {
        assert_eq!(within(b"/a/b", b"/a"), Some(&b"b"[..]));
        assert_eq!(within(b"/a", b"/a"), Some(&b""[..]));
        assert_eq!(within(b"/ab", b"/a"), None);
        assert_eq!(within(b"/ab", b"/"), Some(&b"ab"[..]));
    }

    #[test]
    fn a_birth_moves_along_and_is_not_taken_over() {
        let top = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(top.path()).unwrap();
        let (a, b) = (top.join("a"), top.join("b"));
        std::fs::create_dir_all(a.join(".git")).unwrap();
        let mut ledger = Ledger::new(std::slice::from_ref(&top));
        ledger.birth(bytes(&a.join(".git")));
        assert!(ledger.is_born(&bytes(&a.join(".git/modules/m"))));
        std::fs::rename(&a, &b).unwrap();
        assert!(!ledger.is_born(&bytes(&a.join(".git"))));
        ledger.moved(&bytes(&a), &bytes(&b));
        assert!(ledger.is_born(&bytes(&b.join(".git"))));
        assert_eq!(ledger.report().born_repositories, [b.join(".git")]);
        // Somebody else puts another one there.
        std::fs::rename(b.join(".git"), top.join("old")).unwrap();
        std::fs::create_dir(b.join(".git")).unwrap();
        assert!(!ledger.is_born(&bytes(&b.join(".git"))));
        assert!(ledger.report().born_repositories.is_empty());
    }

    #[test]
    fn old_repositories_are_found_on_the_way_up() {
        let top = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(top.path()).unwrap();
        let nested = top.join("a/b");
        std::fs::create_dir_all(nested.join(".git")).unwrap();
        std::fs::write(nested.join(".git/config"), "[core]\nhooksPath = tools/hooks\n").unwrap();
        let mut ledger = Ledger::new(std::slice::from_ref(&top));
        assert!(!ledger.is_place(&bytes(&nested)));
        ledger.discover(&bytes(&nested.join("c/d")));
        assert!(ledger.is_place(&bytes(&nested)));
        let by_git = Why { rule: Rule::GitLinked, link: None };
        let hook = bytes(&nested.join("tools/hooks/pre-commit"));
        assert_eq!(ledger.linked(&hook), Some(&by_git));
        // What the user denies is stronger.
        let denied = Why { rule: Rule::UserDeny, link: Some(b"/denied".to_vec()) };
        ledger.link(hook.clone(), denied.clone());
        assert_eq!(ledger.linked(&hook), Some(&denied));
        let below = bytes(&nested.join("tools"));
        assert_eq!(
            ledger.linked_below(&below).collect::<Vec<_>>(),
            [(Rule::GitLinked, b"hooks".to_vec()), (Rule::UserDeny, b"hooks/pre-commit".to_vec())]
        );
        assert_eq!(
            ledger.git_directory_of(&bytes(&nested.join(".git/x"))),
            Some(&*bytes(&nested.join(".git")))
        );
    }
}
