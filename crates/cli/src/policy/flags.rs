//! The flags that say something about the policy, the same for every command
//! that has one.

use atoll_api::policy::{
    Bytes, Cpus, Document, EnvPattern, Image, Isolation, Limit, List, Located, NetworkMode,
    PathPattern, Place, ValueError, WorkspaceMode, parse_duration,
};
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Flags of the user's level: they come last and may widen.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyFlags {
    /// The project [default: the git work tree around the current directory, else that directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// A policy file to trust like the user's own
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Leave the user's own policy file out
    #[arg(long)]
    pub(crate) no_user_policy: bool,
    /// How the project is shown: live, review or none
    #[arg(long, value_name = "MODE")]
    workspace: Option<WorkspaceMode>,
    /// Judge every open of a live workspace against the hide rules
    #[arg(long)]
    strict_ignore: bool,
    /// Show a host path read-only; may be repeated
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// Show a host path writable; may be repeated
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Hide project paths, in gitignore grammar; may be repeated
    #[arg(long, value_name = "PATTERN")]
    hide: Vec<String>,
    /// Let a protected name be written, as in .vscode/; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = path_pattern)]
    allow_write: Vec<PathPattern>,
    /// Pass a variable on, or set it; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = OsStringValueParser::new().try_map(EnvFlag::parse))]
    env: Vec<EnvFlag>,
    /// Memory of all processes together, as in 2GiB, or none
    #[arg(long, value_name = "SIZE")]
    memory: Option<SizeLimit>,
    /// Private space (HOME, /tmp and /dev/shm together), as in 4GiB, or none
    #[arg(long, value_name = "SIZE")]
    disk: Option<SizeLimit>,
    /// Processes and threads at once, or none
    #[arg(long, value_name = "N", value_parser = count)]
    pids: Option<Limit<u32>>,
    /// Share of processors, as in 1.5, or none
    #[arg(long, value_name = "N", value_parser = Limit::<Cpus>::from_str)]
    cpus: Option<Limit<Cpus>>,
    /// Open files of one process, or none
    #[arg(long, value_name = "N", value_parser = count)]
    open_files: Option<Limit<u32>>,
    /// Wall time of the command, as in 10m, or none
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Limit<Duration>>,
    /// Whether anything may be reached: none, or what rules allow
    #[arg(long, value_name = "none|rules")]
    net: Option<NetworkMode>,
    /// Let a host be reached, as in pypi.org or https://GET@api.github.com/repos/**; may be repeated
    #[arg(long, value_name = "RULE")]
    allow_host: Vec<String>,
    /// Ask on the terminal before a host is reached; may be repeated
    #[arg(long, value_name = "RULE")]
    ask_host: Vec<String>,
    /// Refuse a host; may be repeated
    #[arg(long, value_name = "RULE")]
    deny_host: Vec<String>,
    /// Let the hosts of a preset be reached, as in python; may be repeated
    #[arg(long, value_name = "NAME")]
    preset: Vec<String>,
    /// How strongly the command is isolated; only container is available yet
    #[arg(long, value_name = "TIER")]
    tier: Option<Isolation>,
    /// Switch a kernel interface on; may be repeated
    #[arg(long, value_name = "WHAT")]
    allow: Vec<KernelFlag>,
    /// The root file system: host, a directory or a tarball
    #[arg(long, value_name = "IMAGE")]
    image: Option<PathBuf>,
}

type SizeLimit = Limit<Bytes>;

/// Kernel interfaces that `--allow` switches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KernelFlag {
    /// Debuggers may trace their own children
    Ptrace,
    /// User namespaces may be made inside
    NestedUserns,
}

/// `--env NAME` passes, `--env NAME=VALUE` sets.
#[derive(Debug, Clone)]
enum EnvFlag {
    Pass(EnvPattern),
    Set(String, OsString),
}

impl EnvFlag {
    fn parse(text: OsString) -> Result<Self, String> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let bytes = text.as_bytes();
        let name_end = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
        let name = std::str::from_utf8(&bytes[..name_end])
            .map_err(|_| "the name is not UTF-8".to_owned())?;
        match bytes.get(name_end + 1..) {
            None => EnvPattern::parse(name).map(Self::Pass).map_err(|error| error.to_string()),
            Some(_) if name.is_empty() => {
                Err(ValueError::EnvName { text: name.to_owned() }.to_string())
            }
            Some(value) => Ok(Self::Set(name.to_owned(), OsString::from_vec(value.to_vec()))),
        }
    }
}

