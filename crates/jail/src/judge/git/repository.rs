//! Reading a repository that is already there: where its git directory is and
//! which other paths its configuration lets git run or read.
//!
//! Read by path, which is sound here: whoever could swap the path waits for us.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::config::{self, MAX_BYTES};
use crate::paths::normalise;

/// As deep as git follows includes.
const MAX_INCLUDES: u32 = 10;
/// Included files can lie in the tree and include each other.
const MAX_FILES: u32 = 64;
/// Hooks that are links; a directory holds a few dozen names at most.
const MAX_HOOKS: usize = 256;

/// A repository as found on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Repository {
    /// Its git directory, and the one it shares with its siblings, links resolved.
    pub(in super::super) git_directories: Vec<PathBuf>,
    /// What git reads or runs for it that lies elsewhere.
    pub(in super::super) linked: Vec<PathBuf>,
}

/// Looks at `.git` in `directory`. Gives `None` if there is none.
pub(in super::super) fn load(directory: &Path) -> Option<Repository> {
    let dot_git = directory.join(".git");
    if is_missing(&dot_git) {
        return None;
    }
    let Some(own) = git_directory(directory, &dot_git) else {
        // A pointer to nowhere: there is nothing behind it to protect.
        return Some(Repository::default());
    };
    let common = common_directory(&own);
    let mut linked = Linked { top: directory.to_owned(), paths: Vec::new(), files_left: MAX_FILES };
    for shared in [&common, &own] {
        linked.config(&shared.join("config"), MAX_INCLUDES);
        linked.config(&shared.join("config.worktree"), MAX_INCLUDES);
        linked.links_of(shared);
    }
    let mut git_directories = vec![own];
    if !git_directories.contains(&common) {
        git_directories.push(common);
    }
    Some(Repository { git_directories, linked: linked.paths })
}

/// Only what is certainly not there is missing: a workload can close a directory
/// against looking.
fn is_missing(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    fs::symlink_metadata(path).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

fn git_directory(directory: &Path, dot_git: &Path) -> Option<PathBuf> {
    if fs::metadata(dot_git).ok()?.is_dir() {
        return fs::canonicalize(dot_git).ok();
    }
    let target = pointer(&read_bounded(dot_git)?)?;
    fs::canonicalize(directory.join(target)).ok()
}

/// Reads the content of a `.git` file (gitrepository-layout(5)).
pub(in super::super) fn pointer(content: &[u8]) -> Option<PathBuf> {
    let target = content.strip_prefix(b"gitdir: ")?;
    let end = target.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))? + 1;
    let target = &target[..end];
    let is_plain = !target.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0));
    is_plain.then(|| PathBuf::from(OsStr::from_bytes(target)))
}

fn common_directory(own: &Path) -> PathBuf {
    let resolve = || {
        let content = read_bounded(&own.join("commondir"))?;
        let text = content.strip_suffix(b"\n").unwrap_or(&content);
        fs::canonicalize(own.join(OsStr::from_bytes(text))).ok()
    };
    resolve().unwrap_or_else(|| own.to_owned())
}

pub(in super::super) fn read_bounded(path: &Path) -> Option<Vec<u8>> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    let limit = u64::try_from(MAX_BYTES).ok()? + 1;
    fs::File::open(path).ok()?.take(limit).read_to_end(&mut content).ok()?;
    Some(content)
}

struct Linked {
    top: PathBuf,
    paths: Vec<PathBuf>,
    /// Configurations that may still be read.
    files_left: u32,
}

impl Linked {
    fn add(&mut self, path: PathBuf) {
        let real = fs::canonicalize(&path).ok();
        let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
        let below = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
        for path in [Some(path), real, below].into_iter().flatten() {
            if !self.paths.contains(&path) {
                self.paths.push(path);
            }
        }
    }

