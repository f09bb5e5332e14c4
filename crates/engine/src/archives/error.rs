//! Why something is not archived, or does not come back.

use crate::backend::BackendError;
use crate::error::{
    CreateError, OperationError, SnapshotError, chain, hopeless, of_backend, plain,
};
use atoll_api::error::{ApiError, ErrorCode, Retry, TookEffect};
use atoll_api::id::{ArchiveId, SandboxId, SnapshotId};
use atoll_api::sandbox::{InvalidRequest, Tier};
use atoll_store::archive::{ManifestError, PackError, SealError, UnpackError};
use std::io;

/// What a store said, without what may be secret in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct StoreFault {
    text: String,
}

impl StoreFault {
    pub(super) fn new(error: &object_store::Error) -> Self {
        let mut text = chain(error);
        // An answer may be a page; and queries of requests may be signed.
        if let Some((before, _)) = text.split_once('?') {
            text = before.to_owned();
        }
        Self { text: text.chars().take(400).collect() }
    }
}

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The server has no place for archives.
    #[error("this server has no place for archives")]
    NoPlace,
    /// There is no archive of that id.
    #[error("there is no archive {id}")]
    NotFound {
        /// The id.
        id: ArchiveId,
    },
    /// There is no snapshot of that id, or it could not be recorded.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The sandbox cannot be archived as it is, or not be recorded.
    #[error(transparent)]
    Sandbox(#[from] OperationError),
    /// The sandbox that was in it could not be made.
    #[error("the sandbox of archive {id} could not be made")]
    Create {
        /// The archive.
        id: ArchiveId,
        /// Why.
        source: Box<CreateError>,
    },
    /// It has the files of a sandbox of this server.
    #[error("archive {id} has the files of sandbox {sandbox}, which is archived")]
    InUse {
        /// The archive.
        id: ArchiveId,
        /// The sandbox.
        sandbox: SandboxId,
    },
    /// Another tier made it.
    #[error("archive {id} is of tier {tier}, which this server does not have")]
    OtherTier {
        /// The archive.
        id: ArchiveId,
        /// Its tier.
        tier: Tier,
    },
    /// What it says of itself cannot be used.
    #[error("archive {id} says what no archive can: {source}")]
    Refused {
        /// The archive.
        id: ArchiveId,
        /// What is wrong.
        source: InvalidRequest,
    },
    /// Its manifest cannot be used.
    #[error("archive {id} cannot be read: {source}")]
    Unreadable {
        /// The archive.
        id: String,
        /// Why.
        source: ManifestError,
    },
    /// A layer could not be packed.
    #[error("the files could not be packed")]
    Pack {
        /// Why.
        source: PackError,
    },
    /// A layer is not what it was, or could not be written.
    #[error("a layer of the archive could not be unpacked")]
    Unpack {
        /// Why.
        source: UnpackError,
    },
    /// The host could not do it.
    #[error("the files could not be archived or restored")]
    Host {
        /// Why.
        source: BackendError,
    },
    /// This server's own directory cannot be used.
    #[error("could not write what is to be sent")]
    Spool {
        /// Why.
        source: io::Error,
    },
    /// The store does not do what it is asked for.
    #[error("could not {step} in the object store")]
    Store {
        /// What was being done, as in "send a layer".
        step: &'static str,
        /// What it said.
        source: StoreFault,
    },
    /// Others remove what is to be named, again and again.
    #[error("layers go away while the archive is made")]
    Unsettled,
    /// The snapshot goes away meanwhile, or the server does.
    #[error("it was broken off")]
    BrokenOff,
}

impl ArchiveError {
    fn seal(&self) -> Option<&SealError> {
        match self {
            Self::Unreadable { source: ManifestError::Seal(seal), .. } => Some(seal),
            Self::Unpack { source } => source.seal(),
            _ => None,
        }
    }

    /// What of several things it is, for programs.
    fn reason(&self) -> Option<&'static str> {
        match self.seal() {
            Some(SealError::NeedsKey | SealError::WrongKey) => return Some("archive-key"),
            Some(SealError::NotEncrypted) => return Some("archive-not-encrypted"),
            Some(_) => return Some("archive-damaged"),
            None => {}
        }
        match self {
            Self::Unreadable { source: ManifestError::TooNew { .. }, .. } => {
                Some("archive-too-new")
            }
            Self::Unreadable { .. } | Self::Refused { .. } => Some("archive-damaged"),
            Self::Unpack { source: UnpackError::NeedsRoot { .. } } => Some("archive-needs-root"),
            Self::Unpack {
                source:
                    UnpackError::Read(_) | UnpackError::OtherDigest | UnpackError::TooLarge { .. },
            } => Some("archive-damaged"),
            Self::Store { .. } => Some("archive-store"),
            _ => None,
        }
    }

    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        let mut answer = match self {
            Self::Invalid(error) => return crate::error::invalid(error),
            Self::Snapshot(error) => return error.to_api(),
            Self::Sandbox(error) => return error.to_api(),
            Self::Create { source, .. } => source.to_api(),
            Self::InUse { sandbox, .. } => {
                let next_step = "delete the sandbox, and its archive goes with it, or resume it";
                let mut answer = hopeless(ErrorCode::Conflict, self, next_step);
                answer.details.sandbox_id = Some(*sandbox);
                answer
            }
            Self::NoPlace => {
                let next_step = "have the operator serve with --archive URL";
                hopeless(ErrorCode::NotFound, self, next_step)
            }
            Self::NotFound { .. } => {
                hopeless(ErrorCode::NotFound, self, "list the archives that there are")
            }
            Self::OtherTier { .. } => {
                hopeless(ErrorCode::Conflict, self, "restore it on a server of that tier")
            }
            Self::Refused { .. } | Self::Unreadable { .. } | Self::Unpack { .. } => self.unusable(),
            Self::Host { source } => {
                ApiError { took_effect: TookEffect::No, ..of_backend(self, source) }
            }
            Self::Pack { .. } | Self::Spool { .. } => plain(
                ErrorCode::Internal,
                self,
                "look into the server's log; everything is as it was",
            ),
            Self::Store { .. } => {
                let next_step = "ask again later; the operator looks whether the store can be \
                                 reached, and whether its credentials are right";
                let mut answer = plain(ErrorCode::Unreachable, self, next_step);
                answer.retry = Retry::Safe;
                answer
            }
            Self::Unsettled | Self::BrokenOff => plain(ErrorCode::NotReady, self, "ask again"),
        };
        answer.message = chain(self);
        answer.details.reason = self.reason().map(str::to_owned);
        answer
    }

    fn unusable(&self) -> ApiError {
        let next_step = match self.reason() {
            Some("archive-key") => "serve with the --archive-key-file that it was made with",
            Some("archive-not-encrypted") => {
                "if it can be trusted, restore it on a server without --archive-key-file"
            }
            Some("archive-too-new") => "use a newer version of the server",
            Some("archive-needs-root") => "restore it on a server that runs as root",
            _ => "make the archive anew, if what it is of is still there; else restore another one",
        };
        hopeless(ErrorCode::Conflict, self, next_step)
    }
}

/// The id of the archive of a snapshot, which has one.
pub(super) fn of_snapshot(id: SnapshotId) -> ArchiveId {
    let digits = id.to_string().replacen(SnapshotId::PREFIX, ArchiveId::PREFIX, 1);
    digits.parse().expect("ids differ in how they begin alone")
}
