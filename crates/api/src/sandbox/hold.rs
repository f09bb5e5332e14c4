//! What keeps a sandbox from being idle.

use crate::id::ExecId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// One reason why a sandbox counts as at work. Each ends by itself at `until`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Hold {
    /// What it is held by.
    pub cause: HoldCause,
    /// Since when.
    pub since: Timestamp,
    /// When the hold stops to count, whatever its cause does.
    pub until: Timestamp,
}

/// What a sandbox can be held by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HoldCause {
    /// A command that runs.
    Exec {
        /// Which.
        exec_id: ExecId,
    },
    /// A client that is attached to a stream or a terminal.
    Stream {
        /// To what, as in `terminal`.
        name: String,
    },
    /// A declared service.
    Service {
        /// Its name.
        name: String,
    },
    /// Its processes use the processor.
    Cpu,
}
