//! Sandboxes that outlive one command: what is asked for and what is answered.

mod create;
mod event;
mod health;
mod hold;
mod list;
mod timeline;
mod workspace;

pub use create::{
    CreateSandbox, ENV_BYTES_MAX, ENV_COUNT_MAX, Env, IMAGE_BYTES_MAX, InvalidRequest,
    LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_COUNT_MAX, Lifecycle, Limits, NUMBER_MAX,
};
pub(crate) use create::{malformed, not_longer, not_more, validate_labels, within};
pub use event::{Event, EventKind};
pub use health::{GuestHealth, SandboxHealth, SandboxHealthStatus, Use};
pub use hold::{Hold, HoldCause};
pub(crate) use list::page_count;
pub use list::{
    Cursor, CursorError, ListSandboxes, PAGE_COUNT_DEFAULT, PAGE_COUNT_MAX, SandboxPage,
};
pub use timeline::{Stage, Timeline};
pub use workspace::{
    CREATE_WITH_ARCHIVE, WORKSPACE_PATH_BYTES_MAX, WORKSPACE_PATH_DEFAULT, Workspace, WorkspaceGit,
};

use crate::budget::Budget;
use crate::exec::ExecPattern;
use crate::id::{ArchiveId, SandboxId, SnapshotId};
use crate::name::SandboxName;
use crate::octets::Octets;
use crate::pool::OfPool;
use crate::template::TemplateRef;
use crate::time::Timestamp;
use crate::volume::MountedVolume;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Where in its life a sandbox is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being made.
    Creating,
    /// Its processes run.
    Running,
    /// Its processes are being frozen.
    Pausing,
    /// Its processes are frozen and keep their memory.
    Paused,
    /// It is on its way back to running, from paused, stopped or archived.
    Resuming,
    /// Its processes have been asked to end.
    Stopping,
    /// It has no processes; its files are kept on this host.
    Stopped,
    /// It has no processes; its files are kept in object storage.
    Archived,
    /// It broke; `cause` says why, and all that can be done is to delete it.
    Failed,
    /// It is gone; what is left of it on the host is being removed.
    Deleted,
}

impl State {
    /// All of them, in the order in which a life goes.
    pub const ALL: [Self; 10] = [
        Self::Creating,
        Self::Running,
        Self::Pausing,
        Self::Paused,
        Self::Resuming,
        Self::Stopping,
        Self::Stopped,
        Self::Archived,
        Self::Failed,
        Self::Deleted,
    ];

    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Running => "running",
            Self::Pausing => "pausing",
            Self::Paused => "paused",
            Self::Resuming => "resuming",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Archived => "archived",
            Self::Failed => "failed",
            Self::Deleted => "deleted",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no such state; write creating, running, pausing, paused, resuming, stopping, \
     stopped, archived or failed"
)]
pub struct StateError;

impl FromStr for State {
    type Err = StateError;

    fn from_str(text: &str) -> Result<Self, StateError> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(StateError)
    }
}

/// How strongly a sandbox is isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// WebAssembly.
    Wasm,
    /// Namespaces, seccomp and Landlock over the shared kernel.
    Container,
    /// A kernel in user space.
    Gvisor,
    /// A virtual machine of its own.
    Microvm,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wasm => "wasm",
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::Microvm => "microvm",
        })
    }
}

/// A sandbox as the API shows it. Its environment is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Sandbox {
    /// Its id.
    pub id: SandboxId,
    /// Its name, if it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SandboxName>,
    /// Where in its life it is.
    pub state: State,
    /// Why it is in its state, if nobody asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What it was made of.
    pub image: String,
    /// The snapshot that it came from, or that was taken of it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<SnapshotId>,
    /// Where its files are, while it is archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_id: Option<ArchiveId>,
    /// The version of a template that it was made of, as in `web@2`; it may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateRef>,
    /// How strongly it is isolated.
    pub tier: Tier,
    /// Where the files are that it began with, if it was given any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Octets>,
    /// Commands that are run in it only when a person approves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exec_ask: Vec<ExecPattern>,
    /// Files inside with the values of secrets, which whatever runs there can read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_files: Vec<String>,
    /// Volumes that are shown in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<MountedVolume>,
    /// Labels that its maker gave it.
    pub labels: BTreeMap<String, String>,
    /// Limits in force.
    pub limits: Limits,
    /// Times in force, defaults included.
    pub lifecycle: Lifecycle,
    /// How much it may use in its whole life.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it came into its state.
    pub state_since: Timestamp,
    /// When it is deleted unless its lease is renewed; absent without a lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ends_at: Option<Timestamp>,
    /// What keeps it awake now.
    pub holds: Vec<Hold>,
    /// How its creation went.
    pub timeline: Timeline,
    /// The pool that it came of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<OfPool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_everywhere() {
        for state in State::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
            assert_eq!(state.as_str().parse(), Ok(state));
            assert!(state == State::Deleted || StateError.to_string().contains(state.as_str()));
        }
        for tier in [Tier::Wasm, Tier::Container, Tier::Gvisor, Tier::Microvm] {
            assert_eq!(serde_json::to_value(tier).unwrap(), tier.to_string());
        }
    }
}
