//! The life of PID 1: wait for children, signals and the launcher, until the
//! workload ends.
//!
//! PID 1 has one thread and never blocks but in one poll(2). When it ends, the
//! kernel kills every process that is left in the sandbox.

use crate::message::{Failure, Malformed, Message, Request};
use crate::workload::{Slave, Started, now_us};
use atoll_sys::process::{self, End, SignalSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{OptionalActions, Termios, Winsize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The terminal to make: like the launcher's own.
#[derive(Debug, Clone)]
pub struct TerminalSpec {
    pub settings: Option<Termios>,
    pub size: Winsize,
    /// The workload is its foreground group from the start.
    pub front: bool,
}

/// Somebody who answers calls that the kernel hands over, within PID 1.
pub trait Attendant {
    /// Readable when there is something to attend to; `None` when there never
    /// will be again.
    fn readable(&self) -> Option<BorrowedFd<'_>>;
    /// Attends to what is waiting, without blocking, for the descriptor has become
    /// readable or (`false`) its time has come, or the other side of it is gone. Gives
    /// records of refusals.
    fn attend(&mut self, is_readable: bool) -> Vec<Vec<u8>>;
    /// Gives the last records, after the workload has ended.
    fn finish(&mut self) -> Vec<Vec<u8>>;
    /// When it wants to attend even if nothing is readable.
    fn timeout(&self) -> Option<Duration>;
}

/// A workload that runs, and who attends to it.
pub type Attended = (Started, Option<Box<dyn Attendant>>);

/// Tells the launcher that there is no jail, and ends.
pub fn fail(control: &OwnedFd, failure: Failure) -> ! {
    tell(control, &Message::Failed(failure));
    process::exit_now(1)
}

/// Lives as PID 1. Every signal must be blocked before, so that none is lost. `start`
/// starts the workload, given its terminal, if it has one.
pub fn run(
    control: &OwnedFd,
    terminal: Option<&TerminalSpec>,
    start: impl FnOnce(Option<&Slave>) -> Result<Attended, Failure>,
) -> ! {
    let view_us = now_us();
    let signals = match process::signal_descriptor(SignalSet::ALL) {
        Ok(signals) => signals,
        Err(error) => fail(control, broken("signalfd", &error)),
    };
    // PID 1 leads the session, so that nobody inside reaches the caller's terminal
    // and the workload's group is not an orphan, which no key could stop.
    if let Err(error) = rustix::process::setsid() {
        fail(control, broken("setsid", &error.into()));
    }
    let slave = terminal.map(|spec| match open_terminal(spec) {
        Ok((master, slave)) => {
            send_terminal(control, master.as_fd());
            slave
        }
        Err(error) => fail(control, broken("openpt", &error.into())),
    });
    let (started, attendant) = match start(slave.as_ref()) {
        Ok(started) => started,
        Err(failure) => fail(control, failure),
    };
    leave_standard_descriptors();
    let Started { pid, confined_us, filter_us, running_us, .. } = started;
    tell(control, &Message::Started { view_us, confined_us, filter_us, running_us });
    Life { control, signals, pid, slave, front: None, attendant }.live()
}

struct Life<'a> {
    control: &'a OwnedFd,
    signals: OwnedFd,
    /// The workload, and its process group.
    pid: i32,
    /// Held to the end: the end of the terminal is the end of the sandbox.
    slave: Option<Slave>,
    /// Which group was in the foreground when it was put behind.
    front: Option<Pid>,
    attendant: Option<Box<dyn Attendant>>,
}

/// What a wait was ended by.
#[derive(Debug, Default)]
struct Happened {
    signal: bool,
    /// A request of the launcher's, or its end.
    request: bool,
    /// The attendant has something to do; with `true` a call waits for it.
    call: Option<bool>,
}

impl Life<'_> {
    fn live(mut self) -> ! {
        loop {
            let happened = self.wait();
            if let Some(is_readable) = happened.call
                && let Some(attendant) = &mut self.attendant
            {
                for record in attendant.attend(is_readable) {
                    tell(self.control, &Message::Refused(record));
                }
            }
            if happened.signal {
                self.pass_signals_on();
                self.reap();
            }
            if happened.request {
                self.obey();
            }
        }
    }

    fn wait(&self) -> Happened {
        let listener = self.attendant.as_ref().and_then(|attendant| attendant.readable());
        let mut waiting = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(self.control, PollFlags::IN),
        ];
        if let Some(listener) = &listener {
            waiting.push(PollFd::new(listener, PollFlags::IN));
        }
        let timeout = self.attendant.as_ref().and_then(|attendant| attendant.timeout());
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut waiting, timeout.as_ref()) {
            Err(_) => return Happened::default(),
            Ok(0) => return Happened { call: Some(false), ..Happened::default() },
            Ok(_) => {}
        }
        let events = |index: usize| waiting.get(index).map_or(PollFlags::empty(), PollFd::revents);
        let of_listener = events(2);
        Happened {
            signal: !events(0).is_empty(),
            request: !events(1).is_empty(),
            call: (!of_listener.is_empty()).then(|| of_listener.contains(PollFlags::IN)),
        }
    }

    fn reap(&mut self) {
        while let Ok(Some(ended)) = process::collect(-1) {
            if ended.pid != self.pid {
                continue;
            }
            match ended.end {
                End::Stopped(signal) => tell(self.control, &Message::Stopped { signal }),
                end => {
                    let (cpu_us, max_rss_kib) = (ended.cpu_us, ended.max_rss_kib);
                    self.last_refusals();
                    let private_space_full = is_full();
                    let ended = Message::Ended { end, cpu_us, max_rss_kib, private_space_full };
                    tell(self.control, &ended);
                    process::exit_now(0);
                }
            }
        }
    }

    fn last_refusals(&mut self) {
        if let Some(attendant) = &mut self.attendant {
            for record in attendant.finish() {
                tell(self.control, &Message::Refused(record));
            }
        }
    }

    /// Signals from outside go to the workload's process group; those from
    /// inside would be the workload's own play with PID 1.
    fn pass_signals_on(&self) {
        while let Ok(Some(received)) = process::read_signal(self.signals.as_fd()) {
            if received.signal != Signal::CHILD.as_raw() && received.from_outside {
                self.signal(received.signal);
            }
        }
    }

    fn signal(&self, signal: i32) {
        if let (Some(group), Some(signal)) =
            (Pid::from_raw(self.pid), Signal::from_named_raw(signal))
        {
            // The group may be gone already.
            kill_process_group(group, signal).ok();
        }
    }

    /// Does what the launcher asks; ends when the launcher is gone.
    fn obey(&mut self) {
        let mut buffer = [0; 16];
        match atoll_sys::scm::receive(self.control.as_fd(), &mut buffer) {
            Ok((0, _)) | Err(_) => process::exit_now(1),
            Ok((length, _)) => match Request::decode(&buffer[..length]) {
                Ok(Request::Signal(signal)) => self.signal(signal),
                Ok(Request::Resume { front }) => self.resume(front),
                // Only the launcher writes here; it is of another version or ill.
                Err(Malformed) => process::exit_now(1),
            },
        }
    }

    fn resume(&mut self, front: bool) {
        if let Some(slave) = &self.slave {
            let own = rustix::process::getpgrp();
            let wanted = if front {
                self.front.take().or_else(|| Pid::from_raw(self.pid))
            } else {
                let now = rustix::termios::tcgetpgrp(&slave.fd).ok();
                self.front = now.filter(|group| *group != own).or(self.front);
                Some(own)
            };
            if let Some(group) = wanted {
                // A group that has ended leaves the terminal to nobody.
                rustix::termios::tcsetpgrp(&slave.fd, group).ok();
            }
        }
        self.signal(Signal::CONT.as_raw());
    }
}

