//! Why a template cannot be built, shown or deleted.

use crate::error::{chain, hopeless, invalid, of_records, plain};
use crate::network::NetworkError;
use crate::records::RecordsError;
use atoll_api::error::{ApiError, ErrorCode};
use atoll_api::id::BuildId;
use atoll_api::sandbox::InvalidRequest;
use atoll_api::template::{BuildState, FilesDigest, TemplateRef};
use std::io;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// There is no such template, or no such version of it.
    #[error("there is no template {template}")]
    NotFound {
        /// What was asked for.
        template: TemplateRef,
    },
    /// What a template is to be built on is not there.
    #[error("there is no template {template} to build on")]
    NoBase {
        /// What was asked for.
        template: TemplateRef,
    },
    /// There is no build of that id.
    #[error("there is no build {id}")]
    NoBuild {
        /// The id.
        id: BuildId,
    },
    /// A build has ended.
    #[error("build {id} is {} already", state.as_str())]
    Ended {
        /// Which.
        id: BuildId,
        /// How it is.
        state: BuildState,
    },
    /// Files that a step copies were not sent, or are not kept any more.
    #[error("the files {files} of step {step} are not here")]
    NoFiles {
        /// Which.
        files: FilesDigest,
        /// The step, from 1.
        step: u32,
    },
    /// What was sent is something else.
    #[error("what was sent as {files} is {found}")]
    OtherFiles {
        /// What it was said to be.
        files: FilesDigest,
        /// What it is.
        found: FilesDigest,
    },
    /// Nothing was sent.
    #[error("nothing was sent, and a tar archive has 1024 bytes at least")]
    NoArchive,
    /// What was sent is more than is kept.
    #[error("the files are larger than {bytes_max} bytes, which is all that files may take")]
    FilesTooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// What was sent broke off.
    #[error("the files broke off")]
    Upload(#[source] io::Error),
    /// Files cannot be kept or read.
    #[error("could not keep the files")]
    Files(#[source] io::Error),
    /// What the steps may reach is not understood.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// As many builds wait as may.
    #[error("{builds_max} builds wait or are under way, which is the most")]
    TooMany {
        /// The limit.
        builds_max: usize,
    },
    /// There is no random number for an id.
    #[error("there are no random numbers")]
    Random(#[source] getrandom::Error),
    /// It could not be recorded.
    #[error("could not record the template")]
    Records(#[source] RecordsError),
    /// The server shuts down.
    #[error("the server shuts down")]
    ShuttingDown,
}

impl TemplateError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        let field = |code, name: &str, next_step: &str| {
            let mut answer = hopeless(code, self, next_step);
            answer.details.field = Some(name.to_owned());
            answer
        };
        match self {
            Self::Invalid(error) => invalid(error),
            Self::NotFound { .. } => {
                hopeless(ErrorCode::NotFound, self, "list the templates that there are")
            }
            Self::NoBase { .. } => {
                field(ErrorCode::Invalid, "template", "build that one first, or list what there is")
            }
            Self::NoBuild { .. } => {
                hopeless(ErrorCode::NotFound, self, "list the builds that are remembered")
            }
            Self::Ended { .. } => hopeless(ErrorCode::WrongState, self, "look at what came of it"),
            Self::NoFiles { step, .. } => {
                let name = format!("steps.{}.copy.files", step.saturating_sub(1));
                field(ErrorCode::Invalid, &name, "send the files first, then ask again")
            }
            Self::OtherFiles { .. } => {
                field(ErrorCode::Invalid, "files", "send them under the digest of what is sent")
            }
            Self::NoArchive => field(ErrorCode::Invalid, "body", "send the archive of the files"),
            Self::FilesTooLarge { bytes_max } => {
                let mut answer = hopeless(ErrorCode::TooLarge, self, "copy less in one step");
                answer.details.limit = Some("files_bytes_max".to_owned());
                answer.details.limit_value = Some(*bytes_max);
                answer
            }
            Self::Upload(error) => {
                let mut answer = plain(ErrorCode::Invalid, self, "send them again");
                answer.message = format!("{self}: {}", chain(error));
                answer
            }
            Self::Files(_) | Self::Random(_) => {
                plain(ErrorCode::Internal, self, "see the server's log")
            }
            Self::Network(error) => error.to_api(),
            Self::TooMany { builds_max } => {
                let next_step = "wait until one has ended, or cancel one";
                let mut answer = plain(ErrorCode::Capacity, self, next_step);
                answer.details.limit = Some("builds_max".to_owned());
                answer.details.limit_value = u64::try_from(*builds_max).ok();
                answer
            }
            Self::Records(source) => of_records(self, source),
            Self::ShuttingDown => {
                plain(ErrorCode::NotReady, self, "ask again when the server is back")
            }
        }
    }
}
