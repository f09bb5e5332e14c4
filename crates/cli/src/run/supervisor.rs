//! The supervisor of a live workspace: a process between PID 1 and the workload
//! that judges the workload's calls.
//!
//! It is in the workload's Landlock domain, or its own opens would leave it, and
//! PID 1 is not, so that nobody inside can trace PID 1. It starts the workload
//! itself, as a child of PID 1, so that both have one domain.

use super::refusal;
use atoll_guest::init::Attendant;
use atoll_guest::message::Failure;
use atoll_guest::workload::{self, Slave, Started, Workload};
use atoll_jail::confine::{self, Walls};
use atoll_jail::judge::{Config, Denial, Judge, Refuser};
use atoll_sys::caps;
use atoll_sys::clone::{self, Parent, Plain};
use atoll_sys::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest wait for the supervisor's last words.
const LAST_WORDS: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// First byte of what the supervisor says to PID 1.
const STARTED: u8 = b'S';
const FAILED: u8 = b'F';
const RECORD: u8 = b'R';
const MESSAGE_BYTES_MAX: usize = 60 * 1024;

/// Starts the supervisor, and through it the workload.
pub(super) fn start(
    workload: &Workload,
    slave: Option<&Slave>,
    walls: Walls,
    judge: impl FnOnce() -> Config,
) -> Result<(Started, Option<Box<dyn Attendant>>), Failure> {
    let broken = |step: &str, error: &dyn std::error::Error| super::inside::failure(step, error, 0);
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| broken("socketpair", &error))?;
    match clone::fork().map_err(|error| broken("fork", &error))? {
        Plain::Child => {
            drop(ours);
            supervise(workload, slave, walls, judge(), &theirs)
        }
        Plain::Parent(pid) => {
            drop(theirs);
            let attendant = Supervisor { channel: ours, pid, is_done: false };
            let started = attendant.started()?;
            Ok((started, Some(Box::new(attendant))))
        }
    }
}

/// The supervisor's whole life.
fn supervise(
    workload: &Workload,
    slave: Option<&Slave>,
    walls: Walls,
    config: Config,
    channel: &OwnedFd,
) -> ! {
    match prepare(workload, slave, walls, config) {
        Err(failure) => {
            say(channel, FAILED, &atoll_guest::message::Message::Failed(failure).encode());
        }
        Ok((started, listener, mut judge)) => {
            let mut numbers = Vec::with_capacity(28);
            numbers.extend(started.pid.to_le_bytes());
            for number in [started.confined_us, started.filter_us, started.running_us] {
                numbers.extend(number.to_le_bytes());
            }
            say(channel, STARTED, &numbers);
            let mut tell = |denial: Denial| say(channel, RECORD, &refusal::denied(&denial));
            match judge.serve(listener, Some(channel.as_fd()), &mut tell) {
                Ok((_, report)) => say(channel, RECORD, &refusal::noticed(&report)),
                Err(_) => process::exit_now(1),
            }
        }
    }
    process::exit_now(0)
}

fn prepare(
    workload: &Workload,
    slave: Option<&Slave>,
    mut walls: Walls,
    config: Config,
) -> Result<(Started, OwnedFd, Judge), Failure> {
    let broken = |step: &str, error: &dyn std::error::Error| super::inside::failure(step, error, 0);
    let judge = Judge::new(config).map_err(|error| broken("judge", &error))?;
    if let Some(rules) = walls.take_rules() {
        confine::restrict(rules).map_err(|error| broken("landlock", &error))?;
    }
    let mut walls = Some(walls);
    let mut started = workload::start(workload, slave, Parent::CallersParent, &mut || {
        let walls = walls.take();
        walls.map_or(Ok(None), |walls| walls.raise().map_err(|error| broken("confine", &error)))
    })?;
    confine::drop_capabilities(1 << caps::SYS_PTRACE).map_err(|error| broken("capset", &error))?;
    // The caller's pipes are the workload's alone.
    atoll_guest::init::leave_standard_descriptors();
    match started.listener.take() {
        Some(listener) => Ok((started, listener, judge)),
        None => Err(broken("seccomp", &io::Error::from(io::ErrorKind::NotFound))),
    }
}

