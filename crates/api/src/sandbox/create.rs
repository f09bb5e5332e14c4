//! Asking for a sandbox. Requests refuse fields that they do not know.

use super::Workspace;
use crate::budget::Budget;
use crate::exec::{ExecPattern, PATTERNS_COUNT_MAX};
use crate::id::SnapshotId;
use crate::image::ImagePull;
use crate::name::SandboxName;
use crate::network::NetworkPolicy;
use crate::object::{object, some_object};
use crate::service::{SERVICES_COUNT_MAX, Service};
use crate::template::TemplateRef;
use crate::volume::{VolumeMount, validate_mounts};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most labels on one sandbox.
pub const LABELS_COUNT_MAX: usize = 32;
/// Longest key of a label, in bytes.
pub const LABEL_KEY_BYTES_MAX: usize = 63;
/// Longest value of a label, in bytes.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;
/// Most variables in an environment.
pub const ENV_COUNT_MAX: usize = 256;
/// Largest environment in bytes, as the kernel counts it: `NAME=value` and a NUL each.
pub const ENV_BYTES_MAX: usize = 96 * 1024;
/// Longest reference to an image, in bytes.
pub const IMAGE_BYTES_MAX: usize = 512;
/// Largest number in a request: the last that every reader of JSON takes exactly
/// (RFC 8259, section 6).
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// Asks for a new sandbox.
///
/// `{"name": "web", "env": {"PORT": "5173"}, "lifecycle": {"idle_stop_ms": 600000}}`
/// is such a request; `{}` is one too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSandbox {
    /// A name, unique among the sandboxes that are there.
    #[serde(default)]
    pub name: Option<SandboxName>,
    /// What it is made of. `host`, the default, is the system of the machine itself, read-only.
    /// Else an image: the name of one of a registry, as in `python:3.12-slim`; or on the server's machine
    /// `oci:/PATH[:TAG]`, `oci-archive:/PATH[:TAG]`, `docker-archive:/PATH[:NAME]`, or the absolute path of
    /// one of these, of a directory with a root file system, or of a tar archive of one (plain, gzip or
    /// zstd). It can be written where the flag `writable_root` says so. What is on the server's machine, and
    /// a registry that is spoken to without TLS (`http://…`), need a key of scope `admin`.
    #[serde(default = "host_image")]
    #[schema(min_length = 1, max_length = 512)]
    pub image: String,
    /// Whether an image of a registry is pulled.
    #[serde(default, skip_serializing_if = "ImagePull::is_default")]
    pub image_pull: ImagePull,
    /// The snapshot that it begins with, in place of an image. Environment, limits, services and
    /// network are those of the sandbox that the snapshot was taken of, where nothing else is said
    /// here: variables and limits one by one, the services and the network each as a whole.
    /// Commands to ask about are added to that one's. No secret goes along with the network; who
    /// wants them names them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotId>,
    /// The template that it begins with, in place of an image or a snapshot: its latest version, or
    /// the one that is named as in `web@2`. Environment, limits and services are the template's where
    /// nothing else is said here: variables one by one, everything else as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateRef>,
    /// Environment of everything that runs in it.
    #[serde(default)]
    pub env: Env,
    /// What it may use; the server's defaults where nothing is said.
    #[serde(default, deserialize_with = "object")]
    pub limits: Limits,
    /// Labels, to find it by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What happens to it when; the server's defaults where nothing is said.
    #[serde(default, deserialize_with = "object")]
    pub lifecycle: Lifecycle,
    /// How much it may use in its whole life. When one of these amounts is used up it is stopped,
    /// and does not start again before it has a larger budget.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// The files that it begins with; none but its image's where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// What is to run in it whenever it runs. Creation waits until each is ready or has
    /// failed; one that fails does not make the creation fail.
    #[serde(default)]
    #[schema(max_items = 16)]
    pub services: Vec<Service>,
    /// Commands that are run in it only when a person approves: see approvals. A request for one
    /// waits for the decision, half a minute at most, and is refused then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub exec_ask: Vec<ExecPattern>,
    /// What it may reach, by the gateway of the server. Nothing but its own loopback where nothing
    /// is said; and only who has a network can be given more of it later.
    #[serde(default, deserialize_with = "some_object", skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPolicy>,
    /// Volumes that are shown in it, at most 16. None goes along with a snapshot or a template: who
    /// wants one names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub volumes: Vec<VolumeMount>,
    /// The pool whose member it is to be, in place of an image, a snapshot or a template. What is not said
    /// here is as the pool says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<SandboxName>,
}

