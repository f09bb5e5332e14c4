//! Toolchains under a home directory that is otherwise hidden.

use super::system;
use crate::listing::names_in;
use crate::paths::normalise;
use crate::spec::{Access, Entry, Kind, Source, What};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Directories below HOME that hold programs and nothing of the user's own.
/// Credentials and settings of the same tools lie elsewhere and stay hidden.
/// Those of [`PROGRAMS`] come after.
const TOOLCHAINS: [&str; 43] = [
    ".asdf",
    ".elan",
    ".fnm",
    ".gem/ruby",
    ".ghcup",
    ".goenv",
    ".jbang/bin",
    ".jenv",
    ".juliaup",
    ".local/lib",
    ".local/opt",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/gem/ruby",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/pypoetry",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".local/share/virtualenvs",
    ".nix-profile",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".opam",
    ".pixi",
    ".proto",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".rye/py",
    ".rye/self",
    ".rye/shims",
    ".rye/tools",
    ".rye/uv",
    ".sdkman",
    ".stack/programs",
    ".volta",
    "anaconda3",
    "miniconda3",
    "miniforge3",
];

/// Directories below shown ones where tools keep what lets them publish: tokens
/// of opam-publish, npm's settings for all users, uv's credentials.
const HELD_BACK: [&str; 3] = [".local/share/uv/credentials", ".npm-global/etc", ".opam/plugins"];

/// Directories whose entries may be links to programs that lie elsewhere.
const PROGRAMS: [&str; 6] =
    [".bun/bin", ".cabal/bin", ".cargo/bin", ".deno/bin", ".local/bin", "go/bin"];

/// Files in which version managers keep the versions in use.
const VERSIONS: [&str; 2] = [".asdfrc", ".tool-versions"];

/// Where a tool keeps one directory of its own: a link that leads into it shows
/// all of it, a link that leads elsewhere shows its target alone.
const HOMES_OF_TOOLS: [&str; 2] = [".local/share", "opt"];

/// Places that the sandbox makes for itself.
const OWN: [&str; 8] =
    ["/dev", "/etc", "/proc", "/run", "/sys", "/var/lock", "/var/run", "/var/tmp"];

/// Entries of HOME and of one directory of programs that are looked at, and targets
/// of links that are shown, at most.
const NAMES_READ_MAX: usize = 512;
const LINKS_READ_MAX: usize = 1024;
const TARGETS_MAX: usize = 64;

/// Directories that tools keep their caches in, as links into the project's
/// private cache: (place below HOME, directory in the cache).
const CACHES: [(&str, &str); 7] = [
    (".npm", "npm"),
    (".m2", "m2"),
    (".gradle", "gradle"),
    (".cargo/registry", "cargo-registry"),
    (".cargo/git", "cargo-git"),
    ("go/pkg", "go-pkg"),
    (".yarn", "yarn"),
];

/// Directories that must exist in the cache directory.
pub const CACHE_DIRECTORIES: [&str; CACHES.len()] = {
    let mut names = [""; CACHES.len()];
    let mut index = 0;
    while index < CACHES.len() {
        names[index] = CACHES[index].1;
        index += 1;
    }
    names
};

/// A private HOME at its own path, which is real (no link in it): toolchains
/// read-only, the cache directory `cache` as `~/.cache`.
#[must_use]
pub fn home(home: &Path, cache: Option<(&Path, (u64, u64))>) -> Vec<Entry> {
    let mut shown = Shown { home, names: names_in(home, NAMES_READ_MAX), entries: BTreeMap::new() };
    for place in TOOLCHAINS.iter().chain(&PROGRAMS) {
        shown.toolchain(&home.join(place));
    }
    for name in VERSIONS {
        shown.file(&home.join(name));
    }
    for place in PROGRAMS {
        shown.targets_of(&home.join(place));
    }
    for place in HELD_BACK {
        shown.hold_back(&home.join(place));
    }
    let mut view = vec![Entry::private(home, 0o700)];
    view.extend(shown.entries.into_values());
    if let Some((cache, identity)) = cache {
        let source = Source::Path { path: cache.to_owned(), expect: Some(identity) };
        let what = What::Bind { source, kind: Kind::Directory, access: Access::ReadWrite };
        view.push(Entry::new(home.join(".cache"), what));
        for (place, directory) in CACHES {
            let up = "../".repeat(place.matches('/').count());
            let target = format!("{up}.cache/{directory}");
            view.push(Entry::link(home.join(place), target));
        }
    }
    view
}

/// What of HOME is shown so far, by place.
struct Shown<'a> {
    home: &'a Path,
    /// What HOME has in it, where that is known.
    names: Option<HashSet<OsString>>,
    entries: BTreeMap<PathBuf, Entry>,
}