fn say(channel: &OwnedFd, kind: u8, text: &[u8]) {
    let mut message = vec![kind];
    message.extend(&text[..text.len().min(MESSAGE_BYTES_MAX)]);
    // PID 1 that is gone takes everybody along.
    atoll_sys::scm::send(channel.as_fd(), &message, None).ok();
}

/// PID 1's side.
struct Supervisor {
    channel: OwnedFd,
    pid: i32,
    /// It has said its last word.
    is_done: bool,
}

impl Supervisor {
    fn started(&self) -> Result<Started, Failure> {
        let lost = || {
            let error = io::Error::from(io::ErrorKind::UnexpectedEof);
            super::inside::failure("supervisor", &error, 0)
        };
        let mut buffer = vec![0; MESSAGE_BYTES_MAX + 1];
        let (length, _) =
            atoll_sys::scm::receive(self.channel.as_fd(), &mut buffer).map_err(|_| lost())?;
        match buffer[..length].split_first() {
            Some((&STARTED, numbers)) => read_started(numbers).ok_or_else(lost),
            Some((&FAILED, text)) => match atoll_guest::message::Message::decode(text) {
                Ok(atoll_guest::message::Message::Failed(failure)) => Err(failure),
                _ => Err(lost()),
            },
            _ => Err(lost()),
        }
    }

    /// Takes what comes within `wait` of the last message.
    fn records(&mut self, wait: &Timespec) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let mut buffer = vec![0; MESSAGE_BYTES_MAX + 1];
        while !self.is_done && self.is_readable(wait) {
            match atoll_sys::scm::receive(self.channel.as_fd(), &mut buffer) {
                Ok((0, _)) | Err(_) => self.is_done = true,
                Ok((length, _)) if buffer[0] == RECORD => records.push(buffer[1..length].to_vec()),
                Ok(_) => {}
            }
        }
        records
    }

    fn is_readable(&self, wait: &Timespec) -> bool {
        let mut waiting = [PollFd::new(&self.channel, PollFlags::IN)];
        poll(&mut waiting, Some(wait)).is_ok_and(|ready| ready > 0)
    }
}

fn read_started(numbers: &[u8]) -> Option<Started> {
    let (pid, rest) = numbers.split_first_chunk::<4>()?;
    let (confined, rest) = rest.split_first_chunk::<8>()?;
    let (filter, rest) = rest.split_first_chunk::<8>()?;
    let (running, _) = rest.split_first_chunk::<8>()?;
    Some(Started {
        pid: i32::from_le_bytes(*pid),
        listener: None,
        confined_us: u64::from_le_bytes(*confined),
        filter_us: u64::from_le_bytes(*filter),
        running_us: u64::from_le_bytes(*running),
    })
}

impl Attendant for Supervisor {
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_done).then(|| self.channel.as_fd())
    }

    fn attend(&mut self) -> Vec<Vec<u8>> {
        self.records(&Timespec { tv_sec: 0, tv_nsec: 0 })
    }

    /// Closing our half for writing ends the supervisor's loop.
    fn finish(&mut self) -> Vec<Vec<u8>> {
        rustix::net::shutdown(&self.channel, rustix::net::Shutdown::Write).ok();
        self.records(&LAST_WORDS)
    }

    fn pid(&self) -> Option<i32> {
        Some(self.pid)
    }
}

/// Within PID 1: tells what the filter refuses, where nothing else is judged.
pub(super) struct Teller {
    refuser: Refuser,
    is_done: bool,
}

impl Teller {
    pub(super) fn new(listener: OwnedFd) -> io::Result<Self> {
        Ok(Self { refuser: Refuser::new(listener)?, is_done: false })
    }
}

impl Attendant for Teller {
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_done).then(|| self.refuser.as_fd())
    }

    fn attend(&mut self) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let mut tell = |denial: Denial| records.push(refusal::denied(&denial));
        self.is_done = self.is_done || !self.refuser.attend(&mut tell);
        records
    }

    fn finish(&mut self) -> Vec<Vec<u8>> {
        self.attend()
    }

    fn pid(&self) -> Option<i32> {
        None
    }
}
