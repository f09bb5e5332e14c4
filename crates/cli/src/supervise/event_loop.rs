//! The loop that watches everything while the command runs.

use super::control::{Companion, Control, End, Lost, Message, Outcome, Place, Received};
use super::dialog::Answer;
use super::pump::{Pump, Read, Write};
use super::relay::Relay;
use super::signals::{self, Signals};
use super::stdio::Stdio;
use super::terminal::takes_output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// How long PID 1 may take to end after it has told the command's end, and to
/// die after it has been killed.
const GRACE: Duration = Duration::from_secs(2);

/// How long a signal that ends a command waits for the command to start.
const START_PATIENCE: Duration = Duration::from_millis(500);

/// How long an output may stay open without a byte when everybody who could
/// write to it is dead. Its end is certain then; this is against a hang only.
const QUIET: Duration = Duration::from_secs(1);

/// The launcher could not watch over the command. Everything in the jail has been
/// killed.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    #[error("cannot wait for events")]
    Poll(#[source] io::Error),
    #[error("cannot read signals")]
    Signals(#[source] io::Error),
    #[error("cannot stop")]
    Suspend(#[source] io::Error),
}

/// What [`run`] needs.
pub struct Inputs<'a, C> {
    pub control: &'a mut C,
    pub companion: Option<&'a mut dyn Companion>,
    pub signals: &'a Signals,
    pub stdio: Stdio,
    /// When to kill everything.
    pub deadline: Option<Instant>,
}

/// Watches until PID 1 has ended and all output has reached its place.
///
/// On return the user's terminal has its own modes again. PID 1 is not reaped.
///
/// # Errors
///
/// See [`SuperviseError`].
pub fn run<C: Control>(inputs: Inputs<'_, C>) -> Result<Outcome, SuperviseError> {
    let mut supervisor = Supervisor::new(inputs);
    let result = supervisor.watch();
    if result.is_err() {
        supervisor.kill_all();
    }
    result
}

/// Where an event came from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signals,
    Socket,
    Pidfd,
    Companion,
    Terminal,
    Master,
    ForeignFrom(usize),
    ForeignTo(usize),
}

/// An output on another terminal.
struct Copy {
    from: OwnedFd,
    to: OwnedFd,
    pump: Pump,
}

struct Supervisor<'a, C> {
    control: &'a mut C,
    companion: Option<&'a mut dyn Companion>,
    signals: &'a Signals,
    relay: Option<Relay>,
    copies: Vec<Copy>,
    deadline: Option<Instant>,
    timed_out: bool,
    /// The command's program runs.
    started: bool,
    said: Option<End>,
    socket_open: bool,
    dead: bool,
    /// When to do something about a PID 1 that ought to be gone.
    overdue: Option<Instant>,
    killed: bool,
    /// A signal that the command has yet to live to see, and until when.
    unstarted: Option<(Instant, Signal)>,
    /// When something was last read of an output.
    last_output: Instant,
    abandoned: bool,
}

impl<'a, C: Control> Supervisor<'a, C> {
    fn new(inputs: Inputs<'a, C>) -> Self {
        let Inputs { control, companion, signals, mut stdio, deadline } = inputs;
        stdio.close_given();
        let copies = stdio
            .foreign
            .into_iter()
            .map(|foreign| Copy { from: foreign.from, to: foreign.to, pump: Pump::new() })
            .collect();
        Self {
            control,
            companion,
            signals,
            relay: stdio.terminal.map(Relay::new),
            copies,
            deadline,
            timed_out: false,
            started: false,
            said: None,
            socket_open: true,
            dead: false,
            overdue: None,
            killed: false,
            unstarted: None,
            last_output: Instant::now(),
            abandoned: false,
        }
    }

    fn watch(&mut self) -> Result<Outcome, SuperviseError> {
        while !self.is_finished() {
            let events = self.wait()?;
            for (source, flags) in events {
                self.serve(source, flags)?;
            }
            self.look_at_clock();
            self.ask();
        }
        if let Some(relay) = &mut self.relay {
            relay.close();
        }
        let end = self.said.unwrap_or_else(|| End::Lost(self.cause()));
        Ok(Outcome { end, timed_out: self.timed_out })
    }

    fn is_finished(&self) -> bool {
        let relayed = self.relay.as_ref().is_none_or(Relay::is_done);
        self.dead && (self.abandoned || relayed && self.copies.iter().all(|c| c.pump.is_done()))
    }

