//! What the judge is told at the start.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::denial::Rule;
use super::names::{Match, Pattern};
use crate::listing::names_in;
use crate::paths::normalise;

/// Decides which paths may not even be read.
///
/// A directory above a hidden path cannot be moved to where that would not be
/// hidden; in strict mode a hidden path cannot be opened, made, linked, moved or
/// removed either.
pub trait Hidden {
    /// `path` is real: absolute, links resolved; it need not exist.
    fn is_hidden(&self, path: &Path, is_directory: bool) -> bool;
}

impl<F: Fn(&Path, bool) -> bool> Hidden for F {
    fn is_hidden(&self, path: &Path, is_directory: bool) -> bool {
        self(path, is_directory)
    }
}

/// A workspace that is judged.
#[derive(Debug, Clone)]
pub struct Root {
    /// As seen inside: absolute, no links.
    pub path: PathBuf,
    /// As the planner saw it from outside.
    pub device: u64,
    pub inode: u64,
}

/// Plain data, made by whoever plans the jail.
pub struct Config {
    /// The workspace, if its names are judged.
    pub root: Option<Root>,
    /// Directories outside the workspace that may be written too, as seen inside:
    /// the same rules hold in each, relative to it.
    pub grants: Vec<PathBuf>,
    /// A file system that no name is judged in, though a grant may hold it: the
    /// copy of a workspace under review. Its place inside.
    pub free: Option<PathBuf>,
    /// Names that tools on the host obey, relative to a directory that one opens
    /// as a project: a root, and every directory of an old repository.
    pub tool_names: Vec<Pattern>,
    /// Lifts a refusal; relative to the root, or any depth without a slash.
    pub allow: Vec<Pattern>,
    /// Adds a refusal, and is stronger than `allow`.
    pub deny: Vec<Pattern>,
    /// Names that may be written and are told if they were, relative to a directory
    /// as those of tools are.
    pub told_names: Vec<Pattern>,
    /// The mask that the workload starts with.
    pub umask: u32,
    /// What the project hides.
    pub hidden: Option<Box<dyn Hidden>>,
    /// In strict mode the judge hides it: the filter must trap every open
    /// ([`super::Trap::strict`]).
    pub is_strict: bool,
    /// Otherwise masks hide what was there at the start: path, and whether it is
    /// a directory. The judge keeps them where the next run hides them again.
    pub masked: Vec<(PathBuf, bool)>,
    /// The workload may make user namespaces, in which the judge opens files of
    /// procfs otherwise.
    pub has_nested_users: bool,
}

/// The patterns, arranged for being asked often.
pub(super) struct Rules {
    tool_names: Vec<Pattern>,
    tool_first: FirstBytes,
    allow: Vec<Pattern>,
    deny: Vec<Pattern>,
}

/// More names than this are not listed: a look for each name that matters is cheaper.
const LISTED_MAX: usize = 256;

/// The bytes that a name of a set can begin with.
#[derive(Debug)]
pub(super) struct FirstBytes([bool; 256]);

impl FirstBytes {
    pub(super) fn of(names: &[Pattern]) -> Self {
        let mut first = [false; 256];
        for name in names {
            match name.first_byte() {
                Some(byte) => {
                    first[usize::from(byte)] = true;
                    first[usize::from(byte.to_ascii_uppercase())] = true;
                }
                None => first = [true; 256],
            }
        }
        if !names.is_empty() {
            // Ignorable characters may come first.
            first[128..].fill(true);
        }
        Self(first)
    }

    pub(super) fn may_begin(&self, name: &[u8]) -> bool {
        self.0[usize::from(name.first().copied().unwrap_or_default())]
    }
}

/// A name that is a link, and a path that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
}

/// Where names at `root` lead that are links now: their targets are what tools read.
pub(super) fn links_at<'a>(root: &Path, names: impl Iterator<Item = &'a Pattern>) -> Vec<Link> {
    let present = names_in(root, LISTED_MAX);
    let literal = |pattern: &Pattern| {
        let first = OsStr::from_bytes(pattern.first_literal()?);
        let is_there = match &present {
            Some(present) => present.contains(first),
            None => root.join(first).symlink_metadata().is_ok(),
        };
        is_there.then(|| pattern.literal_rest(0))?.map(|names| names.join(&b'/'))
    };
    let mut found = Vec::new();
    for name in names.filter_map(literal) {
        let path = root.join(OsStr::from_bytes(&name));
        let base = path.parent().unwrap_or(root);
        let named = std::fs::read_link(&path).ok().map(|target| normalise(&base.join(target)));
        let real = std::fs::canonicalize(&path).ok();
        // A directory on the way may be the link.
        let below = std::fs::canonicalize(base)
            .ok()
            .zip(path.file_name())
            .map(|(base, name)| base.join(name));
        for other in [named, real, below].into_iter().flatten().filter(|other| *other != path) {
            let from = path.as_os_str().as_bytes().to_vec();
            found.push(Link { from, to: other.into_os_string().into_vec() });
        }
    }
    found
}

