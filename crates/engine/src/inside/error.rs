//! Why something could not be done inside, and what the caller is answered.

use super::gate::Refused;
use super::translate::code;
use crate::approvals::AskError;
use crate::error::{OperationError, hopeless, invalid, plain};
use crate::guest::{GuestError, Known};
use atoll_api::error::{ApiError, ErrorCode, Retry, TookEffect};
use atoll_api::id::{ApprovalId, ExecId, SandboxId};
use atoll_api::sandbox::{InvalidRequest, State};
use atoll_protocol::problem::{Code, Problem};

/// When to ask again where a limit of a sandbox is used up, in milliseconds.
const BUSY_RETRY_MS: u64 = 100;

/// When to ask again where a person has to decide, in milliseconds.
const APPROVAL_RETRY_MS: u64 = 5000;

/// Why something could not be done inside a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    /// The request itself is wrong.
    #[error("{field} {reason}")]
    Invalid {
        /// Where.
        field: &'static str,
        /// What is wrong, as in "is empty".
        reason: String,
    },
    /// The sandbox is not there, or cannot be used.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The request itself is wrong, as the API has it.
    #[error(transparent)]
    Request(#[from] InvalidRequest),
    /// The system gave no random bytes for an id.
    #[error("could not get random bytes for an id")]
    Random(#[source] getrandom::Error),
    /// The guest did not do it.
    #[error("sandbox {id}: {source}")]
    Guest {
        /// The sandbox.
        id: SandboxId,
        /// Why.
        source: GuestError,
    },
    /// The guest started no exec, or it is not known whether it did.
    #[error("exec {exec} of sandbox {id}: {source}")]
    Start {
        /// The sandbox.
        id: SandboxId,
        /// The exec that was to be started.
        exec: ExecId,
        /// Why.
        source: GuestError,
    },
    /// The guest did not do what was to be done with an exec.
    #[error("exec {exec} of sandbox {id}: {source}")]
    Exec {
        /// The sandbox.
        id: SandboxId,
        /// The exec.
        exec: ExecId,
        /// Why.
        source: GuestError,
    },
    /// The sandbox ended while an exec was followed.
    #[error(
        "sandbox {id} is {state}, so what became of exec {exec} is not known{}",
        said(.cause)
    )]
    Ended {
        /// The sandbox.
        id: SandboxId,
        /// The exec.
        exec: ExecId,
        /// The state that the sandbox is in.
        state: State,
        /// Why it is in that state, if nobody asked for it.
        cause: Option<String>,
    },
    /// What was waited for is not there.
    #[error("{what}")]
    NotYet {
        /// What is not there.
        what: String,
        /// It will not be, either.
        is_over: bool,
    },
    /// A person has to approve the command, and has not.
    #[error("{}", not_approved(.pattern, .refused))]
    NotApproved {
        /// The sandbox.
        id: SandboxId,
        /// What is asked for.
        approval: ApprovalId,
        /// The pattern that the command falls under.
        pattern: String,
        /// How that stands.
        refused: Refused,
    },
    /// A person would have to approve the command, and cannot be asked.
    #[error("the command has to be approved: {source}")]
    Ask {
        /// The sandbox.
        id: SandboxId,
        /// Why not.
        source: AskError,
    },
    /// Git did not do it.
    #[error("{message}")]
    Git {
        /// What kind of failure it is.
        code: ErrorCode,
        /// Git's own words, or ours.
        message: String,
        /// What to do now.
        next_step: &'static str,
    },
}

fn said(cause: &Option<String>) -> String {
    cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default()
}

fn not_approved(pattern: &str, refused: &Refused) -> String {
    match refused {
        Refused::Pending => format!("a command like `{pattern}` waits for a person's approval"),
        Refused::Denied(None) => format!("a command like `{pattern}` was denied by a person"),
        Refused::Denied(Some(reason)) => {
            format!("a command like `{pattern}` was denied by a person: {reason}")
        }
        Refused::Expired => {
            format!("nobody decided in time about a command like `{pattern}`")
        }
    }
}

