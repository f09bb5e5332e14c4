//! Why there is no snapshot, or no way back to one.

use super::{OperationError, chain, hopeless, invalid, of_backend, of_records, plain};
use crate::backend::BackendError;
use crate::records::RecordsError;
use crate::snapshots::SNAPSHOTS_MAX;
use atoll_api::error::{ApiError, ErrorCode, TookEffect};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::sandbox::{InvalidRequest, State};

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The sandbox cannot be asked, or could not be stopped or started for it.
    #[error(transparent)]
    Sandbox(#[from] OperationError),
    /// There is no snapshot of that id.
    #[error("there is no snapshot {id}")]
    NotFound {
        /// The id.
        id: SnapshotId,
    },
    /// It makes no sense now.
    #[error("sandbox {id} is {state}: there can be no {what}")]
    WrongState {
        /// The sandbox.
        id: SandboxId,
        /// The state that it is in.
        state: State,
        /// What was asked for: a snapshot or a restore.
        what: &'static str,
    },
    /// It runs, and its processes cannot be made to stand still on this host.
    #[error("sandbox {id} runs, and its processes cannot stand still for a snapshot on this host")]
    CannotFreeze {
        /// The sandbox.
        id: SandboxId,
    },
    /// What is below it is not what is below the sandbox.
    #[error("snapshot {snapshot} is of another image than sandbox {id}")]
    OtherImage {
        /// The sandbox.
        id: SandboxId,
        /// The snapshot.
        snapshot: SnapshotId,
    },
    /// They are above different images, so that all would differ.
    #[error("snapshot {id} is of another image than snapshot {with}")]
    OtherImages {
        /// One.
        id: SnapshotId,
        /// The other.
        with: SnapshotId,
    },
    /// What a snapshot differs in could not be found out.
    #[error("snapshot {id} could not be compared: {}", chain(source))]
    Uncompared {
        /// The snapshot.
        id: SnapshotId,
        /// What failed.
        source: BackendError,
    },
    /// There are as many as there may be.
    #[error("there are {SNAPSHOTS_MAX} snapshots, which is the most")]
    TooMany,
    /// The host could not do it.
    #[error("there is no {what} of sandbox {id}, which is {state} now: {}", chain(source))]
    Host {
        /// The sandbox.
        id: SandboxId,
        /// The state that it is in now.
        state: State,
        /// What was asked for: a snapshot or a restore.
        what: &'static str,
        /// What failed.
        source: BackendError,
    },
    /// It could not be recorded.
    #[error("could not record the snapshot")]
    Records(#[source] RecordsError),
}

impl SnapshotError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        match self {
            Self::Invalid(error) => invalid(error),
            Self::Sandbox(error) => error.to_api(),
            Self::NotFound { .. } => {
                hopeless(ErrorCode::NotFound, self, "list the snapshots that there are")
            }
            Self::WrongState { id, state, .. } => {
                let next_step = "look at its state, and bring it into another one first";
                let mut answer = hopeless(ErrorCode::WrongState, self, next_step);
                answer.details.sandbox_id = Some(*id);
                answer.details.state = Some(*state);
                answer
            }
            Self::CannotFreeze { id } => {
                let next_step = "stop it, take the snapshot, and start it again; \
                                 `atoll doctor` says what is missing";
                let mut answer = hopeless(ErrorCode::UnsupportedByTier, self, next_step);
                answer.details.sandbox_id = Some(*id);
                answer.details.capability = Some("pause".to_owned());
                answer
            }
            Self::OtherImage { id, .. } => {
                let next_step = "make a sandbox of the snapshot, or choose one of this sandbox";
                let mut answer = hopeless(ErrorCode::Conflict, self, next_step);
                answer.details.sandbox_id = Some(*id);
                answer
            }
            Self::OtherImages { .. } => {
                let next_step = "compare it with one whose `image` is the same";
                hopeless(ErrorCode::Conflict, self, next_step)
            }
            Self::Uncompared { source, .. } => {
                ApiError { took_effect: TookEffect::No, ..of_backend(self, source) }
            }
            Self::TooMany => {
                let mut answer = plain(ErrorCode::Capacity, self, "delete a snapshot first");
                answer.details.limit = Some("snapshots_max".to_owned());
                answer.details.limit_value = u64::try_from(SNAPSHOTS_MAX).ok();
                answer
            }
            Self::Host { id, state, source, .. } => {
                let mut answer = of_backend(self, source);
                let is_as_before = matches!(state, State::Running | State::Paused | State::Stopped);
                answer.took_effect =
                    if is_as_before { TookEffect::No } else { TookEffect::Unknown };
                answer.details.sandbox_id = Some(*id);
                answer.details.state = Some(*state);
                answer
            }
            Self::Records(source) => of_records(self, source),
        }
    }
}