/// How a path stands to the tools' names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolMatch {
    /// A name at `place` components from the root, covered to `length`.
    Covered { place: usize, length: usize },
    /// Below the path could be a protected name; `None` if it has wildcards.
    Above { place: usize, rests: Vec<Option<Vec<u8>>> },
}

impl Rules {
    pub(super) fn new(tool_names: Vec<Pattern>, allow: Vec<Pattern>, deny: Vec<Pattern>) -> Self {
        let tool_first = FirstBytes::of(&tool_names);
        Self { tool_names, tool_first, allow, deny }
    }

    pub(super) fn denies(&self, path: &[&[u8]]) -> bool {
        self.deny.iter().any(|pattern| pattern.covers(path))
    }

    /// What is denied below `path`, as in [`ToolMatch::Above`].
    pub(super) fn denied_below(&self, path: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        self.deny.iter().filter_map(|pattern| pattern.below(path)).collect()
    }

    pub(super) fn allows(&self, path: &[&[u8]]) -> bool {
        self.allow.iter().any(|pattern| pattern.covers(path))
    }

    /// Where protected names at the root lead that are links now, and the rule that
    /// protects them.
    pub(super) fn links_at(&self, root: &Path) -> impl Iterator<Item = (Rule, Link)> {
        let of = |rule, names: &[Pattern]| {
            links_at(root, names.iter()).into_iter().map(move |link| (rule, link))
        };
        of(Rule::UserDeny, &self.deny).chain(of(Rule::ProjectTool, &self.tool_names))
    }

    /// Gives every match, from the root down: which of them counts depends on
    /// where tools open a project.
    pub(super) fn tools(&self, path: &[&[u8]]) -> Vec<ToolMatch> {
        let mut found = Vec::new();
        for place in 0..path.len() {
            if !self.tool_first.may_begin(path[place]) {
                continue;
            }
            let below = &path[place..];
            let mut rests = Vec::new();
            for pattern in &self.tool_names {
                match pattern.at_anchor(below) {
                    Match::No => {}
                    Match::Covered { length } => found.push(ToolMatch::Covered { place, length }),
                    Match::Above => {
                        rests.push(pattern.literal_rest(below.len()).map(|names| names.join(&b'/')))
                    }
                }
            }
            if !rests.is_empty() {
                found.push(ToolMatch::Above { place, rests });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(names: &[&str]) -> Rules {
        let names = names.iter().map(|name| Pattern::new(name).unwrap()).collect();
        Rules::new(names, Vec::new(), Vec::new())
    }

    fn tools(rules: &Rules, path: &str) -> Vec<ToolMatch> {
        rules.tools(&path.split('/').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn tool_names_at_every_depth() {
        let rules = rules(&[".vscode", ".claude/settings.json", "*.code-workspace"]);
        let covered = |place, length| ToolMatch::Covered { place, length };
        assert_eq!(tools(&rules, "src/main.rs"), []);
        assert_eq!(tools(&rules, ".vscode/tasks.json"), [covered(0, 1)]);
        assert_eq!(tools(&rules, "a/b/.VSCODE"), [covered(2, 1)]);
        assert_eq!(tools(&rules, "x.code-workspace"), [covered(0, 1)]);
        let rests = vec![Some(b"settings.json".to_vec())];
        assert_eq!(tools(&rules, "a/.claude"), [ToolMatch::Above { place: 1, rests }]);
    }

    #[test]
    fn links_are_found_where_the_root_cannot_be_listed() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let top = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(top.path()).unwrap();
        symlink("elsewhere", root.join(".envrc")).unwrap();
        let link = |to: &str| Link {
            from: root.join(".envrc").into_os_string().into_vec(),
            to: root.join(to).into_os_string().into_vec(),
        };
        let expected = [(Rule::ProjectTool, link("elsewhere"))];
        let rules = rules(&[".envrc", ".vscode"]);
        assert_eq!(rules.links_at(&root).collect::<Vec<_>>(), expected);
        // Root lists it all the same.
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o311)).unwrap();
        assert_eq!(rules.links_at(&root).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn without_names_nothing_matches() {
        assert_eq!(tools(&rules(&[]), "\u{feff}.vscode"), []);
    }
}