impl InsideError {
    /// What the caller is answered.
    pub fn to_api(&self) -> ApiError {
        match self {
            Self::Invalid { field, .. } => {
                let next_step = "correct the field and ask again";
                let mut answer = hopeless(ErrorCode::Invalid, self, next_step);
                answer.details.field = Some((*field).to_owned());
                answer
            }
            Self::Operation(error) => error.to_api(),
            Self::Guest { id, source } => {
                let mut answer = of_guest(source);
                answer.details.sandbox_id = Some(*id);
                answer
            }
            Self::NotApproved { id, approval, refused, .. } => {
                let (next_step, retry) = match refused {
                    Refused::Pending => {
                        let step = format!(
                            "have the user run `atoll approvals approve {approval}`, then run it again"
                        );
                        (step, Retry::After { after_ms: APPROVAL_RETRY_MS })
                    }
                    Refused::Denied(_) => ("do it in another way".to_owned(), Retry::Unsafe),
                    Refused::Expired => {
                        ("run it again when somebody is there to decide".to_owned(), Retry::Safe)
                    }
                };
                let mut answer = hopeless(ErrorCode::RefusedByPolicy, self, &next_step);
                answer.retry = retry;
                answer.details.sandbox_id = Some(*id);
                answer.details.approval_id = Some(*approval);
                answer.details.reason = Some(refused.code().to_owned());
                answer
            }
            Self::Ask { id, source } => {
                let mut answer = match source {
                    AskError::Refused(_) => {
                        let next_step =
                            "have the user decide what is pending: `atoll approvals list`";
                        let mut answer = plain(ErrorCode::Capacity, self, next_step);
                        answer.details.limit = Some("approvals_pending_max".to_owned());
                        answer
                    }
                    AskError::ShuttingDown => {
                        plain(ErrorCode::NotReady, self, "ask again when the server is back")
                    }
                    AskError::Records(_) | AskError::Random(_) => {
                        plain(ErrorCode::Internal, self, "see the server's log")
                    }
                };
                answer.details.sandbox_id = Some(*id);
                answer
            }
            Self::Request(error) => invalid(error),
            Self::Random(_) => plain(ErrorCode::Internal, self, "see the server's log"),
            Self::Start { id, exec, source } => {
                let mut answer = of_guest(source);
                if let GuestError::Refused(problem) = source {
                    of_start(problem, &mut answer);
                }
                about(answer, *id, *exec)
            }
            Self::Exec { id, exec, source } => {
                let mut answer = of_guest(source);
                if answer.code == ErrorCode::NotFound {
                    answer.details.reason = Some("exec_not_found".to_owned());
                }
                about(answer, *id, *exec)
            }
            Self::Ended { id, exec, state, .. } => {
                let next_step = match state {
                    State::Deleted => "make another sandbox, and run it there",
                    _ => "look at its files for what the exec did, start the sandbox, run it again",
                };
                let mut answer = ApiError {
                    took_effect: TookEffect::Unknown,
                    ..hopeless(ErrorCode::Lost, self, next_step)
                };
                answer.details.state = Some(*state);
                about(answer, *id, *exec)
            }
            Self::NotYet { is_over: false, .. } => {
                let next_step = "look whether what should do it still runs, and what it printed; \
                                 or ask again, and wait longer";
                plain(ErrorCode::TimedOut, self, next_step)
            }
            Self::NotYet { is_over: true, .. } => {
                hopeless(ErrorCode::WrongState, self, "look at what it printed, and how it ended")
            }
            Self::Git { code, next_step, .. } => {
                let took_effect = match code {
                    ErrorCode::Conflict | ErrorCode::TimedOut => TookEffect::Unknown,
                    _ => TookEffect::No,
                };
                ApiError { took_effect, ..hopeless(*code, self, next_step) }
            }
        }
    }
}

fn about(mut answer: ApiError, id: SandboxId, exec: ExecId) -> ApiError {
    answer.details.sandbox_id = Some(id);
    answer.details.exec_id = Some(exec);
    answer
}

