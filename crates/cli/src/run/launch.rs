//! The half of a run that stays outside: make the sandbox, supervise it, say how
//! it went.

use super::control::{Moments, Told};
use super::inside::{self, Inside};
use super::network::{Network, words};
use super::notes::Audience;
use super::prepare::{Prepared, Trees, lowered, prepare};
use super::report::{Limit, LimitHit, Report};
use super::review;
use super::unmade::explained;
use super::view::{HandedTree, Owners};
use crate::error::CliError;
use crate::policy::load::Loaded;
use crate::supervise::{self, Cleanup, Companion, Guard, Inputs, Signals, Stdio};
use atoll_api::policy::EffectivePolicy;
use atoll_guest::workload::now_us;
use atoll_jail::cgroup::{self, Group, Layout};
use atoll_jail::enter::{self, Launched, Side};
use atoll_jail::overlay::{self, ByRootError};
use atoll_jail::tree::TreeError;
use atoll_sys::capture::Capture;
use atoll_sys::netns::Preparing;
use rustix::process::{Resource, Rlimit};
use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// What to run, and under which policy.
pub(crate) struct Request<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) loaded: &'a Loaded,
    /// When the program started, in us of the monotonic clock.
    pub(crate) started_us: u64,
    /// The network namespace that has been in the making since then.
    pub(crate) network: Preparing,
    /// Everything that stays outside is listed first.
    pub(crate) is_verbose: bool,
    /// What there is to say is said in the report.
    pub(crate) is_json: bool,
}

/// Bound of the wait for the kernel to let go of a control group.
const CGROUP_WAIT: Duration = Duration::from_secs(5);

/// Runs the request's command in a sandbox, and waits for its end.
pub(crate) fn run(request: Request<'_>) -> Result<Report, CliError> {
    let policy = &request.loaded.merged.policy;
    let failed = |error: std::io::Error| CliError::new("cannot prepare the run").because(error);
    let signals = Signals::take().map_err(failed)?;
    let mut stdio = Stdio::of_this_process().map_err(failed)?;
    let network = Network::plan(request.loaded)?;
    request.network.decide(network.as_ref().map_or(Capture::None, Network::capture));
    let mut prepared =
        prepare(request.command, request.loaded, network.as_ref(), &mut stdio, signals.restore())?;
    say_first(&prepared, request.is_verbose, request.is_json);
    let (group, unenforced) = control_group(policy)?;
    let is_unenforced = |limit| unenforced.iter().any(|missing| missing.limit == limit);
    if group.is_some() && !is_unenforced(cgroup::Limit::Pids) {
        leave_pids_to_group(&mut prepared.inside.workload.limits);
    }
    let cleanups: Vec<Cleanup> = group
        .iter()
        .map(|group| Cleanup::KillAndRemoveCgroup { dirs: group.directories() })
        .collect();
    let guard = Guard::start(stdio.terminal_mut(), cleanups)
        .map_err(|error| CliError::new("cannot prepare the run").because(error))?;
    let mut moments =
        Moments { started: request.started_us, planned: now_us(), ..Moments::default() };
    let Prepared { inside, trees, session, notes, warnings, owned, .. } = prepared;
    // What is in this process's network by then.
    let gateway = network.as_ref().map(Network::start).transpose()?;
    let mut launched = launch(request.network, inside, trees, group.as_ref(), &mut moments)?;
    let mut attached = match (network, gateway, launched.listeners.take()) {
        (Some(network), Some(gateway), Some(listeners)) => {
            let words = stdio.can_ask().then(|| words(request.loaded, request.command));
            Some(network.attach(gateway, listeners, words))
        }
        _ => None,
    };
    stdio.close_given();
    let mut told = Told::new(launched, moments);
    let deadline = policy.limits.time.value.map(|limit| Instant::now() + limit);
    let companion = attached.as_mut().map(|attached| attached as &mut dyn Companion);
    let inputs = Inputs { control: &mut told, companion, signals: &signals, stdio, deadline };
    let outcome = supervise::run(inputs)
        .map_err(|error| CliError::new("the command could not be watched").because(error))?;
    atoll_sys::process::wait_for(told.pid()).ok();
    let mut report = Report::new(told, outcome, unenforced);
    if let Some(attached) = attached {
        report.network(attached.told());
    }
    if let Some(session) = session {
        report.reviewed = Some(review::finish(session)?);
    }
    report.guess(request.command);
    report.look_for_others(owned.as_ref());
    report.outside(notes, warnings);
    if outcome.timed_out {
        report.limits.push(LimitHit { limit: Limit::Time, count: 1 });
    }
    if let Some(group) = group {
        close_group(group, &mut report);
    }
    if let Some(guard) = guard {
        guard.finish();
    }
    Ok(report)
}

