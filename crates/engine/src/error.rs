//! Errors of the engine, and the one place where each becomes an [`ApiError`].

mod cause;
mod pool;
mod snapshot;
mod volume;

pub(crate) use cause::is_full;
pub use pool::PoolError;
pub use snapshot::SnapshotError;
pub use volume::VolumeError;

use crate::archives::ArchiveError;
use crate::audit::AuditError;
use crate::backend::BackendError;
use crate::budgets::Spent;
use crate::gateway::{OpenError, PrepareError};
use crate::inside::InsideError;
use crate::lifecycle::{CapExceeded, HoldError};
use crate::network::NetworkError;
use crate::records::RecordsError;
use crate::state::Verb;
use atoll_api::error::{ApiError, ErrorCode, ErrorDetails, Retry, TookEffect};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::name::SandboxName;
use atoll_api::ports::EXPOSURES_COUNT_MAX;
use atoll_api::sandbox::{InvalidRequest, State, Tier};
use atoll_api::template::TemplateRef;
use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// When to ask again where a limit is used up, in milliseconds.
const CAPACITY_RETRY_MS: u64 = 1000;
/// When to ask again where a sandbox has too much to do, in milliseconds.
const BUSY_RETRY_MS: u64 = 100;

/// An error and what caused it, as one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        // Writing to a string cannot fail.
        write!(text, ": {error}").unwrap_or_default();
        source = error.source();
    }
    text
}