/// Says whether the private space has no room or no inode left.
fn is_full() -> bool {
    rustix::fs::statvfs("/").is_ok_and(|space| {
        (space.f_blocks > 0 && space.f_bavail == 0) || (space.f_files > 0 && space.f_favail == 0)
    })
}

fn broken(step: &str, error: &std::io::Error) -> Failure {
    Failure {
        kind: crate::message::FailureKind::Jail,
        step: step.to_owned(),
        text: format!("{step} failed: {error}"),
        errno: error.raw_os_error().unwrap_or(0),
    }
}

fn tell(control: &OwnedFd, message: &Message) {
    // A launcher that is gone is noticed by the next poll.
    atoll_sys::scm::send(control.as_fd(), &message.encode(), None).ok();
}

fn send_terminal(control: &OwnedFd, master: BorrowedFd<'_>) {
    atoll_sys::scm::send(control.as_fd(), &Message::Terminal.encode(), Some(master)).ok();
}

/// Opens a pty of the sandbox's own devpts, set like the launcher's terminal, as
/// the controlling terminal of the caller's session.
fn open_terminal(spec: &TerminalSpec) -> rustix::io::Result<(OwnedFd, Slave)> {
    let (master, fd) = crate::pty::pair()?;
    if let Some(settings) = &spec.settings {
        rustix::termios::tcsetattr(&fd, OptionalActions::Now, settings)?;
    }
    rustix::termios::tcsetwinsize(&fd, spec.size)?;
    rustix::process::ioctl_tiocsctty(&fd)?;
    Ok((master, Slave { fd, front: spec.front }))
}

/// Lets go of the caller's pipes: a reader at the far end waits for the last
/// writer to close, and that must be the workload.
pub fn leave_standard_descriptors() {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    for number in 0..3_u8 {
        match &null {
            Ok(null) => {
                atoll_sys::fd::make_standard(null.as_fd(), number).ok();
            }
            Err(_) => atoll_sys::fd::close_standard(number),
        }
    }
}
