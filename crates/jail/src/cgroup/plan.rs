//! Which groups to make and what to write into them. Pure.

use super::layout::{Access, Controller, Layout, Legacy, Occupants, Place};
use super::name::ASIDE;
use std::fmt;
use std::path::{Path, PathBuf};

/// How long the scheduler's accounting window is.
const CPU_PERIOD_US: u64 = 100_000;
/// The least quota that the kernel takes (cgroup-v2.rst, `cpu.max`).
const CPU_QUOTA_US_MIN: u64 = 1_000;
/// Less would not even hold the page tables of one process.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
const CPUS_MAX: f64 = 100_000.0;

/// Ceilings for one run; `None` sets none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Memory and swap together. At least 1 MiB.
    pub memory_bytes: Option<u64>,
    /// Processes and threads, those of our own inside included. At least 1.
    pub pids: Option<u64>,
    /// In CPUs: 1.5 is one and a half. At least 0.01.
    pub cpus: Option<f64>,
}

/// A limit that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LimitsError {
    #[error("a memory limit of {bytes} bytes is too small: the least is {MEMORY_BYTES_MIN}")]
    Memory { bytes: u64 },
    #[error("a limit of 0 processes would not let the command start")]
    Pids,
    #[error("a limit of {cpus} CPUs is out of range: it may be 0.01 to {CPUS_MAX}")]
    Cpus { cpus: f64 },
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn check(&self) -> Result<(), LimitsError> {
        match self.memory_bytes {
            Some(bytes) if bytes < MEMORY_BYTES_MIN => return Err(LimitsError::Memory { bytes }),
            Some(_) | None => {}
        }
        if self.pids == Some(0) {
            return Err(LimitsError::Pids);
        }
        match self.cpus {
            // The negated form also refuses what is not a number.
            Some(cpus) if !(0.01..=CPUS_MAX).contains(&cpus) => Err(LimitsError::Cpus { cpus }),
            Some(_) | None => Ok(()),
        }
    }

    fn wanted(&self) -> Vec<Limit> {
        let wanted = [
            self.memory_bytes.map(|_| Limit::Memory),
            self.pids.map(|_| Limit::Pids),
            self.cpus.map(|_| Limit::Cpu),
        ];
        wanted.into_iter().flatten().collect()
    }
}

/// One of the three limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    Memory,
    Pids,
    Cpu,
}

impl Limit {
    const fn controller(self) -> Controller {
        match self {
            Self::Memory => Controller::Memory,
            Self::Pids => Controller::Pids,
            Self::Cpu => Controller::Cpu,
        }
    }

    /// What still holds without a group.
    const fn substitute(self) -> &'static str {
        match self {
            Self::Memory => "memory use is then watched, not enforced",
            Self::Pids => "RLIMIT_NPROC then stands in for it, except for real root",
            Self::Cpu => "nothing stands in for it",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        })
    }
}

/// A limit that was asked for and will not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unenforced {
    pub limit: Limit,
    /// Why, in words.
    pub reason: String,
    /// What would make it hold, and what holds in its place until then.
    pub help: String,
}

impl Unenforced {
    fn new(limit: Limit, reason: impl Into<String>, cure: &str) -> Self {
        let help = format!("{cure}; {}", limit.substitute());
        Self { limit, reason: reason.into(), help }
    }

    /// For a write that the plan expected to succeed.
    pub(super) fn by_write(limit: Limit, path: &Path, value: &str, why: &std::io::Error) -> Self {
        let reason = format!("writing {value:?} to {} failed: {why}", path.display());
        Self::new(limit, reason, cure(None))
    }
}

impl fmt::Display for Unenforced {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the {} limit is not enforced: {}", self.limit, self.reason)
    }
}

/// What a group is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// v2: entered by clone; freeze, kill, events and perhaps limits.
    Unified,
    /// v1: entered by attach; these controllers.
    Legacy(Vec<Controller>),
}

/// One change to a cgroup tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Makes a leaf beside the group and moves this process into it: a v2
    /// cgroup other than the root may not hold processes and hand on
    /// controllers at once (cgroup-v2.rst, "No Internal Process Constraint").
    StepAside { dir: PathBuf, leaf: String },
    /// Adds to `cgroup.subtree_control` of `dir`.
    Enable { dir: PathBuf, controllers: Vec<Controller> },
    /// Makes the group below `parent`.
    Create { parent: PathBuf, name: String, role: Role },
    /// Sets a file of the group made last. On failure the run goes on: without
    /// `limit` the setting is only a refinement, with it the limit is reported
    /// as not enforced.
    Set { file: &'static str, value: String, limit: Option<Limit> },
}

