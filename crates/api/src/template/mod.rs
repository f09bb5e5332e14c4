//! Templates: what sandboxes are made of that begin with software and files of their own.
//!
//! A template is a name with versions. A version is what a build made: the files after its last
//! step, the environment and directory that commands begin with, and what runs when a sandbox of
//! it starts. [`mod@file`] reads one from TOML.

pub mod file;
mod name;

pub use name::{
    FilesDigest, FilesDigestError, TEMPLATE_NAME_BYTES_MAX, TemplateName, TemplateNameError,
    TemplateRef,
};

use crate::exec::{ARGUMENTS_BYTES_MAX, User};
use crate::id::{BuildId, SandboxId};
use crate::image::ImagePull;
use crate::network::NetworkPolicy;
use crate::object::{object, some_object};
use crate::sandbox::{
    CreateSandbox, Env, IMAGE_BYTES_MAX, InvalidRequest, Limits, malformed, not_longer, not_more,
    within,
};
use crate::service::{Ready, Service};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Most steps of a template.
pub const STEPS_COUNT_MAX: usize = 64;
/// The last version that a template can have.
pub const VERSION_MAX: u32 = 999_999_999;
/// Most versions that a build can be told to keep.
pub const KEEP_MAX: u32 = 1000;
/// Longest path in a template, in bytes.
pub const TEMPLATE_PATH_BYTES_MAX: usize = 4095;
/// The service that a template's start command runs as.
pub const START_SERVICE: &str = "start";

/// Asks for a template to be built. What its last build made becomes its latest version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildTemplate {
    /// Its name.
    pub name: TemplateName,
    /// What it is built on, as for a sandbox: `host`, or an image.
    #[serde(default = "host_image")]
    #[schema(min_length = 1, max_length = 512)]
    pub image: String,
    /// Whether an image of a registry is pulled.
    #[serde(default, skip_serializing_if = "ImagePull::is_default")]
    pub image_pull: ImagePull,
    /// The template that it is built on, in place of an image: with its files, variables,
    /// directory and user. Its start command is not taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateRef>,
    /// What is done, one after the other.
    #[serde(default)]
    #[schema(max_items = 64)]
    pub steps: Vec<TemplateStep>,
    /// What runs whenever a sandbox of it does. It is started once while the template is built, and
    /// must be ready then.
    #[serde(default, deserialize_with = "some_object", skip_serializing_if = "Option::is_none")]
    pub start: Option<TemplateStart>,
    /// What the steps may reach; nothing but their own loopback where nothing is said. Sandboxes
    /// of the template have no network because of it.
    #[serde(default, deserialize_with = "some_object", skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPolicy>,
    /// What the build may use, and sandboxes of the template where their request says nothing else.
    #[serde(default, deserialize_with = "object")]
    pub limits: Limits,
    /// How many versions are kept, this one included: older ones are deleted when it is there. All
    /// where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub keep: Option<u32>,
    /// Do every step anew, whatever was done before.
    #[serde(default)]
    pub no_cache: bool,
}

fn host_image() -> String {
    CreateSandbox::default().image
}

/// One step of a template. Paths that are not absolute are below the last `workdir`, or the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TemplateStep {
    /// Runs a text with `/bin/sh -c`, with the variables, directory and user of the steps before
    /// it. The build fails unless it ends with 0.
    Run(String),
    /// Puts files into a directory, as the sandbox's user.
    Copy(TemplateCopy),
    /// Sets variables for the steps behind it and for sandboxes.
    Env(Env),
    /// Has the steps behind it and commands of sandboxes begin in this directory, which is made if
    /// it is not there.
    Workdir(String),
    /// Says as whom the steps behind it and the start command run.
    User(User),
}

/// Files that are put into a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateCopy {
    /// Which: an archive that was sent before.
    pub files: FilesDigest,
    /// Into which directory, which is made if it is not there.
    #[schema(min_length = 1, max_length = 4095)]
    pub to: String,
}

