//! Names that cannot be written from inside although the project can.
//!
//! What makes a name protected: it takes effect outside the sandbox when a person
//! only *opens, enters or looks at* the project, with an editor, a shell, git, an
//! agent or a search tool, or it decides what the next sandbox may see. Files
//! that take effect when somebody builds or tests the project (build scripts,
//! `package.json`, a virtual environment) are the work itself; they are reported,
//! not refused.
//!
//! Three classes:
//!
//! - **A**, repository internals of repositories that existed at start:
//!   [`GIT_INTERNALS`], relative to a git directory.
//! - **B**, repositories born in the session: their configuration is judged key by key
//!   when it is renamed into place, by whoever performs that, executable hooks are
//!   refused.
//! - **C**, files of editors, agents and shells: [`NAMES`].
//!
//! Names compare case-folded where the directory does, so everything here is
//! ASCII and in the usual case of its tool.

mod judge;
mod names;

pub use judge::{Protection, Tree, git_internal, judge};
pub use names::NAMES;

use crate::policy::component_matches;

/// What reads a protected name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// git.
    Git,
    /// An editor or an IDE.
    Ide,
    /// A coding agent.
    Agent,
    /// A shell, an interpreter or a debugger at start.
    Shell,
    /// A package manager, before any script runs.
    Package,
    /// Atoll itself.
    Atoll,
}

impl Kind {
    /// The word for it in messages and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Ide => "ide",
            Self::Agent => "agent",
            Self::Shell => "shell",
            Self::Package => "package",
            Self::Atoll => "atoll",
        }
    }
}

/// Where a name is refused. Where it is not, it is allowed and reported at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// At the project's root and in every directory that holds a `.git`: the places
    /// that a person's tools open as a project. Dependency trees ship such names.
    Roots,
    /// Everywhere.
    AnyDepth,
}

/// What happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handling {
    /// Refused.
    Refuse,
    /// Allowed and listed: text that an agent will believe, or work that runs later.
    Report,
}

/// One protected name. What lies below it is protected too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtectedName {
    /// One component or more, joined by `/`; `*` stands for any run of bytes in one.
    pub name: &'static str,
    /// What reads it.
    pub kind: Kind,
    /// Where it is refused.
    pub scope: Scope,
    /// What happens to a write.
    pub handling: Handling,
    /// What it would do on the host.
    pub why: &'static str,
}

impl ProtectedName {
    /// Its components.
    pub fn components(&self) -> impl Iterator<Item = &'static str> {
        self.name.split('/')
    }

    /// Whether `path`, as components from where the name would stand, is it or lies
    /// below it. With `fold_case`, ASCII letters compare without case.
    pub fn matches(&self, path: &[&[u8]], fold_case: bool) -> bool {
        let mut at = path.iter();
        self.components().all(|part| {
            at.next().is_some_and(|name| {
                if fold_case {
                    component_matches(
                        part.to_ascii_lowercase().as_bytes(),
                        &name.to_ascii_lowercase(),
                    )
                } else {
                    component_matches(part.as_bytes(), name)
                }
            })
        })
    }
}

/// A part of a git directory that class A refuses to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GitInternal {
    /// Path in a git directory; what lies below is meant too.
    pub name: &'static str,
    /// What it would do on the host.
    pub why: &'static str,
}

/// Class A, relative to a git directory. Git directories are `.git`, the directory
/// that a `.git` file points to, its common directory, and every
/// `modules/NAME` and `worktrees/NAME` in one of them.
///
/// Not here, since git's own work writes them: `HEAD`, `index`, `refs`, `packed-refs`,
/// `logs`, `objects` but for the one below, and the state of a rebase. A
/// rebase left half-way can hold `exec` lines that run when a person continues it, so
/// `rebase-merge/git-rebase-todo` belongs into the report at the end.
pub const GIT_INTERNALS: &[GitInternal] = &[
    GitInternal {
        name: "config",
        why: "names programs that git runs (fsmonitor, sshCommand, pager, filters)",
    },
    GitInternal { name: "config.worktree", why: "names programs that git runs" },
    GitInternal { name: "hooks", why: "programs that git runs" },
    GitInternal {
        name: "info/attributes",
        why: "chooses filters and diff drivers that run programs",
    },
    GitInternal { name: "info/exclude", why: "hides files from `git status`" },
    GitInternal { name: "commondir", why: "takes configuration and hooks from another repository" },
    GitInternal { name: "gitdir", why: "points a worktree at another repository" },
    GitInternal {
        name: "objects/info/alternates",
        why: "reads objects from another place of the host",
    },
    GitInternal { name: "objects/info/http-alternates", why: "reads objects from another place" },
    GitInternal { name: "remotes", why: "redirects fetch and push" },
    GitInternal { name: "branches", why: "redirects fetch and push" },
];

/// The class C name that `path` is or lies below. `path` holds components from a root
/// (the project's, or a directory with a `.git`).
pub fn find(path: &[&[u8]], fold_case: bool) -> Option<&'static ProtectedName> {
    NAMES.iter().find(|name| name.matches(path, fold_case))
}

/// Whether a rule of the user about this path could lift anything: a name of class
/// C, or a part of a git directory. `path` may go on below the name.
pub(crate) fn is_protected_name(path: &[&[u8]]) -> bool {
    path.first() == Some(&b".git".as_slice()) || find(path, false).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<&[u8]> {
        text.split('/').map(str::as_bytes).collect()
    }

    #[test]
    fn names_are_found_at_a_root_only() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(find(&path(text), false).map(|name| name.name), expect, "{text}");
        };
        check(".vscode", Some(".vscode"));
        check(".vscode/tasks.json", Some(".vscode"));
        check(".VSCODE/tasks.json", None);
        check("node_modules/x/.vscode/tasks.json", None);
        check(".github/copilot-instructions.md", Some(".github/copilot*"));
        check(".github", None);
        check(".aider.conf.yml", Some(".aider*"));
        check("atoll.toml", Some("atoll.toml"));
        check("src/main.rs", None);
        assert_eq!(find(&path(".VSCode/x"), true).map(|name| name.name), Some(".vscode"));
    }

    #[test]
    fn the_names_of_the_public_reports_are_refused() {
        for name in [
            ".bashrc",
            ".bash_profile",
            ".profile",
            ".zshrc",
            ".zshenv",
            ".mcp.json",
            ".claude/settings.json",
            ".vscode/tasks.json",
            ".devcontainer/devcontainer.json",
            ".idea/workspace.xml",
            ".githooks/pre-commit",
            ".husky/pre-commit",
            ".envrc",
            ".cursor/mcp.json",
            ".codex/config.toml",
            ".gemini/settings.json",
            ".gitmodules",
            ".ripgreprc",
        ] {
            let found = find(&path(name), false);
            assert_eq!(found.map(|found| found.handling), Some(Handling::Refuse), "{name}");
        }
    }

    #[test]
    fn the_table_is_well_formed() {
        for (index, name) in NAMES.iter().enumerate() {
            assert!(
                name.name.is_ascii() && !name.name.starts_with('/') && !name.name.ends_with('/'),
                "{}",
                name.name
            );
            assert!(!name.why.is_empty() && !name.why.ends_with('.'), "{}", name.name);
            assert!(
                NAMES[..index].iter().all(|other| other.name != name.name),
                "{} twice",
                name.name
            );
        }
    }
}
