//! Facts and probes side by side, for people and for a jail that did not start.

use super::explain::{Fix, explain};
use super::facts::Facts;
use super::probes::{Attempt, Probes};
use super::tools::Tool;
use crate::cgroup::{Access, Kind, Layout, Limit, Limits, plan};
use rustix::io::Errno;

/// How well a feature is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Yes,
    /// With a restriction that the detail names.
    Limited,
    No,
    /// Not tried, or of no concern here.
    Unknown,
}

/// One line of the survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Stable, for programs.
    pub name: &'static str,
    pub state: State,
    pub detail: String,
    pub fix: Option<Fix>,
}

/// Everything that a tier may build on, in a fixed order. Pure.
pub fn survey(facts: &Facts, probes: &Probes) -> Vec<Feature> {
    let tried = |name, attempt, detail: &str| attempted(name, attempt, detail, facts);
    vec![
        kernel(facts),
        tried("user-namespaces", probes.user_namespace, "made one, own ids mapped"),
        apparmor(facts),
        tried("namespaces", probes.namespaces, "mount, pid, net, ipc, uts and cgroup made"),
        tried("mount-api", probes.mount_api, "tmpfs mounted by descriptor"),
        tried("mount-attributes", probes.mount_attributes, "mount_setattr works"),
        tried("proc", probes.proc_mount, "a new one mounted"),
        tried("overlay", probes.overlay, "mounted with userxattr in a user namespace"),
        tried("idmapped-mounts", probes.idmapped_mounts, "owners of a mount mapped"),
        tried("seccomp", probes.seccomp_filter, "filters can be loaded"),
        notify(facts, probes),
        landlock(facts, probes),
        cgroups(facts),
        tried("clone3", probes.clone3, "there"),
        tried("pidfd", probes.pidfd, "there"),
        tried("close-range", probes.close_range, "there"),
        tried("time-namespaces", probes.time_namespace, "there"),
        yama(facts),
        tried("nf-tables", probes.nf_tables, "answers in a network namespace"),
        tried("tun", probes.tun, "an interface made in a network namespace"),
        tried("kvm", probes.kvm, "an empty virtual machine made"),
        tool("runsc", probes.runsc.as_ref()),
        tool("criu", probes.criu.as_ref()),
    ]
}

fn attempted(name: &'static str, attempt: Attempt, works: &str, facts: &Facts) -> Feature {
    let feature =
        |state, detail: &str, fix| Feature { name, state, detail: detail.to_owned(), fix };
    match attempt {
        Attempt::Works => feature(State::Yes, works, None),
        Attempt::Failed { step, errno } => {
            let detail = format!("{step}: {}", words(errno));
            feature(State::No, &detail, explain(step, errno, facts))
        }
        Attempt::TimedOut => feature(State::No, "no answer in time", None),
        Attempt::Died => feature(State::No, "the probe was killed", None),
        Attempt::NotTried(why) => feature(State::Unknown, why, None),
    }
}

