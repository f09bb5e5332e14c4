//! What a sandbox was refused on its way out, and what to do about it.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Denials that are kept of each sandbox; older ones make room.
pub const DENIALS_KEPT: usize = 1000;
/// Most denials of one page.
pub const DENIALS_PAGE_COUNT: usize = 100;
/// Most denials that come with the result of an exec: the last ones.
pub const DENIALS_OF_EXEC_MAX: usize = 50;

/// Where on its way something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DenialProtocol {
    /// As a name was looked up.
    Dns,
    /// As a connection was made.
    Tcp,
    /// As its TLS began.
    Tls,
    /// As a request was made.
    Http,
}

/// Something that a sandbox was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Denial {
    /// Its number among those of its sandbox, since the server started.
    pub seq: u64,
    /// When it was last refused.
    pub at: Timestamp,
    /// Why, as in `not-allowed` or `approval-pending`.
    pub code: String,
    /// Where it wanted to go.
    pub host: String,
    /// To which port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where on its way it was refused.
    pub protocol: DenialProtocol,
    /// The method of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path of a request, without its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Whose rule it is, as in `user` or `project`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// What happened, in one sentence.
    pub message: String,
    /// What would help, in words that an agent can act on.
    pub next_step: String,
    /// How often, since it was told before.
    pub count: u64,
}

/// Denials of a sandbox, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DenialPage {
    /// The denials.
    pub denials: Vec<Denial>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// How many between the cursor and the first of these are not kept any more.
    pub missed: u64,
}
