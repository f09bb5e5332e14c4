//! Toolchains under a home directory that is otherwise hidden.

use crate::spec::{Access, Entry, Kind, Source, What};
use rustix::fs::{AtFlags, FileType};
use std::path::{Path, PathBuf};

/// Directories below HOME that hold programs and nothing of the user's own.
/// Credentials and settings of the same tools lie elsewhere and stay hidden.
const TOOLCHAINS: [&str; 22] = [
    ".rustup",
    ".cargo/bin",
    ".pyenv",
    ".nvm",
    ".fnm",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/mise",
    ".local/share/uv",
    ".local/share/pnpm",
    ".local/share/fnm",
    ".local/share/pipx",
    ".local/share/virtualenvs",
    ".asdf",
    ".sdkman",
    "go/bin",
    ".bun/bin",
    ".deno/bin",
    ".volta",
    ".nix-profile",
    ".jenv",
];

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

/// The real directory at `path`, which may itself be a link to another disk:
/// its target is what is shown, at the place where tools look for it.
fn directory_behind(path: &Path) -> Option<PathBuf> {
    let stat = rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Some(path.to_owned()),
        FileType::Symlink => path.canonicalize().ok().filter(|target| target.is_dir()),
        _ => None,
    }
}

/// A private HOME at its own path, which is real (no link in it): toolchains read-only, the cache directory
/// `cache` as `~/.cache`.
#[must_use]
pub fn home(home: &Path, cache: Option<(&Path, (u64, u64))>) -> Vec<Entry> {
    let mut view = vec![Entry::private(home, 0o700)];
    let mut seen: Vec<PathBuf> = Vec::new();
    for place in TOOLCHAINS {
        let path = home.join(place);
        let Some(target) = directory_behind(&path) else { continue };
        if seen.contains(&target) {
            continue;
        }
        seen.push(target.clone());
        let source = Source::Path { path: target, expect: None };
        let what = What::Bind { source, kind: Kind::Directory, access: Access::ReadOnly };
        view.push(Entry::new(path, what));
    }
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
