//! Folds layers into the policy in force.

mod grants;
mod narrow;
mod network;
mod report;
#[cfg(test)]
mod tests;

pub use grants::write_refusal;
pub use report::{MergeError, MergeErrorKind, Warning, WarningKind};

use super::document::{Document, List, Located, Place};
use super::effective::{EffectivePolicy, Grant, Level, Origin, ProtectRule, Sourced, Verdict};
use super::pattern::PathPattern;
use super::value::{Bytes, Image, Isolation, Limit, format_duration};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Least memory that is accepted: below it not even the loader and PID 1 fit.
const LEAST_MEMORY: Bytes = Bytes::mib(16);
/// Least private space. Zero would mean "unlimited" to tmpfs(5).
const LEAST_DISK: Bytes = Bytes::mib(1);
/// Fewer descriptors than this and the dynamic loader fails.
const LEAST_OPEN_FILES: u32 = 16;
/// PID 1, its supervisor, a shell and one command.
const LEAST_PIDS: u32 = 4;

/// One document with its level and with its paths looked up.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Who speaks.
    pub level: Level,
    /// The file; none for flags.
    pub file: Option<Arc<Path>>,
    /// What it says.
    pub document: Document,
    /// What each of [`Document::host_paths`] is on this machine. A path that is
    /// missing here counts as one that does not exist.
    pub paths: BTreeMap<PathBuf, Resolution>,
}

/// What a path in a document is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// Absolute, with `~` expanded.
    pub spelled: PathBuf,
    /// With every link resolved; nothing when it does not exist.
    pub real: Option<PathBuf>,
    /// Whether it is a socket, which read-only does not close.
    pub is_socket: bool,
}

/// What merging has to know of the machine. All paths are real ones.
#[derive(Debug, Clone)]
pub struct Host {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The project's root.
    pub project: PathBuf,
    /// Directories that every sandbox with the host's root sees read-only.
    pub system: Vec<PathBuf>,
    /// Files that speak for the user, whether they exist or not, under every path that
    /// leads to them. Nothing inside may write one, or the next run would trust it.
    pub trusted: Vec<PathBuf>,
}

/// The policy in force, with what is odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The policy.
    pub policy: EffectivePolicy,
    /// Rules that do nothing or more than they seem to.
    pub warnings: Vec<Warning>,
}

impl Document {
    /// The host paths it names, which the caller looks up for its [`Layer`].
    pub fn host_paths(&self) -> impl Iterator<Item = &Path> {
        let lists = [&self.files.read, &self.files.write];
        let grants = lists
            .into_iter()
            .flatten()
            .flat_map(|list| &list.items)
            .map(|item| item.value.as_path());
        let image = self.root.image.iter().filter_map(|image| match &image.value {
            Image::Path(path) => Some(path.as_path()),
            Image::Host => None,
        });
        grants.chain(image)
    }
}

