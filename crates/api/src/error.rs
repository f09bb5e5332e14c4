//! The one form of every error that the API answers with.
//!
//! `code` and the optional facts in `details` are the contract; `message` and
//! `next_step` are for people and agents to read, and their words may change.

use crate::id::{ApprovalId, ExecId, SandboxId};
use crate::key::Scope;
use crate::sandbox::State;
use serde::{Deserialize, Serialize};

/// Kinds of error; one exists where a caller has something else to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// There is nothing of that id or name.
    NotFound,
    /// It is there, but in a state in which this cannot be done.
    WrongState,
    /// A limit of the host or of the account is used up; `details.limit` says which.
    Capacity,
    /// It will be there, but is not yet.
    NotReady,
    /// It did not come to be in the time that the request gives it.
    TimedOut,
    /// A policy forbids it.
    RefusedByPolicy,
    /// The sandbox's tier cannot do it; `details.capability` says what it lacks.
    UnsupportedByTier,
    /// The outcome is unknown, because whoever knew it is gone.
    Lost,
    /// The request itself is wrong; `details.field` says where.
    Invalid,
    /// The request is larger than is taken; `details.limit` says which limit it breaks.
    TooLarge,
    /// There is something at that path, but not for this method.
    MethodNotAllowed,
    /// Nobody is known by the key that came with the request, or none came.
    Unauthenticated,
    /// The caller is known and may not; `details.scope` says what would be needed.
    Forbidden,
    /// It contradicts something that is there, such as a name that is taken.
    Conflict,
    /// Nothing answers at the port, or what answers does not speak HTTP;
    /// `details.listening` says which ports could be meant. Or a registry does not answer.
    Unreachable,
    /// A fault of ours or of the host; the server's log has its cause.
    Internal,
}

impl ErrorCode {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::WrongState => "wrong_state",
            Self::Capacity => "capacity",
            Self::NotReady => "not_ready",
            Self::TimedOut => "timed_out",
            Self::RefusedByPolicy => "refused_by_policy",
            Self::UnsupportedByTier => "unsupported_by_tier",
            Self::Lost => "lost",
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Conflict => "conflict",
            Self::Unreachable => "unreachable",
            Self::Internal => "internal",
        }
    }
}

/// Whether a request that failed changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TookEffect {
    /// What was asked for did happen, or will without another request.
    Yes,
    /// Everything is as it was before.
    No,
    /// Nobody knows; look before asking again.
    Unknown,
}

/// Whether to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Retry {
    /// The same request may be sent again; it cannot happen twice.
    Safe,
    /// The same request could happen twice, or would fail again.
    Unsafe,
    /// The same request may be sent again, but not earlier.
    After {
        /// How long to wait, in milliseconds.
        after_ms: u64,
    },
}

/// Facts beside the message, each where it applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorDetails {
    /// The sandbox that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// The state that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The field of the request, as in `lifecycle.lease_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The name of the limit or cap that was met, its unit last, as in `sandboxes_max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The most that the limit allows, in its own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_value: Option<u64>,
    /// The budget that is used up, if the sandbox has it together with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Bytes that are needed at least, where there is no room for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_bytes: Option<u64>,
    /// Bytes that may still be taken there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// The capability flag that the tier lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// The scope that the key lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The ports on which something listens, where the one that was wanted is not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listening: Option<Vec<u16>>,
    /// The exec that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<ExecId>,
    /// The approval that it waits for, or that was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// What of several things that `code` can mean: `program_not_found` and
    /// `program_not_executable` of a command, `directory_not_usable` of where it starts,
    /// `exec_not_found`; `approval-pending`, `approval-denied` and `approval-expired`; and of an
    /// image `image-not-found`, `image-not-here`, `image-in-use`, `image-damaged`, `image-refused`,
    /// `image-not-understood`, `registry-unreachable`, `registry-unauthorised`, `registry-limited` and
    /// `registry-answer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The error number of the sandbox's system, where it was that which refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// Where the bytes begin that are there, where those that were asked for are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// What a request that failed is answered with.
#[derive(
    Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, thiserror::Error,
)]
#[error("{message}")]
pub struct ApiError {
    /// What kind of error it is.
    pub code: ErrorCode,
    /// What went wrong, in one sentence without a period.
    pub message: String,
    /// Whether anything changed.
    pub took_effect: TookEffect,
    /// Whether to ask again.
    pub retry: Retry,
    /// What to do now, in words that an agent can act on.
    pub next_step: String,
    /// Facts for programs.
    #[serde(default)]
    pub details: ErrorDetails,
}

/// The body of every answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ApiError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_on_the_wire() {
        let error = ApiError {
            code: ErrorCode::Capacity,
            message: "all 60 sandboxes of this host are in use".to_owned(),
            took_effect: TookEffect::No,
            retry: Retry::After { after_ms: 1000 },
            next_step: "delete a sandbox, or ask again later".to_owned(),
            details: ErrorDetails {
                limit: Some("sandboxes_max".to_owned()),
                limit_value: Some(60),
                ..ErrorDetails::default()
            },
        };
        insta::assert_json_snapshot!(error, @r#"
        {
          "code": "capacity",
          "message": "all 60 sandboxes of this host are in use",
          "took_effect": "no",
          "retry": {
            "kind": "after",
            "after_ms": 1000
          },
          "next_step": "delete a sandbox, or ask again later",
          "details": {
            "limit": "sandboxes_max",
            "limit_value": 60
          }
        }
        "#);
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<ApiError>(&text).unwrap(), error);
    }

    #[test]
    fn a_client_ignores_what_it_does_not_know() {
        let newer = r#"{"code":"lost","message":"m","took_effect":"unknown","retry":{"kind":"unsafe"},
            "next_step":"n","details":{"zone":"b"},"request_id":"r"}"#;
        assert_eq!(serde_json::from_str::<ApiError>(newer).unwrap().code, ErrorCode::Lost);
    }

    #[test]
    fn codes_are_the_same_word_everywhere() {
        use ErrorCode::*;
        for code in [
            NotFound,
            WrongState,
            Capacity,
            NotReady,
            TimedOut,
            RefusedByPolicy,
            UnsupportedByTier,
            Lost,
            Invalid,
            TooLarge,
            MethodNotAllowed,
            Unauthenticated,
            Forbidden,
            Conflict,
            Unreachable,
            Internal,
        ] {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