/// What an error number means, without the number.
fn words(errno: i32) -> String {
    let text = Errno::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn kernel(facts: &Facts) -> Feature {
    let system = facts.system.as_deref().unwrap_or("unknown system");
    let detail = format!("{} ({system})", facts.kernel.text);
    Feature { name: "kernel", state: State::Yes, detail, fix: None }
}

fn apparmor(facts: &Facts) -> Feature {
    let apparmor = &facts.apparmor;
    let (state, detail) = match (&apparmor.profile_file, apparmor.restricts_userns) {
        _ if !apparmor.is_enabled => (State::Unknown, "not enabled".to_owned()),
        (_, false) => (State::Yes, "does not restrict user namespaces".to_owned()),
        (Some(file), true) => {
            (State::Yes, format!("restricts user namespaces; {} lets us", file.display()))
        }
        (None, true) => {
            let path = facts.own_path.display();
            (State::Limited, format!("restricts user namespaces; no profile for {path}"))
        }
    };
    Feature { name: "apparmor", state, detail, fix: None }
}

fn notify(facts: &Facts, probes: &Probes) -> Feature {
    let (state, detail) = match (probes.notify.sizes, probes.notify.is_killable) {
        (Some([notification, response, data]), true) => {
            (State::Yes, format!("sizes {notification}, {response}, {data}; safe from signals"))
        }
        (Some(_), false) => (State::Limited, "signals can make a judged call fail".to_owned()),
        (None, _) => (State::No, "not there".to_owned()),
    };
    let fix = if state == State::Yes {
        None
    } else {
        explain("notify", Errno::INVAL.raw_os_error(), facts)
    };
    Feature { name: "seccomp-notify", state, detail, fix }
}

/// REFER, without which renames across directories fail.
const LANDLOCK_ABI_MIN: u32 = 2;

fn landlock(facts: &Facts, probes: &Probes) -> Feature {
    let (state, detail, fix) = match probes.landlock_abi {
        Ok(abi) if abi >= LANDLOCK_ABI_MIN => (State::Yes, format!("ABI {abi}"), None),
        Ok(abi) => {
            let detail = format!("ABI {abi} forbids renames across directories; not used");
            (State::Limited, detail, None)
        }
        Err(errno) => (State::No, words(errno), explain("landlock", errno, facts)),
    };
    Feature { name: "landlock", state, detail, fix }
}

fn cgroups(facts: &Facts) -> Feature {
    let Some(layout) = &facts.cgroups else {
        let detail = "the layout cannot be read".to_owned();
        return Feature { name: "cgroups", state: State::Unknown, detail, fix: None };
    };
    let missing = limits_missing(layout);
    let state = match (layout.kind, missing.len()) {
        (Kind::None, _) => State::No,
        (_, 0) => State::Yes,
        (_, _) => State::Limited,
    };
    let detail = if missing.is_empty() {
        format!("{}: memory, pids and cpu limits hold", layout.kind)
    } else {
        format!("{}: no limit for {}", layout.kind, list(&missing))
    };
    let fix = (!missing.is_empty()).then(|| delegation(layout, facts)).flatten();
    Feature { name: "cgroups", state, detail, fix }
}

/// The limits that a run started right here would not get.
pub fn limits_missing(layout: &Layout) -> Vec<Limit> {
    let all = Limits { memory_bytes: Some(1 << 30), pids: Some(1 << 10), cpus: Some(1.0) };
    let plan = plan(layout, "atoll-run-0-0", &all);
    plan.unenforced.iter().map(|missing| missing.limit).collect()
}

/// For a sentence.
fn list(limits: &[Limit]) -> String {
    limits.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How to be given groups of one's own.
fn delegation(layout: &Layout, facts: &Facts) -> Option<Fix> {
    let refused = |access: &Access| match access {
        Access::Refused(reason) => Some(reason.clone()),
        Access::Writable => None,
    };
    let cause = match (layout.v2.first(), layout.v1.first()) {
        (_, Some(tree)) => refused(&tree.access)?,
        (Some(own), None) => refused(&own.access)
            .unwrap_or_else(|| format!("{} does not hand on all controllers", own.dir.display())),
        (None, None) => return None,
    };
    let command = match (facts.container.as_deref(), layout.kind) {
        (Some("docker"), _) => Some("docker run --memory 4g --pids-limit 4096 --cpus 2 ..."),
        (None, Kind::V2) => {
            Some("systemd-run --user --scope --quiet -p Delegate=yes -- atoll run ...")
        }
        (_, _) => None,
    };
    Some(Fix { cause, command: command.map(str::to_owned) })
}

fn yama(facts: &Facts) -> Feature {
    let detail = match facts.yama {
        None => "not there; the jail shields itself without it".to_owned(),
        Some(scope) => format!("ptrace_scope {scope}"),
    };
    Feature { name: "yama", state: State::Unknown, detail, fix: None }
}

fn tool(name: &'static str, tool: Option<&Tool>) -> Feature {
    let (state, detail) = match tool {
        None => (State::No, "not installed".to_owned()),
        Some(Tool { path, version: None }) => {
            (State::Limited, format!("{} does not tell its version", path.display()))
        }
        Some(Tool { path, version: Some(version) }) => {
            (State::Yes, format!("{version} ({})", path.display()))
        }
    };
    Feature { name, state, detail, fix: None }
}

/// What a run builds on beside the jail itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Live mode with its judge.
    pub judge: bool,
    /// Review mode with its overlay.
    pub overlay: bool,
    /// A policy that is to fail without Landlock.
    pub landlock: bool,
}

/// The first thing that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this host lacks {feature}: {detail}")]
pub struct Missing {
    pub feature: &'static str,
    pub detail: String,
    pub fix: Option<Fix>,
}

/// Names the first feature that a run with `needs` lacks. For a run that failed
/// to start: it takes the time of all probes. Pure.
///
/// # Errors
///
/// The missing feature, with what fixes it.
pub fn require(needs: &Needs, facts: &Facts, probes: &Probes) -> Result<(), Missing> {
    const ALWAYS: [&str; 9] = [
        "user-namespaces",
        "namespaces",
        "mount-api",
        "mount-attributes",
        "proc",
        "seccomp",
        "clone3",
        "pidfd",
        "close-range",
    ];
    let wanted = |name: &str| {
        ALWAYS.contains(&name)
            || needs.judge && name == "seccomp-notify"
            || needs.overlay && name == "overlay"
            || needs.landlock && name == "landlock"
    };
    let missing = survey(facts, probes).into_iter().find(|feature| {
        wanted(feature.name) && matches!(feature.state, State::No | State::Limited)
    });
    match missing {
        None => Ok(()),
        Some(Feature { name, detail, fix, .. }) => Err(Missing { feature: name, detail, fix }),
    }
}
