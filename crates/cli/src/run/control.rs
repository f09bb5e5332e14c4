//! The launcher's end of the control socket, as the supervisor wants it.

use crate::supervise::{Control, Message, Place, Received};
use atoll_guest::message::{self, Failure, MESSAGE_BYTES_MAX, Request};
use atoll_jail::enter::Launched;
use atoll_sys::process::End;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Moments of one run, in microseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) started: u64,
    pub(super) planned: u64,
    pub(super) cloned: u64,
    pub(super) view_ready: u64,
    pub(super) confined: u64,
    /// How long the walls took, in us.
    pub(super) walls: u64,
    pub(super) running: u64,
    pub(super) ended: u64,
}

/// What PID 1 has told so far.
#[derive(Debug)]
pub(super) struct Told {
    launched: Launched,
    pub(super) moments: Moments,
    pub(super) failure: Option<Failure>,
    pub(super) refused: Vec<Vec<u8>>,
    pub(super) cpu_us: Option<u64>,
    pub(super) max_rss_kib: Option<u64>,
    pub(super) private_space_full: bool,
    /// For messages; made once, since making it touches every page of it.
    buffer: Vec<u8>,
}

/// Records of refusals that are kept; more are only counted by their absence.
const REFUSED_MAX: usize = 10_000;

impl Told {
    pub(super) fn new(launched: Launched, moments: Moments) -> Self {
        Self {
            launched,
            moments,
            failure: None,
            refused: Vec::new(),
            cpu_us: None,
            max_rss_kib: None,
            private_space_full: false,
            buffer: vec![0; MESSAGE_BYTES_MAX],
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.launched.pid
    }

    fn ask(&self, request: Request) -> io::Result<()> {
        atoll_sys::scm::send(self.launched.control.as_fd(), &request.encode(), None)
    }

    /// Takes a message in; gives what the supervisor has to know of it.
    fn take(&mut self, told: message::Message) -> Option<Message> {
        match told {
            message::Message::Terminal => None,
            message::Message::Started { view_us, confined_us, filter_us, running_us } => {
                self.moments.view_ready = view_us;
                self.moments.confined = confined_us;
                self.moments.walls = filter_us;
                self.moments.running = running_us;
                Some(Message::Started)
            }
            message::Message::Failed(failure) => {
                self.failure = Some(failure);
                Some(Message::Failed)
            }
            message::Message::Stopped { signal } => Some(Message::Stopped(signal)),
            message::Message::Ended { end, cpu_us, max_rss_kib, private_space_full } => {
                self.moments.ended = message_time();
                self.cpu_us = Some(cpu_us);
                self.max_rss_kib = Some(max_rss_kib);
                self.private_space_full = private_space_full;
                Some(match end {
                    End::Exited(status) => Message::Exited(status),
                    End::Signalled(signal) | End::Stopped(signal) => Message::Signaled(signal),
                })
            }
            message::Message::Refused(record) => {
                if self.refused.len() < REFUSED_MAX {
                    self.refused.push(record);
                }
                None
            }
        }
    }
}

fn message_time() -> u64 {
    atoll_guest::workload::now_us()
}

impl Control for Told {
    fn socket(&self) -> BorrowedFd<'_> {
        self.launched.control.as_fd()
    }

    fn pidfd(&self) -> BorrowedFd<'_> {
        self.launched.pidfd.as_fd()
    }

    fn next_message(&mut self) -> io::Result<Received> {
        loop {
            let mut ready = [PollFd::new(&self.launched.control, PollFlags::IN)];
            if poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
                return Ok(Received::Nothing);
            }
            let (length, fd) =
                atoll_sys::scm::receive(self.launched.control.as_fd(), &mut self.buffer)?;
            if length == 0 {
                return Ok(Received::Closed);
            }
            let told = message::Message::decode(&self.buffer[..length])
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            if let (message::Message::Terminal, Some(master)) = (&told, fd) {
                return Ok(Received::Message(Message::Terminal(master)));
            }
            if let Some(message) = self.take(told) {
                return Ok(Received::Message(message));
            }
        }
    }

    fn forward(&mut self, signal: i32) -> io::Result<()> {
        self.ask(Request::Signal(signal))
    }

    fn resume(&mut self, place: Place) -> io::Result<()> {
        self.ask(Request::Resume { front: place == Place::Front })
    }

    fn kill_all(&mut self) -> io::Result<()> {
        let kill = rustix::process::Signal::KILL;
        Ok(rustix::process::pidfd_send_signal(&self.launched.pidfd, kill)?)
    }
}
