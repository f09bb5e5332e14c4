//! One snapshot, as it is remembered.

use crate::backend::Taken;
use crate::records::Record;
use atoll_api::budget::Budget;
use atoll_api::exec::ExecPattern;
use atoll_api::id::{BuildId, LayerId, SandboxId, SnapshotId};
use atoll_api::name::SandboxName;
use atoll_api::network::NetworkPolicy;
use atoll_api::octets::Octets;
use atoll_api::sandbox::{CreateSandbox, Env, Limits, Tier};
use atoll_api::service::Service;
use atoll_api::snapshot::{CreateSnapshot, Snapshot, SnapshotWay};
use atoll_api::template::TemplateRef;
use atoll_api::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Everything about a snapshot, and what is needed to make a sandbox of it that is like the one
/// that it was taken of. Secrets are not in here, but environments are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its id.
    pub id: SnapshotId,
    /// Where its files are.
    pub layer: LayerId,
    /// How it went; none while it is being taken.
    #[serde(default)]
    pub taken: Option<How>,
    /// The sandbox that it is of.
    pub sandbox: SandboxId,
    /// That one's name at the time.
    #[serde(default)]
    pub sandbox_name: Option<SandboxName>,
    /// The snapshot that the sandbox had come from, or that had been taken of it last.
    #[serde(default)]
    pub parent: Option<SnapshotId>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it is deleted.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// What the sandbox was made of.
    pub image: String,
    /// The version of a template that the sandbox was made of.
    #[serde(default)]
    pub template: Option<TemplateRef>,
    /// Where its commands began, if its image was not to say that.
    #[serde(default)]
    pub directory: Option<String>,
    /// It was taken by this build of a template, to which it belongs: it is neither shown nor
    /// deleted as others are.
    #[serde(default)]
    pub build: Option<BuildId>,
    /// Its tier.
    pub tier: Tier,
    /// Its environment.
    pub env: Env,
    /// Its limits.
    pub limits: Limits,
    /// How much it could use; who begins with this has as much anew.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// What ran in it.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Where its files had been put.
    #[serde(default)]
    pub workspace: Option<Octets>,
    /// Commands that a person was asked about.
    #[serde(default)]
    pub exec_ask: Vec<ExecPattern>,
    /// What it was allowed to reach, without secrets.
    #[serde(default)]
    pub network: Option<NetworkPolicy>,
}

/// How a snapshot was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    /// How its files came to be.
    pub way: SnapshotWay,
    /// Names that were looked at.
    #[serde(default)]
    pub files: Option<u64>,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// How long it took.
    pub took_us: u64,
    /// How long the sandbox stood still.
    pub frozen_us: u64,
}

impl How {
    pub(crate) fn new(taken: Taken, took: Duration, frozen: Duration) -> Self {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let Taken { way, files, copied_bytes, below: _ } = taken;
        Self { way, files, copied_bytes, took_us: us(took), frozen_us: us(frozen) }
    }

    /// Of one that a server took that died before it could say so.
    pub(crate) fn unseen(way: SnapshotWay) -> Self {
        Self { way, files: None, copied_bytes: 0, took_us: 0, frozen_us: 0 }
    }
}

impl Kept {
    /// One that is about to be taken of a sandbox.
    pub(crate) fn of(
        record: &Record,
        id: SnapshotId,
        layer: LayerId,
        request: &CreateSnapshot,
        now: Timestamp,
    ) -> Self {
        let without_secrets =
            |policy: &NetworkPolicy| NetworkPolicy { secrets: Vec::new(), ..policy.clone() };
        Self {
            id,
            layer,
            taken: None,
            sandbox: record.id,
            sandbox_name: record.name.clone(),
            parent: record.snapshot,
            created_at: now,
            expires_at: request.delete_after_ms.map(|ms| now.after(Duration::from_millis(ms))),
            labels: request.labels.clone(),
            image: record.image.clone(),
            template: record.template.clone(),
            directory: record.directory.clone(),
            build: None,
            tier: record.tier,
            env: record.env.clone(),
            limits: record.limits,
            budget: record.budget,
            services: record.services.clone(),
            workspace: record.workspace.clone(),
            exec_ask: record.exec_ask.clone(),
            network: record.network.as_ref().map(|network| without_secrets(&network.policy)),
        }
    }

    /// What the API shows; nothing while it is being taken.
    pub(crate) fn view(&self) -> Option<Snapshot> {
        let How { way, files, copied_bytes, took_us, frozen_us } = self.taken?;
        Some(Snapshot {
            id: self.id,
            sandbox_id: self.sandbox,
            sandbox_name: self.sandbox_name.clone(),
            parent_id: self.parent,
            created_at: self.created_at,
            expires_at: self.expires_at,
            labels: self.labels.clone(),
            image: self.image.clone(),
            tier: self.tier,
            limits: self.limits,
            way,
            took_us,
            frozen_us,
            files,
            copied_bytes,
        })
    }

    /// A request for a sandbox that begins with it, with all that the request does not say as the
    /// sandbox had it that it was taken of.
    pub(crate) fn fill(&self, request: &CreateSandbox) -> CreateSandbox {
        let had = CreateSandbox {
            env: self.env.clone(),
            limits: self.limits,
            budget: self.budget,
            services: self.services.clone(),
            exec_ask: self.exec_ask.clone(),
            network: self.network.clone(),
            ..CreateSandbox::default()
        };
        CreateSandbox { image: self.image.clone(), ..request.over(&had) }
    }
}
