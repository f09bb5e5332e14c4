//! Services: commands that a sandbox is to have running whenever it runs.

use crate::exec::{Stream, User};
use crate::id::ExecId;
use crate::octets::Octets;
use crate::sandbox::Env;
use crate::wait::{HttpAnswer, PATTERN_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Most services of one sandbox.
pub const SERVICES_COUNT_MAX: usize = 16;
/// Longest name of a service, in bytes.
pub const SERVICE_NAME_BYTES_MAX: usize = 63;
/// Longest command line of a service, in bytes.
pub const SERVICE_SHELL_BYTES_MAX: usize = 64 << 10;
/// How long a service may take to be ready where nothing is said, in milliseconds.
pub const READY_TIMEOUT_MS_DEFAULT: u64 = 30_000;
/// The most that may be said there.
pub const READY_TIMEOUT_MS_MAX: u64 = 600_000;

/// Most arguments of a service's command, its program included.
pub const SERVICE_ARGUMENTS_COUNT_MAX: usize = 1024;

/// A service: started with the sandbox and whenever it wakes, and kept running. It has either
/// a `command` or a `shell`.
///
/// `{"name": "web", "shell": "npm run dev", "directory": "/home/user/app", "ready": {"port":
/// 5173}}` is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name, unique in its sandbox: lower-case letters, digits and dashes.
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// What runs: a command line, as `sh -c` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 65536)]
    pub shell: Option<String>,
    /// Or a program and its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 1024)]
    pub command: Option<Vec<Octets>>,
    /// As whom; `root` needs the flag `user_root`.
    #[serde(default)]
    pub user: User,
    /// Where it starts; the home of the sandbox's user where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4095)]
    pub directory: Option<String>,
    /// Variables beside the sandbox's own.
    #[serde(default)]
    pub env: Env,
    /// Whether it is started again after it has ended.
    #[serde(default)]
    pub restart: Restart,
    /// When it counts as ready; as soon as it runs where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// How long it may take to be ready, in milliseconds; 30000 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 600000)]
    pub ready_timeout_ms: Option<u64>,
}

/// When a service that has ended is started again. The pause before grows with every
/// failure in a row, up to half a minute.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Not at all.
    Never,
    /// If it failed: with an exit code other than 0, or by a signal.
    #[default]
    OnFailure,
    /// However it ended.
    Always,
}

/// What shows that a service can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ready {
    /// Something listens on this port of the sandbox's loopback, 1 to 65535.
    Port(u16),
    /// It has printed a line.
    Log(ReadyLine),
    /// A port answers over HTTP.
    Http(HttpAnswer),
}

/// A line that a service prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadyLine {
    /// On which stream; on either where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// A regular expression, in the syntax of Rust's `regex`, that matches somewhere in
    /// the line. A line is looked at in pieces of 64 KiB.
    #[schema(min_length = 1, max_length = 4096)]
    pub pattern: String,
}

/// How a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// It is not ready yet.
    Starting,
    /// It runs, and is ready if it says when it is.
    Ready,
    /// It runs, and was not ready in time.
    Late,
    /// It has ended, and will be started again.
    Waiting,
    /// It has ended in a way in which it is not started again, or it never could.
    Failed,
    /// It has ended as it should, or its sandbox does not run.
    Stopped,
}

/// A service as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: ServiceState,
    /// The exec that it runs as, or ran as last: its output is that exec's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<ExecId>,
    /// How often it was started again since its sandbox started.
    pub restarts: u64,
    /// Why it is not ready, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// The services of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Services {
    /// In the order in which they were declared.
    pub services: Vec<ServiceStatus>,
}

impl Service {
    /// What is wrong with it: the field and why.
    pub(crate) fn flaw(&self) -> Option<(&'static str, &'static str)> {
        let name = self.name.as_bytes();
        let is_plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
        if name.is_empty() || name.len() > SERVICE_NAME_BYTES_MAX || !name.iter().all(is_plain) {
            return Some(("name", "is not 1 to 63 lower-case letters, digits and dashes"));
        }
        if name.starts_with(b"-") || name.ends_with(b"-") {
            return Some(("name", "begins or ends with a dash"));
        }
        if let Some(flaw) = self.program_flaw() {
            return Some(flaw);
        }
        if let Some(directory) = &self.directory {
            if !directory.starts_with('/') {
                return Some(("directory", "is not an absolute path"));
            }
            if directory.len() > 4095 || directory.contains('\0') {
                return Some(("directory", "is too long, or contains a NUL"));
            }
        }
        if let Some(flaw) = self.ready.as_ref().and_then(Ready::flaw) {
            return Some(flaw);
        }
        if self.ready_timeout_ms.is_some_and(|ms| ms == 0 || ms > READY_TIMEOUT_MS_MAX) {
            return Some(("ready_timeout_ms", "is not between 1 and 600000"));
        }
        None
    }

    fn program_flaw(&self) -> Option<(&'static str, &'static str)> {
        let shell = match (&self.command, &self.shell) {
            (Some(_), Some(_)) => return Some(("command", "is there beside shell")),
            (None, None) => return Some(("command", "is absent, and so is shell")),
            (Some(command), None) => {
                let bytes: usize = command.iter().map(|word| word.as_bytes().len() + 1).sum();
                return match command.first() {
                    None => Some(("command", "is empty")),
                    Some(program) if program.as_bytes().is_empty() => {
                        Some(("command", "names no program"))
                    }
                    Some(_) if command.len() > SERVICE_ARGUMENTS_COUNT_MAX => {
                        Some(("command", "has more than 1024 arguments"))
                    }
                    Some(_) if bytes > SERVICE_SHELL_BYTES_MAX => {
                        Some(("command", "is longer than 65536 bytes"))
                    }
                    Some(_) => None,
                };
            }
            (None, Some(shell)) => shell,
        };
        if shell.trim().is_empty() {
            return Some(("shell", "is empty"));
        }
        if shell.len() > SERVICE_SHELL_BYTES_MAX {
            return Some(("shell", "is longer than 65536 bytes"));
        }
        if shell.contains('\0') {
            return Some(("shell", "contains a NUL"));
        }
        None
    }
}

impl Ready {
    fn flaw(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Port(0) => Some(("ready.port", "is 0")),
            Self::Port(_) => None,
            Self::Log(line) if line.pattern.is_empty() => Some(("ready.log.pattern", "is empty")),
            Self::Log(line) if line.pattern.len() > PATTERN_BYTES_MAX => {
                Some(("ready.log.pattern", "is longer than 4096 bytes"))
            }
            Self::Log(_) => None,
            Self::Http(answer) => match answer.flaw()? {
                ("port", reason) => Some(("ready.http.port", reason)),
                ("path", reason) => Some(("ready.http.path", reason)),
                (_, reason) => Some(("ready.http.status", reason)),
            },
        }
    }
}
