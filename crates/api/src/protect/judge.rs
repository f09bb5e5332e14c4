//! Whether a path may be written, by its name alone.

use super::{GIT_INTERNALS, GitInternal, Handling, ProtectedName, Scope, find};
use crate::policy::{EffectivePolicy, ProtectRule, Sourced, Verdict};

/// Why a path is protected, or why it is not although its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection<'a> {
    /// A rule of the policy protects it, or lifts its protection.
    Rule(&'a Sourced<ProtectRule>),
    /// An ignore file that the policy honours.
    IgnoreFile(&'a Sourced<String>),
    /// Class A: a part of a repository.
    GitInternal(&'static GitInternal),
    /// Class A: the file that says where the repository of this work tree is.
    GitPointer,
    /// Class C.
    Name(&'static ProtectedName),
}

impl Protection<'_> {
    /// Whether a write is refused. What is not refused is worth a line in the report.
    pub fn refuses(&self) -> bool {
        match self {
            Self::Rule(rule) => rule.value.verdict == Verdict::Deny,
            Self::IgnoreFile(_) | Self::GitInternal(_) | Self::GitPointer => true,
            Self::Name(name) => name.handling == Handling::Refuse,
        }
    }
}

/// What the caller has seen on the disk.
pub trait Tree {
    /// Whether the directory made of the first `depth` components holds a `.git` of
    /// whatever kind. Zero asks about the root.
    fn holds_git(&self, depth: usize) -> bool;
    /// Whether the path of the first `depth` components is there and is no directory.
    fn is_file(&self, depth: usize) -> bool;
}

/// What protects `path`, given as components from the root of the project or of a
/// grant. For a repository that is born in the session class B takes the place of A.
pub fn judge<'a>(
    policy: &'a EffectivePolicy,
    path: &[&[u8]],
    tree: &impl Tree,
) -> Option<Protection<'a>> {
    if let Some(rule) = policy.protect_rule(path) {
        return Some(Protection::Rule(rule));
    }
    let ignore_file = |name: &&Sourced<String>| path.contains(&name.value.as_bytes());
    if let Some(name) = policy.files.ignore_files.iter().find(ignore_file) {
        return Some(Protection::IgnoreFile(name));
    }
    if let Some(at) = path.iter().position(|part| *part == b".git") {
        let inside = &path[at + 1..];
        if inside.is_empty() && tree.is_file(at + 1) {
            return Some(Protection::GitPointer);
        }
        return git_internal(inside).map(Protection::GitInternal);
    }
    (0..path.len()).find_map(|start| {
        let name = find(&path[start..], false)?;
        let is_root = start == 0 || name.scope == Scope::AnyDepth || tree.holds_git(start);
        is_root.then_some(Protection::Name(name))
    })
}

/// What ends the name of a submodule, which may have slashes: parts of a git directory.
const GIT_PARTS: &[&[u8]] = &[
    b"hooks",
    b"info",
    b"lfs",
    b"logs",
    b"modules",
    b"objects",
    b"refs",
    b"rr-cache",
    b"worktrees",
];

/// The part of a git directory that class A guards, if `path`, as components from a
/// git directory, is one or lies in one.
pub fn git_internal(path: &[&[u8]]) -> Option<&'static GitInternal> {
    let is_it = |internal: &&GitInternal| {
        let mut at = path.iter();
        internal.name.split('/').all(|part| at.next().is_some_and(|name| *name == part.as_bytes()))
    };
    if let Some(internal) = GIT_INTERNALS.iter().find(is_it) {
        return Some(internal);
    }
    match path {
        [b"worktrees", _, inside @ ..] => git_internal(inside),
        [b"modules", _, inside @ ..] => {
            let name_goes_on = |part: &&&[u8]| !GIT_PARTS.contains(part);
            let longest = inside.iter().take_while(name_goes_on).count();
            (0..=longest).find_map(|start| git_internal(&inside[start..]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{PathPattern, Sourced};

    struct Repositories(&'static [usize]);

    impl Tree for Repositories {
        fn holds_git(&self, depth: usize) -> bool {
            self.0.contains(&depth)
        }

        fn is_file(&self, depth: usize) -> bool {
            depth == 2
        }
    }

    fn path(text: &str) -> Vec<&[u8]> {
        text.split('/').map(str::as_bytes).collect()
    }

    fn refuses(policy: &EffectivePolicy, text: &str) -> bool {
        judge(policy, &path(text), &Repositories(&[1]))
            .is_some_and(|protection| protection.refuses())
    }

    #[test]
    fn names_count_at_roots_and_repositories() {
        let policy = EffectivePolicy::built_in();
        assert!(refuses(&policy, ".vscode/tasks.json"));
        assert!(refuses(&policy, "sub/.vscode/tasks.json"), "a directory that holds a .git");
        assert!(!refuses(&policy, "sub/dep/.vscode/tasks.json"));
        assert!(refuses(&policy, "sub/dep/atoll.toml"), "at any depth");
        assert!(refuses(&policy, "sub/dep/.aiignore"), "an ignore file counts at any depth");
        assert!(!refuses(&policy, "AGENTS.md"), "reported only");
        assert!(!refuses(&policy, "src/main.rs"));
    }

    #[test]
    fn repositories_are_guarded_at_any_depth() {
        let policy = EffectivePolicy::built_in();
        for text in [
            ".git/config",
            ".git/hooks/pre-commit",
            "a/b/c/d/.git/hooks/x",
            ".git/info/attributes",
            ".git/info/exclude",
            "a/.git",
            ".git/modules/a/hooks/x",
            ".git/modules/a/b/config",
            ".git/modules/a/modules/b/config",
            ".git/worktrees/w/config.worktree",
            ".git/worktrees/w/gitdir",
            ".git/objects/info/alternates",
        ] {
            assert!(refuses(&policy, text), "{text}");
        }
        for text in [
            ".git",
            ".git/HEAD",
            ".git/index",
            ".git/refs/heads/config",
            ".git/refs/heads/hooks/x",
            ".git/objects/ab/cd",
            ".git/modules/a/refs/heads/config",
            ".git/logs/refs/heads/config",
            ".git/COMMIT_EDITMSG",
            "hooks/pre-commit",
            "config",
        ] {
            assert!(!refuses(&policy, text), "{text}");
        }
    }

    #[test]
    fn the_last_rule_decides() {
        let mut policy = EffectivePolicy::built_in();
        let mut add = |text: &str, verdict| {
            let pattern = PathPattern::parse(text).unwrap();
            policy.protect.push(Sourced::built_in(ProtectRule { pattern, verdict }));
        };
        add(".git/hooks/", Verdict::Allow);
        add("Makefile", Verdict::Deny);
        add("sub/", Verdict::Allow);
        assert!(!refuses(&policy, ".git/hooks/pre-commit"));
        assert!(refuses(&policy, ".git/config"), "control");
        assert!(refuses(&policy, "a/Makefile"));
        assert!(!refuses(&policy, "sub/Makefile"));
    }
}