fn host_image() -> String {
    "host".to_owned()
}

impl Default for CreateSandbox {
    fn default() -> Self {
        Self {
            name: None,
            image: host_image(),
            image_pull: ImagePull::default(),
            snapshot: None,
            template: None,
            env: Env::default(),
            limits: Limits::default(),
            labels: BTreeMap::new(),
            lifecycle: Lifecycle::default(),
            budget: Budget::default(),
            workspace: None,
            services: Vec::new(),
            exec_ask: Vec::new(),
            network: None,
            volumes: Vec::new(),
            pool: None,
        }
    }
}

/// Environment variables. They may be secrets, so `Debug` shows names only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct Env(pub BTreeMap<String, String>);

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What a sandbox may use at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory in bytes, at least 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1048576, maximum = 9007199254740991u64)]
    pub memory_bytes: Option<u64>,
    /// Processors in thousandths, at least 10: 1500 is one and a half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 9007199254740991u64)]
    pub cpus_milli: Option<u64>,
    /// Processes and threads at once, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub pids: Option<u64>,
    /// Bytes on disk beyond its image, at least 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1048576, maximum = 9007199254740991u64)]
    pub disk_bytes: Option<u64>,
}

/// What happens to a sandbox when. Every time is in milliseconds and at least 1.
///
/// Idle means that nothing works inside, not that no request comes in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Lifecycle {
    /// Deleted this long after it was made or its lease renewed, whatever it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub lease_ms: Option<u64>,
    /// Stopped after it was idle for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub idle_stop_ms: Option<u64>,
    /// Archived after it was stopped for this long: its files are kept in object storage, until it
    /// is resumed. Only where the server has a place for archives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub archive_after_ms: Option<u64>,
    /// Deleted after it was stopped for this long, archived or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub delete_after_ms: Option<u64>,
    /// Deleted this long after it was made, however often its lease is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    pub max_lifetime_ms: Option<u64>,
}

/// What is wrong with a request, in which field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// More entries than are accepted.
    #[error("{field} has {found} entries, and at most {limit} are accepted")]
    TooMany {
        /// Where, as in `labels`.
        field: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// More bytes than are accepted.
    #[error("{field} has {found_bytes} bytes, and at most {limit_bytes} are accepted")]
    TooLong {
        /// Where.
        field: String,
        /// How many bytes there are.
        found_bytes: usize,
        /// How many there may be.
        limit_bytes: usize,
    },
    /// Less than makes sense.
    #[error("{field} is {found}, and it must be at least {least}")]
    TooSmall {
        /// Where, its unit last.
        field: String,
        /// What was asked for.
        found: u64,
        /// What is the least.
        least: u64,
    },
    /// More than can be written exactly.
    #[error("{field} is {found}, and it must be at most {most}")]
    TooLarge {
        /// Where, its unit last.
        field: String,
        /// What was asked for.
        found: u64,
        /// What is the most.
        most: u64,
    },
    /// Not of the form that is accepted.
    #[error("{field} {reason}")]
    Malformed {
        /// Where.
        field: String,
        /// What is wrong, as in "is empty".
        reason: &'static str,
    },
}

impl InvalidRequest {
    /// The same about a field of what is in a field.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        match &mut self {
            Self::TooMany { field, .. }
            | Self::TooLong { field, .. }
            | Self::TooSmall { field, .. }
            | Self::TooLarge { field, .. }
            | Self::Malformed { field, .. } => field.insert_str(0, &format!("{outer}.")),
        }
        self
    }

    /// The field that is wrong, as in `limits.memory_bytes`.
    pub fn field(&self) -> &str {
        match self {
            Self::TooMany { field, .. }
            | Self::TooLong { field, .. }
            | Self::TooSmall { field, .. }
            | Self::TooLarge { field, .. }
            | Self::Malformed { field, .. } => field,
        }
    }
}

