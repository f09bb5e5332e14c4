//! How a sandbox is that runs.

use serde::{Deserialize, Serialize};

/// How a sandbox is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxHealthStatus {
    /// All is well.
    Ok,
    /// It works, but something of it is nearly used up.
    Degraded,
    /// Its guest gives no answer.
    Silent,
}

/// How a sandbox is that runs, as it is seen from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SandboxHealth {
    /// How it is.
    pub status: SandboxHealthStatus,
    /// Why it is not well; empty if it is.
    pub reasons: Vec<String>,
    /// How long its guest took to answer, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_us: Option<u64>,
    /// What its guest says; absent if that gave no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestHealth>,
}

/// How a guest is, as it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct GuestHealth {
    /// How long it has been there, in milliseconds. Time in which the sandbox is paused
    /// does not count.
    pub age_ms: u64,
    /// Execs that run.
    pub running_execs: u32,
    /// Processes in the sandbox.
    pub processes: u32,
    /// Descriptors that it holds.
    pub descriptors: Use,
    /// Bytes that it keeps of what execs printed.
    pub kept_bytes: Use,
}

/// How much of something is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Use {
    /// Now.
    pub used: u64,
    /// At most.
    pub limit: u64,
}
