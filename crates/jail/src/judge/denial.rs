//! What was refused and what was noticed, as data.

use std::path::PathBuf;

/// Why a name is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Internals of a repository that was there at the start.
    Repository,
    /// Internals of a repository that was made in this session.
    BornRepository,
    /// A file that a tool on the host runs or obeys when it opens the project.
    ProjectTool,
    /// A pattern of the user's.
    User,
    /// The sandbox's own parts.
    Supervisor,
    /// A system call that the filter refuses.
    Kernel,
    /// A connection out of the sandbox.
    Network,
    /// What the overlay of a review cannot do.
    Review,
}

/// The rules, each with a code that does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    GitHooks,
    GitConfig,
    GitInfo,
    GitPointer,
    GitWorktree,
    GitModules,
    GitLookalike,
    GitLinked,
    GitMove,
    GitLink,
    BareRepository,
    ProjectTool,
    UserDeny,
    Hidden,
    Supervisor,
    ReviewRename,
}

impl Rule {
    /// The stable code, for reports and for looking up the explanation.
    pub const fn code(self) -> &'static str {
        match self {
            Self::GitHooks => "git-hooks",
            Self::GitConfig => "git-config",
            Self::GitInfo => "git-info",
            Self::GitPointer => "git-pointer",
            Self::GitWorktree => "git-worktree",
            Self::GitModules => "git-modules",
            Self::GitLookalike => "git-lookalike",
            Self::GitLinked => "git-linked",
            Self::GitMove => "git-move",
            Self::GitLink => "git-link",
            Self::BareRepository => "bare-repository",
            Self::ProjectTool => "project-tool",
            Self::UserDeny => "user-deny",
            Self::Hidden => "hidden",
            Self::Supervisor => "supervisor",
            Self::ReviewRename => "review.rename",
        }
    }
}

/// One refused call. The judge reports each one; the receiver drops repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// [`Rule::code`].
    pub rule: &'static str,
    pub class: Class,
    /// The call, by its plain name: `open`, `rename`, `chmod`, ...
    pub operation: &'static str,
    /// The real path that was judged, links resolved.
    pub path: PathBuf,
    /// The calling thread, in the sandbox's pid namespace.
    pub pid: u32,
    /// What exactly was refused, where the path does not say it: the key of a
    /// configuration, for example.
    pub detail: Option<String>,
    /// The pattern that would lift this refusal if it were allowed; `None` if nothing does.
    pub suggestion: Option<String>,
}

/// Takes denials as they happen. Must not block: callers sleep meanwhile.
pub trait Sink {
    fn denied(&mut self, denial: Denial);
}

impl<F: FnMut(Denial)> Sink for F {
    fn denied(&mut self, denial: Denial) {
        self(denial);
    }
}

/// What was let through and should be looked at, told once at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Repositories that were made in the session and are still there: the directory that git uses.
    pub born_repositories: Vec<PathBuf>,
    /// Files that project tools obey, written where no tool opens a project;
    /// the topmost protected name of each.
    pub tool_files_elsewhere: Vec<PathBuf>,
    /// Names to be told that were written, moved or removed.
    pub told_files: Vec<PathBuf>,
    /// Whether one of the lists above was cut at its limit.
    pub is_truncated: bool,
}