/// Why the engine could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The records cannot be used.
    #[error("could not read the records")]
    Records(#[source] RecordsError),
    /// The audit log cannot be used.
    #[error(transparent)]
    Audit(AuditError),
    /// Files of templates cannot be used.
    #[error("could not open the files of templates")]
    Templates(#[source] io::Error),
    /// It cannot be told what is on the host.
    #[error("could not list what is on this host")]
    Inventory(#[source] BackendError),
}

/// Why a sandbox was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The request asks for more than it may.
    #[error(transparent)]
    Cap(#[from] CapExceeded),
    /// The tier cannot do what the request needs.
    #[error("the tier {tier} lacks {capability} on this host")]
    Unsupported {
        /// The tier.
        tier: Tier,
        /// The flag of what it lacks.
        capability: &'static str,
    },
    /// A sandbox has that name.
    #[error("the name {name} belongs to {holder}")]
    NameTaken {
        /// The name.
        name: SandboxName,
        /// Who has it.
        holder: SandboxId,
    },
    /// There are as many sandboxes as there may be.
    #[error("this host has {sandboxes_max} sandboxes, which is the most")]
    Capacity {
        /// The limit.
        sandboxes_max: usize,
    },
    /// It is to be archived after a while, and there is nowhere to.
    #[error(
        "lifecycle.archive_after_ms needs a place for archives, which is the server's --archive"
    )]
    NoArchives,
    /// A budget that it would have with others is used up.
    #[error("{0}")]
    Spent(Spent),
    /// There is no snapshot of that id.
    #[error("there is no snapshot {id}")]
    NoSnapshot {
        /// The id.
        id: SnapshotId,
    },
    /// There is no template, or no version of it, that is called so.
    #[error("there is no template {template}")]
    NoTemplate {
        /// What was asked for.
        template: TemplateRef,
    },
    /// A volume that it is to have cannot be had.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The pool that it is to be of gives nothing.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The engine shuts down.
    #[error("the server shuts down")]
    ShuttingDown,
    /// The system gave no random bytes for an id.
    #[error("could not get random bytes for an id")]
    Random(#[source] getrandom::Error),
    /// The backend could not make it; what was made of it is removed.
    #[error("could not make sandbox {id}")]
    Backend {
        /// The id that it would have had.
        id: SandboxId,
        /// What failed.
        source: Arc<BackendError>,
    },
    /// Its workspace cannot be made; what was made of the sandbox is removed.
    #[error("the workspace could not be made: {source}")]
    Workspace {
        /// What failed.
        source: Arc<InsideError>,
    },
    /// It could not be recorded; what was made of it is removed.
    #[error("could not record sandbox {id}")]
    Records {
        /// The id that it would have had.
        id: SandboxId,
        /// What failed.
        source: Arc<RecordsError>,
    },
    /// It was not made in time, and is given up.
    #[error("{what} took more than {} ms, so sandbox {id} was given up", time.as_millis())]
    TimedOut {
        /// The id that it would have had.
        id: SandboxId,
        /// What took too long, as in "its workspace".
        what: &'static str,
        /// The name of the limit, its unit last.
        limit: &'static str,
        /// The limit.
        time: Duration,
    },
    /// What it is to reach is not understood.
    #[error(transparent)]
    Network(NetworkError),
    /// Its network cannot be prepared.
    #[error("the network could not be prepared")]
    Prepare(#[source] PrepareError),
    /// The gateway does not serve it; what was made of it is removed.
    #[error("the network of sandbox {id} could not be opened")]
    Gateway {
        /// The id that it would have had.
        id: SandboxId,
        /// What failed.
        source: Arc<OpenError>,
    },
    /// It was deleted before it was made.
    #[error("the creation of sandbox {id} was cancelled")]
    Cancelled {
        /// The id that it would have had.
        id: SandboxId,
    },
}

/// Why something could not be done with a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// There is no such sandbox.
    #[error("no sandbox {id}")]
    NotFound {
        /// The id.
        id: SandboxId,
    },
    /// What it is to reach is not understood.
    #[error("{source}")]
    Network {
        /// The id.
        id: SandboxId,
        /// What is wrong.
        source: NetworkError,
    },
    /// A volume that it has cannot be had now, so it is not started.
    #[error("sandbox {id} cannot be started: {source}")]
    Volume {
        /// The id.
        id: SandboxId,
        /// Why.
        source: VolumeError,
    },
    /// Its network cannot be prepared.
    #[error("the network could not be prepared")]
    Prepare {
        /// The id.
        id: SandboxId,
        /// What failed.
        source: PrepareError,
    },
    /// The gateway does not take it; nothing is reached.
    #[error("the network of sandbox {id} could not be changed, and is closed")]
    Gateway {
        /// The id.
        id: SandboxId,
        /// What failed.
        source: Arc<OpenError>,
    },
    /// It makes no sense now.
    #[error("sandbox {id} is {state}: {} makes no sense", verb_word(*.verb))]
    WrongState {
        /// The sandbox.
        id: SandboxId,
        /// What was asked for.
        verb: Verb,
        /// The state that it is in.
        state: State,
    },
    /// It has to run for that.
    #[error("sandbox {id} is {state}, and has to run for this")]
    NotRunning {
        /// The sandbox.
        id: SandboxId,
        /// The state that it is in.
        state: State,
    },
    /// It has no such service.
    #[error("sandbox {id} has no service {name:?}")]
    NoService {
        /// The sandbox.
        id: SandboxId,
        /// What was asked for.
        name: String,
    },
    /// It was made without a network.
    #[error("sandbox {id} was made without a network, and cannot get one")]
    NoNetwork {
        /// The sandbox.
        id: SandboxId,
    },
    /// The tier cannot do it.
    #[error("the tier {tier} of sandbox {id} lacks {capability} on this host")]
    Unsupported {
        /// The sandbox.
        id: SandboxId,
        /// Its tier.
        tier: Tier,
        /// The flag of what it lacks.
        capability: &'static str,
    },
    /// A budget of it is used up.
    #[error("sandbox {id} does not start: {spent}")]
    Spent {
        /// The sandbox.
        id: SandboxId,
        /// Which, and what of it.
        spent: Spent,
    },
    /// It is to be archived after a while, and there is nowhere to.
    #[error(
        "lifecycle.archive_after_ms needs a place for archives, which is the server's --archive"
    )]
    NoArchives {
        /// The sandbox.
        id: SandboxId,
    },
    /// Too many requests wait for this sandbox.
    #[error("too many requests wait for sandbox {id}")]
    Busy {
        /// The sandbox.
        id: SandboxId,
    },
    /// The engine shuts down.
    #[error("the server shuts down")]
    ShuttingDown,
    /// The request asks for more than it may.
    #[error(transparent)]
    Cap(#[from] CapExceeded),
    /// It cannot be held like that.
    #[error("could not hold sandbox {id} awake")]
    Hold {
        /// The sandbox.
        id: SandboxId,
        /// Why.
        source: HoldError,
    },
    /// As many of its ports are exposed as may be.
    #[error("{EXPOSURES_COUNT_MAX} ports of sandbox {id} are exposed, which is the most")]
    TooManyExposures {
        /// The sandbox.
        id: SandboxId,
    },
    /// The system gave no random bytes.
    #[error("could not get random bytes for sandbox {id}")]
    Random {
        /// The sandbox.
        id: SandboxId,
        /// What it said.
        source: getrandom::Error,
    },
    /// The backend failed.
    #[error("could not {} sandbox {id}, which is {state} now", verb_word(*.verb))]
    Backend {
        /// The sandbox.
        id: SandboxId,
        /// What was asked for, or the part of it that failed.
        verb: Verb,
        /// The state that it is in now.
        state: State,
        /// What failed.
        source: BackendError,
    },
    /// It could not be recorded, so it was not done.
    #[error("could not record what is to be done with sandbox {id}")]
    Records {
        /// The sandbox.
        id: SandboxId,
        /// What failed.
        source: RecordsError,
    },
    /// Its files do not go into object storage, or do not come back.
    #[error("could not {} sandbox {id}, which is {state} now: {}", verb_word(*.verb), chain(&**source))]
    Archive {
        /// The sandbox.
        id: SandboxId,
        /// What was asked for.
        verb: Verb,
        /// The state that it is in now.
        state: State,
        /// Why.
        source: Box<ArchiveError>,
    },
    /// Whoever carried it out is gone.
    #[error("it is not known what became of the request to sandbox {id}")]
    Lost {
        /// The sandbox.
        id: SandboxId,
    },
}

