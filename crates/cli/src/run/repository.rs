//! The git directory of a linked work tree or a submodule, which lies outside
//! the project.
//!
//! The project's `.git` is then a file with a path in it, and whoever made the
//! project's files wrote that path. So it counts only if the place it names is a
//! repository that names the project in turn, which only `git worktree add` or
//! `git submodule` in that repository brings about.
//!
//! Source: gitrepository-layout(5), git-worktree(1).

use super::read::small as read;
use atoll_api::policy::write_refusal;
use atoll_jail::judge::git::config;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files that hold one path are short.
const POINTER_BYTES_MAX: u64 = 8 << 10;
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// A git directory outside of the project that is the project's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    pub(crate) path: PathBuf,
    /// (device, inode)
    pub(crate) identity: (u64, u64),
}

/// Finds the repository of the project at `root` (a real path), if it lies
/// outside. `owner` is the project's.
pub(crate) fn outside(root: &Path, owner: u32, home: Option<&Path>) -> Option<Repository> {
    let pointer = root.join(".git");
    if !std::fs::symlink_metadata(&pointer).ok()?.is_file() {
        return None;
    }
    let target = read(&pointer, POINTER_BYTES_MAX)?;
    let own = real(root, target.strip_prefix(b"gitdir: ")?)?;
    let common = match read(&own.join("commondir"), POINTER_BYTES_MAX) {
        Some(common) => {
            let common = real(&own, &common)?;
            let back = real(&own, &read(&own.join("gitdir"), POINTER_BYTES_MAX)?)?;
            (own.parent() == Some(&common.join("worktrees")) && back == pointer).then_some(common)
        }
        None => (work_tree(&own)? == root).then(|| own.clone()),
    }?;
    let found = std::fs::symlink_metadata(&common).ok()?;
    let is_whole = common.join("HEAD").is_file()
        && common.join("objects").is_dir()
        && common.join("refs").is_dir();
    let is_apart = !common.starts_with(root) && !root.starts_with(&common);
    let is_fit = is_whole && is_apart && write_refusal(&common, home).is_none();
    (is_fit && found.uid() == owner)
        .then(|| Repository { path: common, identity: (found.dev(), found.ino()) })
}

/// The work tree that the git directory of a submodule names.
fn work_tree(own: &Path) -> Option<PathBuf> {
    let entries = config::parse(&read(&own.join("config"), CONFIG_BYTES_MAX)?).ok()?;
    let named = entries.iter().rfind(|entry| {
        entry.subsection.is_none() && (&*entry.section, &*entry.key) == ("core", "worktree")
    })?;
    real(own, named.value.as_deref()?)
}

/// The real path that `text` names, as seen from `base`.
fn real(base: &Path, text: &[u8]) -> Option<PathBuf> {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))? + 1;
    std::fs::canonicalize(base.join(OsStr::from_bytes(&text[..end]))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A repository `r` with a work tree `w` and a submodule `r/s`, by hand.
    fn layout() -> (tempfile::TempDir, PathBuf, u32) {
        let directory = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(directory.path()).unwrap();
        for name in ["r/.git/worktrees/w", "r/.git/modules/s", "w", "r/s"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        for name in ["r/.git", "r/.git/modules/s"] {
            fs::write(base.join(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::create_dir(base.join(name).join("objects")).unwrap();
            fs::create_dir(base.join(name).join("refs")).unwrap();
        }
        let put = |name: &str, text: String| fs::write(base.join(name), text).unwrap();
        put("w/.git", format!("gitdir: {}/r/.git/worktrees/w\n", base.display()));
        put("r/.git/worktrees/w/commondir", "../..\n".into());
        put("r/.git/worktrees/w/gitdir", format!("{}/w/.git\n", base.display()));
        put("r/s/.git", "gitdir: ../.git/modules/s\n".into());
        put("r/.git/modules/s/config", "[core]\n\tworktree = ../../../s\n".into());
        let owner = fs::metadata(&base).unwrap().uid();
        (directory, base, owner)
    }

    #[test]
    fn a_repository_that_names_the_project_in_turn_is_its_own() {
        let (_directory, base, owner) = layout();
        let found = |name: &str| outside(&base.join(name), owner, None).map(|found| found.path);
        assert_eq!(found("w"), Some(base.join("r/.git")));
        assert_eq!(found("r/s"), Some(base.join("r/.git/modules/s")));
        assert_eq!(found("r"), None, "its git directory lies inside");
    }

    #[test]
    fn a_pointer_alone_opens_nothing() {
        let (_directory, base, owner) = layout();
        let found = |name: &str| outside(&base.join(name), owner, None);
        fs::create_dir(base.join("evil")).unwrap();
        for target in ["r/.git/worktrees/w", "r/.git/modules/s", "r/.git", "w", "missing"] {
            let pointer = format!("gitdir: {}/{target}\n", base.display());
            fs::write(base.join("evil/.git"), pointer).unwrap();
            assert_eq!(found("evil"), None, "{target}");
        }
        assert_eq!(outside(&base.join("w"), owner + 1, None), None, "somebody else's");
        // An entry of a work tree that lies elsewhere can name any common directory.
        let entry = base.join("evil/entry");
        fs::create_dir(&entry).unwrap();
        fs::write(entry.join("commondir"), format!("{}/r/.git\n", base.display())).unwrap();
        fs::write(entry.join("gitdir"), "../.git\n").unwrap();
        fs::write(base.join("evil/.git"), "gitdir: entry\n").unwrap();
        assert_eq!(found("evil"), None);
        // A pipe keeps nobody waiting.
        let mode = rustix::fs::Mode::RUSR;
        fs::remove_file(entry.join("commondir")).unwrap();
        let (kind, name) = (rustix::fs::FileType::Fifo, entry.join("commondir"));
        rustix::fs::mknodat(rustix::fs::CWD, name, kind, mode, 0).unwrap();
        assert_eq!(found("evil"), None);
        fs::write(base.join("w/.git"), "gitdir: ").unwrap();
        assert_eq!(found("w"), None);
    }
}
