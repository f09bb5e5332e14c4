//! Images: what is asked about them, and what is answered.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Whether an image is pulled for a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImagePull {
    /// If it is not there.
    #[default]
    Missing,
    /// Not even then.
    Never,
    /// Also if it is there: what its registry has by that name now counts.
    Always,
}

impl ImagePull {
    /// Whether it is what holds where nothing is said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Asks for an image to be pulled or imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PullImage {
    /// Which: as in `python:3.12-slim` or `registry.example/team/tools:1`, a registry that is spoken to
    /// without TLS as in `http://127.0.0.1:5000/tools`; or on the server's machine
    /// `oci:/PATH[:TAG]`, `oci-archive:/PATH[:TAG]`, `docker-archive:/PATH[:NAME]`, or the path of any of
    /// these.
    #[schema(min_length = 1, max_length = 512)]
    pub image: String,
}

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Image {
    /// The digest of its configuration, `sha256:` and 64 digits: it says all that the image is.
    pub digest: String,
    /// What it is called.
    pub names: Vec<ImageName>,
    /// Digests of its layers when decompressed, the lowest first.
    pub layers: Vec<String>,
    /// Bytes of its layers, those that it shares with other images included.
    pub size_bytes: u64,
    /// How it wants to be run.
    pub config: ImageConfig,
    /// For which processors it is, as in `amd64`.
    pub architecture: String,
    /// When it was built, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_at: Option<String>,
    /// When it came here.
    pub created_at: Timestamp,
    /// When something was last made of it.
    pub used_at: Timestamp,
}

/// A name of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImageName {
    /// The name, whole.
    pub name: String,
    /// The digest of the manifest that the registry had by that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

/// How an image wants to be run. A sandbox of it has its variables and its working directory.
/// Nothing is started by itself; commands run as the sandbox's user, or as root if they ask for that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImageConfig {
    /// Variables of commands, as `NAME=value`.
    pub env: Vec<String>,
    /// Directory of commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The user that it names. Commands do not run as that one: see above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The program that it names, with the first of its arguments.
    pub entrypoint: Vec<String>,
    /// The arguments that it names, or the program.
    pub cmd: Vec<String>,
    /// Ports that it says it listens at, as in `80/tcp`.
    pub ports: Vec<String>,
}

/// All images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Images {
    /// They, by their digests.
    pub images: Vec<Image>,
}

/// How far a pull is. Nothing is known before its manifest is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImageProgress {
    /// Layers that are fetched: those that are not there yet.
    pub layers_total: u64,
    /// How many of these are there by now.
    pub layers_done: u64,
    /// Bytes of these, as they are packed.
    pub bytes_total: u64,
    /// How many of these have come.
    pub bytes_done: u64,
}

/// Asks for images that nothing uses to be removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneImages {
    /// Also those that have a name.
    #[serde(default)]
    pub all: bool,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pruned {
    /// Images.
    pub images: u64,
    /// Layers that no image had any more.
    pub layers: u64,
    /// Bytes of these.
    pub bytes: u64,
}
