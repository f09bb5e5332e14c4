//! What a server says of itself.

use crate::sandbox::{Lifecycle, Limits, Tier};
use serde::{Deserialize, Serialize};

/// What can be asked of a server: its tier, what that can do, and the most that requests may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Capabilities {
    /// How strongly sandboxes are isolated.
    pub tier: Tier,
    /// What can be done on this host; what cannot is refused by the flag's name.
    pub flags: CapabilityFlags,
    /// Why flags are `false`, as far as there is more to say.
    #[serde(default)]
    pub missing: Vec<MissingCapability>,
    /// Most sandboxes at once, in every state.
    pub sandboxes_max: u64,
    /// The most that `limits` may ask for; absent where there is no cap.
    pub limits_max: Limits,
    /// The most that `lifecycle` may ask for; absent where there is no cap.
    pub lifecycle_max: Lifecycle,
}

/// What the tier can do on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag with a name of its own")]
pub struct CapabilityFlags {
    /// Processes can be frozen and thawed.
    pub pause: bool,
    /// A limit of memory is enforced.
    pub limit_memory: bool,
    /// A limit of processors is enforced.
    pub limit_cpus: bool,
    /// A limit of processes is enforced.
    pub limit_pids: bool,
    /// Processor time is counted, so that a budget of it is enforced.
    pub measure_cpu: bool,
    /// A limit of disk space is enforced.
    pub limit_disk: bool,
    /// Commands can run as root inside: `user` is `root`.
    pub user_root: bool,
    /// The root file system of an image can be written, and what was written is kept while the
    /// sandbox is stopped. That of the image `host` is always read-only.
    pub writable_root: bool,
    /// Snapshots can be taken; of one that runs, if it can be paused too.
    #[serde(default)]
    pub snapshot: bool,
    /// Volumes can be shown in sandboxes.
    #[serde(default)]
    pub volumes: bool,
}

/// A flag that this host lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MissingCapability {
    /// The name of the flag.
    pub flag: String,
    /// Why it is missing, and what would change that.
    pub reason: String,
}

/// How a server is. It is `ok` if every check is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Health {
    /// The worst of the checks.
    pub status: HealthStatus,
    /// What was looked at.
    pub checks: Vec<HealthCheck>,
}

/// How something is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Nothing is wrong.
    Ok,
    /// It works, and soon may not.
    Degraded,
    /// Requests fail.
    Failing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HealthCheck {
    /// What: `descriptors`, `records`, `disk` or `shutdown`.
    pub name: String,
    /// How it is.
    pub status: HealthStatus,
    /// What is wrong; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
