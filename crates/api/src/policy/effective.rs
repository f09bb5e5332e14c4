//! What all levels come to.

use super::document::Place;
use super::network::{NetworkMode, NetworkRule, SecretBinding, UpstreamProxy};
use super::pattern::{EnvPattern, PathPattern};
use super::value::{ApplyMode, Bytes, Cpus, Image, Isolation, WorkspaceMode};
use crate::exec::ExecPattern;
use crate::secret::SecretName;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Who says something. Later ones come after earlier ones; all but the project
/// speak for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// What Atoll does when nobody says anything.
    BuiltIn,
    /// The user's own configuration file.
    User,
    /// A file named with `--policy`.
    PolicyFile,
    /// `atoll.toml` in the project: may only narrow.
    Project,
    /// A flag of the command.
    Flag,
}

impl Level {
    /// The word for it in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::User => "user",
            Self::PolicyFile => "policy-file",
            Self::Project => "project",
            Self::Flag => "flag",
        }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Who said it.
    pub level: Level,
    /// The file, when it was one.
    pub file: Option<Arc<Path>>,
    /// The line or the flag.
    pub place: Option<Place>,
}

impl Origin {
    /// Atoll itself.
    pub const BUILT_IN: Self = Self { level: Level::BuiltIn, file: None, place: None };

    /// The line, when it was a file.
    pub fn line(&self) -> Option<u32> {
        match self.place {
            Some(Place::Line(line)) => Some(line),
            Some(Place::Flag(_)) | None => None,
        }
    }

    /// The flag, when it was one.
    pub fn flag(&self) -> Option<&'static str> {
        match self.place {
            Some(Place::Flag(flag)) => Some(flag),
            Some(Place::Line(_)) | None => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.place) {
            (Some(file), Some(Place::Line(line))) => write!(f, "{}:{line}", file.display()),
            (Some(file), _) => write!(f, "{}", file.display()),
            (None, Some(Place::Flag(flag))) => f.write_str(flag),
            (None, Some(Place::Line(line))) => write!(f, "line {line}"),
            (None, None) => f.write_str("built in"),
        }
    }
}

/// A value that knows where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// A value that nobody had to ask for.
    pub fn built_in(value: T) -> Self {
        Self { value, origin: Origin::BUILT_IN }
    }
}

/// The policy in force for one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectivePolicy {
    /// How the project is shown.
    pub workspace: Workspace,
    /// What else of the host is shown, and what of the project is hidden.
    pub files: Files,
    /// Exceptions from and additions to the protected names, in order: the last
    /// rule that matches a path decides; none leaves it to [`crate::protect`].
    pub protect: Vec<Sourced<ProtectRule>>,
    /// Commands that a person is asked about before they run.
    pub exec_ask: Vec<Sourced<ExecPattern>>,
    /// The environment inside.
    pub env: Env,
    /// How much may be used.
    pub limits: Limits,
    /// What may be reached.
    pub network: Network,
    /// How strongly it is isolated.
    pub tier: Sourced<Isolation>,
    /// Kernel interfaces.
    pub kernel: Kernel,
    /// The root file system.
    pub image: Sourced<Image>,
}

/// How the project is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Live, review or none.
    pub mode: Sourced<WorkspaceMode>,
    /// Judge every open of a live workspace against the hide rules, so that a
    /// file that the host replaces meanwhile stays hidden. Costs 50-85 us an open.
    pub strict_ignore: Sourced<bool>,
    /// What it takes for a review to be applied.
    pub apply: Sourced<ApplyMode>,
}

/// Host paths shown inside, and project paths hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Shown read-only.
    pub read: Vec<Sourced<Grant>>,
    /// Shown writable.
    pub write: Vec<Sourced<Grant>>,
    /// Patterns in gitignore(5) grammar, relative to the project, in order: the
    /// last one that matches decides.
    pub hide: Vec<Sourced<String>>,
    /// Names of files in the project whose patterns hide. They are protected at
    /// any depth: who could write one could unhide for the next run.
    pub ignore_files: Vec<Sourced<String>>,
}

/// A host path shown inside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// Where it really lies, links resolved. Open this, without following links.
    pub path: PathBuf,
    /// As it was written, `~` expanded. When it differs from `path`, programs will
    /// look for it here.
    pub spelled: PathBuf,
}

