//! Git in a sandbox: what is asked for and what is answered.
//!
//! Git runs inside, as the sandbox's user, and asks nobody for a password.

use crate::octets::Octets;
use serde::{Deserialize, Serialize};

/// Longest name of a branch or a revision, in bytes.
pub const REVISION_BYTES_MAX: usize = 1024;
/// Longest URL, in bytes.
pub const URL_BYTES_MAX: usize = 4096;

/// Clones a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloneRepository {
    /// Which: the absolute path of a repository or of a bundle inside, or a URL
    /// `file:///…`. Others are refused, whatever the sandbox may reach: it fetches those by an exec.
    #[schema(min_length = 1, max_length = 4096)]
    pub url: String,
    /// Into which directory, which is made; its absolute path.
    pub path: Octets,
    /// Which branch or tag is checked out; the repository's own where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub branch: Option<String>,
    /// Only so many commits of its history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2147483647)]
    pub depth: Option<u32>,
}

/// Checks something out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkout {
    /// The repository's directory; its absolute path.
    pub path: Octets,
    /// A branch, a tag or a commit.
    #[schema(min_length = 1, max_length = 1024)]
    pub target: String,
    /// Make a branch of that name, where it stands now.
    #[serde(default)]
    pub create: bool,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// The repository's directory.
    pub path: Octets,
    /// What is staged, instead of what is not.
    pub is_staged: bool,
    /// With this revision; with what is staged where nothing is said.
    pub from: Option<String>,
    /// This revision, instead of the files that are there.
    pub to: Option<String>,
}

/// Differences as `git diff` prints them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Diff {
    /// The text; what is not UTF-8 is replaced.
    pub text: String,
    /// There is more.
    pub is_cut: bool,
}

/// How a repository is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitStatus {
    /// The branch that is checked out; absent where it is a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that is checked out; absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The branch that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// How many commits it has that the upstream has not.
    pub ahead: u64,
    /// How many the upstream has that it has not.
    pub behind: u64,
    /// What has changed, and what is not tracked.
    pub entries: Vec<GitEntry>,
    /// There are more entries.
    pub is_cut: bool,
}

/// A path that has changed, or that is not tracked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GitEntry {
    /// Which, from the top of the repository.
    pub path: Octets,
    /// Where it was renamed or copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Octets>,
    /// What is staged of it.
    pub index: GitChange,
    /// What is not staged of it.
    pub worktree: GitChange,
}

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitChange {
    /// Nothing.
    Unmodified,
    /// Its content or mode changed.
    Modified,
    /// It is another kind of thing.
    TypeChanged,
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It has another name.
    Renamed,
    /// It is a copy.
    Copied,
    /// Both sides of a merge changed it.
    Unmerged,
    /// Git does not know it.
    Untracked,
    /// Git is told to leave it out.
    Ignored,
}
