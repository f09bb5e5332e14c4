//! What the `.gitignore` files of a tree leave out.

use super::root::Root;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};
use std::io::Read as _;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Most of such a file that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The rules of the directories that a walk is in, the outermost first.
#[derive(Debug)]
pub(super) struct Ignores<'a> {
    root: &'a Root,
    is_on: bool,
    rules: Vec<Option<Gitignore>>,
}

impl<'a> Ignores<'a> {
    /// Rules that hold, or none at all.
    pub(super) fn new(root: &'a Root, is_on: bool) -> Self {
        Self { root, is_on, rules: Vec::new() }
    }

    /// Takes in the rules of the directory `path`.
    pub(super) fn enter(&mut self, directory: BorrowedFd<'_>, path: &Path) {
        let rules = if self.is_on { self.read(directory, path) } else { None };
        self.rules.push(rules);
    }

    pub(super) fn leave(&mut self) {
        self.rules.pop();
    }

    /// Says whether `path`, in the directory that was entered last, is left out.
    pub(super) fn has(&self, path: &Path, is_directory: bool) -> bool {
        if self.is_on && path.file_name().is_some_and(|name| name == ".git") {
            return true;
        }
        let path = Path::new("/").join(path);
        // The innermost rule that says anything holds.
        for rules in self.rules.iter().rev().flatten() {
            match rules.matched(&path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    fn read(&self, directory: BorrowedFd<'_>, path: &Path) -> Option<Gitignore> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(directory, ".gitignore", flags, Mode::empty()).ok()?;
        let file = self.root.open(&handle, OFlags::RDONLY).ok()?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let mut builder = GitignoreBuilder::new(Path::new("/").join(path));
        for line in String::from_utf8_lossy(&bytes).lines() {
            // A line that is no pattern leaves nothing out, as git has it.
            builder.add_line(None, line).ok();
        }
        builder.build().ok()
    }
}
