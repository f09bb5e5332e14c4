//! The files that a sandbox begins with.

use super::InvalidRequest;
use crate::git::{REVISION_BYTES_MAX, URL_BYTES_MAX};
use crate::octets::Octets;
use serde::{Deserialize, Serialize};

/// Where a workspace is put if nothing is said.
pub const WORKSPACE_PATH_DEFAULT: &str = "/home/user/workspace";
/// The media type of a request for a sandbox whose workspace comes with it: a
/// [`CreateSandbox`](super::CreateSandbox) as JSON on one line, and behind its newline a tar
/// archive, plain or compressed by gzip, to the end of the body.
pub const CREATE_WITH_ARCHIVE: &str = "application/vnd.atoll.create";
/// Longest path of a workspace, in bytes.
pub const WORKSPACE_PATH_BYTES_MAX: usize = 4095;

/// The files that a sandbox begins with: a clone of a repository, or an archive that comes
/// with the request. They are there before its services start; where they cannot be had,
/// there is no sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// Where they are put: an absolute path inside, `/home/user/workspace` where nothing is
    /// said. It is made, with the directories above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Octets>,
    /// Which repository is cloned. Absent where an archive comes with the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<WorkspaceGit>,
}

/// A repository that is cloned inside, as the sandbox's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceGit {
    /// Which: the absolute path of a repository or of a bundle in the image, or a URL
    /// `file:///…`. Others are refused as long as sandboxes have no network.
    #[schema(min_length = 1, max_length = 4096)]
    pub url: String,
    /// Which branch or tag is checked out; the repository's own where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub branch: Option<String>,
    /// Only so many commits of its history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2147483647)]
    pub depth: Option<u32>,
}

impl Workspace {
    /// Where it is put.
    pub fn place(&self) -> Octets {
        let default = || Octets::new(WORKSPACE_PATH_DEFAULT).expect("it has no NUL");
        self.path.clone().unwrap_or_else(default)
    }

    pub(super) fn validate(&self) -> Result<(), InvalidRequest> {
        if let Some(path) = &self.path {
            super::create::not_longer_bytes(
                "workspace.path",
                path.as_bytes().len(),
                WORKSPACE_PATH_BYTES_MAX,
            )?;
            if !path.as_path().is_absolute() {
                return super::create::malformed("workspace.path", "is not an absolute path");
            }
        }
        let Some(git) = &self.git else { return Ok(()) };
        super::create::not_longer_bytes("workspace.git.url", git.url.len(), URL_BYTES_MAX)?;
        if let Some(branch) = &git.branch {
            super::create::not_longer_bytes(
                "workspace.git.branch",
                branch.len(),
                REVISION_BYTES_MAX,
            )?;
        }
        if git.depth == Some(0) {
            return super::create::malformed("workspace.git.depth", "is 0");
        }
        Ok(())
    }
}
