//! A pool, as it is remembered.

use atoll_api::name::SandboxName;
use atoll_api::pool::WhenExhausted;
use atoll_api::sandbox::CreateSandbox;
use atoll_api::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Everything about a pool that must survive the server. Its members do not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPool {
    /// Its name.
    pub name: SandboxName,
    /// When it was made.
    pub created_at: Timestamp,
    /// How many members are kept ready.
    pub size: u32,
    /// At least so long from one member's beginning to the next one's.
    pub refill_ms: u64,
    /// What a request gets when no member is ready.
    pub when_exhausted: WhenExhausted,
    /// What members are.
    pub sandbox: CreateSandbox,
}

impl KeptPool {
    /// A request with all that it does not say as this says it.
    pub(crate) fn fill(&self, request: &CreateSandbox) -> CreateSandbox {
        let of = &self.sandbox;
        CreateSandbox {
            image: of.image.clone(),
            image_pull: of.image_pull,
            snapshot: of.snapshot,
            template: of.template.clone(),
            pool: None,
            ..request.over(of)
        }
    }
}
