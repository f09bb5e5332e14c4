//! One sandbox, as it is remembered.

use crate::backend::{Spec, VolumePlace};
use crate::exposure::Exposures;
use crate::gateway::Remembered;
use crate::volumes::Mount;
use atoll_api::budget::Budget;
use atoll_api::exec::ExecPattern;
use atoll_api::id::{ArchiveId, BuildId, LayerId, SandboxId, SnapshotId};
use atoll_api::image::ImagePull;
use atoll_api::name::SandboxName;
use atoll_api::octets::Octets;
use atoll_api::pool::OfPool;
use atoll_api::sandbox::{Env, Hold, Lifecycle, Limits, Sandbox, State, Tier, Timeline};
use atoll_api::service::Service;
use atoll_api::template::TemplateRef;
use atoll_api::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Everything about a sandbox that must survive the server.
///
/// Not the wire type, so that the two can change apart; the environment is in here
/// and never on the wire, and the tokens of previews.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its id.
    pub id: SandboxId,
    /// Its name.
    #[serde(default)]
    pub name: Option<SandboxName>,
    /// Where in its life it is; what is under way is an intent.
    pub state: State,
    /// Why it is there, if nobody asked for it.
    #[serde(default)]
    pub cause: Option<String>,
    /// When it came there.
    pub state_since: Timestamp,
    /// When it was stopped, if it is; archived or not.
    #[serde(default)]
    pub stopped_at: Option<Timestamp>,
    /// The archive with its files, while it is archived or on its way back from there.
    #[serde(default)]
    pub archive: Option<ArchiveId>,
    /// An archive that it does not need: one that is being made, or is to be removed.
    #[serde(default)]
    pub stale_archive: Option<ArchiveId>,
    /// What it was made of.
    pub image: String,
    /// Whether that was to be pulled.
    #[serde(default)]
    pub image_pull: ImagePull,
    /// The layer that it began with.
    #[serde(default)]
    pub layer: Option<LayerId>,
    /// The snapshot that it came from, or that was taken of it last.
    #[serde(default)]
    pub snapshot: Option<SnapshotId>,
    /// The version of a template that it was made of.
    #[serde(default)]
    pub template: Option<TemplateRef>,
    /// Where its commands begin, if its image is not to say that.
    #[serde(default)]
    pub directory: Option<String>,
    /// The build that it was made for.
    #[serde(default)]
    pub build: Option<BuildId>,
    /// The tier of the backend that made it.
    pub tier: Tier,
    /// Its environment.
    pub env: Env,
    /// Limits in force.
    pub limits: Limits,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Times in force.
    pub lifecycle: Lifecycle,
    /// How much it may use in its whole life.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its lease began.
    pub lease_from: Timestamp,
    /// How its creation went.
    #[serde(default)]
    pub timeline: Timeline,
    /// Ports that can be reached from outside.
    #[serde(default)]
    pub exposures: Exposures,
    /// What is to run in it.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Where the files are that it began with. Where they came from is not kept: it may be a
    /// secret.
    #[serde(default)]
    pub workspace: Option<Octets>,
    /// Commands that a person is asked about.
    #[serde(default)]
    pub exec_ask: Vec<ExecPattern>,
    /// What it may reach; nothing but its own loopback if nothing is said.
    #[serde(default)]
    pub network: Option<Remembered>,
    /// Volumes that are shown in it.
    #[serde(default)]
    pub volumes: Vec<Mount>,
    /// The pool that it came of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<OfPool>,
}

impl Record {
    /// Variables of its commands, for one whose processes run already.
    pub fn bound(&self) -> Vec<(String, String)> {
        self.environment().0.into_iter().collect()
    }

    fn environment(&self) -> Env {
        let mut env = self.env.clone();
        env.0.extend(self.network.as_ref().map(Remembered::variables).unwrap_or_default());
        env
    }

    /// What its backend has to know, but for the values of secrets.
    pub fn spec(&self) -> Spec {
        let (network, env) = (self.network.as_ref(), self.environment());
        Spec {
            image: self.image.clone(),
            pull: self.image_pull,
            layer: self.layer,
            directory: self.directory.clone(),
            hostname: self.hostname(),
            env,
            limits: self.limits,
            capture: network.map(Remembered::ports),
            certificate: network.and_then(Remembered::certificate),
            secrets: Vec::new(),
            volumes: self.volumes.iter().map(VolumePlace::of).collect(),
        }
    }

    /// How the machine is called inside: as the sandbox, or by its id where it has no name.
    fn hostname(&self) -> String {
        let name = self.name.as_ref().map(ToString::to_string);
        name.unwrap_or_else(|| self.id.to_string().replace('_', "-"))
    }

    /// Notes that its files are here, whatever an archive has.
    pub(crate) fn is_here(&mut self) {
        if let Some(archive) = self.archive.take() {
            self.stale_archive = Some(archive);
        }
    }

    /// What people call it by: its name, or else its id.
    pub fn called(&self) -> String {
        self.name.as_ref().map_or_else(|| self.id.to_string(), ToString::to_string)
    }

    /// What the API shows.
    pub fn view(&self, holds: Vec<Hold>) -> Sandbox {
        let lease_ms = self.lifecycle.lease_ms;
        Sandbox {
            id: self.id,
            name: self.name.clone(),
            state: self.state,
            cause: self.cause.clone(),
            image: self.image.clone(),
            snapshot_id: self.snapshot,
            archive_id: self.archive,
            template: self.template.clone(),
            tier: self.tier,
            workspace: self.workspace.clone(),
            exec_ask: self.exec_ask.clone(),
            secret_files: self.network.iter().flat_map(Remembered::secret_files).collect(),
            volumes: self.volumes.iter().map(Mount::view).collect(),
            labels: self.labels.clone(),
            limits: self.limits,
            lifecycle: self.lifecycle,
            budget: self.budget,
            created_at: self.created_at,
            state_since: self.state_since,
            lease_ends_at: lease_ms.map(|ms| self.lease_from.after(Duration::from_millis(ms))),
            holds,
            timeline: self.timeline,
            pool: self.pool.clone(),
        }
    }
}