/// What it is that could not be run.
fn of_start(problem: &Problem, answer: &mut ApiError) {
    let (reason, next_step) = match problem.code {
        Code::NotFound => {
            let next_step = "name a program that is there, or install it first";
            ("program_not_found", next_step)
        }
        Code::NotExecutable => {
            ("program_not_executable", "make the file executable, or run it by its interpreter")
        }
        Code::Invalid if problem.errno.is_some() => {
            ("directory_not_usable", "name a directory that is there and may be entered")
        }
        _ => return,
    };
    answer.details.reason = Some(reason.to_owned());
    next_step.clone_into(&mut answer.next_step);
}

/// What the caller is answered where a guest failed.
fn of_guest(error: &GuestError) -> ApiError {
    match error {
        GuestError::NotThere { .. } => ApiError {
            message: "the sandbox has just ended".to_owned(),
            ..plain(ErrorCode::NotReady, error, "look at its state, start it, then ask again")
        },
        GuestError::Connect { .. } => ApiError {
            message: "could not connect to the sandbox".to_owned(),
            ..plain(ErrorCode::Internal, error, "ask again; if it stays so, see the server's log")
        },
        GuestError::Busy { connections_max } => {
            let next_step = "end a stream of this sandbox, or ask again a little later";
            let mut answer = plain(ErrorCode::Capacity, error, next_step);
            answer.retry = Retry::After { after_ms: BUSY_RETRY_MS };
            answer.details.limit = Some("sandbox_connections_max".to_owned());
            answer.details.limit_value = u64::try_from(*connections_max).ok();
            answer
        }
        GuestError::TooLong(_) => {
            hopeless(ErrorCode::TooLarge, error, "ask for less at once, or write it to a file")
        }
        // Which versions it speaks is the guest's word, and so no fault of the server.
        GuestError::Version(_) => hopeless(
            ErrorCode::WrongState,
            error,
            "stop and start the sandbox, which renews its guest",
        ),
        GuestError::Lost { known, .. } | GuestError::TimedOut { known, .. } => lost(error, *known),
        GuestError::Malformed { .. } => lost(error, Known::Answered),
        GuestError::Refused(problem) => of_problem(problem),
        GuestError::Source(_) => ApiError {
            took_effect: TookEffect::Unknown,
            ..hopeless(ErrorCode::Invalid, error, "send the content again, all of it")
        },
    }
}

fn lost(error: &GuestError, known: Known) -> ApiError {
    let next_step = match known {
        Known::NotAsked => "ask again",
        Known::Asked | Known::Answered => {
            "look at what became of it before asking again: the exec's status, or the file"
        }
    };
    let answer = plain(ErrorCode::Lost, error, next_step);
    match known {
        Known::NotAsked => answer,
        Known::Asked | Known::Answered => {
            ApiError { took_effect: TookEffect::Unknown, retry: Retry::Unsafe, ..answer }
        }
    }
}

/// The guest's words are said to be the guest's by the field they come in: it may say anything.
fn of_problem(problem: &Problem) -> ApiError {
    let next_step = match problem.code {
        Code::Invalid => "correct the request",
        Code::NotFound => "look at what is there",
        Code::Conflict => "look at what is there, and decide again",
        Code::Denied => "use what the sandbox's user may use",
        Code::NotExecutable => "run a program that this system can run",
        Code::Limit => "end or forget something in the sandbox first",
        Code::NoSpace => "remove files in the sandbox, then ask again",
        Code::TimedOut => "ask again, and wait longer",
        Code::Unsupported => "do it in another way",
        Code::Failed => "look at the message",
    };
    let code = code(problem.code);
    let mut answer = match code {
        ErrorCode::NotReady | ErrorCode::TimedOut | ErrorCode::Capacity => {
            plain(code, problem, next_step)
        }
        _ => hopeless(code, problem, next_step),
    };
    answer.details.errno = problem.errno;
    if problem.code == Code::NoSpace {
        answer.details.limit = Some("disk_bytes".to_owned());
    }
    if problem.code == Code::Failed {
        answer.took_effect = TookEffect::Unknown;
    }
    answer
}