/// Folds `layers`, lowest level first, over what is built in.
///
/// # Errors
/// Every rule that cannot be had: one that would widen from the project's level,
/// one that nothing could run under, one that is not available.
pub fn merge(layers: &[Layer], host: &Host) -> Result<Merged, Vec<MergeError>> {
    debug_assert!(layers.is_sorted_by_key(|layer| layer.level), "layers come lowest level first");
    let mut merger = Merger {
        host,
        policy: EffectivePolicy::built_in(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    for layer in layers {
        merger.check_limits(layer);
        merger.check_available(layer);
        if layer.level == Level::Project { merger.narrow(layer) } else { merger.apply(layer) }
    }
    merger.tidy_grants();
    merger.warn_about_patterns();
    merger.protect_trusted_files();
    merger.warnings.sort_by_key(|warning| (warning.origin.level, warning.origin.line()));
    if merger.errors.is_empty() {
        Ok(Merged { policy: merger.policy, warnings: merger.warnings })
    } else {
        Err(merger.errors)
    }
}

struct Merger<'a> {
    host: &'a Host,
    policy: EffectivePolicy,
    errors: Vec<MergeError>,
    warnings: Vec<Warning>,
}

impl Layer {
    fn origin<T>(&self, value: &Located<T>) -> Origin {
        self.origin_at(value.place)
    }

    fn origin_at(&self, place: Place) -> Origin {
        Origin { level: self.level, file: self.file.clone(), place: Some(place) }
    }

    fn sourced<T: Clone>(&self, value: &Located<T>) -> Sourced<T> {
        Sourced { value: value.value.clone(), origin: self.origin(value) }
    }

    fn sourced_list<T: Clone>(&self, list: Option<&List<T>>) -> Vec<Sourced<T>> {
        list.into_iter().flat_map(|list| &list.items).map(|item| self.sourced(item)).collect()
    }

    fn rules(
        &self,
        list: Option<&List<PathPattern>>,
        verdict: Verdict,
    ) -> Vec<Sourced<ProtectRule>> {
        let rule = |item: Sourced<PathPattern>| Sourced {
            value: ProtectRule { pattern: item.value, verdict },
            origin: item.origin,
        };
        self.sourced_list(list).into_iter().map(rule).collect()
    }
}

impl Merger<'_> {
    fn error(&mut self, origin: Origin, key: &'static str, kind: MergeErrorKind) {
        self.errors.push(MergeError { origin, key, kind });
    }

    fn warn(&mut self, origin: Origin, key: &'static str, kind: WarningKind) {
        self.warnings.push(Warning { origin, key, kind });
    }

    fn check_limits(&mut self, layer: &Layer) {
        let limits = &layer.document.limits;
        self.check_least(layer, "limits.memory", limits.memory.as_ref(), LEAST_MEMORY, |bytes| {
            bytes.to_string()
        });
        self.check_least(layer, "limits.disk", limits.disk.as_ref(), LEAST_DISK, |bytes| {
            bytes.to_string()
        });
        self.check_least(layer, "limits.pids", limits.pids.as_ref(), LEAST_PIDS, |count| {
            count.to_string()
        });
        let open_files = limits.open_files.as_ref();
        self.check_least(layer, "limits.open_files", open_files, LEAST_OPEN_FILES, |count| {
            count.to_string()
        });
        let least = Duration::from_millis(1);
        self.check_least(layer, "limits.time", limits.time.as_ref(), least, |time| {
            format_duration(*time)
        });
    }

    fn check_least<T: Copy + PartialOrd>(
        &mut self,
        layer: &Layer,
        key: &'static str,
        limit: Option<&Located<Limit<T>>>,
        least: T,
        show: fn(&T) -> String,
    ) {
        let Some(limit) = limit else { return };
        if let Limit::AtMost(value) = limit.value
            && value < least
        {
            let kind = MergeErrorKind::TooLittle { value: show(&value), least: show(&least) };
            self.error(layer.origin(limit), key, kind);
        }
    }

    fn check_available(&mut self, layer: &Layer) {
        if let Some(tier) = &layer.document.tier.isolation
            && tier.value != Isolation::Container
        {
            let what = format!("the tier {:?}", tier.value.as_str());
            let instead = "write \"container\"";
            self.error(
                layer.origin(tier),
                "tier.isolation",
                MergeErrorKind::Unavailable { what, instead },
            );
        }
    }

    /// A level that speaks for the user: values replace, grants and restrictions add.
    fn apply(&mut self, layer: &Layer) {
        let document = &layer.document;
        replace(&mut self.policy.workspace.mode, layer, document.workspace.mode.as_ref());
        replace(
            &mut self.policy.workspace.strict_ignore,
            layer,
            document.workspace.strict_ignore.as_ref(),
        );
        replace(&mut self.policy.workspace.apply, layer, document.workspace.apply.as_ref());
        replace(&mut self.policy.kernel.ptrace, layer, document.kernel.ptrace.as_ref());
        replace(
            &mut self.policy.kernel.nested_userns,
            layer,
            document.kernel.nested_userns.as_ref(),
        );
        self.apply_limits(layer);
        self.apply_grants(layer);
        self.policy.files.hide.extend(layer.sourced_list(document.files.hide.as_ref()));
        if document.files.ignore_files.is_some() {
            self.policy.files.ignore_files =
                layer.sourced_list(document.files.ignore_files.as_ref());
        }
        // What one level both lifts and protects stays protected: the later rule decides.
        self.policy.protect.extend(layer.rules(document.protect.allow.as_ref(), Verdict::Allow));
        self.policy.protect.extend(layer.rules(document.protect.deny.as_ref(), Verdict::Deny));
        self.policy.exec_ask.extend(layer.sourced_list(document.exec.ask.as_ref()));
        self.policy.env.pass.extend(layer.sourced_list(document.env.pass.as_ref()));
        for (name, value) in &document.env.set {
            self.policy.env.set.insert(name.clone(), layer.sourced(value));
        }
        self.apply_network(layer);
        self.apply_image(layer);
    }

    fn apply_limits(&mut self, layer: &Layer) {
        let written = &layer.document.limits;
        let limits = &mut self.policy.limits;
        replace_limit(&mut limits.memory, layer, written.memory.as_ref());
        replace_limit(&mut limits.disk, layer, written.disk.as_ref());
        replace_limit(&mut limits.pids, layer, written.pids.as_ref());
        replace_limit(&mut limits.cpus, layer, written.cpus.as_ref());
        replace_limit(&mut limits.open_files, layer, written.open_files.as_ref());
        replace_limit(&mut limits.time, layer, written.time.as_ref());
    }

    fn apply_image(&mut self, layer: &Layer) {
        let Some(image) = &layer.document.root.image else { return };
        let origin = layer.origin(image);
        let value = match &image.value {
            Image::Host => Image::Host,
            Image::Path(path) => match layer.paths.get(path).and_then(|found| found.real.clone()) {
                Some(real) => Image::Path(real),
                None => {
                    let path = layer.paths.get(path).map_or(path, |found| &found.spelled).clone();
                    return self.error(origin, "root.image", MergeErrorKind::Missing { path });
                }
            },
        };
        self.policy.image = Sourced { value, origin };
    }

    /// After everybody has spoken, so that no exception lifts it.
    fn protect_trusted_files(&mut self) {
        for file in &self.host.trusted {
            let Ok(inside) = file.strip_prefix(&self.host.project) else { continue };
            match PathPattern::literal(inside) {
                Ok(pattern) => {
                    let rule = ProtectRule { pattern, verdict: Verdict::Deny };
                    self.policy.protect.push(Sourced::built_in(rule));
                }
                Err(_) => {
                    let why =
                        "it holds the user's own policy, under a name that no rule can protect";
                    let kind = MergeErrorKind::Refused { path: self.host.project.clone(), why };
                    self.errors.push(MergeError {
                        origin: Origin::BUILT_IN,
                        key: "workspace.mode",
                        kind,
                    });
                }
            }
        }
    }

    fn warn_about_patterns(&mut self) {
        for index in 0..self.policy.files.hide.len() {
            let item = &self.policy.files.hide[index];
            if let Some(why) = hides_nothing(&item.value, index == 0) {
                let (origin, pattern) = (item.origin.clone(), item.value.clone());
                self.warn(origin, "files.hide", WarningKind::HidesNothing { pattern, why });
            }
        }
        for index in 0..self.policy.protect.len() {
            let rule = &self.policy.protect[index];
            if rule.value.verdict == Verdict::Allow && self.allows_nothing(index) {
                let (origin, pattern) = (rule.origin.clone(), rule.value.pattern.to_string());
                self.warn(origin, "protect.allow", WarningKind::AllowsNothing { pattern });
            }
        }
    }

    /// A pattern that names a directory lifts whatever is protected below it, and a
    /// star may name anything; a plain name must be one that is protected.
    fn allows_nothing(&self, index: usize) -> bool {
        let pattern = &self.policy.protect[index].value.pattern;
        if pattern.names_directory() || pattern.as_str().contains('*') {
            return false;
        }
        let path: Vec<&[u8]> = pattern.components().iter().map(|part| part.as_bytes()).collect();
        let by_name =
            (0..path.len()).any(|start| crate::protect::is_protected_name(&path[start..]));
        let by_rule = self.policy.protect[..index]
            .iter()
            .any(|rule| rule.value.verdict == Verdict::Deny && rule.value.pattern.matches(&path));
        let by_ignore = self
            .policy
            .files
            .ignore_files
            .iter()
            .any(|name| path.last() == Some(&name.value.as_bytes()));
        !(by_name || by_rule || by_ignore)
    }
}

