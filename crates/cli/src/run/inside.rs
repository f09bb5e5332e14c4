//! The half of a run that is PID 1.

use atoll_guest::init::{self, Attendant, TerminalSpec};
use atoll_guest::message::{Failure, FailureKind, Message};
use atoll_guest::workload::{self, Slave, Workload, now_us};
use atoll_jail::apply;
use atoll_jail::confine::{Confinement, Walls};
use atoll_jail::enter::Newborn;
use atoll_jail::plan::Step;
use atoll_jail::seccomp::Options;
use atoll_jail::spec::User;
use atoll_sys::clone::Parent;
use atoll_sys::process::{self, SignalSet};
use std::error::Error;
use std::os::fd::{AsFd, OwnedFd};

/// All that PID 1 needs, planned before it exists.
pub(super) struct Inside {
    pub(super) user: User,
    pub(super) steps: Vec<Step>,
    pub(super) confinement: Confinement,
    pub(super) workload: Workload,
    pub(super) terminal: Option<TerminalSpec>,
}

/// Becomes PID 1.
pub(super) fn become_init(newborn: Newborn, inside: &Inside, handed: Vec<OwnedFd>) -> ! {
    // Nothing is lost: what arrives meanwhile waits for the signal descriptor.
    process::set_signal_mask(SignalSet::ALL).ok();
    process::scrub_arguments(c"atoll-init");
    // The modes in the plan are meant as they are; the workload gets its own.
    rustix::process::umask(rustix::fs::Mode::empty());
    let admitted = match newborn.admitted(inside.user) {
        Ok(admitted) => admitted,
        // There is nobody to tell.
        Err(_) => process::exit_now(1),
    };
    let applied = apply::apply(&inside.steps, &handed, &mut || admitted.next_tree());
    drop(handed);
    let control = admitted.control;
    if let Err(error) = applied {
        let errno = error.source.raw_os_error().unwrap_or(0);
        init::fail(&control, failure(error.call, &error, errno));
    }
    let options = Options {
        ptrace: inside.confinement.ptrace,
        nested_userns: inside.confinement.nested_userns,
        listener: false,
        traps: &[],
    };
    let walls = match Walls::prepare(&inside.confinement, &options) {
        Ok(walls) => walls,
        Err(error) => init::fail(&control, failure("landlock", &error, 0)),
    };
    let ready = Message::Ready { view_us: now_us() };
    atoll_sys::scm::send(control.as_fd(), &ready.encode(), None).ok();
    let mut walls = Some(walls);
    let mut start = |slave: Option<&Slave>| {
        let started =
            workload::start(&inside.workload, slave, Parent::Caller, &mut || match walls.take() {
                Some(walls) => walls.raise().map_err(|error| failure("confine", &error, 0)),
                None => Ok(None),
            })?;
        give_capabilities_up()?;
        Ok(started)
    };
    let mut attend = |_listener: OwnedFd| -> Option<Box<dyn Attendant>> { None };
    init::run(&control, inside.terminal.as_ref(), &mut start, &mut attend)
}

/// PID 1 itself needs none any more.
fn give_capabilities_up() -> Result<(), Failure> {
    atoll_jail::confine::drop_capabilities(0).map_err(|error| failure("capset", &error, 0))
}

/// An error with its causes on one line.
fn failure(step: &str, error: &dyn Error, errno: i32) -> Failure {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    Failure { kind: FailureKind::Jail, step: step.to_owned(), text, errno }
}