/// What runs in sandboxes of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateStart {
    /// A command line, as `sh -c` takes it. It is the service `start`.
    #[schema(min_length = 1, max_length = 65536)]
    pub shell: String,
    /// When it counts as ready; as soon as it runs where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// How long it may take to be ready, in milliseconds; 30000 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 600000)]
    pub ready_timeout_ms: Option<u64>,
}

impl TemplateStart {
    /// It as a service, as this user and in this directory.
    pub fn service(&self, user: User, directory: Option<String>) -> Service {
        Service {
            name: START_SERVICE.to_owned(),
            shell: Some(self.shell.clone()),
            command: None,
            user,
            directory,
            env: Env::default(),
            restart: crate::service::Restart::default(),
            ready: self.ready.clone(),
            ready_timeout_ms: self.ready_timeout_ms,
        }
    }
}

impl BuildTemplate {
    /// Checks everything that can be judged without knowing the server.
    ///
    /// # Errors
    /// Gives the first field that is wrong, with the limit that it breaks.
    pub fn validate(&self) -> Result<(), InvalidRequest> {
        not_longer("image", &self.image, IMAGE_BYTES_MAX)?;
        if self.template.is_some() && self.image != host_image() {
            return malformed("image", "cannot be chosen together with a template");
        }
        not_more("steps", self.steps.len(), STEPS_COUNT_MAX)?;
        let mut env = Env::default();
        for (index, step) in self.steps.iter().enumerate() {
            let field = format!("steps.{index}");
            match step {
                TemplateStep::Run(shell) => {
                    not_longer(&format!("{field}.run"), shell, ARGUMENTS_BYTES_MAX)?;
                    written(&format!("{field}.run"), shell)?;
                }
                TemplateStep::Copy(copy) => path(&format!("{field}.copy.to"), &copy.to)?,
                TemplateStep::Env(more) => {
                    env.0.extend(more.0.clone());
                    env.validate().map_err(|error| error.within(&field))?;
                }
                TemplateStep::Workdir(workdir) => path(&format!("{field}.workdir"), workdir)?,
                TemplateStep::User(_) => {}
            }
        }
        let keep = self.keep;
        keep.map_or(Ok(()), |found| within("keep", found.into(), 1, KEEP_MAX.into()))?;
        let start = self.start.as_ref().map(|start| start.service(User::User, None));
        let sandbox = CreateSandbox {
            image: self.image.clone(),
            limits: self.limits,
            services: start.into_iter().collect(),
            network: self.network.clone(),
            ..CreateSandbox::default()
        };
        sandbox.validate()
    }
}

fn written(field: &str, text: &str) -> Result<(), InvalidRequest> {
    if text.trim().is_empty() {
        return malformed(field, "is empty");
    }
    if text.contains('\0') {
        return malformed(field, "contains a NUL");
    }
    Ok(())
}

fn path(field: &str, text: &str) -> Result<(), InvalidRequest> {
    not_longer(field, text, TEMPLATE_PATH_BYTES_MAX)?;
    written(field, text)?;
    if text.split('/').any(|part| part == "..") {
        return malformed(field, "leads up with ..");
    }
    Ok(())
}

/// How a build is.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BuildState {
    /// Others are under way, and it begins after them.
    Waiting,
    /// It is under way.
    Building,
    /// It made a version.
    Ready,
    /// It failed, and made nothing.
    Failed,
    /// It was cancelled, and made nothing.
    Cancelled,
}

impl BuildState {
    /// Whether nothing comes after it.
    pub fn is_last(self) -> bool {
        matches!(self, Self::Ready | Self::Failed | Self::Cancelled)
    }

    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Building => "building",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A build of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Build {
    /// Its id.
    pub id: BuildId,
    /// Of which template.
    pub name: TemplateName,
    /// How it is.
    pub state: BuildState,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How many steps it has.
    pub steps_count: u32,
    /// How many of them, from the first, were not done because an earlier build had done them.
    pub steps_cached_count: u32,
    /// Which step is under way or was the last, from 1; 0 before the first.
    pub step: u32,
    /// The version that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The sandbox in which it is done, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<BuildReason>,
}

/// Why a build made nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BuildReason {
    /// In words.
    pub message: String,
    /// The step that failed, from 1; absent if it was none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// What a command ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last of what it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// The builds that are remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Builds {
    /// The latest first.
    pub builds: Vec<Build>,
}

