//! Starting the workload's first program.

use crate::message::{Failure, FailureKind};
use atoll_sys::exec::Arguments;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// What to run and in what state.
pub struct Workload {
    /// Programs to try in order: the candidates along PATH, or just one.
    pub programs: Vec<CString>,
    pub arguments: Arguments,
    /// The same with `/bin/sh` in front, for a script without `#!`; one for
    /// each of `programs`.
    pub shell_arguments: Vec<Arguments>,
    pub directory: PathBuf,
    /// Gives signals back their meaning, last of all before the walls.
    pub restore_signals: Box<dyn Fn() -> std::io::Result<()>>,
    /// What the standard descriptors become.
    pub standard: [Standard; 3],
    /// Resource limits: soft and hard become this.
    pub limits: Vec<(Resource, Rlimit)>,
    /// File mode creation mask.
    pub umask: u32,
    pub leads: Leads,
}

/// What the workload's first process is the leader of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    /// A process group in the session that PID 1 leads.
    Group,
    /// A session of its own, whose terminal is the workload's if it has one.
    Session,
}

/// What one standard descriptor of the workload is.
#[derive(Debug)]
pub enum Standard {
    /// As the launcher has it.
    Inherit,
    /// The workload's terminal.
    Terminal,
    Descriptor(OwnedFd),
    Closed,
}

/// The workload's terminal.
#[derive(Debug)]
pub struct Slave {
    pub fd: OwnedFd,
    /// The workload is the foreground group from the start.
    pub front: bool,
}

/// A workload that runs.
#[derive(Debug)]
pub struct Started {
    pub pid: i32,
    /// The supervisor's listener, if the walls made one.
    pub listener: Option<OwnedFd>,
    /// Times on the monotonic clock, and how long the walls took, in us.
    pub confined_us: u64,
    pub filter_us: u64,
    pub running_us: u64,
}

/// Microseconds of the monotonic clock.
#[must_use]
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000
        + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
}

/// Raises the walls around the calling process. Gives the listener, if one was
/// asked for.
pub type Confine<'a> = dyn FnMut() -> Result<Option<OwnedFd>, Failure> + 'a;

/// Starts `workload` behind the walls that `confine` raises.
///
/// The child shares our memory until it runs its program, so what it meets is
/// simply written here; its descriptors are its own from before that.
///
/// # Errors
///
/// What kept the program from running.
pub fn start(
    workload: &Workload,
    slave: Option<&Slave>,
    confine: &mut Confine<'_>,
) -> Result<Started, Failure> {
    let mut failure = None;
    let mut listener = None;
    let (mut confined_us, mut filter_us) = (0, 0);
    let child = || {
        let outcome: Result<(), Failure> = prepare(workload, slave).and_then(|()| {
            let before = now_us();
            listener = confine()?;
            confined_us = now_us();
            filter_us = confined_us - before;
            // The listener stays in the shared table; ours is cut off here.
            atoll_sys::fd::unshare_and_close_from(3).map_err(|error| jail("close_range", error))?;
            close_standard(workload, slave);
            Err(run(workload))
        });
        failure = outcome.err();
        127
    };
    let spawned = atoll_sys::clone::spawn_shared(child);
    let pid = spawned.map_err(|error| jail("clone", error))?;
    match failure {
        None => Ok(Started { pid, listener, confined_us, filter_us, running_us: now_us() }),
        Some(failure) => {
            // It has ended or is about to.
            atoll_sys::process::wait_for(pid).ok();
            Err(failure)
        }
    }
}

fn jail(step: &str, error: impl Into<std::io::Error>) -> Failure {
    let error = error.into();
    Failure {
        kind: FailureKind::Jail,
        step: step.to_owned(),
        text: format!("{step} failed: {error}"),
        errno: error.raw_os_error().unwrap_or(0),
    }
}

/// Everything between the fork and the walls.
fn prepare(workload: &Workload, slave: Option<&Slave>) -> Result<(), Failure> {
    match workload.leads {
        Leads::Group => {
            rustix::process::setpgid(None, None).map_err(|error| jail("setpgid", error))?;
        }
        Leads::Session => {
            rustix::process::setsid().map_err(|error| jail("setsid", error))?;
        }
    }
    if let (Some(slave), Leads::Session) = (slave, workload.leads) {
        // Its group is the terminal's foreground group from then on.
        rustix::process::ioctl_tiocsctty(&slave.fd).map_err(|error| jail("tiocsctty", error))?;
    } else if let Some(slave) = slave.filter(|slave| slave.front) {
        // SIGTTOU is blocked here, so a background group may do this.
        rustix::termios::tcsetpgrp(&slave.fd, rustix::process::getpgrp())
            .map_err(|error| jail("tcsetpgrp", error))?;
    }
    for (number, standard) in (0_u8..).zip(&workload.standard) {
        let descriptor = match (standard, slave) {
            (Standard::Terminal, Some(slave)) => slave.fd.as_fd(),
            (Standard::Descriptor(fd), _) => fd.as_fd(),
            // Closed later: see there.
            (Standard::Inherit | Standard::Closed, _) | (Standard::Terminal, None) => continue,
        };
        atoll_sys::fd::make_standard(descriptor, number).map_err(|error| jail("dup2", error))?;
    }
    for (resource, limit) in &workload.limits {
        rustix::process::setrlimit(*resource, *limit).map_err(|error| jail("setrlimit", error))?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(workload.umask));
    rustix::process::chdir(&workload.directory).map_err(|error| Failure {
        kind: FailureKind::Directory,
        step: "chdir".to_owned(),
        text: format!("cannot enter {:?} inside the sandbox: {error}", workload.directory),
        errno: error.raw_os_error(),
    })?;
    (workload.restore_signals)().map_err(|error| jail("rt_sigprocmask", error))
}

/// Closes what the workload is not to have, when the table is its own and nothing
/// more is opened: the number would go to the next descriptor that is made, such
/// as the listener, and with it to the workload.
fn close_standard(workload: &Workload, slave: Option<&Slave>) {
    for (number, standard) in (0_u8..).zip(&workload.standard) {
        if matches!((standard, slave), (Standard::Closed, _) | (Standard::Terminal, None)) {
            atoll_sys::fd::close_standard(number);
        }
    }
}

/// Tries the candidates as a shell does: the first that runs; a refusal is
/// reported only when nothing further along PATH runs.
fn run(workload: &Workload) -> Failure {
    let mut refused = None;
    for (index, program) in workload.programs.iter().enumerate() {
        let mut error = atoll_sys::exec::run(program, &workload.arguments);
        if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
            && let Some(arguments) = workload.shell_arguments.get(index)
        {
            error = atoll_sys::exec::run(c"/bin/sh", arguments);
        }
        let errno = error.raw_os_error().unwrap_or(0);
        let absent = [Errno::NOENT, Errno::NOTDIR].iter().any(|e| e.raw_os_error() == errno);
        if !absent && refused.is_none() {
            refused = Some((program, error));
        }
    }
    match refused {
        Some((program, error)) => Failure {
            kind: FailureKind::NotExecutable,
            step: "execve".to_owned(),
            text: format!("cannot run {program:?}: {error}"),
            errno: error.raw_os_error().unwrap_or(0),
        },
        None => Failure {
            kind: FailureKind::NotFound,
            step: "execve".to_owned(),
            text: "no such program inside the sandbox".to_owned(),
            errno: Errno::NOENT.raw_os_error(),
        },
    }
}