/// All that [`super::Group::create`] will do, and what it cannot do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub writes: Vec<Write>,
    pub unenforced: Vec<Unenforced>,
}

impl Plan {
    /// Says whether one of the groups is in the v2 tree, which can freeze.
    #[must_use]
    pub fn has_unified(&self) -> bool {
        let is_unified = |write: &Write| matches!(write, Write::Create { role: Role::Unified, .. });
        self.writes.iter().any(is_unified)
    }
}

/// Decides which groups to make in `layout`. `limits` must have been checked.
pub fn plan(layout: &Layout, name: &str, limits: &Limits) -> Plan {
    let mut plan = Plan::default();
    let (old, new): (Vec<_>, Vec<_>) =
        limits.wanted().into_iter().partition(|limit| layout.legacy(limit.controller()).is_some());
    plan.add_unified(layout, name, limits, &new);
    for tree in &layout.v1 {
        plan.add_legacy(tree, name, limits, &old);
    }
    plan.unenforced.sort_by_key(|missing| missing.limit);
    plan
}

impl Plan {
    fn add_unified(&mut self, layout: &Layout, name: &str, limits: &Limits, wanted: &[Limit]) {
        let best = layout.v2.iter().filter_map(|place| Offer::of(place, wanted)).reduce(
            // Nearer places come first and win a tie.
            |best, other| if other.met.len() > best.met.len() { other } else { best },
        );
        for &limit in wanted {
            if best.as_ref().is_none_or(|offer| !offer.met.contains(&limit)) {
                self.unenforced.push(explain(layout, limit));
            }
        }
        let Some(offer) = best else { return };
        let dir = offer.place.dir.clone();
        if offer.step_aside {
            self.writes.push(Write::StepAside { dir: dir.clone(), leaf: format!("{name}{ASIDE}") });
        }
        if !offer.enable.is_empty() {
            self.writes.push(Write::Enable { dir: dir.clone(), controllers: offer.enable });
        }
        self.writes.push(Write::Create { parent: dir, name: name.to_owned(), role: Role::Unified });
        for limit in offer.met {
            self.writes.extend(unified_settings(limit, limits));
        }
    }

    fn add_legacy(&mut self, tree: &Legacy, name: &str, limits: &Limits, wanted: &[Limit]) {
        let here: Vec<_> = wanted
            .iter()
            .copied()
            .filter(|limit| tree.controllers.contains(&limit.controller()))
            .collect();
        if here.is_empty() {
            return;
        }
        if let Access::Refused(reason) = &tree.access {
            let refuse = |limit| Unenforced::new(limit, reason, "run as root, or on cgroup v2");
            self.unenforced.extend(here.into_iter().map(refuse));
            return;
        }
        let role = Role::Legacy(tree.controllers.clone());
        self.writes.push(Write::Create { parent: tree.dir.clone(), name: name.to_owned(), role });
        for limit in here {
            self.writes.extend(legacy_settings(limit, limits));
        }
    }
}

/// What one v2 cgroup could do for us.
struct Offer<'a> {
    place: &'a Place,
    met: Vec<Limit>,
    enable: Vec<Controller>,
    step_aside: bool,
}

impl<'a> Offer<'a> {
    fn of(place: &'a Place, wanted: &[Limit]) -> Option<Self> {
        if place.access != Access::Writable {
            return None;
        }
        // Controllers can be switched on here only if no process is in the
        // way. Moving ourselves is ours to do; moving others is not.
        let free = place.is_root || place.occupants != Occupants::Others;
        let can = |limit: &Limit| {
            let controller = limit.controller();
            place.enabled.contains(&controller) || free && place.available.contains(&controller)
        };
        let met: Vec<_> = wanted.iter().copied().filter(can).collect();
        let enable: Vec<_> = met
            .iter()
            .map(|limit| limit.controller())
            .filter(|controller| !place.enabled.contains(controller))
            .collect();
        let step_aside =
            !enable.is_empty() && !place.is_root && place.occupants == Occupants::OnlyUs;
        Some(Self { place, met, enable, step_aside })
    }
}