    /// Adds what one configuration file names, and follows its includes.
    fn config(&mut self, file: &Path, includes_left: u32) {
        let Some(content) = read_bounded(file) else { return };
        let Some(files_left) = self.files_left.checked_sub(1) else { return };
        self.files_left = files_left;
        let directory = file.parent().unwrap_or(&self.top).to_owned();
        for (key, value) in settings(&content) {
            let value = Path::new(OsStr::from_bytes(&value));
            match key.as_slice() {
                b"core.hookspath" => self.add(normalise(&self.top.join(value))),
                // It may also be true, false or a command line.
                b"core.fsmonitor" if self.top.join(value).exists() => {
                    self.add(normalise(&self.top.join(value)));
                }
                key if is_include(key) => {
                    let target = normalise(&directory.join(value));
                    self.add(target.clone());
                    if includes_left > 0 {
                        self.config(&target, includes_left - 1);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the targets of links where git keeps what it runs.
    fn links_of(&mut self, git_directory: &Path) {
        for name in ["config", "config.worktree", "hooks", "info", "info/attributes"] {
            self.link(&git_directory.join(name));
        }
        let Ok(hooks) = fs::read_dir(git_directory.join("hooks")) else { return };
        for hook in hooks.flatten().take(MAX_HOOKS) {
            self.link(&hook.path());
        }
    }

    fn link(&mut self, path: &Path) {
        let Ok(target) = fs::read_link(path) else { return };
        let base = path.parent().unwrap_or(&self.top);
        self.add(normalise(&base.join(target)));
    }
}

fn is_include(key: &[u8]) -> bool {
    key == b"include.path" || (key.starts_with(b"includeif.") && key.ends_with(b".path"))
}

/// Gives keys in lower case with their values. A file that the strict reader
/// refuses is searched line by line: here too much is better than too little.
fn settings(content: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    if let Ok(entries) = config::parse(content) {
        return entries
            .into_iter()
            .filter_map(|entry| Some((entry.name().to_ascii_lowercase(), entry.value?)))
            .collect();
    }
    let lines = content.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let words = line[..at].to_ascii_lowercase();
        let word = words.split(|byte| matches!(byte, b' ' | b'\t' | b']')).rfind(|w| !w.is_empty());
        let key: &[u8] = match word? {
            b"hookspath" => b"core.hookspath",
            b"fsmonitor" => b"core.fsmonitor",
            b"path" => b"include.path",
            _ => return None,
        };
        let value = line[at + 1..].trim_ascii();
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        Some((key.to_vec(), value.strip_suffix(b"\"").unwrap_or(value).to_vec()))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers() {
        let check = |content: &str, expected: Option<&str>| {
            assert_eq!(pointer(content.as_bytes()), expected.map(PathBuf::from), "{content:?}");
        };
        check("gitdir: /a/.git/worktrees/w\n", Some("/a/.git/worktrees/w"));
        check("gitdir: ../.git/modules/m", Some("../.git/modules/m"));
        check("gitdir: \n", None);
        check("gitdir:/a\n", None);
        check("gitdir: /a\nx\n", None);
        check("", None);
    }

    #[test]
    fn settings_of_a_file_the_strict_reader_refuses() {
        let text = b"[core.x]\n\thooksPath = \"a b\"\n[include] path = c\n[x]\nother = d\n";
        let expected = [
            (b"core.hookspath".to_vec(), b"a b".to_vec()),
            (b"include.path".to_vec(), b"c".to_vec()),
        ];
        assert_eq!(settings(text), expected);
    }

    #[test]
    fn what_a_repository_links_to() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        let git = top.join(".git");
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::write(git.join("config"), "[core]\nhooksPath=tools/hooks\n[include]\npath=../extra\n")
            .unwrap();
        fs::write(top.join("extra"), "[include]\npath=more\n[core]\nfsmonitor = false\n").unwrap();
        std::os::unix::fs::symlink("../../ci/check", git.join("hooks/pre-push")).unwrap();
        let found = load(&top).unwrap();
        assert_eq!(found.git_directories, [git]);
        let expected = ["tools/hooks", "extra", "more", "ci/check"].map(|name| top.join(name));
        assert_eq!(found.linked, expected);
        assert_eq!(load(Path::new("/proc")), None);
    }
}