    fn wait(&self) -> Result<Vec<(Source, PollFlags)>, SuperviseError> {
        let mut sources = vec![Source::Signals];
        let mut fds = vec![PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
        let mut add = |source, fd, flags| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        if self.socket_open {
            add(Source::Socket, self.control.socket(), PollFlags::IN);
        }
        if !self.dead {
            add(Source::Pidfd, self.control.pidfd(), PollFlags::IN);
        }
        if let Some(fd) = self.companion.as_ref().and_then(|companion| companion.socket()) {
            add(Source::Companion, fd, PollFlags::IN);
        }
        if let Some(relay) = &self.relay {
            if let Some((fd, flags)) = relay.terminal_interest() {
                add(Source::Terminal, fd, flags);
            }
            if let Some((fd, flags)) = relay.master_interest() {
                add(Source::Master, fd, flags);
            }
        }
        for (index, copy) in self.copies.iter().enumerate() {
            if copy.pump.wants_read() {
                add(Source::ForeignFrom(index), copy.from.as_fd(), PollFlags::IN);
            } else if !copy.pump.is_empty() {
                add(Source::ForeignTo(index), copy.to.as_fd(), PollFlags::OUT);
            }
        }
        let timeout = self.next_alarm().map(|at| {
            Timespec::try_from(at.saturating_duration_since(Instant::now())).unwrap_or_default()
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(SuperviseError::Poll(error.into())),
        }
        let events = sources.into_iter().zip(fds.iter().map(PollFd::revents));
        Ok(events.filter(|(_, flags)| !flags.is_empty()).collect())
    }

    /// When to look at the clock again.
    fn next_alarm(&self) -> Option<Instant> {
        let quiet = (self.dead && self.waits_for_output()).then(|| self.last_output + QUIET);
        let unstarted = self.unstarted.map(|(until, _)| until);
        let asked = self.relay.as_ref().and_then(Relay::asking_alarm);
        let question = self.companion.as_ref().and_then(|companion| companion.question());
        let late = question.filter(|_| !self.dead).map(|question| question.until);
        [self.deadline, self.overdue, unstarted, quiet, asked, late].into_iter().flatten().min()
    }

    /// Has the user asked what the companion wants to know, if there is something and the
    /// terminal can be had. A question that nobody could be asked has its end all the same.
    fn ask(&mut self) {
        let Some(companion) = &mut self.companion else { return };
        let answered = self.relay.as_mut().and_then(Relay::look_at_question);
        let now = Instant::now();
        let late = || {
            let question = companion.question().filter(|question| question.until <= now)?;
            Some((question.number, Answer::Late))
        };
        if let Some((number, answer)) = answered.or_else(late) {
            companion.answer(number, answer);
        }
        let Some(relay) = &mut self.relay else { return };
        match companion.question().filter(|_| !self.dead && self.said.is_none()) {
            Some(question) => relay.ask(question),
            None => relay.stop_asking(),
        }
    }

    /// Nothing waits to be written: what is missing is the other side's end.
    fn waits_for_output(&self) -> bool {
        self.relay.as_ref().is_none_or(Relay::is_flushed)
            && self.copies.iter().all(|copy| copy.pump.is_empty())
    }

    fn look_at_clock(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|at| at <= now) {
            self.deadline = None;
            if self.dead {
                self.abandoned = true;
            } else if self.said.is_none() {
                self.timed_out = true;
                self.kill_all();
            }
        }
        if let Some((until, signal)) = self.unstarted
            && until <= now
        {
            // It hangs before there is a command that could have a say in it.
            self.unstarted = None;
            self.said.get_or_insert(End::Signaled(signal.as_raw()));
            self.kill_all();
        }
        if self.overdue.is_some_and(|at| at <= now) && !self.dead {
            if self.killed {
                // Not even SIGKILL ends it now: it hangs in the kernel.
                (self.dead, self.overdue) = (true, None);
            } else {
                self.kill_all();
            }
        }
        if self.dead && self.waits_for_output() && self.last_output + QUIET <= now {
            self.abandoned = true;
        }
    }

    fn serve(&mut self, source: Source, flags: PollFlags) -> Result<(), SuperviseError> {
        match source {
            Source::Signals => {
                while let Some(signal) = self.signals.next().map_err(SuperviseError::Signals)? {
                    self.take_signal(signal);
                }
            }
            Source::Socket => self.read_messages()?,
            Source::Pidfd => {
                self.read_messages()?;
                (self.dead, self.overdue) = (true, None);
                self.last_output = Instant::now();
            }
            Source::Companion => {
                if let Some(companion) = &mut self.companion {
                    companion.serve();
                }
            }
            Source::Terminal => {
                if let Some(relay) = &mut self.relay {
                    let answer = relay.serve_terminal(flags);
                    if let (Some((number, answer)), Some(companion)) = (answer, &mut self.companion)
                    {
                        companion.answer(number, answer);
                    }
                    if relay.has_lost_the_front() {
                        self.find_place();
                    }
                }
            }
            Source::Master => {
                if let Some(relay) = &mut self.relay
                    && relay.serve_master(flags)
                {
                    self.last_output = Instant::now();
                }
            }
            Source::ForeignFrom(index) | Source::ForeignTo(index) => {
                if let Some(copy) = self.copies.get_mut(index)
                    && copy.step()
                {
                    self.last_output = Instant::now();
                }
            }
        }
        Ok(())
    }

    fn take_signal(&mut self, signal: Signal) {
        match signal {
            Signal::CONT => self.find_place(),
            Signal::WINCH => {
                let in_front = self.relay.as_mut().is_some_and(Relay::take_over_size);
                if !in_front {
                    self.forward(signal);
                }
            }
            _ if self.dead => self.abandoned |= signals::ends(signal),
            _ => {
                if !self.started && signals::ends(signal) {
                    let until = Instant::now() + START_PATIENCE;
                    self.unstarted.get_or_insert((until, signal));
                }
                self.forward(signal);
            }
        }
    }

    fn forward(&mut self, signal: Signal) {
        // When PID 1 is gone its pidfd says so.
        self.control.forward(signal.as_raw()).ok();
    }

    fn kill_all(&mut self) {
        // Already gone is as good.
        self.control.kill_all().ok();
        self.killed = true;
        self.overdue = Some(Instant::now() + GRACE);
    }

    fn read_messages(&mut self) -> Result<(), SuperviseError> {
        while self.socket_open {
            match self.control.next_message() {
                Ok(Received::Message(message)) => self.take_message(message)?,
                Ok(Received::Nothing) => break,
                // PID 1 ended without reading all that was sent to it. This is
                // told once, and before what PID 1 said last.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                Ok(Received::Closed) | Err(_) => {
                    self.socket_open = false;
                    self.expect_death();
                }
            }
        }
        Ok(())
    }