fn replace<T: Clone>(target: &mut Sourced<T>, layer: &Layer, value: Option<&Located<T>>) {
    if let Some(value) = value {
        *target = layer.sourced(value);
    }
}

fn replace_limit<T: Copy>(
    target: &mut Sourced<Option<T>>,
    layer: &Layer,
    limit: Option<&Located<Limit<T>>>,
) {
    if let Some(limit) = limit {
        *target = Sourced { value: limit.value.most(), origin: layer.origin(limit) };
    }
}

/// Why a hide pattern can match nothing, when it cannot.
fn hides_nothing(pattern: &str, is_first: bool) -> Option<&'static str> {
    let trimmed = pattern.trim_end_matches([' ', '\r']);
    if trimmed.is_empty() {
        return Some("it is empty");
    }
    if trimmed.starts_with('#') {
        return Some("it is a comment; write \\# for a name that starts with #");
    }
    let body = trimmed.strip_prefix('!').unwrap_or(trimmed);
    if body.is_empty() || body == "/" {
        return Some("it names nothing");
    }
    if body.len() < trimmed.len() && is_first {
        return Some("it takes back what an earlier pattern hides, and it is the first");
    }
    if body.split('/').any(|part| part == ".." || part == ".") {
        return Some("patterns are relative to the project and cannot climb");
    }
    if body == "~" || body.starts_with("~/") {
        return Some("patterns are relative to the project; what is outside is hidden anyway");
    }
    let trailing = body.bytes().rev().take_while(|byte| *byte == b'\\').count();
    (trailing % 2 == 1).then_some("it ends in a backslash that escapes nothing")
}

/// A value as it is written in a document.
fn quoted(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn one_item_list(text: impl Display) -> String {
    format!("[{}]", quoted(text))
}

fn covering<'a>(grants: &'a [Sourced<Grant>], path: &Path) -> Option<&'a Sourced<Grant>> {
    grants.iter().find(|grant| path.starts_with(&grant.value.path))
}
