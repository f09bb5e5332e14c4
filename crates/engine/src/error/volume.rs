//! Why a volume is not made, deleted, or shown in a sandbox.

use super::{
    CAPACITY_RETRY_MS, OperationError, chain, hopeless, invalid, of_backend, of_records, plain,
    shutting_down,
};
use crate::backend::BackendError;
use crate::records::RecordsError;
use crate::volumes::{Full, VOLUMES_MAX};
use atoll_api::error::{ApiError, ErrorCode, Retry, TookEffect};
use atoll_api::id::{SandboxId, VolumeId};
use atoll_api::name::SandboxName;
use atoll_api::sandbox::InvalidRequest;
use atoll_api::volume::{VolumeAccess, VolumeName};

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// There is none that is called so.
    #[error("there is no volume {volume}")]
    NotFound {
        /// What was asked for.
        volume: String,
    },
    /// A request names one twice, by its id and its name.
    #[error("volume {name} is named twice")]
    Twice {
        /// Its name.
        name: VolumeName,
    },
    /// A volume has that name.
    #[error("the name {name} belongs to volume {holder}")]
    NameTaken {
        /// The name.
        name: VolumeName,
        /// Which has it.
        holder: VolumeId,
    },
    /// A sandbox has it, so that it is not deleted.
    #[error("volume {name} is in use by sandbox {by}{}", and_more(*count))]
    InUse {
        /// Its name.
        name: VolumeName,
        /// One of the sandboxes that have it.
        by: SandboxId,
        /// How many these are.
        count: usize,
    },
    /// A sandbox that may run has it in a way that does not go together with what is wanted.
    #[error(
        "volume {name} cannot be had as {wanted}: sandbox {} has it as {held}",
        called(*holder, holder_name.as_ref())
    )]
    Held {
        /// Its name.
        name: VolumeName,
        /// How it was wanted.
        wanted: VolumeAccess,
        /// Who has it.
        holder: SandboxId,
        /// That one's name.
        holder_name: Option<SandboxName>,
        /// How that one has it.
        held: VolumeAccess,
    },
    /// It is a snapshot, and was wanted to be written.
    #[error("volume {name} is read-only for good")]
    ReadOnly {
        /// Its name.
        name: VolumeName,
    },
    /// There is no room left on it.
    #[error("{0}")]
    Full(Full),
    /// It is a folder of the host, with which that cannot be done.
    #[error("volume {name} is a folder of the server's machine, and is not {what}")]
    OfHost {
        /// Its name.
        name: VolumeName,
        /// What was to be done, as in "copied".
        what: &'static str,
    },
    /// A folder of the host that nobody granted.
    #[error("the server's machine does not give away {path:?}")]
    NotGranted {
        /// Its path.
        path: String,
    },
    /// It could not be measured or limited.
    #[error("volume {name} could not be measured and limited: {}", chain(source))]
    Limit {
        /// Its name.
        name: VolumeName,
        /// What failed.
        source: BackendError,
    },
    /// It is read as a whole, so that nobody may begin to write to it.
    #[error("volume {name} is being copied or exported")]
    Quiet {
        /// Its name.
        name: VolumeName,
    },
    /// A sandbox writes to it, so that it cannot be read as a whole.
    #[error("volume {name} cannot be exported while sandbox {by} writes to it")]
    Written {
        /// Its name.
        name: VolumeName,
        /// Who writes.
        by: SandboxId,
    },
    /// The one that is to be copied is not there.
    #[error("there is no volume {volume}")]
    NoSource {
        /// What was asked for.
        volume: String,
    },
    /// A sandbox that writes to it does not stand still.
    #[error("volume {name} cannot be copied while a sandbox writes to it: {source}")]
    Writer {
        /// Its name.
        name: VolumeName,
        /// What failed.
        source: Box<OperationError>,
    },
    /// Sandboxes that write to it did not stand still in time.
    #[error("the sandboxes that write to volume {name} did not stand still in time")]
    Restless {
        /// Its name.
        name: VolumeName,
    },
    /// There are as many as there may be.
    #[error("there are {VOLUMES_MAX} volumes, which is the most")]
    TooMany,
    /// The engine shuts down.
    #[error("the server shuts down")]
    ShuttingDown,
    /// The system gave no random bytes for an id.
    #[error("could not get random bytes for an id")]
    Random(#[source] getrandom::Error),
    /// The host could not do it.
    #[error("volume {name} could not be made: {}", chain(source))]
    Host {
        /// Its name.
        name: VolumeName,
        /// What failed.
        source: BackendError,
    },
    /// It could not be recorded.
    #[error("could not record the volume")]
    Records(#[source] RecordsError),
}

fn and_more(count: usize) -> String {
    if count > 1 { format!(" and {} more", count - 1) } else { String::new() }
}

fn called(id: SandboxId, name: Option<&SandboxName>) -> String {
    name.map_or_else(|| id.to_string(), |name| format!("{name} ({id})"))
}

impl VolumeError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        match self {
            Self::Invalid(error) => invalid(error),
            Self::NotFound { .. } => {
                hopeless(ErrorCode::NotFound, self, "list the volumes that there are")
            }
            Self::Twice { .. } => {
                let mut answer = hopeless(ErrorCode::Invalid, self, "name it once");
                answer.details.field = Some("volumes".to_owned());
                answer
            }
            Self::NameTaken { .. } => {
                let next_step = "use that volume, delete it, or choose another name";
                hopeless(ErrorCode::Conflict, self, next_step)
            }
            Self::InUse { by, .. } => {
                let next_step =
                    "delete the sandboxes that have it, which `used_by` of the volume lists";
                let mut answer = plain(ErrorCode::Conflict, self, next_step);
                answer.details.sandbox_id = Some(*by);
                answer
            }
            Self::Held { holder, .. } => {
                let next_step = "stop or delete that sandbox, or ask for the volume as read_only; \
                                 all who have it as shared may write at once";
                let mut answer = plain(ErrorCode::Conflict, self, next_step);
                answer.details.sandbox_id = Some(*holder);
                answer
            }
            Self::ReadOnly { .. } => {
                let next_step = "ask for it as read_only, or make a copy of it to write to";
                hopeless(ErrorCode::Conflict, self, next_step)
            }
            Self::Full(full) => {
                let next_step = "raise its limit, or take what is not needed from it in a sandbox \
                                 that has it while the limit is off";
                let mut answer = hopeless(ErrorCode::Capacity, self, next_step);
                answer.details.limit = Some("limit_bytes".to_owned());
                answer.details.limit_value = Some(full.limit_bytes);
                answer
            }
            Self::OfHost { .. } => {
                hopeless(ErrorCode::Conflict, self, "do it on the server's machine itself")
            }
            Self::NotGranted { .. } => {
                let next_step = "have whoever runs the server add it to `host_folders` in the \
                                 server's settings";
                let mut answer = hopeless(ErrorCode::Forbidden, self, next_step);
                answer.details.field = Some("host_path".to_owned());
                answer
            }
            Self::Quiet { .. } => ApiError {
                retry: Retry::After { after_ms: CAPACITY_RETRY_MS },
                ..plain(ErrorCode::Conflict, self, "ask again a little later")
            },
            Self::Written { by, .. } => {
                let next_step =
                    "take a snapshot of the volume and export that, or stop the sandbox";
                let mut answer = plain(ErrorCode::Conflict, self, next_step);
                answer.details.sandbox_id = Some(*by);
                answer
            }
            Self::NoSource { .. } => {
                let next_step = "list the volumes that there are";
                let mut answer = hopeless(ErrorCode::Invalid, self, next_step);
                answer.details.field = Some("copy_of".to_owned());
                answer
            }
            Self::Writer { source, .. } => {
                let next_step = "stop the sandboxes that write to it, and ask again";
                ApiError {
                    message: self.to_string(),
                    next_step: next_step.to_owned(),
                    took_effect: TookEffect::No,
                    ..source.to_api()
                }
            }
            Self::Restless { .. } => {
                let next_step = "ask again, or stop the sandboxes that write to it";
                plain(ErrorCode::TimedOut, self, next_step)
            }
            Self::TooMany => {
                let mut answer = plain(ErrorCode::Capacity, self, "delete a volume first");
                answer.details.limit = Some("volumes_max".to_owned());
                answer.details.limit_value = u64::try_from(VOLUMES_MAX).ok();
                answer
            }
            Self::ShuttingDown => shutting_down(self),
            Self::Random(_) => plain(ErrorCode::Internal, self, "see the server's log"),
            Self::Host { source, .. } | Self::Limit { source, .. } => {
                ApiError { took_effect: TookEffect::No, ..of_backend(self, source) }
            }
            Self::Records(source) => of_records(self, source),
        }
    }
}