/// From where a line of a build's log comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BuildStream {
    /// What the build says of itself.
    Build,
    /// A command's standard output.
    Stdout,
    /// A command's standard error.
    Stderr,
}

/// A line of a build's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BuildLogEntry {
    /// Its number, from 0.
    pub offset: u64,
    /// When it was written.
    pub at: Timestamp,
    /// Of which step, from 1; absent if of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// From where it comes.
    pub stream: BuildStream,
    /// The line, without its end.
    pub message: String,
}

/// A part of a build's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BuildLog {
    /// Its lines. Those before the first are not kept any more if that has a larger offset than
    /// was asked for.
    pub entries: Vec<BuildLogEntry>,
    /// What to ask for the next part with, as `offset`.
    pub next: u64,
    /// How the build was after these lines: where nothing comes after it, the log is whole when a
    /// part has no lines.
    pub state: BuildState,
}

/// Files that a build can copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BuildFiles {
    /// Which.
    pub files: FilesDigest,
    /// Whether they are here.
    pub present: bool,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Template {
    /// Its name.
    pub name: TemplateName,
    /// Its versions, the latest first.
    pub versions: Vec<TemplateVersion>,
}

/// A version of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TemplateVersion {
    /// Its number: each build has one more than the one before.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// By which build.
    pub build_id: BuildId,
    /// The image below it.
    pub image: String,
    /// The template that it was built on, with the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateRef>,
    /// What was done.
    pub steps: Vec<TemplateStep>,
    /// Variables of its sandboxes.
    pub env: Env,
    /// Where their commands begin; as the image has it where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// What runs in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<TemplateStart>,
    /// What they may use where their request says nothing else.
    pub limits: Limits,
}

/// The templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Templates {
    /// By their names.
    pub templates: Vec<Template>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(json: &str) -> Result<(), String> {
        let read: BuildTemplate = serde_json::from_str(json).map_err(|error| error.to_string())?;
        read.validate().map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_is_checked() {
        let whole = r#"{"name": "web", "image": "python:3", "steps": [{"env": {"A": "b"}},
            {"user": "root"}, {"workdir": "app"}, {"run": "pip install ."},
            {"copy": {"files": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "to": "/srv"}}], "start": {"shell": "serve", "ready": {"port": 80}}, "keep": 3}"#;
        assert_eq!(request(whole), Ok(()));
        for (json, said) in [
            (r#"{"name": "web", "keep": 0}"#, "keep is 0"),
            (r#"{"name": "web", "template": "a@1", "image": "b"}"#, "together with a template"),
            (r#"{"name": "web", "steps": [{"run": " "}]}"#, "steps.0.run is empty"),
            (r#"{"name": "web", "steps": [{"workdir": "a/../b"}]}"#, "leads up"),
            (r#"{"name": "web", "steps": [{"env": {"A=": "b"}}]}"#, "steps.0.env has a name"),
            (r#"{"name": "web", "steps": [{"fly": "a"}]}"#, "unknown variant `fly`"),
            (r#"{"name": "web", "steps": [{"run": "a", "user": "root"}]}"#, "expected"),
            (r#"{"name": "web", "start": {"shell": ""}}"#, "services.0.shell"),
            (r#"{"name": "web", "more": 1}"#, "unknown field `more`"),
        ] {
            let error = request(json).unwrap_err();
            assert!(error.contains(said), "{json}: {error}");
        }
        let many = format!(
            r#"{{"name": "web", "steps": [{}{{"run": "a"}}]}}"#,
            r#"{"run": "a"},"#.repeat(64)
        );
        assert!(request(&many).unwrap_err().contains("at most 64"));
    }
}