pub(crate) fn verb_word(verb: Verb) -> &'static str {
    match verb {
        Verb::Pause => "pause",
        Verb::Resume => "resume",
        Verb::Stop => "stop",
        Verb::Kill => "kill",
        Verb::Archive => "archive",
        Verb::Delete => "delete",
    }
}

/// An error that says that nothing happened and may be asked again.
pub(crate) fn plain(code: ErrorCode, error: &dyn std::error::Error, next_step: &str) -> ApiError {
    ApiError {
        code,
        message: error.to_string(),
        took_effect: TookEffect::No,
        retry: Retry::Safe,
        next_step: next_step.to_owned(),
        details: ErrorDetails::default(),
    }
}

/// The same request would fail again.
pub(crate) fn hopeless(
    code: ErrorCode,
    error: &dyn std::error::Error,
    next_step: &str,
) -> ApiError {
    ApiError { retry: Retry::Unsafe, ..plain(code, error, next_step) }
}

/// What the caller is answered whose request is wrong.
pub fn invalid(error: &InvalidRequest) -> ApiError {
    let mut answer = hopeless(ErrorCode::Invalid, error, "correct the field and ask again");
    answer.details.field = Some(error.field().to_owned());
    answer
}

fn cap_exceeded(error: &CapExceeded) -> ApiError {
    let next_step = "ask for no more than the cap, or have the operator raise it";
    let mut answer = hopeless(ErrorCode::RefusedByPolicy, error, next_step);
    answer.details.field = Some(error.field.to_owned());
    answer.details.limit = Some(error.cap_name.to_owned());
    answer.details.limit_value = Some(error.cap);
    answer
}

/// There is more when it is renewed, or when somebody gives more.
fn spent(error: &dyn std::error::Error, spent: &Spent) -> ApiError {
    let (next_step, retry) = match (&spent.name, spent.renews_in) {
        (None, _) => ("give it a larger budget, then ask again", Retry::Unsafe),
        (Some(_), None) => ("have the operator raise the budget", Retry::Unsafe),
        (Some(_), Some(time)) => {
            let after_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            ("ask again when the budget is renewed", Retry::After { after_ms })
        }
    };
    let mut answer = ApiError { retry, ..hopeless(ErrorCode::Capacity, error, next_step) };
    answer.details.budget.clone_from(&spent.name);
    answer.details.limit = Some(format!("budget.{}", spent.overdrawn.what));
    answer.details.limit_value = Some(spent.overdrawn.most);
    answer
}

