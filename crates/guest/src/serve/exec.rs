//! One exec: its processes, what it printed, and how it ended.
//!
//! ```text
//!     running ──process ended──> draining ──all read──> ended
//! ```
//!
//! When the first process has ended, what it printed lies in the pipes. So much
//! is read and no more, for somebody that it left behind may print for ever; that
//! output is kept too, but is not waited for.

use super::kept::Kept;
use super::launch::Launched;
use super::session;
use atoll_protocol::exec::{
    Cause, Command, Ended, Input, LISTED_BYTES_MAX, Outcome, Printed, Size, Start, Status, Stream,
    Target,
};
use atoll_protocol::octets::Octets;
use atoll_sys::process::{End, Ended as Collected};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// How long a terminal that others keep open is read after the command's end, in us.
const TERMINAL_QUIET_US: u64 = 100_000;

/// Most input that waits for the command to take it, in bytes.
pub(super) const WAITING_BYTES_MAX: usize = 256 << 10;

/// Room for one read, in bytes.
pub(super) const READ_BYTES: usize = 128 << 10;

#[derive(Debug)]
pub(super) struct Exec {
    pub(super) id: String,
    name: Option<String>,
    /// The session of execs that it is part of.
    session: Option<String>,
    command: Command,
    input_kind: Input,
    pid: i32,
    started_us: u64,
    outputs: [Output; 2],
    input: Option<OwnedFd>,
    /// Input that the command has not taken.
    waiting: VecDeque<u8>,
    /// Input that was taken in here, waiting or not.
    fed: u64,
    /// The input is closed once nothing waits.
    closes: bool,
    terminal: Option<Size>,
    /// What may be kept of each stream.
    keep_bytes: u64,
    deadline_us: Option<u64>,
    cause: Option<Cause>,
    collected: Option<Gone>,
    ended: Option<Ended>,
}

#[derive(Debug)]
struct Output {
    fd: Option<OwnedFd>,
    kept: Kept,
    /// What is still to be read after the end.
    left: Left,
}

/// What is still to be read of a stream after the command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Not ended, or no more.
    Nothing,
    Bytes(u64),
    /// A terminal, until it is closed or this time has come.
    Until(u64),
}

/// The first process has ended.
#[derive(Debug, Clone, Copy)]
struct Gone {
    outcome: Outcome,
    cpu_us: u64,
    max_rss_kib: u64,
    at_us: u64,
}

/// How much input was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    /// The command has closed its end.
    Refused,
    Taken,
}

impl Exec {
    pub(super) fn new(start: &Start, launched: Launched, now_us: u64) -> Self {
        let [out, err] = launched.outputs;
        Self {
            id: start.id.clone(),
            name: start.name.clone(),
            session: start.session.clone(),
            command: start.command.clone(),
            input_kind: start.input,
            pid: launched.pid,
            started_us: now_us,
            outputs: [Output::new(out, start.keep_bytes), Output::new(err, start.keep_bytes)],
            input: launched.input,
            waiting: VecDeque::new(),
            fed: 0,
            closes: false,
            terminal: match start.input {
                Input::Terminal(size) => Some(size),
                Input::Closed | Input::Pipe => None,
            },
            keep_bytes: start.keep_bytes,
            deadline_us: start.timeout_ms.map(|ms| now_us.saturating_add(ms.saturating_mul(1000))),
            cause: None,
            collected: None,
            ended: None,
        }
    }

    /// Says whether `start` asks for what this is.
    pub(super) fn is_of(&self, start: &Start) -> bool {
        self.command == start.command
            && self.input_kind == start.input
            && self.session == start.session
    }

