//! Versions, builds and outcomes of steps, as they are remembered.

use super::chain::{Key, Point};
use crate::snapshots::Kept;
use atoll_api::id::{BuildId, SnapshotId};
use atoll_api::sandbox::Limits;
use atoll_api::template::{
    Build, BuildState, BuildTemplate, TemplateName, TemplateRef, TemplateStart, TemplateStep,
    TemplateVersion,
};
use atoll_api::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A version of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Of which.
    pub name: TemplateName,
    /// Its number.
    pub number: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// By which build.
    pub build: BuildId,
    /// The files that it begins with.
    pub snapshot: SnapshotId,
    /// The image below it.
    pub image: String,
    /// The version that it was built on.
    #[serde(default)]
    pub base: Option<TemplateRef>,
    /// What was done.
    pub steps: Vec<TemplateStep>,
    /// What holds at the end of the steps.
    pub point: Point,
    /// What runs in its sandboxes.
    #[serde(default)]
    pub start: Option<TemplateStart>,
    /// Limits.
    pub limits: Limits,
}

impl Version {
    /// What it is called.
    pub fn called(&self) -> TemplateRef {
        TemplateRef { name: self.name.clone(), version: Some(self.number) }
    }

    /// What the API shows.
    pub fn view(&self) -> TemplateVersion {
        TemplateVersion {
            version: self.number,
            created_at: self.created_at,
            build_id: self.build,
            image: self.image.clone(),
            template: self.base.clone(),
            steps: self.steps.clone(),
            env: self.point.env.clone(),
            workdir: self.point.workdir.clone(),
            start: self.start.clone(),
            limits: self.limits,
        }
    }

    /// What a sandbox of it begins with: its files, and how they are to be run.
    pub(crate) fn begin(&self, files: Kept) -> Kept {
        let point = self.point.clone();
        let service = |start: &TemplateStart| start.service(point.user, point.workdir.clone());
        Kept {
            env: point.env.clone(),
            services: self.start.iter().map(service).collect(),
            directory: point.workdir.clone(),
            template: Some(self.called()),
            limits: self.limits,
            network: None,
            workspace: None,
            exec_ask: Vec::new(),
            ..files
        }
    }
}

/// A build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptBuild {
    /// What the API shows of it.
    pub shown: Build,
    /// What was asked for; none after its end.
    #[serde(default)]
    pub request: Option<Box<BuildTemplate>>,
}

impl KeptBuild {
    /// One that was just asked for.
    pub(crate) fn new(id: BuildId, request: BuildTemplate, now: Timestamp) -> Self {
        let shown = Build {
            id,
            name: request.name.clone(),
            state: BuildState::Waiting,
            created_at: now,
            ended_at: None,
            steps_count: u32::try_from(request.steps.len()).unwrap_or(u32::MAX),
            steps_cached_count: 0,
            step: 0,
            version: None,
            sandbox_id: None,
            reason: None,
        };
        Self { shown, request: Some(Box::new(request)) }
    }
}

/// What came of steps, to begin with instead of doing them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cached {
    /// Of which.
    pub key: Key,
    /// The files.
    pub snapshot: SnapshotId,
    /// When it was last made or begun with.
    pub used_at: Timestamp,
}