impl Shown<'_> {
    /// Shows the directory at `place`. It may be a link, or lie behind one, to
    /// another disk: then it is found by both names.
    fn toolchain(&mut self, place: &Path) {
        // One look is cheaper than resolving the path.
        if self.is_missing(place) || !place.is_dir() {
            return;
        }
        let Ok(real) = place.canonicalize() else { return };
        if real == place {
            self.bind(place, real, Kind::Directory);
        } else if let Some(first) = self.place_of(&real) {
            self.add(Entry::link(place, first));
        } else if !self.home.starts_with(&real) {
            self.bind(place, real.clone(), Kind::Directory);
            // Tools write their own real path into what they install.
            if !self.is_below_another(&real) && !self.is_own(&real) {
                self.add(Entry::link(real, place));
            }
        }
    }

    /// Whether HOME lacks the first name of what would be at `place`: most of what
    /// is looked for is not there.
    fn is_missing(&self, place: &Path) -> bool {
        let below = place.strip_prefix(self.home).ok().and_then(|below| below.iter().next());
        self.names.as_ref().zip(below).is_some_and(|(names, first)| !names.contains(first))
    }

    /// Masks a directory wherever it would be seen in a shown one.
    fn hold_back(&mut self, place: &Path) {
        if self.is_missing(place) || !place.is_dir() {
            return;
        }
        let Ok(real) = place.canonicalize() else { return };
        let seen_at = |entry: &Entry| match &entry.what {
            What::Bind { source: Source::Path { path, .. }, .. } => {
                Some(entry.at.join(real.strip_prefix(path).ok()?))
            }
            _ => None,
        };
        let seen: Vec<PathBuf> = self.entries.values().filter_map(seen_at).collect();
        for at in seen {
            self.add(Entry::new(at, What::Mask { kind: Kind::Directory }));
        }
    }

    fn file(&mut self, place: &Path) {
        if self.is_missing(place) || !place.is_file() {
            return;
        }
        if let Ok(real) = place.canonicalize() {
            self.bind(place, real, Kind::File);
        }
    }

    /// Shows what links in the directory `place` lead to.
    fn targets_of(&mut self, place: &Path) {
        if self.is_missing(place) {
            return;
        }
        let Ok(entries) = std::fs::read_dir(place) else { return };
        let Ok(directory) = place.canonicalize() else { return };
        for entry in entries.take(LINKS_READ_MAX).flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if !is_link || self.entries.len() >= TOOLCHAINS.len() + PROGRAMS.len() + TARGETS_MAX {
                continue;
            }
            self.target_of(&directory, &entry.path());
        }
    }

    /// Shows the program that `link` in `directory`, which is real, leads to, at
    /// the place that it names.
    fn target_of(&mut self, directory: &Path, link: &Path) {
        let Ok(text) = std::fs::read_link(link) else { return };
        let named = normalise(&directory.join(text));
        if named == Path::new("/") {
            return;
        }
        // Most lead to what is shown anyway.
        if self.place_of(&named).is_some() || self.is_own(&named) {
            return;
        }
        let Ok(real) = link.canonicalize() else { return };
        if !is_program(&real) {
            return;
        }
        match self.tools_own(&named) {
            Some(own) => match own.canonicalize() {
                Ok(real) if real.is_dir() => self.bind(&own, real, Kind::Directory),
                _ => {}
            },
            None => self.bind(&named, real, Kind::File),
        }
    }

    /// The directory of the tool that `path` belongs to, if it is in one.
    fn tools_own(&self, path: &Path) -> Option<PathBuf> {
        HOMES_OF_TOOLS.iter().find_map(|home| {
            let base = self.home.join(home);
            let mut below = path.strip_prefix(&base).ok()?.components();
            let name = below.next()?;
            below.next().map(|_| base.join(name))
        })
    }

    /// Whether the sandbox makes `path` itself, or what is above it.
    fn is_own(&self, path: &Path) -> bool {
        let of_home = CACHES.iter().map(|(place, _)| *place).chain([".cache"]);
        OWN.iter().any(|own| path.starts_with(own))
            || of_home.map(|place| self.home.join(place)).any(|own| path.starts_with(own))
    }

    /// Where `real` is found already.
    fn place_of(&self, real: &Path) -> Option<PathBuf> {
        if system::places().any(|place| real.starts_with(place)) {
            return Some(real.to_owned());
        }
        self.entries.values().find_map(|entry| match &entry.what {
            What::Bind { source: Source::Path { path, .. }, .. } => {
                let below = real.strip_prefix(path).or_else(|_| real.strip_prefix(&entry.at));
                below.ok().map(|below| entry.at.join(below))
            }
            What::Link { .. } if real == entry.at => Some(real.to_owned()),
            _ => None,
        })
    }

    /// Nothing can be put below what is bound, nor a link where something lies
    /// below.
    fn is_below_another(&self, path: &Path) -> bool {
        self.entries.keys().any(|at| path.starts_with(at) || at.starts_with(path))
    }

    fn bind(&mut self, place: &Path, real: PathBuf, kind: Kind) {
        let source = Source::Path { path: real, expect: None };
        let what = What::Bind { source, kind, access: Access::ReadOnly };
        self.add(Entry::new(place, what));
    }

    fn add(&mut self, entry: Entry) {
        self.entries.entry(entry.at.clone()).or_insert(entry);
    }
}

/// A link among programs to something else is no reason to show it.
fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
