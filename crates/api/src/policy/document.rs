//! A policy as it was written, every value with the place it was written at.

use super::network::NetworkSection;
use super::pattern::{EnvPattern, PathPattern};
use super::value::{ApplyMode, Bytes, Cpus, Image, Isolation, Limit, WorkspaceMode};
use crate::exec::ExecPattern;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where in its source a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of a file, from 1.
    Line(u32),
    /// A flag of the command, with its dashes.
    Flag(&'static str),
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub place: Place,
}

impl<T> Located<T> {
    /// Puts a value at a place.
    pub fn new(value: T, place: Place) -> Self {
        Self { value, place }
    }
}

/// A list as it was written. An empty list differs from none: in a project's
/// file it drops every grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T> {
    /// Where the key stands.
    pub place: Place,
    /// The entries, each with its own line.
    pub items: Vec<Located<T>>,
}

/// One policy document. Each section is what the file says, nothing filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// `[workspace]`
    pub workspace: WorkspaceSection,
    /// `[files]`
    pub files: FilesSection,
    /// `[protect]`
    pub protect: ProtectSection,
    /// `[exec]`
    pub exec: ExecSection,
    /// `[env]`
    pub env: EnvSection,
    /// `[limits]`
    pub limits: LimitsSection,
    /// `[network]`
    pub network: NetworkSection,
    /// `[tier]`
    pub tier: TierSection,
    /// `[kernel]`
    pub kernel: KernelSection,
    /// `[root]`
    pub root: RootSection,
}

/// `[workspace]`: how the project is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceSection {
    /// `mode`
    pub mode: Option<Located<WorkspaceMode>>,
    /// `strict_ignore`
    pub strict_ignore: Option<Located<bool>>,
    /// `apply`
    pub apply: Option<Located<ApplyMode>>,
}

/// `[files]`: what of the host is shown, and what of the project is hidden.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesSection {
    /// `read`: host paths, absolute or from `~/`.
    pub read: Option<List<PathBuf>>,
    /// `write`: host paths, absolute or from `~/`.
    pub write: Option<List<PathBuf>>,
    /// `hide`: patterns in gitignore(5) grammar, relative to the project.
    pub hide: Option<List<String>>,
    /// `ignore_files`: names of files whose patterns hide.
    pub ignore_files: Option<List<String>>,
}

/// `[exec]`: commands that a person is asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecSection {
    /// `ask`: patterns of them.
    pub ask: Option<List<ExecPattern>>,
}

/// `[protect]`: names that may not be written although the project may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectSection {
    /// `allow`: protection lifted.
    pub allow: Option<List<PathPattern>>,
    /// `deny`: more that is protected.
    pub deny: Option<List<PathPattern>>,
}

/// `[env]`: the environment inside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvSection {
    /// `pass`: names taken over from the caller.
    pub pass: Option<List<EnvPattern>>,
    /// `set`: names with values, in the order of their names.
    pub set: Vec<(String, Located<OsString>)>,
}

/// `[limits]`: how much may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitsSection {
    /// `memory`
    pub memory: Option<Located<Limit<Bytes>>>,
    /// `disk`
    pub disk: Option<Located<Limit<Bytes>>>,
    /// `pids`
    pub pids: Option<Located<Limit<u32>>>,
    /// `cpus`
    pub cpus: Option<Located<Limit<Cpus>>>,
    /// `open_files`
    pub open_files: Option<Located<Limit<u32>>>,
    /// `time`
    pub time: Option<Located<Limit<Duration>>>,
}

/// `[tier]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TierSection {
    /// `isolation`
    pub isolation: Option<Located<Isolation>>,
}

/// `[kernel]`: kernel interfaces that are off unless asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelSection {
    /// `ptrace`
    pub ptrace: Option<Located<bool>>,
    /// `nested_userns`
    pub nested_userns: Option<Located<bool>>,
}

/// `[root]`: the root file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootSection {
    /// `image`
    pub image: Option<Located<Image>>,
}