/// Says on standard error what the command will not, while it is not there yet.
fn say_first(prepared: &Prepared, is_verbose: bool, is_json: bool) {
    let mut text = String::new();
    if !is_json {
        text.extend(prepared.warnings.iter().map(|warning| format!("warning: {warning}\n")));
    }
    let lines = prepared.notes.lines(Audience::of(is_verbose, is_json), &prepared.told);
    text.extend(lines.iter().map(|line| format!("{line}\n")));
    // A closed stderr leaves nobody to tell.
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// A control group, where the policy asks for a limit that needs one.
fn control_group(
    policy: &EffectivePolicy,
) -> Result<(Option<Group>, Vec<cgroup::Unenforced>), CliError> {
    let limits = cgroup::Limits {
        memory_bytes: policy.limits.memory.value.map(|bytes| bytes.0),
        pids: None,
        cpus: policy.limits.cpus.value.map(|cpus| f64::from(cpus.milli) / 1000.0),
    };
    if limits.is_empty() {
        return Ok((None, Vec::new()));
    }
    // Moving into a group costs milliseconds the first time, so one is made only
    // for a limit that nothing else gives; then it counts processes too.
    let limits = cgroup::Limits { pids: policy.limits.pids.value.map(u64::from), ..limits };
    let layout = Layout::detect(Path::new("/"))
        .map_err(|error| CliError::new("the control groups cannot be read").because(error))?;
    cgroup::remove_stale(&layout);
    let name = cgroup::run_name()
        .map_err(|error| CliError::new("the control group cannot be named").because(error))?;
    let (group, unenforced) = Group::create(&layout, &name, &limits)
        .map_err(|error| CliError::new("the control group cannot be made").because(error))?;
    Ok((Some(group), unenforced))
}

/// Puts the resource limit out of the group's way: the group counts how often its
/// own limit was met, and so the result can name it.
fn leave_pids_to_group(limits: &mut [(Resource, Rlimit)]) {
    for (_, limit) in limits.iter_mut().filter(|(resource, _)| *resource == Resource::Nproc) {
        let above = limit.maximum.unwrap_or(u64::MAX).saturating_add(1);
        *limit = lowered(Resource::Nproc, above);
    }
}

fn launch(
    network: Preparing,
    inside: Inside,
    trees: Trees,
    group: Option<&Group>,
    moments: &mut Moments,
) -> Result<Launched, CliError> {
    let handed: Vec<OwnedFd> = trees
        .handed
        .iter()
        .map(|tree| atoll_jail::tree::clone(&tree.path, tree.expect, None))
        .collect::<Result<_, _>>()
        .map_err(unopened)?;
    let made = |error| refused(&error);
    let launched = match enter::enter(network, group.and_then(Group::join_fd)).map_err(made)? {
        Side::Inside(newborn) => inside::become_init(newborn, inside, handed),
        Side::Outside(launched) => launched,
    };
    moments.cloned = now_us();
    if let (Some(group), Some(pid)) = (group, rustix::process::Pid::from_raw(launched.pid)) {
        group
            .attach(pid)
            .map_err(|error| CliError::new("the limits cannot be set").because(error))?;
    }
    let userns = launched.map(inside.user, &[]).map_err(made)?;
    launched.go().map_err(made)?;
    // The sandbox is on its way: what is put away now keeps nobody waiting.
    drop(handed);
    for late in &trees.late {
        let opened = open_late(late, userns.as_fd())?;
        launched.hand(opened.as_fd()).map_err(made)?;
    }
    Ok(launched)
}

/// Opens a tree that needs the sandbox's user namespace or root's own rights.
fn open_late(late: &HandedTree, userns: BorrowedFd<'_>) -> Result<OwnedFd, CliError> {
    let owners = (late.owners != Owners::AsTheyAre).then_some(userns);
    let Some((upper, work)) = &late.overlay else {
        let cloned = atoll_jail::tree::clone(&late.path, late.expect, owners);
        let cloned = match cloned {
            Err(TreeError::MapOwners { .. }) if late.owners == Owners::MappedIfPossible => {
                atoll_jail::tree::clone(&late.path, late.expect, None)
            }
            cloned => cloned,
        };
        return cloned.map_err(unopened);
    };
    let project = overlay::Layer { path: &late.path, expect: late.expect, owners };
    overlay::mount_by_root(&[project], [upper, work]).map_err(|error| match error {
        ByRootError::Layer(error) => unopened(error),
        ByRootError::Mount(error) => {
            CliError::new("the project cannot be put under review").because(error)
        }
    })
}

/// A tree that could not be opened, with the fix where one is known.
fn unopened(error: TreeError) -> CliError {
    let (step, errno) = error.step();
    let told = CliError::new("the sandbox cannot be made").because(error);
    explained(told, step, errno.unwrap_or(0))
}

/// A sandbox that could not be made, with the fix where one is known.
fn refused(error: &enter::EnterError) -> CliError {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text += &format!(": {cause}");
    }
    let (step, errno) = error.step();
    explained(CliError::new(text), step, errno.unwrap_or(0))
}

fn close_group(group: Group, report: &mut Report) {
    if let Ok(events) = group.events() {
        let hits = [(Limit::Memory, events.oom_kills), (Limit::Pids, events.pids_hits)];
        for (limit, count) in hits {
            if let Some(count) = count.filter(|count| *count > 0) {
                report.limits.push(LimitHit { limit, count });
            }
        }
        report.memory_peak_bytes = events.memory_peak_bytes;
        report.cpu_us = events.cpu_usage_us.or(report.cpu_us);
    }
    // What cannot be removed now is swept by the next run.
    group.remove(CGROUP_WAIT).ok();
}