    /// Says whether it runs in this session.
    pub(super) fn occupies(&self, session: &str) -> bool {
        self.is_running() && self.session.as_deref() == Some(session)
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn is_running(&self) -> bool {
        self.collected.is_none()
    }

    pub(super) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    pub(super) fn kept(&self, stream: Stream) -> &Kept {
        &self.outputs[stream.index()].kept
    }

    /// Bytes of memory that it takes: what it printed, and its command.
    pub(super) fn memory(&self) -> u64 {
        self.outputs.iter().map(|output| output.kept.memory()).sum::<u64>() + bytes(&self.command)
    }

    /// Bytes of memory that it may come to take.
    pub(super) fn promised(&self) -> u64 {
        if self.ended.is_some() && self.outputs.iter().all(|output| output.fd.is_none()) {
            self.memory()
        } else {
            2 * self.keep_bytes + bytes(&self.command)
        }
    }

    pub(super) fn status(&self, now_us: u64) -> Status {
        Status {
            id: self.id.clone(),
            pid: self.pid,
            arguments: self.command.arguments.clone(),
            name: self.name.clone(),
            session: self.session.clone(),
            keep_bytes: self.keep_bytes,
            age_ms: now_us.saturating_sub(self.started_us) / 1000,
            stdout: self.printed(Stream::Stdout),
            stderr: self.printed(Stream::Stderr),
            fed_bytes: self.fed,
            terminal: self.terminal,
            ended: self.ended.clone(),
        }
    }

    /// The same for a list.
    pub(super) fn listed(&self, now_us: u64) -> Status {
        Status { arguments: beginning(&self.command.arguments), ..self.status(now_us) }
    }

    pub(super) fn printed(&self, stream: Stream) -> Printed {
        self.kept(stream).printed()
    }

    // Output.

    /// The descriptor that a stream is read from, if it is still open.
    pub(super) fn output(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        self.outputs[stream.index()].fd.as_ref().map(OwnedFd::as_fd)
    }

    /// Says whether a stream is to be read now. `wanted` is where the slowest of
    /// those stands who follow it and are waited for.
    pub(super) fn takes(&self, stream: Stream, wanted: Option<u64>) -> bool {
        let output = &self.outputs[stream.index()];
        output.fd.is_some() && output.room(wanted) > 0
    }

    /// Reads what a stream has, once; says whether there was something.
    pub(super) fn read(
        &mut self,
        stream: Stream,
        wanted: Option<u64>,
        buffer: &mut [u8; READ_BYTES],
    ) -> bool {
        let output = &mut self.outputs[stream.index()];
        let Some(fd) = &output.fd else { return false };
        let mut room = output.room(wanted).min(buffer.len());
        if let Left::Bytes(left) = output.left {
            room = room.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        if room == 0 {
            return false;
        }
        match rustix::io::read(fd, &mut buffer[..room]) {
            Ok(length @ 1..) => {
                output.kept.add(&buffer[..length]);
                if let Left::Bytes(left) = &mut output.left {
                    *left -= (length as u64).min(*left);
                }
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            // The end; of a terminal, that its last slave was closed.
            Ok(_) | Err(_) => {
                (output.fd, output.left) = (None, Left::Nothing);
                false
            }
        }
    }

    // Input.

    /// The descriptor to write to, while input waits for it.
    pub(super) fn wants_to_write(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().filter(|_| !self.waiting.is_empty()).map(OwnedFd::as_fd)
    }

    pub(super) fn has_input(&self) -> bool {
        self.input_kind != Input::Closed
    }

    /// How many bytes it was fed.
    pub(super) fn fed(&self) -> u64 {
        self.fed
    }

    pub(super) fn takes_input(&self) -> bool {
        self.waiting.len() < WAITING_BYTES_MAX
    }

    /// Says whether everything that it was fed has been taken by the command, or
    /// whether nothing will be any more.
    pub(super) fn fed_so_far(&self) -> Option<Fed> {
        match (&self.input, self.waiting.is_empty()) {
            (_, true) => Some(Fed::Taken),
            (None, false) => Some(Fed::Refused),
            (Some(_), false) => None,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.fed += bytes.len() as u64;
        self.waiting.extend(bytes);
        self.write();
    }

    /// Closes a pipe when all has been taken. A terminal stays as it is.
    pub(super) fn close_input(&mut self) {
        self.closes = self.terminal.is_none();
        self.write();
    }

    /// Gives the command what it takes now.
    pub(super) fn write(&mut self) {
        while let Some(input) = &self.input {
            let (front, _) = self.waiting.as_slices();
            if front.is_empty() {
                break;
            }
            match rustix::io::write(input, front) {
                Ok(length) => drop(self.waiting.drain(..length)),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => self.input = None,
            }
        }
        if self.closes && self.waiting.is_empty() {
            self.input = None;
        }
    }

    pub(super) fn resize(&mut self, size: Size) -> rustix::io::Result<bool> {
        let (Some(_), Some(master)) = (self.terminal, &self.outputs[0].fd) else {
            return Ok(false);
        };
        rustix::termios::tcsetwinsize(master, super::launch::window(size))?;
        self.terminal = Some(size);
        Ok(true)
    }

    // Signals and the end.

    /// Sends a signal; says whether there was somebody to get it.
    pub(super) fn signal(&self, signal: Signal, target: Target) -> bool {
        match target {
            // The number may be another's once it has been collected.
            Target::Process | Target::Group if !self.is_running() => false,
            Target::Process => Pid::from_raw(self.pid)
                .is_some_and(|pid| rustix::process::kill_process(pid, signal).is_ok()),
            Target::Group => session::signal_group(self.foreground().unwrap_or(self.pid), signal),
            Target::Session => session::signal(self.pid, signal),
        }
    }

    /// The group in front of its terminal.
    fn foreground(&self) -> Option<i32> {
        let master = self.terminal.and(self.outputs[0].fd.as_ref())?;
        let group = rustix::termios::tcgetpgrp(master).ok()?;
        Some(group.as_raw_nonzero().get())
    }

    /// Kills all of its session; the first cause is the one that is told.
    pub(super) fn kill(&mut self, cause: Cause) {
        self.note_cause(cause);
        session::kill(self.pid);
    }

    /// Says why it is being ended, where that is by something milder than a kill.
    pub(super) fn note_cause(&mut self, cause: Cause) {
        if self.is_running() {
            self.cause.get_or_insert(cause);
        }
    }

    /// When something has to be done even if nothing happens.
    pub(super) fn next_time(&self) -> Option<u64> {
        let deadline = self.deadline_us.filter(|_| self.is_running());
        let quiet = self.outputs.iter().filter_map(|output| match output.left {
            Left::Until(time) => Some(time),
            Left::Nothing | Left::Bytes(_) => None,
        });
        quiet.chain(deadline).min()
    }

    /// Does what its time has come for.
    pub(super) fn tick(&mut self, now_us: u64) {
        if self.is_running() && self.deadline_us.is_some_and(|deadline| deadline <= now_us) {
            self.deadline_us = None;
            self.kill(Cause::TimedOut);
        }
        for output in &mut self.outputs {
            if matches!(output.left, Left::Until(time) if time <= now_us) {
                output.left = Left::Nothing;
            }
        }
    }

    /// Its first process has ended.
    pub(super) fn collected(&mut self, collected: &Collected, now_us: u64) {
        let outcome = match collected.end {
            End::Exited(status) => Outcome::Exited(status),
            End::Signalled(signal) => Outcome::Signalled(signal),
            End::Stopped(_) => return,
        };
        let (cpu_us, max_rss_kib) = (collected.cpu_us, collected.max_rss_kib);
        self.collected = Some(Gone { outcome, cpu_us, max_rss_kib, at_us: now_us });
        let is_terminal = self.terminal.is_some();
        for output in &mut self.outputs {
            output.left = match &output.fd {
                None => Left::Nothing,
                // What is written to a terminal arrives a little later.
                Some(_) if is_terminal => Left::Until(now_us + TERMINAL_QUIET_US),
                Some(pipe) => Left::Bytes(rustix::io::ioctl_fionread(pipe).unwrap_or(0)),
            };
        }
    }

    /// Closes the input of an exec that has ended and of which nobody is left: it would stay
    /// open, and a terminal with it, for as long as the exec is remembered.
    pub(super) fn let_go(&mut self) {
        if self.ended.is_some() && self.outputs.iter().all(|output| output.fd.is_none()) {
            self.input = None;
        }
    }

    /// Notes the end once all that belongs to it has been read; says whether it is
    /// there now and was not before.
    pub(super) fn settle(&mut self) -> bool {
        let Some(gone) = self.collected.filter(|_| self.ended.is_none()) else { return false };
        let is_read = |output: &Output| matches!(output.left, Left::Nothing | Left::Bytes(0));
        if !self.outputs.iter().all(is_read) {
            return false;
        }
        self.outputs.iter_mut().for_each(|output| output.left = Left::Nothing);
        self.ended = Some(Ended {
            outcome: gone.outcome,
            cause: self.cause,
            duration_us: gone.at_us.saturating_sub(self.started_us),
            cpu_us: gone.cpu_us,
            max_rss_kib: gone.max_rss_kib,
            fed_bytes: self.fed,
            stdout: self.printed(Stream::Stdout),
            stderr: self.printed(Stream::Stderr),
        });
        true
    }
}

impl Output {
    fn new(fd: Option<OwnedFd>, limit: u64) -> Self {
        Self { fd, kept: Kept::new(limit), left: Left::Nothing }
    }

    /// How much may be read now: for somebody who is waited for nothing that was
    /// not read is dropped.
    fn room(&self, wanted: Option<u64>) -> usize {
        wanted.map_or(usize::MAX, |offset| self.kept.room_for(offset))
    }
}

/// Bytes that the words of a command take.
pub(super) fn bytes(command: &Command) -> u64 {
    let word = |word: &Octets| (size_of::<Octets>() + word.as_bytes().len()) as u64;
    let variables = command.environment.iter();
    let variables = variables.map(|(name, value)| word(name) + value.as_ref().map_or(0, word));
    command.arguments.iter().map(word).sum::<u64>() + variables.sum::<u64>()
}

/// The first [`LISTED_BYTES_MAX`] bytes of some arguments, each with the NUL that ends it.
fn beginning(arguments: &[Octets]) -> Vec<Octets> {
    let mut left = LISTED_BYTES_MAX;
    let mut beginning = Vec::new();
    for argument in arguments {
        if left == 0 {
            break;
        }
        let bytes = argument.as_bytes();
        let length = match std::str::from_utf8(bytes) {
            Ok(text) => text.floor_char_boundary(left),
            Err(_) => bytes.len().min(left),
        };
        left = left.saturating_sub(bytes.len() + 1);
        beginning.extend(Octets::new(&bytes[..length]));
    }
    beginning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_beginning_of_a_command() {
        let octets = |text: &str| Octets::new(text).unwrap();
        let short = [octets("sh"), octets("-c"), octets("true")];
        assert_eq!(beginning(&short), short);
        let long = "ü".repeat(LISTED_BYTES_MAX);
        let cut = beginning(&[octets("a"), octets(&long), octets("b")]);
        assert_eq!(cut, [octets("a"), octets(&long[..LISTED_BYTES_MAX - 2])]);
        assert_eq!(beginning(&vec![octets(""); 100_000]).len(), LISTED_BYTES_MAX);
        let bytes = Octets::new([0xff; 2 * LISTED_BYTES_MAX]).unwrap();
        assert_eq!(beginning(&[bytes])[0].as_bytes().len(), LISTED_BYTES_MAX);
    }
}