impl CreateSandbox {
    /// Checks everything that can be judged without knowing the server.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        not_longer("image", &self.image, IMAGE_BYTES_MAX)?;
        if self.image.is_empty() {
            return malformed("image", "is empty");
        }
        if self.snapshot.is_some() && self.image != host_image() {
            return malformed("image", "cannot be chosen together with a snapshot");
        }
        if self.template.is_some() && (self.image != host_image() || self.snapshot.is_some()) {
            return malformed("template", "cannot be chosen together with an image or a snapshot");
        }
        let is_of_another =
            self.image != host_image() || self.snapshot.is_some() || self.template.is_some();
        if self.pool.is_some() && is_of_another {
            return malformed(
                "pool",
                "cannot be chosen together with an image, a snapshot or a template",
            );
        }
        self.env.validate()?;
        validate_labels(&self.labels)?;
        if let Some(workspace) = &self.workspace {
            workspace.validate()?;
        }
        self.validate_services()?;
        if let Some(network) = &self.network {
            network.validate()?;
        }
        validate_mounts(&self.volumes)?;
        not_more("exec_ask", self.exec_ask.len(), PATTERNS_COUNT_MAX)?;
        for (field, value, least) in [
            ("limits.memory_bytes", self.limits.memory_bytes, 1 << 20),
            ("limits.cpus_milli", self.limits.cpus_milli, 10),
            ("limits.pids", self.limits.pids, 1),
            ("limits.disk_bytes", self.limits.disk_bytes, 1 << 20),
            ("lifecycle.lease_ms", self.lifecycle.lease_ms, 1),
            ("lifecycle.idle_stop_ms", self.lifecycle.idle_stop_ms, 1),
            ("lifecycle.archive_after_ms", self.lifecycle.archive_after_ms, 1),
            ("lifecycle.delete_after_ms", self.lifecycle.delete_after_ms, 1),
            ("lifecycle.max_lifetime_ms", self.lifecycle.max_lifetime_ms, 1),
        ] {
            value.map_or(Ok(()), |found| within(field, found, least, NUMBER_MAX))?;
        }
        self.budget.validate("budget")
    }
}

impl CreateSandbox {
    /// What it is made of, in words: a template, the id of a snapshot, or an image.
    pub fn made_of(&self) -> String {
        let template = self.template.as_ref().map(ToString::to_string);
        let snapshot = || self.snapshot.map(|id| id.to_string());
        template.or_else(snapshot).unwrap_or_else(|| self.image.clone())
    }

    /// The same with all that it does not say as another request says it: variables, labels, limits,
    /// times and amounts one by one, services and the network each as a whole, and commands to ask about
    /// beside its own, since nobody takes these away. What it is made of, and its name, workspace and
    /// volumes, are its own.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        let mut env = other.env.clone();
        env.0.extend(self.env.0.clone());
        let mut labels = other.labels.clone();
        labels.extend(self.labels.clone());
        let mut exec_ask = self.exec_ask.clone();
        let asks = other.exec_ask.iter().filter(|pattern| !self.exec_ask.contains(pattern));
        exec_ask.extend(asks.cloned());
        let services = if self.services.is_empty() { &other.services } else { &self.services };
        Self {
            env,
            labels,
            limits: self.limits.or(other.limits),
            lifecycle: self.lifecycle.or(other.lifecycle),
            budget: self.budget.or(other.budget),
            services: services.clone(),
            exec_ask,
            network: self.network.clone().or_else(|| other.network.clone()),
            ..self.clone()
        }
    }

    fn validate_services(&self) -> Result<(), InvalidRequest> {
        not_more("services", self.services.len(), SERVICES_COUNT_MAX)?;
        let mut names = BTreeSet::new();
        for (index, service) in self.services.iter().enumerate() {
            if let Some((field, reason)) = service.flaw() {
                return malformed(&format!("services.{index}.{field}"), reason);
            }
            service.env.validate()?;
            if !names.insert(&service.name) {
                return malformed(&format!("services.{index}.name"), "is there already");
            }
        }
        Ok(())
    }
}