fn unsupported(error: &dyn std::error::Error, capability: &str) -> ApiError {
    let next_step = "ask for another tier, or without what this one lacks; `atoll doctor` says why";
    let mut answer = hopeless(ErrorCode::UnsupportedByTier, error, next_step);
    answer.details.capability = Some(capability.to_owned());
    answer
}

fn no_archives(error: &dyn std::error::Error) -> ApiError {
    let next_step = "leave it away, or have the operator serve with --archive URL";
    let mut answer = hopeless(ErrorCode::Invalid, error, next_step);
    answer.details.field = Some("lifecycle.archive_after_ms".to_owned());
    answer
}

fn shutting_down(error: &dyn std::error::Error) -> ApiError {
    plain(ErrorCode::NotReady, error, "ask again when the server is back")
}

/// The text of an error of the host goes to the log; a disk that is full is the
/// caller's business too.
pub(crate) fn of_backend(error: &dyn std::error::Error, source: &BackendError) -> ApiError {
    match source {
        BackendError::NotFound { .. } => {
            plain(ErrorCode::Lost, error, "the host has lost it: look at its state, or delete it")
        }
        BackendError::Image { .. } => {
            let mut answer = hopeless(ErrorCode::Invalid, error, "name another image");
            answer.message = source.to_string();
            answer.details.field = Some("image".to_owned());
            answer
        }
        BackendError::Images { source } => source.to_api(),
        BackendError::VolumePlace { .. } => {
            let next_step = "choose another path, where the image has a directory or nothing";
            let mut answer = hopeless(ErrorCode::Invalid, error, next_step);
            answer.message = source.to_string();
            answer.details.field = Some("volumes".to_owned());
            answer
        }
        BackendError::Folder { .. } => {
            let mut answer = hopeless(ErrorCode::Invalid, error, "choose another folder");
            answer.message = source.to_string();
            answer.details.field = Some("host_path".to_owned());
            answer
        }
        BackendError::NoVolume { .. } => {
            let mut answer = hopeless(ErrorCode::Lost, error, "restore the server's files");
            answer.message = source.to_string();
            answer
        }
        BackendError::OtherImage => {
            hopeless(ErrorCode::Conflict, error, "choose snapshots of one image")
        }
        BackendError::DiskFull { .. } => {
            let next_step = "delete sandboxes that are not needed, then ask again";
            let mut answer = plain(ErrorCode::Capacity, error, next_step);
            answer.details.limit = Some("disk_bytes".to_owned());
            answer
        }
        BackendError::OpenFiles { .. } => {
            let next_step = "ask again later, or have the operator raise the limit of open files";
            let mut answer = plain(ErrorCode::Capacity, error, next_step);
            answer.retry = Retry::After { after_ms: CAPACITY_RETRY_MS };
            answer.details.limit = Some("open_files".to_owned());
            answer
        }
        BackendError::Cancelled => plain(ErrorCode::Conflict, error, "ask again if it is wanted"),
        BackendError::Call { .. } => {
            plain(ErrorCode::Internal, error, "ask again; if it stays so, see the server's log")
        }
    }
}

/// What the caller is answered where the records failed, with the words of `error`.
pub fn of_records(error: &dyn std::error::Error, source: &RecordsError) -> ApiError {
    match source {
        RecordsError::Full { .. } => {
            let next_step = "make room on the server's disk or raise the limit, then ask again";
            let mut answer = plain(ErrorCode::Capacity, error, next_step);
            answer.details.limit = Some("records_bytes_max".to_owned());
            answer
        }
        RecordsError::NameTaken { .. } => {
            hopeless(ErrorCode::Conflict, error, "choose another name")
        }
        RecordsError::File { .. }
        | RecordsError::Thread { .. }
        | RecordsError::InUse { .. }
        | RecordsError::TooNew { .. }
        | RecordsError::Damaged { .. }
        | RecordsError::Sql { .. } => plain(ErrorCode::Internal, error, "see the server's log"),
    }
}

