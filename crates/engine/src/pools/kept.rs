//! A pool, as it is remembered.

use atoll_api::name::SandboxName;
use atoll_api::pool::WhenExhausted;
use atoll_api::sandbox::{CreateSandbox, Lifecycle, Limits};
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
    /// What members are made of, in words.
    pub of: String,
    /// What members are.
    pub sandbox: CreateSandbox,
}

impl KeptPool {
    /// A request with all that it does not say as this says it.
    pub(crate) fn fill(&self, request: &CreateSandbox) -> CreateSandbox {
        let of = &self.sandbox;
        let mut env = of.env.clone();
        env.0.extend(request.env.0.clone());
        let mut labels = of.labels.clone();
        labels.extend(request.labels.clone());
        let (asked, had) = (request.limits, of.limits);
        let limits = Limits {
            memory_bytes: asked.memory_bytes.or(had.memory_bytes),
            cpus_milli: asked.cpus_milli.or(had.cpus_milli),
            pids: asked.pids.or(had.pids),
            disk_bytes: asked.disk_bytes.or(had.disk_bytes),
        };
        let (asked, had) = (request.lifecycle, of.lifecycle);
        let lifecycle = Lifecycle {
            lease_ms: asked.lease_ms.or(had.lease_ms),
            idle_stop_ms: asked.idle_stop_ms.or(had.idle_stop_ms),
            archive_after_ms: asked.archive_after_ms.or(had.archive_after_ms),
            delete_after_ms: asked.delete_after_ms.or(had.delete_after_ms),
            max_lifetime_ms: asked.max_lifetime_ms.or(had.max_lifetime_ms),
        };
        let services = if request.services.is_empty() { &of.services } else { &request.services };
        // What a person is to be asked about is not taken away.
        let mut exec_ask = request.exec_ask.clone();
        let asks = of.exec_ask.iter().filter(|pattern| !request.exec_ask.contains(pattern));
        exec_ask.extend(asks.cloned());
        CreateSandbox {
            name: request.name.clone(),
            image: of.image.clone(),
            image_pull: of.image_pull,
            snapshot: of.snapshot,
            template: of.template.clone(),
            env,
            limits,
            labels,
            lifecycle,
            budget: request.budget.or(of.budget),
            workspace: request.workspace.clone(),
            services: services.clone(),
            exec_ask,
            network: request.network.clone().or_else(|| of.network.clone()),
            volumes: request.volumes.clone(),
            pool: None,
        }
    }
}
