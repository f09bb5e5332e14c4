//! What a path inside a git directory is (gitrepository-layout(5)).

use super::super::names::fold;

/// A part of a git directory that needs a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Part {
    /// Objects, refs, index, logs, heads and whatever git keeps while it works.
    Free,
    /// A name by which git tries whether the file system has links.
    Probe,
    /// A directory that holds parts with rules: it may not be moved.
    Holder,
    /// `config`, `config.worktree`.
    Config,
    /// The directory of hooks.
    HooksDirectory,
    /// Something in it. Git runs no name that ends in `.sample`.
    Hook { is_sample: bool },
    /// `info/attributes`, `info/exclude`, and the old ways to write a remote:
    /// nothing that runs code alone, but the user's own settings.
    Info,
    /// `objects/info/alternates`.
    Alternates,
    /// `commondir` or `gitdir` in the git directory itself.
    Pointer,
    /// A directory under `worktrees`.
    WorktreeEntry,
    /// `worktrees/NAME/gitdir`: where that work tree is.
    WorktreeGitdir,
    /// `worktrees/NAME/commondir`: from where its config and hooks come.
    WorktreeCommondir,
    /// A directory right under `modules`: a submodule's git directory, or a step
    /// on the way to one.
    Module,
}

/// Says what `path`, relative to a git directory, is. Gives also how many of
/// its components lead to the git directory that the part belongs to: 0 for
/// this one, more for that of a submodule or an entry of a work tree.
pub(in super::super) fn part(path: &[&[u8]]) -> (usize, Part) {
    let Some((first, rest)) = path.split_first() else { return (0, Part::Holder) };
    match (&*fold(first), rest) {
        (b"worktrees", rest) => worktree(rest),
        (b"modules", []) => (0, Part::Holder),
        (b"modules", [_]) => (2, Part::Module),
        (b"modules", rest) => module(rest),
        (_, _) => (0, own(path)),
    }
}

/// Parts that every git directory has, a submodule's too.
fn own(path: &[&[u8]]) -> Part {
    let Some((first, rest)) = path.split_first() else { return Part::Holder };
    let second = rest.first().map(|name| fold(name));
    match (&*fold(first), second.as_deref(), rest.len()) {
        (b"config" | b"config.worktree", ..) => Part::Config,
        (b"hooks", None, _) => Part::HooksDirectory,
        (b"hooks", Some(name), count) => {
            Part::Hook { is_sample: count == 1 && name.ends_with(b".sample") }
        }
        (b"commondir" | b"gitdir", ..) => Part::Pointer,
        ([b't', rest @ ..], None, _) if is_probe(rest) => Part::Probe,
        (b"info" | b"objects" | b"remotes" | b"branches", None, _) => Part::Holder,
        (b"info", Some(b"attributes" | b"exclude"), _) => Part::Info,
        (b"remotes" | b"branches", Some(_), _) => Part::Info,
        (b"objects", Some(b"info"), 1) => Part::Holder,
        (b"objects", Some(b"info"), _) if is_alternates(rest[1]) => Part::Alternates,
        _ => Part::Free,
    }
}

/// `mktemp` fills the place of six letters.
fn is_probe(rest: &[u8]) -> bool {
    rest.len() == 6 && rest.iter().all(u8::is_ascii_alphanumeric)
}

fn is_alternates(name: &[u8]) -> bool {
    matches!(&*fold(name), b"alternates" | b"http-alternates")
}

/// `rest` follows `worktrees`. The entry itself is the git directory.
fn worktree(rest: &[&[u8]]) -> (usize, Part) {
    match rest {
        [] => (0, Part::Holder),
        [_] => (2, Part::WorktreeEntry),
        [_, name, ..] => match &*fold(name) {
            b"commondir" => (2, Part::WorktreeCommondir),
            b"gitdir" => (2, Part::WorktreeGitdir),
            b"modules" => (2, Part::Holder),
            _ => (2, own(&rest[1..])),
        },
    }
}

/// `rest` follows `modules` and has two components or more. A submodule's name
/// may hold slashes, so every component may be the one that begins a part; only
/// below git's own big trees a name means nothing.
fn module(rest: &[&[u8]]) -> (usize, Part) {
    for start in 1..rest.len() {
        let below = &rest[start..];
        match &*fold(below[0]) {
            b"refs" | b"logs" | b"lfs" | b"rebase-merge" | b"rebase-apply" => {
                return (1 + start, Part::Free);
            }
            b"modules" | b"worktrees" => {
                let (more, found) = part(below);
                return (1 + start + more, found);
            }
            name => {
                let found = own(below);
                if found != Part::Free {
                    return (1 + start, found);
                }
                if name == b"objects" {
                    return (1 + start, Part::Free);
                }
            }
        }
    }
    (2, Part::Free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: (usize, Part)) {
        let path: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        assert_eq!(part(&path), expected);
    }

    #[test]
    fn parts_of_the_directory_itself() {
        check("config", (0, Part::Config));
        check("CONFIG", (0, Part::Config));
        check("config.worktree", (0, Part::Config));
        check("config.lock", (0, Part::Free));
        check("tAb3dE9", (0, Part::Probe));
        check("tAb3dE9/x", (0, Part::Free));
        check("hooks", (0, Part::HooksDirectory));
        check("hooks/pre-commit", (0, Part::Hook { is_sample: false }));
        check("hooks/pre-commit.sample", (0, Part::Hook { is_sample: true }));
        check("hooks/deep/x.sample", (0, Part::Hook { is_sample: false }));
        check("info", (0, Part::Holder));
        check("info/attributes", (0, Part::Info));
        check("info/exclude", (0, Part::Info));
        check("info/sparse-checkout", (0, Part::Free));
        check("info/refs", (0, Part::Free));
        check("remotes/origin", (0, Part::Info));
        check("objects/info/alternates", (0, Part::Alternates));
        check("objects/info/packs", (0, Part::Free));
        check("objects/ab/cd", (0, Part::Free));
        check("commondir", (0, Part::Pointer));
        check("refs/heads/hooks/config", (0, Part::Free));
        check("logs/refs/heads/config", (0, Part::Free));
        check("index.lock", (0, Part::Free));
    }

    #[test]
    fn parts_of_worktree_entries() {
        check("worktrees", (0, Part::Holder));
        check("worktrees/x", (2, Part::WorktreeEntry));
        check("worktrees/x/commondir", (2, Part::WorktreeCommondir));
        check("worktrees/x/gitdir", (2, Part::WorktreeGitdir));
        check("worktrees/x/config.worktree", (2, Part::Config));
        check("worktrees/x/HEAD", (2, Part::Free));
        check("worktrees/x/logs/HEAD", (2, Part::Free));
    }

    #[test]
    fn parts_of_submodules() {
        check("modules", (0, Part::Holder));
        check("modules/a", (2, Part::Module));
        check("modules/a/config", (2, Part::Config));
        check("modules/a/b/config", (3, Part::Config));
        check("modules/a/hooks/x", (2, Part::Hook { is_sample: false }));
        check("modules/a/b/hooks", (3, Part::HooksDirectory));
        check("modules/a/refs/heads/config", (2, Part::Free));
        check("modules/a/objects/ab", (2, Part::Free));
        check("modules/a/objects/info/alternates", (2, Part::Alternates));
        check("modules/a/modules/b/config", (4, Part::Config));
        check("modules/a/worktrees/w/commondir", (4, Part::WorktreeCommondir));
        check("modules/a/HEAD", (2, Part::Free));
        check("modules/a/tAb3dE9", (2, Part::Probe));
    }
}