/// What came of it is removed with the sandbox.
fn of_workspace(source: &InsideError) -> ApiError {
    let mut answer = source.to_api();
    answer.took_effect = TookEffect::No;
    answer.details.sandbox_id = None;
    if matches!(answer.code, ErrorCode::Conflict | ErrorCode::NotFound) {
        // What is missing, or contradicts something, is in the request.
        answer.code = ErrorCode::Invalid;
    }
    let field = match answer.details.field.take() {
        Some(field) if field.starts_with("workspace") => field,
        Some(field) => format!("workspace.git.{field}"),
        None => "workspace".to_owned(),
    };
    answer.details.field = Some(field);
    answer
}

impl CreateError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        match self {
            Self::Invalid(error) => invalid(error),
            Self::Cap(error) => cap_exceeded(error),
            Self::Unsupported { capability, .. } => unsupported(self, capability),
            Self::NameTaken { holder, .. } => {
                let next_step = "use that sandbox, delete it, or choose another name";
                let mut answer = hopeless(ErrorCode::Conflict, self, next_step);
                answer.details.sandbox_id = Some(*holder);
                answer
            }
            Self::Capacity { sandboxes_max } => {
                let next_step = "delete a sandbox, or ask again later";
                let mut answer = plain(ErrorCode::Capacity, self, next_step);
                answer.retry = Retry::After { after_ms: CAPACITY_RETRY_MS };
                answer.details.limit = Some("sandboxes_max".to_owned());
                answer.details.limit_value = u64::try_from(*sandboxes_max).ok();
                answer
            }
            Self::Spent(which) => spent(self, which),
            Self::NoArchives => no_archives(self),
            Self::NoSnapshot { .. } => {
                let next_step = "list the snapshots that there are";
                let mut answer = hopeless(ErrorCode::Invalid, self, next_step);
                answer.details.field = Some("snapshot".to_owned());
                answer
            }
            Self::NoTemplate { .. } => {
                let next_step = "list the templates that there are, or build it";
                let mut answer = hopeless(ErrorCode::Invalid, self, next_step);
                answer.details.field = Some("template".to_owned());
                answer
            }
            Self::Volume(error) => {
                let mut answer = error.to_api();
                // What is not there is in the request.
                if answer.code == ErrorCode::NotFound {
                    answer.code = ErrorCode::Invalid;
                    answer.details.field = Some("volumes".to_owned());
                }
                answer
            }
            Self::Pool(error) => {
                let mut answer = error.to_api();
                // What is not there is in the request.
                if answer.code == ErrorCode::NotFound {
                    answer.code = ErrorCode::Invalid;
                    answer.details.field = Some("pool".to_owned());
                }
                answer
            }
            Self::ShuttingDown => shutting_down(self),
            Self::Random(_) => plain(ErrorCode::Internal, self, "see the server's log"),
            Self::Backend { source, .. } => of_backend(self, source),
            Self::Workspace { source } => of_workspace(source),
            Self::Records { source, .. } => of_records(self, source),
            Self::Network(error) => error.to_api(),
            Self::Prepare(_) | Self::Gateway { .. } => {
                plain(ErrorCode::Internal, self, "see the server's log")
            }
            Self::Cancelled { .. } => plain(ErrorCode::Conflict, self, "ask again if it is wanted"),
            Self::TimedOut { limit, time, .. } => {
                let next_step = "ask again; if it stays so, see the server's log";
                let mut answer = plain(ErrorCode::TimedOut, self, next_step);
                answer.details.limit = Some((*limit).to_owned());
                answer.details.limit_value = u64::try_from(time.as_millis()).ok();
                answer
            }
        }
    }
}