/// One exception or addition to the protected names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectRule {
    /// What it is about.
    pub pattern: PathPattern,
    /// What it says.
    pub verdict: Verdict,
}

/// What a rule about protected names says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// May be written.
    Allow,
    /// May not be written.
    Deny,
}

/// The environment inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Env {
    /// Taken over from the caller when set there.
    pub pass: Vec<Sourced<EnvPattern>>,
    /// Set to these values whatever the caller has.
    pub set: BTreeMap<String, Sourced<OsString>>,
}

impl Env {
    /// Whether the caller's variable `name` is passed on.
    pub fn passes(&self, name: &[u8]) -> bool {
        self.pass.iter().any(|pattern| pattern.value.matches(name))
    }
}

/// Limits for one sandbox for its whole life; `None` is unlimited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all processes together. Over it the workload is killed.
    pub memory: Sourced<Option<Bytes>>,
    /// Private space (HOME, `/tmp` and `/dev/shm` together), which lives in memory.
    pub disk: Sourced<Option<Bytes>>,
    /// Processes and threads at once.
    pub pids: Sourced<Option<u32>>,
    /// Share of processors.
    pub cpus: Sourced<Option<Cpus>>,
    /// Open files of one process: the caller's own limits, cut to this.
    pub open_files: Sourced<Option<u32>>,
    /// Wall time of the command.
    pub time: Sourced<Option<Duration>>,
}

/// What may be reached, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Nothing, or what rules allow.
    pub mode: Sourced<NetworkMode>,
    /// What all levels but the project's say, lowest level first.
    pub user: Vec<Sourced<NetworkRule>>,
    /// What the project's own file says of rules, if it does: it only narrows.
    pub project: Option<ProjectRules>,
    /// Refused names lead to an address that answers with the reason.
    pub explain: Sourced<bool>,
    /// `HTTP_PROXY` and its like are set inside.
    pub proxy_variables: Sourced<bool>,
    /// Addresses that stand for names, in CIDR form.
    pub stand_in: Sourced<String>,
    /// Hosts are reached over IPv6 too.
    pub ipv6: Sourced<bool>,
    /// The proxy that the gateway goes through.
    pub upstream_proxy: Sourced<Option<UpstreamProxy>>,
    /// How much may pass.
    pub budgets: Budgets,
    /// Stored secrets and what becomes of them, by name.
    pub secrets: BTreeMap<SecretName, Sourced<SecretBinding>>,
}

/// Rules of a project's own file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRules {
    /// What it says.
    pub rules: Vec<Sourced<NetworkRule>>,
    /// Where it begins to name what is kept (`allow` or `presets`, even if they are empty): then
    /// nothing else is. Without that it only takes away.
    pub keeps: Option<Origin>,
}

/// How much may pass in the whole life of a sandbox; `None` is unlimited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budgets {
    /// HTTP requests.
    pub requests_max: Sourced<Option<u64>>,
    /// Bytes, both ways together.
    pub bytes_max: Sourced<Option<Bytes>>,
    /// HTTP requests to one host.
    pub requests_per_host_max: Sourced<Option<u64>>,
    /// Bytes to and from one host.
    pub bytes_per_host_max: Sourced<Option<Bytes>>,
}

/// A range that is nobody's to reach, and that programs that refuse private, reserved and
/// benchmarking addresses do not refuse.
const STAND_IN: &str = "11.0.0.0/15";

impl Network {
    /// No network, and how it would be if there were one.
    fn built_in() -> Self {
        Self {
            mode: Sourced::built_in(NetworkMode::None),
            user: Vec::new(),
            project: None,
            explain: Sourced::built_in(true),
            proxy_variables: Sourced::built_in(false),
            stand_in: Sourced::built_in(STAND_IN.to_owned()),
            ipv6: Sourced::built_in(true),
            upstream_proxy: Sourced::built_in(None),
            budgets: Budgets {
                requests_max: Sourced::built_in(None),
                bytes_max: Sourced::built_in(None),
                requests_per_host_max: Sourced::built_in(None),
                bytes_per_host_max: Sourced::built_in(None),
            },
            secrets: BTreeMap::new(),
        }
    }
}

