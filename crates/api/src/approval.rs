//! Approvals: what was asked for and a person decides.

use crate::id::{ApprovalId, SandboxId};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most approvals that are pending at once.
pub const APPROVALS_PENDING_MAX: usize = 1000;
/// Most of one sandbox.
pub const APPROVALS_PENDING_OF_SANDBOX_MAX: usize = 100;
/// Most grants that stand at once.
pub const GRANTS_COUNT_MAX: usize = 4000;
/// Longest that a grant holds, in seconds: ten years.
pub const GRANT_S_MAX: u64 = 315_360_000;
/// Longest reason, in characters.
pub const REASON_CHARS_MAX: usize = 500;
/// Most approvals of a page.
pub const APPROVALS_PAGE_COUNT: usize = 100;

/// Where an approval is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Nobody has decided yet.
    Pending,
    /// It may happen, as its scope says.
    Approved,
    /// It may not.
    Denied,
    /// Nobody decided in time, or who asked is gone.
    Expired,
}

impl ApprovalStatus {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for ApprovalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a status is pending, approved, denied or expired")]
pub struct ApprovalStatusError;

impl FromStr for ApprovalStatus {
    type Err = ApprovalStatusError;

    fn from_str(text: &str) -> Result<Self, ApprovalStatusError> {
        let all = [Self::Pending, Self::Approved, Self::Denied, Self::Expired];
        all.into_iter().find(|status| status.as_str() == text).ok_or(ApprovalStatusError)
    }
}

/// How far an approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// What was asked for may happen once.
    Once,
    /// The same may happen in this sandbox.
    Sandbox,
    /// The same may happen in every sandbox, also in later ones.
    Always,
}

impl GrantScope {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Sandbox => "sandbox",
            Self::Always => "always",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovalWhat {
    /// A connection or a request to somewhere.
    Network {
        /// Where to.
        host: String,
        /// To which port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// The method of a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// The path of a request, without its query.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A command. Values of secrets are replaced, as in `[secret GITHUB]`.
    Exec {
        /// Its words.
        argv: Vec<String>,
    },
    /// The changes of a review session are to be applied, exactly those that the digest is of.
    Apply(Box<Applying>),
}

/// Changes of a review session that somebody wants to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Applying {
    /// The review session.
    pub session: String,
    /// The directory of the project.
    pub project: String,
    /// What is to be applied, as `sha256:` and 64 digits: a decision holds for nothing else.
    pub digest: String,
    /// The paths that were chosen; none where all of the session is to be applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// How many files come.
    pub added: u64,
    /// How many change.
    pub modified: u64,
    /// How many go.
    pub deleted: u64,
    /// How many of them can make something run on the machine.
    pub risky: u64,
    /// The first of those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<RiskyChange>,
    /// Where it was said that somebody has to be asked.
    pub said_in: String,
}

/// A change that can make something run on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RiskyChange {
    /// Relative to the project.
    #[schema(max_length = 4096)]
    pub path: String,
    /// What becomes of it, as in `added`.
    #[schema(max_length = 500)]
    pub change: String,
    /// Why it is risky.
    #[schema(max_length = 500)]
    pub why: String,
}

/// Asks whether something may happen that is not a sandbox's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AskApproval {
    /// The changes of a review session are to be applied. No text holds control characters.
    Apply {
        /// The review session.
        #[schema(pattern = "^ses_[0-9a-f]{16}$")]
        session: String,
        /// The directory of the project.
        #[schema(max_length = 4096)]
        project: String,
        /// What is to be applied, as a hash of it.
        #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
        digest: String,
        /// The paths that were chosen, at most 100; none where all is to be applied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schema(max_items = 100)]
        paths: Vec<String>,
        /// How many files come.
        #[schema(maximum = 9007199254740991u64)]
        added: u64,
        /// How many change.
        #[schema(maximum = 9007199254740991u64)]
        modified: u64,
        /// How many go.
        #[schema(maximum = 9007199254740991u64)]
        deleted: u64,
        /// How many of them can make something run on the machine.
        #[schema(maximum = 9007199254740991u64)]
        risky: u64,
        /// The first 100 of those.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schema(max_items = 100)]
        risks: Vec<RiskyChange>,
        /// Where it was said that somebody has to be asked, as in `/home/ada/atoll.toml:3`.
        #[schema(max_length = 4096)]
        said_in: String,
    },
}

/// Most items of a list in [`AskApproval`].
pub const ASK_ITEMS_MAX: usize = 100;
/// Longest path in it, in characters.
pub const ASK_PATH_CHARS_MAX: usize = 4096;

/// How an approval was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Decided {
    /// When.
    pub at: Timestamp,
    /// Who: `uid:1000` on the unix socket, or the id of a key.
    pub by: String,
    /// How far it reaches, if it was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<GrantScope>,
    /// Until when the decision holds; none where it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It was for once, and has been used.
    #[serde(default)]
    pub is_used: bool,
}

/// Something that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// Which sandbox asked; none where somebody else did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// Who asked, if that was no sandbox: `uid:1000` on the unix socket, or the id of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
    /// For what.
    pub what: ApprovalWhat,
    /// The rule that says `ask`, as it is written in the policy.
    pub rule: String,
    /// What of that rule it is about, as in `github.com:443`: a decision holds for the same rule
    /// and name.
    pub name: String,
    /// Where it is.
    pub status: ApprovalStatus,
    /// How often it was asked for while nobody had decided.
    pub count: u64,
    /// When it was first asked for.
    pub asked_at: Timestamp,
    /// When it was last asked for.
    pub last_asked_at: Timestamp,
    /// Until when it waits for a decision.
    pub pending_until: Timestamp,
    /// How it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
}

/// Approvals, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalPage {
    /// The approvals.
    pub approvals: Vec<Approval>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Approves what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Approve {
    /// How far it reaches.
    pub scope: GrantScope,
    /// For how many seconds it holds. Where nothing is said: ten minutes for `once`, for as long as
    /// it is there for `sandbox`, thirty days for `always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315360000)]
    pub expires_in_s: Option<u64>,
}

/// Denies what was asked for, or takes back that it was approved. That holds for ten minutes for
/// the same in that sandbox; then it may be asked for again. Requests to where a sandbox was let
/// before may still go there for half a minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Deny {
    /// Why, for the agent to read; without control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 500, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_has_to_know_the_fields() {
        let ask = |more: &str| {
            let text = format!(
                r#"{{"kind": "apply", "session": "s", "project": "/p", "digest": "d", "added": 1,
                "modified": 0, "deleted": 0, "risky": 0, "said_in": "x"{more}}}"#
            );
            serde_json::from_str::<AskApproval>(&text)
        };
        assert!(ask("").is_ok());
        assert!(ask(r#", "forced": true"#).is_err());
        assert!(
            ask(r#", "risks": [{"path": "a", "change": "added", "why": "b", "x": 1}]"#).is_err()
        );
    }

    #[test]
    fn words_are_the_same_everywhere() {
        for status in ["pending", "approved", "denied", "expired"] {
            let read: ApprovalStatus = status.parse().unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), status);
        }
        assert!("Pending".parse::<ApprovalStatus>().is_err());
        for scope in [GrantScope::Once, GrantScope::Sandbox, GrantScope::Always] {
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
    }
}