fn path_pattern(text: &str) -> Result<PathPattern, String> {
    PathPattern::parse(text).map_err(|error| error.to_string())
}

fn count(text: &str) -> Result<Limit<u32>, String> {
    text.parse().map_err(|_| "write a whole number or none".to_owned())
}

fn time(text: &str) -> Result<Limit<Duration>, ValueError> {
    if text == "none" { Ok(Limit::Unlimited) } else { parse_duration(text).map(Limit::AtMost) }
}

impl PolicyFlags {
    /// The flags as a document. Relative paths are taken from `cwd`.
    pub(crate) fn document(&self, cwd: &Path) -> Document {
        let mut document = Document::default();
        document.workspace.mode = one("--workspace", self.workspace.as_ref());
        document.workspace.strict_ignore =
            one("--strict-ignore", self.strict_ignore.then_some(&true));
        document.files.read = list("--read", self.read.iter().map(|path| cwd.join(path)));
        document.files.write = list("--write", self.write.iter().map(|path| cwd.join(path)));
        document.files.hide = list("--hide", self.hide.iter().cloned());
        document.protect.allow = list("--allow-write", self.allow_write.iter().cloned());
        document.limits.memory = one("--memory", self.memory.as_ref());
        document.limits.disk = one("--disk", self.disk.as_ref());
        document.limits.pids = one("--pids", self.pids.as_ref());
        document.limits.cpus = one("--cpus", self.cpus.as_ref());
        document.limits.open_files = one("--open-files", self.open_files.as_ref());
        document.limits.time = one("--timeout", self.timeout.as_ref());
        self.network(&mut document);
        document.tier.isolation = one("--tier", self.tier.as_ref());
        let allowed = |flag| self.allow.contains(&flag).then_some(&true);
        document.kernel.ptrace = one("--allow", allowed(KernelFlag::Ptrace));
        document.kernel.nested_userns = one("--allow", allowed(KernelFlag::NestedUserns));
        let image = self.image.as_ref().map(|image| match image.to_str() {
            Some("host") => Image::Host,
            Some(_) | None => Image::Path(cwd.join(image)),
        });
        document.root.image = one("--image", image.as_ref());
        self.environment(&mut document);
        document
    }

    fn network(&self, document: &mut Document) {
        let network = &mut document.network;
        network.presets = list("--preset", self.preset.iter().cloned());
        network.allow = list("--allow-host", self.allow_host.iter().cloned());
        network.ask = list("--ask-host", self.ask_host.iter().cloned());
        network.deny = list("--deny-host", self.deny_host.iter().cloned());
        // Who names hosts wants them reached, unless the mode is said too.
        let implied = network.lists().next().map(|(_, list)| list.place);
        let implied = implied.map(|place| Located::new(NetworkMode::Rules, place));
        network.mode = one("--net", self.net.as_ref()).or(implied);
    }

    fn environment(&self, document: &mut Document) {
        let passed = self.env.iter().filter_map(|flag| match flag {
            EnvFlag::Pass(pattern) => Some(pattern.clone()),
            EnvFlag::Set(..) => None,
        });
        document.env.pass = list("--env", passed);
        document.env.set = self
            .env
            .iter()
            .filter_map(|flag| match flag {
                EnvFlag::Set(name, value) => {
                    Some((name.clone(), Located::new(value.clone(), Place::Flag("--env"))))
                }
                EnvFlag::Pass(_) => None,
            })
            .collect();
    }
}

fn one<T: Clone>(flag: &'static str, value: Option<&T>) -> Option<Located<T>> {
    value.map(|value| Located::new(value.clone(), Place::Flag(flag)))
}

fn list<T>(flag: &'static str, items: impl Iterator<Item = T>) -> Option<List<T>> {
    let place = Place::Flag(flag);
    let items: Vec<_> = items.map(|item| Located::new(item, place)).collect();
    (!items.is_empty()).then_some(List { place, items })
}