impl OperationError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        let mut answer = match self {
            Self::NotFound { .. } => {
                hopeless(ErrorCode::NotFound, self, "list the sandboxes that there are")
            }
            Self::WrongState { state, .. } => {
                let next_step = "look at its state, and bring it into another one first";
                let mut answer = hopeless(ErrorCode::WrongState, self, next_step);
                answer.details.state = Some(*state);
                answer
            }
            Self::NotRunning { state, .. } => {
                let next_step = "start or resume it, then ask again";
                let mut answer = hopeless(ErrorCode::WrongState, self, next_step);
                answer.details.state = Some(*state);
                answer
            }
            Self::Network { source, .. } => source.to_api(),
            Self::Volume { source, .. } => {
                ApiError { message: self.to_string(), ..source.to_api() }
            }
            Self::Prepare { .. } | Self::Gateway { .. } => {
                plain(ErrorCode::Internal, self, "see the server's log")
            }
            Self::NoService { .. } => {
                hopeless(ErrorCode::NotFound, self, "list the services that it has")
            }
            Self::Unsupported { capability, .. } => unsupported(self, capability),
            Self::NoNetwork { .. } => {
                let next_step = "make a sandbox with a network, by `atoll create --network FILE`, or \
                                 `network`; {} is one that reaches nothing until that is changed";
                let mut answer = hopeless(ErrorCode::UnsupportedByTier, self, next_step);
                answer.details.capability = Some("network".to_owned());
                answer
            }
            Self::Spent { spent: which, .. } => spent(self, which),
            Self::Busy { .. } => ApiError {
                retry: Retry::After { after_ms: BUSY_RETRY_MS },
                ..plain(ErrorCode::Capacity, self, "ask again a little later")
            },
            Self::ShuttingDown => shutting_down(self),
            Self::Cap(error) => cap_exceeded(error),
            Self::Hold { source, .. } => {
                let (code, limit, next_step) = match source {
                    HoldError::TooMany => (ErrorCode::Capacity, "holds_max", "end something first"),
                    HoldError::TooLong { .. } => {
                        (ErrorCode::RefusedByPolicy, "hold_max", "hold it for less, and again")
                    }
                };
                let mut answer = hopeless(code, self, next_step);
                answer.message = format!("{self}: {source}");
                answer.details.limit = Some(limit.to_owned());
                answer
            }
            Self::TooManyExposures { .. } => {
                let next_step = "take back the exposure of a port that is not needed";
                let mut answer = hopeless(ErrorCode::Capacity, self, next_step);
                answer.details.limit = Some("exposures_max".to_owned());
                answer.details.limit_value = u64::try_from(EXPOSURES_COUNT_MAX).ok();
                answer
            }
            Self::Random { .. } => plain(ErrorCode::Internal, self, "see the server's log"),
            Self::NoArchives { .. } => no_archives(self),
            Self::Archive { state, source, .. } => {
                let mut answer = ApiError { message: self.to_string(), ..source.to_api() };
                answer.details.state = Some(*state);
                answer
            }
            Self::Backend { state, source, .. } => {
                let mut answer = of_backend(self, source);
                // A stop or kill that failed has killed some of its processes.
                let is_as_before = matches!(state, State::Running | State::Paused | State::Stopped);
                answer.took_effect =
                    if is_as_before { TookEffect::No } else { TookEffect::Unknown };
                answer.details.state = Some(*state);
                answer
            }
            Self::Records { source, .. } => of_records(self, source),
            Self::Lost { .. } => ApiError {
                took_effect: TookEffect::Unknown,
                ..hopeless(ErrorCode::Lost, self, "look at its state before asking again")
            },
        };
        answer.details.sandbox_id = self.sandbox_id();
        answer
    }

    fn sandbox_id(&self) -> Option<SandboxId> {
        match self {
            Self::NotFound { id }
            | Self::WrongState { id, .. }
            | Self::NotRunning { id, .. }
            | Self::NoService { id, .. }
            | Self::NoArchives { id }
            | Self::Archive { id, .. }
            | Self::Unsupported { id, .. }
            | Self::NoNetwork { id }
            | Self::Network { id, .. }
            | Self::Volume { id, .. }
            | Self::Prepare { id, .. }
            | Self::Gateway { id, .. }
            | Self::Busy { id }
            | Self::Spent { id, .. }
            | Self::Hold { id, .. }
            | Self::TooManyExposures { id }
            | Self::Random { id, .. }
            | Self::Backend { id, .. }
            | Self::Records { id, .. }
            | Self::Lost { id } => Some(*id),
            Self::ShuttingDown | Self::Cap(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