/// Kernel interfaces that are off unless the user asks for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Debuggers may trace their own children.
    pub ptrace: Sourced<bool>,
    /// User namespaces may be made inside.
    pub nested_userns: Sourced<bool>,
}

/// Names of ignore files that tools for agents use.
const IGNORE_FILES: &[&str] = &[
    ".atollignore",
    ".aiignore",
    ".aiexclude",
    ".cursorignore",
    ".codeiumignore",
    ".geminiignore",
    ".agentignore",
];

/// What every run needs or may know: the terminal, the language, the time zone, who
/// one is, where toolchains are and what builds are asked to print. Everything else
/// may hold a secret or change what programs load.
const PASS: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "DEBUG",
    "EDITOR",
    "FORCE_COLOR",
    "GOROOT",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LESS",
    "LINES",
    "LOGNAME",
    "NO_COLOR",
    "NODE_ENV",
    "NVM_DIR",
    "PAGER",
    "PATH",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SDKMAN_DIR",
    "SHELL",
    "SOURCE_DATE_EPOCH",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "VISUAL",
];

/// Private space lives in memory, so "as much as there is" would let `/tmp` eat the
/// machine (the kernel's own default is half of it), and a share of the memory
/// would make the same command fail on one machine and not on another. Four GiB
/// hold the scratch of a large build; package caches are on disk and not counted.
const DISK: Bytes = Bytes::gib(4);

/// Far above what builds use, far below what starves the host: the kernel's
/// default for everything together is 32,768 on ordinary machines.
const PIDS: u32 = 4096;

/// What builds and servers ask for at most; the kernel's own ceiling of a million
/// makes programs that close every descriptor crawl.
const OPEN_FILES: u32 = 65_536;

impl EffectivePolicy {
    /// The policy when nobody says anything.
    pub fn built_in() -> Self {
        let names =
            |list: &[&str]| list.iter().map(|name| Sourced::built_in((*name).to_owned())).collect();
        let pass = PASS
            .iter()
            .filter_map(|text| EnvPattern::parse(text).ok())
            .map(Sourced::built_in)
            .collect();
        Self {
            workspace: Workspace {
                mode: Sourced::built_in(WorkspaceMode::Live),
                strict_ignore: Sourced::built_in(false),
                apply: Sourced::built_in(ApplyMode::Confirm),
            },
            files: Files {
                read: Vec::new(),
                write: Vec::new(),
                hide: Vec::new(),
                ignore_files: names(IGNORE_FILES),
            },
            protect: Vec::new(),
            exec_ask: Vec::new(),
            env: Env { pass, set: BTreeMap::new() },
            limits: Limits {
                memory: Sourced::built_in(None),
                disk: Sourced::built_in(Some(DISK)),
                pids: Sourced::built_in(Some(PIDS)),
                cpus: Sourced::built_in(None),
                open_files: Sourced::built_in(Some(OPEN_FILES)),
                time: Sourced::built_in(None),
            },
            network: Network::built_in(),
            tier: Sourced::built_in(Isolation::Container),
            kernel: Kernel {
                ptrace: Sourced::built_in(false),
                nested_userns: Sourced::built_in(false),
            },
            image: Sourced::built_in(Image::Host),
        }
    }

    /// The rule about protected names that decides for a path in the project, if
    /// there is one. `path` holds its components from the project's root.
    pub fn protect_rule(&self, path: &[&[u8]]) -> Option<&Sourced<ProtectRule>> {
        self.protect.iter().rev().find(|rule| rule.value.pattern.matches(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_is_kept() {
        assert_eq!(EffectivePolicy::built_in().env.pass.len(), PASS.len());
    }

    #[test]
    fn secrets_of_the_caller_are_not_passed() {
        let env = EffectivePolicy::built_in().env;
        assert!(env.passes(b"PATH") && env.passes(b"LC_ALL"), "control");
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "GH_TOKEN",
            "SSH_AUTH_SOCK",
            "LD_PRELOAD",
            "BASH_ENV",
            "GIT_DIR",
            "LC",
        ] {
            assert!(!env.passes(name.as_bytes()), "{name}");
        }
    }
}