fn unified_settings(limit: Limit, limits: &Limits) -> Vec<Write> {
    match limit {
        Limit::Memory => {
            let bytes = limits.memory_bytes.unwrap_or(u64::MAX);
            vec![
                set("memory.max", bytes, Some(limit)),
                // Absent without swap, and then nothing to limit.
                set("memory.swap.max", 0, None),
                // A run that lost a random process is worse than a dead one.
                set("memory.oom.group", 1, None),
            ]
        }
        Limit::Pids => vec![set("pids.max", limits.pids.unwrap_or(u64::MAX), Some(limit))],
        Limit::Cpu => {
            let value = format!("{} {CPU_PERIOD_US}", quota_us(limits));
            vec![set("cpu.max", value, Some(limit))]
        }
    }
}

fn legacy_settings(limit: Limit, limits: &Limits) -> Vec<Write> {
    match limit {
        Limit::Memory => {
            let bytes = limits.memory_bytes.unwrap_or(u64::MAX);
            vec![
                // This order: memory and swap together may never be less than
                // memory. The second file is absent without swap accounting.
                set("memory.limit_in_bytes", bytes, Some(limit)),
                set("memory.memsw.limit_in_bytes", bytes, None),
            ]
        }
        Limit::Pids => vec![set("pids.max", limits.pids.unwrap_or(u64::MAX), Some(limit))],
        Limit::Cpu => vec![
            set("cpu.cfs_period_us", CPU_PERIOD_US, Some(limit)),
            set("cpu.cfs_quota_us", quota_us(limits), Some(limit)),
        ],
    }
}

fn set(file: &'static str, value: impl ToString, limit: Option<Limit>) -> Write {
    Write::Set { file, value: value.to_string(), limit }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "`check` bounds cpus to 0.01..=100000, so the quota lies in 1000..=10^10"
)]
fn quota_us(limits: &Limits) -> u64 {
    let cpus = limits.cpus.unwrap_or(CPUS_MAX);
    ((cpus * CPU_PERIOD_US as f64).round() as u64).max(CPU_QUOTA_US_MIN)
}

/// Why no v2 cgroup could take `limit`, judged by the one nearest to us.
fn explain(layout: &Layout, limit: Limit) -> Unenforced {
    let controller = limit.controller();
    let Some(own) = layout.v2.first() else {
        let reason = format!("no cgroup tree with the {} controller is mounted", controller.name());
        return Unenforced::new(limit, reason, "mount cgroup2 at /sys/fs/cgroup");
    };
    let reason = if let Access::Refused(reason) = &own.access {
        reason.clone()
    } else if own.available.contains(&controller) {
        format!(
            "{} holds other processes, so it cannot hand on the {} controller",
            own.dir.display(),
            controller.name()
        )
    } else {
        format!("{} is not given the {} controller", own.dir.display(), controller.name())
    };
    Unenforced::new(limit, reason, cure(Some(limit)))
}

/// A user manager hands out memory and pids, and cpu only where told to.
const fn cure(limit: Option<Limit>) -> &'static str {
    match limit {
        Some(Limit::Cpu) => {
            "run `systemd-run --user --scope --quiet -p Delegate=yes -- atoll run ...` after \
             `systemctl edit user@.service` with Delegate=cpu memory pids, or run as root"
        }
        Some(Limit::Memory | Limit::Pids) => {
            "run `systemd-run --user --scope --quiet -p Delegate=yes -- atoll run ...`, or run as \
             root"
        }
        None => "see `atoll doctor`",
    }
}

impl fmt::Display for Write {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StepAside { dir, leaf } => {
                write!(formatter, "step aside into {}/{leaf}", dir.display())
            }
            Self::Enable { dir, controllers } => {
                write!(formatter, "enable {} in {}", added(controllers), dir.display())
            }
            Self::Create { parent, name, role } => {
                let role = match role {
                    Role::Unified => "v2".to_owned(),
                    Role::Legacy(controllers) => format!("v1 {}", added(controllers)),
                };
                write!(formatter, "create {}/{name} ({role})", parent.display())
            }
            Self::Set { file, value, limit } => match limit {
                Some(limit) => write!(formatter, "set {file} = {value} ({limit})"),
                None => write!(formatter, "set {file} = {value}"),
            },
        }
    }
}

/// As `cgroup.subtree_control` takes it.
pub(super) fn added(controllers: &[Controller]) -> String {
    let names: Vec<_> =
        controllers.iter().map(|controller| format!("+{}", controller.name())).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests;
