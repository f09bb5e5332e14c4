//! Which paths of the project are hidden: the policy's own patterns, and ignore
//! files found in the project.
//!
//! Each name of an ignore file is a chain of its own, as git reads `.gitignore`
//! (deeper files decide before shallower ones, nothing below an ignored directory
//! comes back), and so are the patterns of the policy. A path is hidden when *any*
//! chain hides it: a `!pattern` in one file takes nothing back that another hides.
//!
//! `.git` is not hidden by ignore files, since git never asks them about it and a
//! common `/*` would take the repository away; the policy can name it.

mod scan;
#[cfg(test)]
mod tests;

pub(crate) use scan::{Hidden, ScanError, ScanLimits, scan};

use atoll_api::ignore::{PatternLine, deciding};
use atoll_api::policy::Origin;
use std::collections::HashMap;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All chains of one project.
#[derive(Debug, Default)]
pub(crate) struct IgnoreSet {
    chains: Vec<Chain>,
}

/// The pattern that hides a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The ignore file, relative to the project, or where the policy says it.
    pub(crate) source: RuleSource,
    /// As it was written; bytes that are not UTF-8 are replaced.
    pub(crate) pattern: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleSource {
    File { path: PathBuf, line: u32 },
    Policy(Origin),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            RuleSource::File { path, line } => {
                write!(f, "{:?} ({}:{line})", self.pattern, path.display())
            }
            RuleSource::Policy(origin) => write!(f, "{:?} ({origin})", self.pattern),
        }
    }
}

#[derive(Debug)]
struct Chain {
    source: ChainSource,
    /// Patterns by the directory that they start from, relative to the project; the
    /// root is empty.
    lists: HashMap<Vec<u8>, Arc<Vec<PatternLine>>>,
}

#[derive(Debug)]
enum ChainSource {
    /// Ignore files of this name.
    File(String),
    /// The policy: the origin of each pattern, by its line in the only list.
    Policy(Vec<Origin>),
}

impl Chain {
    /// The pattern that decides for one path, parents aside; nothing when no
    /// pattern matches or the one that decides takes back.
    fn decide(&self, path: &[u8], is_dir: bool) -> Option<Rule> {
        // Most chains are names of ignore files that this project does not have.
        if self.lists.is_empty() || (matches!(self.source, ChainSource::File(_)) && is_git(path)) {
            return None;
        }
        for (dir, below) in splits(path) {
            let Some(list) = self.lists.get(dir) else { continue };
            if let Some(found) = deciding(list, below, is_dir) {
                return (!found.pattern.is_negated()).then(|| self.rule(dir, found));
            }
        }
        None
    }

    fn rule(&self, dir: &[u8], found: &PatternLine) -> Rule {
        let source = match &self.source {
            ChainSource::File(name) => {
                let dir = Path::new(std::ffi::OsStr::from_bytes(dir));
                RuleSource::File { path: dir.join(name), line: found.line }
            }
            ChainSource::Policy(origins) => {
                let index = usize::try_from(found.line).unwrap_or(usize::MAX).wrapping_sub(1);
                RuleSource::Policy(origins.get(index).cloned().unwrap_or(Origin::BUILT_IN))
            }
        };
        Rule { source, pattern: String::from_utf8_lossy(found.pattern.text()).into_owned() }
    }
}

impl IgnoreSet {
    /// Whether nothing can be hidden.
    pub(crate) fn is_empty(&self) -> bool {
        self.chains.iter().all(|chain| chain.lists.is_empty())
    }

    /// The rule that hides `path`, which is relative to the project and need not exist,
    /// or that hides a directory above it.
    pub(crate) fn is_hidden(&self, path: &Path, is_dir: bool) -> Option<Rule> {
        let path = path.as_os_str().as_bytes();
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        // From the top down: below a hidden directory nothing else is asked.
        for end in ends.chain([path.len()]) {
            let rule = self.hides(&path[..end], is_dir || end < path.len());
            if rule.is_some() {
                return rule;
            }
        }
        None
    }

    /// The rule that hides `path` itself, its parents being visible.
    fn hides(&self, path: &[u8], is_dir: bool) -> Option<Rule> {
        self.chains.iter().find_map(|chain| chain.decide(path, is_dir))
    }
}

/// Every directory above a path with what is left of the path, the nearest first.
fn splits(path: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| (&path[..at], &path[at + 1..])).chain([(&path[..0], path)])
}

/// A repository's own directory or file.
fn is_git(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(b".git")
}
