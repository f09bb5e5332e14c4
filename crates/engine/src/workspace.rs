//! The files that a sandbox begins with: put into it while it is made, before its services.
//!
//! Whatever they come from, it is done inside, as the sandbox's user. The host's own files
//! are never read for it: who can read a directory sends it as an archive.

use crate::inside::{Inside, InsideError};
use atoll_api::git::CloneRepository;
use atoll_api::octets::Octets;
use atoll_api::sandbox::CreateSandbox;
use atoll_protocol::files::Unpack;
use std::fmt;
use tokio::io::AsyncRead;

/// A tar archive that comes with a request.
pub type Archive = Box<dyn AsyncRead + Send + Unpin>;

/// A workspace that is to be made.
pub(crate) struct Workspace {
    pub(crate) path: Octets,
    source: Source,
}

enum Source {
    Git(Box<CloneRepository>),
    Archive(Archive),
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Workspace {
    /// What a request that was validated asks for, with the archive that came with it.
    ///
    /// # Errors
    /// Where there is not one source, or one that cannot be reached from inside.
    pub(crate) fn asked_for(
        request: &CreateSandbox,
        archive: Option<Archive>,
    ) -> Result<Option<Self>, InsideError> {
        let field = "workspace.git";
        let wanted = request.workspace.clone();
        let git = wanted.as_ref().and_then(|workspace| workspace.git.clone());
        let place = wanted.unwrap_or_default().place();
        let source = match (git, archive) {
            (None, Some(archive)) => Source::Archive(archive),
            (None, None) if request.workspace.is_none() => return Ok(None),
            (None, None) => {
                let reason = "is absent, and no archive came with the request";
                return Err(InsideError::Invalid { field, reason: reason.to_owned() });
            }
            (Some(_), Some(_)) => {
                let reason = "and an archive cannot both become the workspace";
                return Err(InsideError::Invalid { field, reason: reason.to_owned() });
            }
            (Some(git), None) => {
                let (url, branch, depth) = (git.url, git.branch, git.depth);
                let request = CloneRepository { url, path: place.clone(), branch, depth };
                crate::inside::check_clone(&request)?;
                Source::Git(Box::new(request))
            }
        };
        Ok(Some(Self { path: place, source }))
    }

    /// The archive that it would be made of, unread.
    pub(crate) fn into_archive(self) -> Option<Archive> {
        match self.source {
            Source::Archive(archive) => Some(archive),
            Source::Git(_) => None,
        }
    }

    /// Makes it in a sandbox that runs.
    ///
    /// # Errors
    /// A part of it may be there then.
    pub(crate) async fn make(self, inside: Inside) -> Result<(), InsideError> {
        match self.source {
            Source::Git(request) => inside.clone_only(&request).await,
            Source::Archive(mut archive) => {
                let path = crate::inside::path_to_guest(self.path);
                let unpack = Unpack { path, make_parents: true };
                let unpacked = inside.guest().unpack(unpack, &mut archive).await;
                let id = inside.id();
                unpacked.map(drop).map_err(|source| InsideError::Guest { id, source })
            }
        }
    }
}