impl Limits {
    /// What this says, and what the other says where this says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
            cpus_milli: self.cpus_milli.or(other.cpus_milli),
            pids: self.pids.or(other.pids),
            disk_bytes: self.disk_bytes.or(other.disk_bytes),
        }
    }
}

impl Lifecycle {
    /// What this says, and what the other says where this says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            lease_ms: self.lease_ms.or(other.lease_ms),
            idle_stop_ms: self.idle_stop_ms.or(other.idle_stop_ms),
            archive_after_ms: self.archive_after_ms.or(other.archive_after_ms),
            delete_after_ms: self.delete_after_ms.or(other.delete_after_ms),
            max_lifetime_ms: self.max_lifetime_ms.or(other.max_lifetime_ms),
        }
    }
}

impl Env {
    pub(crate) fn validate(&self) -> Result<(), InvalidRequest> {
        not_more("env", self.0.len(), ENV_COUNT_MAX)?;
        let found_bytes = self.0.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        if found_bytes > ENV_BYTES_MAX {
            let limit_bytes = ENV_BYTES_MAX;
            return Err(InvalidRequest::TooLong {
                field: "env".to_owned(),
                found_bytes,
                limit_bytes,
            });
        }
        for (name, value) in &self.0 {
            if name.is_empty() || name.contains(['=', '\0']) {
                return malformed("env", "has a name that is empty or contains = or NUL");
            }
            if value.contains('\0') {
                return malformed(&format!("env.{name}"), "contains a NUL");
            }
        }
        Ok(())
    }
}

pub(crate) fn validate_labels(labels: &BTreeMap<String, String>) -> Result<(), InvalidRequest> {
    not_more("labels", labels.len(), LABELS_COUNT_MAX)?;
    for (key, value) in labels {
        // Before the key becomes part of a field's name.
        not_longer("labels", key, LABEL_KEY_BYTES_MAX)?;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        if key.is_empty() || !key.bytes().all(is_plain) {
            return malformed("labels", "has a key with other than letters, digits, . _ - /");
        }
        let field = format!("labels.{key}");
        not_longer(&field, value, LABEL_VALUE_BYTES_MAX)?;
        if value.chars().any(char::is_control) {
            return malformed(&field, "contains a control character");
        }
    }
    Ok(())
}

/// Checks a number against its bounds, which are allowed themselves.
pub(crate) fn within(field: &str, found: u64, least: u64, most: u64) -> Result<(), InvalidRequest> {
    let field = || field.to_owned();
    if found < least {
        return Err(InvalidRequest::TooSmall { field: field(), found, least });
    }
    if found > most {
        return Err(InvalidRequest::TooLarge { field: field(), found, most });
    }
    Ok(())
}

pub(crate) fn not_more(field: &str, found: usize, limit: usize) -> Result<(), InvalidRequest> {
    if found > limit {
        return Err(InvalidRequest::TooMany { field: field.to_owned(), found, limit });
    }
    Ok(())
}

pub(crate) fn not_longer(
    field: &str,
    text: &str,
    limit_bytes: usize,
) -> Result<(), InvalidRequest> {
    not_longer_bytes(field, text.len(), limit_bytes)
}

pub(super) fn not_longer_bytes(
    field: &str,
    found_bytes: usize,
    limit_bytes: usize,
) -> Result<(), InvalidRequest> {
    if found_bytes > limit_bytes {
        let field = field.to_owned();
        return Err(InvalidRequest::TooLong { field, found_bytes, limit_bytes });
    }
    Ok(())
}

pub(crate) fn malformed(field: &str, reason: &'static str) -> Result<(), InvalidRequest> {
    Err(InvalidRequest::Malformed { field: field.to_owned(), reason })
}

#[cfg(test)]
mod tests;