    fn expect_death(&mut self) {
        if !self.dead {
            self.overdue.get_or_insert_with(|| Instant::now() + GRACE);
        }
    }

    fn take_message(&mut self, message: Message) -> Result<(), SuperviseError> {
        let end = match message {
            Message::Terminal(master) => {
                if let Some(relay) = &mut self.relay {
                    relay.connect(master);
                }
                return Ok(());
            }
            Message::Started => {
                self.started = true;
                self.unstarted = None;
                if self.relay.as_ref().is_some_and(Relay::has_lost_the_front) {
                    self.find_place();
                }
                return Ok(());
            }
            Message::Stopped(signal) => return self.take_stop(signal),
            Message::Exited(status) => End::Exited(status),
            Message::Signaled(signal) => End::Signaled(signal),
            Message::Failed => End::Failed,
        };
        self.said.get_or_insert(end);
        self.expect_death();
        Ok(())
    }

    /// The command has stopped: so does the launcher, unless the command only
    /// wants a terminal that it can have.
    fn take_stop(&mut self, signal: i32) -> Result<(), SuperviseError> {
        let signal = Signal::from_named_raw(signal).unwrap_or(Signal::STOP);
        let wants_terminal = signal == Signal::TTIN || signal == Signal::TTOU;
        let mut whole_group = false;
        if let Some(relay) = &mut self.relay {
            relay.flush();
            if wants_terminal && relay.take_front() {
                self.control.resume(Place::Front).ok();
                return Ok(());
            }
            whole_group = wants_terminal || (relay.is_in_front() && signal != Signal::STOP);
            relay.step_back();
        }
        let stopped = signals::suspend(signal, whole_group).map_err(SuperviseError::Suspend)?;
        if stopped {
            // The SIGCONT that ended it is still to be read and does the rest.
            return Ok(());
        }
        // Nobody could continue us, so the kernel did not stop us. The command
        // goes on too; it finds an end of file where it wanted keys.
        if wants_terminal && let Some(relay) = &mut self.relay {
            relay.deny_input();
            self.control.resume(Place::Front).ok();
        } else {
            self.find_place();
        }
        Ok(())
    }

    /// After a stop the launcher may be in front or behind: the command follows.
    fn find_place(&mut self) {
        let place = self.relay.as_mut().map_or(Place::Front, Relay::find_place);
        if self.started {
            self.control.resume(place).ok();
        }
    }

    /// Why PID 1 said nothing.
    fn cause(&self) -> Lost {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Ok(Some(status)) = waitid(WaitId::PidFd(self.control.pidfd()), options) else {
            return Lost::Unknown;
        };
        if let Some(signal) = status.terminating_signal() {
            return Lost::Killed(signal);
        }
        let status = status.exit_status().and_then(|status| u8::try_from(status).ok());
        status.map_or(Lost::Unknown, Lost::Exited)
    }
}

impl Copy {
    /// Reads and writes what can be; says whether something was read.
    fn step(&mut self) -> bool {
        // Small pieces: the other terminal may be one that makes us wait.
        const PIECE_BYTES: usize = 256;
        let read = self.pump.read(&self.from);
        match read {
            Read::Zero | Read::Failed(_) => self.pump.finish(),
            Read::Some | Read::Nothing => {}
        }
        if takes_output(self.to.as_fd())
            && let Write::Failed(_) = self.pump.write(&self.to, PIECE_BYTES)
        {
            self.pump.abandon();
        }
        read == Read::Some
    }
}
