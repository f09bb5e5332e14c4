//! The signals that reach the launcher, one at a time and none twice.
//!
//! They are blocked and read from a descriptor. A signal that was ignored when
//! the launcher started is left ignored and is not passed on (`nohup`, and what a
//! shell without job control starts in the background); the command inherits it
//! as ignored too.
//!
//! Ctrl-C on a raw terminal is a byte for the command's own terminal, which makes
//! one signal of it. On a terminal that is not raw the kernel sends the launcher's
//! process group the signal, and the launcher passes it on: the command is in a
//! session of its own, so this is the only one that it gets.

use atoll_sys::process::{
    SignalSet, default_signal_action, ignore_signal, set_signal_mask, signal_descriptor,
};
use atoll_sys::signals::{is_ignored, let_through, pending};
use rustix::process::Signal;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Passed on to the command, unless ignored at the start.
const FORWARDED: [Signal; 9] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

/// For the launcher itself; their default is to be ignored.
const OWN: [Signal; 2] = [Signal::WINCH, Signal::CONT];

/// What the command is to find as it would without a launcher.
#[derive(Debug, Clone, Copy)]
pub struct Restore {
    mask: SignalSet,
    sigpipe_ignored: bool,
    sigchld_ignored: bool,
}

impl Restore {
    /// To be called in the process that will be the command, just before exec.
    ///
    /// # Errors
    ///
    /// None that a valid call can give.
    pub fn apply(&self) -> io::Result<()> {
        if !self.sigpipe_ignored {
            default_signal_action(Signal::PIPE.as_raw());
        }
        if self.sigchld_ignored {
            ignore_signal(Signal::CHILD.as_raw());
        }
        set_signal_mask(self.mask)?;
        Ok(())
    }
}

/// The blocked signals and the descriptor that they are read from.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    restore: Restore,
}

impl Signals {
    /// Blocks the signals that the launcher handles.
    ///
    /// # Errors
    ///
    /// When descriptors run out.
    pub fn take() -> io::Result<Self> {
        let wanted: Vec<i32> = FORWARDED
            .into_iter()
            .map(Signal::as_raw)
            .filter(|signal| !is_ignored(*signal))
            .chain(OWN.into_iter().map(Signal::as_raw))
            .collect();
        let wanted = SignalSet::of(&wanted);
        // An ignored SIGCHLD would reap PID 1 behind our back.
        let sigchld_ignored = is_ignored(Signal::CHILD.as_raw());
        if sigchld_ignored {
            default_signal_action(Signal::CHILD.as_raw());
        }
        let fd = signal_descriptor(wanted)?;
        let mask = set_signal_mask(wanted)?;
        set_signal_mask(SignalSet(mask.0 | wanted.0))?;
        let sigpipe_ignored = atoll_sys::startup::sigpipe_was_ignored();
        Ok(Self { fd, restore: Restore { mask, sigpipe_ignored, sigchld_ignored } })
    }

    /// What the command is to be given back.
    #[must_use]
    pub fn restore(&self) -> Restore {
        self.restore
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn next(&self) -> io::Result<Option<Signal>> {
        Ok(atoll_sys::signals::read(self.fd.as_fd())?.and_then(Signal::from_named_raw))
    }
}

/// Says whether the default action of a signal that we pass on is to end a
/// process.
pub(super) fn ends(signal: Signal) -> bool {
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2]
        .contains(&signal)
}

/// Stops the launcher by `signal`, or all of its process group, until it is
/// continued; says whether it has been stopped.
///
/// A shell waits for its whole job to stop, and the kernel would have sent a key's
/// signal to the whole group. It is the real signal rather than `SIGSTOP`: in an
/// orphaned process group, where no shell could ever continue us, the kernel
/// throws it away.
pub(crate) fn suspend(signal: Signal, whole_group: bool) -> io::Result<bool> {
    let ourselves = rustix::process::getpid();
    if signal == Signal::STOP {
        rustix::process::kill_process(ourselves, signal)?;
        return Ok(true);
    }
    if whole_group {
        rustix::process::kill_current_process_group(signal)?;
    } else {
        rustix::process::kill_process(ourselves, signal)?;
    }
    let_through(SignalSet::of(&[signal.as_raw()]))?;
    // Making a stop signal took every pending SIGCONT away; one that is pending
    // now is what ended the stop.
    let continued = SignalSet::of(&[Signal::CONT.as_raw()]);
    Ok(pending()?.0 & continued.0 != 0)
}
