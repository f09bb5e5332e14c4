//! The loop: waits for whatever can happen, and lets each part do what it can.

use super::connection::{Connection, Feeding, Role};
use super::exec::{Exec, Fed, READ_BYTES};
use super::launch::{Base, Walls};
use super::session;
use super::table::{Table, absent};
use super::time::Clock;
use crate::workload::now_us;
use atoll_protocol::exec::{Cause, OnDisconnect, Stream};
use atoll_protocol::frame::Kind;
use atoll_protocol::hello::Hello;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Reply, Request};
use atoll_sys::capture::Listeners;
use atoll_sys::process::{self, End, SignalSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::process::Signal;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Limits of what a guest keeps.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Workers at once: connections that read files and the like.
    pub workers: usize,
    /// Execs that run at once.
    pub running: usize,
    /// Execs that are remembered, with those that have ended.
    pub remembered: usize,
    /// Bytes kept of what all of them printed.
    pub kept_bytes: u64,
    /// A client that follows an exec and takes nothing for so long is not waited
    /// for any more: output is dropped instead.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (connections, workers, running, remembered) = (512, 64, 256, 1024);
        let (kept_bytes, patience) = (256 << 20, Duration::from_secs(10));
        Self { connections, workers, running, remembered, kept_bytes, patience }
    }
}

/// A guest that serves operations.
pub struct Server {
    listener: OwnedFd,
    signals: OwnedFd,
    pub(super) base: Base,
    pub(super) walls: Box<dyn Walls>,
    pub(super) limits: Limits,
    pub(super) clock: Clock,
    pub(super) born_us: u64,
    pub(super) connections: Vec<Connection>,
    pub(super) execs: Table,
    /// Nobody is accepted before this time: there were no descriptors left.
    accept_us: u64,
    /// Everybody is to end, and is killed at this time; that is not taken back.
    pub(super) stopping_us: Option<u64>,
    /// Processes that serve a connection each.
    pub(super) workers: Vec<i32>,
    /// What the network leads to, which the host asks for whenever it begins anew.
    pub(super) listeners: Option<Listeners>,
    /// The inodes of those that listen.
    pub(super) own_sockets: Vec<u64>,
    buffer: Box<[u8; READ_BYTES]>,
    is_stopped: bool,
}

/// Something that can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Listener,
    Signals,
    Connection(usize),
    Output(usize, Stream),
    Input(usize),
}

/// How long nobody is accepted when there are no descriptors left, in us.
const ACCEPT_AGAIN_US: u64 = 20_000;

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

impl Server {
    /// A guest that accepts connections of `listener`, a unix stream socket.
    /// Every signal must be blocked before, so that no child's end is missed.
    ///
    /// # Errors
    ///
    /// Out of descriptors.
    pub fn new(
        listener: OwnedFd,
        base: Base,
        walls: Box<dyn Walls>,
        limits: Limits,
    ) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&listener, true)?;
        Ok(Self {
            listener,
            signals: process::signal_descriptor(SignalSet::ALL)?,
            base,
            walls,
            limits,
            clock: Clock::default(),
            born_us: now_us(),
            connections: Vec::new(),
            execs: Table::default(),
            accept_us: 0,
            stopping_us: None,
            workers: Vec::new(),
            listeners: None,
            own_sockets: Vec::new(),
            buffer: Box::new([0; READ_BYTES]),
            is_stopped: false,
        })
    }

    /// Keeps what the sandbox's network leads to.
    ///
    /// # Errors
    ///
    /// They are no sockets.
    pub fn keep_listeners(&mut self, listeners: Listeners) -> io::Result<()> {
        for listener in &listeners.tcp {
            self.own_sockets.push(rustix::fs::fstat(listener)?.st_ino);
        }
        self.listeners = Some(listeners);
        Ok(())
    }

    /// Serves until it is asked to stop and every process has ended.
    pub fn run(&mut self) {
        while !self.is_stopped {
            self.step();
        }
    }

    fn step(&mut self) {
        let ready = self.wait();
        for source in &ready {
            match *source {
                Source::Signals => self.reap(),
                Source::Output(index, stream) => self.read(index, stream),
                Source::Input(index) => {
                    if let Some(exec) = self.execs.iter_mut().nth(index) {
                        exec.write();
                    }
                    self.feed_on();
                }
                Source::Listener | Source::Connection(_) => {}
            }
        }
        for source in ready {
            match source {
                Source::Connection(index) => self.serve(index),
                Source::Listener => self.accept(),
                Source::Signals | Source::Output(..) | Source::Input(_) => {}
            }
        }
        self.settle();
        self.hand_over();
        self.let_go();
    }

    // Waiting.

    fn wait(&self) -> Vec<Source> {
        let sources = self.sources();
        let mut waiting: Vec<PollFd<'_>> =
            sources.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let timeout = self.timeout();
        if poll(&mut waiting, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        sources
            .iter()
            .zip(&waiting)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|((source, ..), _)| *source)
            .collect()
    }

    /// Everything that can happen next.
    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut sources = vec![(Source::Signals, self.signals.as_fd(), PollFlags::IN)];
        // Others wait in the kernel's queue until there is room.
        if self.connections.len() < self.limits.connections && self.accept_us <= now_us() {
            sources.push((Source::Listener, self.listener.as_fd(), PollFlags::IN));
        }
        for (index, exec) in self.execs.iter().enumerate() {
            for stream in STREAMS {
                if let Some(fd) = exec.output(stream)
                    && exec.takes(stream, self.wanted(&exec.id, stream))
                {
                    sources.push((Source::Output(index, stream), fd, PollFlags::IN));
                }
            }
            if let Some(fd) = exec.wants_to_write() {
                sources.push((Source::Input(index), fd, PollFlags::OUT));
            }
        }
        for (index, connection) in self.connections.iter().enumerate() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, self.listens_to(connection));
            flags.set(PollFlags::OUT, connection.is_pending());
            sources.push((Source::Connection(index), connection.as_fd(), flags));
        }
        sources
    }

    /// Says whether more is wanted from a connection: not while what it fed waits.
    fn listens_to(&self, connection: &Connection) -> bool {
        match &connection.role {
            Role::Feeding(feeding) => self.execs.find(&feeding.id).is_none_or(Exec::takes_input),
            Role::Served => false,
            Role::Greeting
            | Role::Asking
            | Role::Following(_)
            | Role::Cancelling { .. }
            | Role::Attending => true,
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let real = now_us();
        let of_connections =
            self.connections.iter().filter_map(|one| one.next_time(real, self.patience_us())).min();
        let accept = Some(self.accept_us).filter(|time| *time > real);
        let of_all = of_connections.into_iter().chain(self.stopping_us).chain(accept).min();
        let until = of_all.map(|time| time.saturating_sub(real));
        let now = self.clock.now();
        let of_execs = self.execs.iter().filter_map(Exec::next_time).min();
        let of_execs = of_execs.filter(|_| !self.clock.is_held());
        let until = until.into_iter().chain(of_execs.map(|time| time.saturating_sub(now))).min()?;
        Some(Timespec {
            tv_sec: i64::try_from(until / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(until % 1_000_000 * 1000).unwrap_or(0),
        })
    }

    fn patience_us(&self) -> u64 {
        u64::try_from(self.limits.patience.as_micros()).unwrap_or(u64::MAX / 2)
    }

    /// Where the slowest follower stands that an exec waits for.
    fn wanted(&self, id: &str, stream: Stream) -> Option<u64> {
        let now = now_us();
        let offsets = self.connections.iter().filter_map(|connection| match &connection.role {
            Role::Following(following) if following.id == id && !following.is_snapshot => {
                connection
                    .is_waited_for(now, self.patience_us())
                    .then(|| following.offsets[stream.index()])
            }
            _ => None,
        });
        offsets.min()
    }

    // Execs.

    fn read(&mut self, index: usize, stream: Stream) {
        let Some(id) = self.execs.iter().nth(index).map(|exec| exec.id.clone()) else { return };
        let wanted = self.wanted(&id, stream);
        if let Some(exec) = self.execs.iter_mut().nth(index) {
            exec.read(stream, wanted, &mut self.buffer);
        }
    }

    fn reap(&mut self) {
        while let Ok(Some(_)) = process::read_signal(self.signals.as_fd()) {}
        let now = self.clock.now();
        while let Ok(Some(ended)) = process::collect(-1) {
            if matches!(ended.end, End::Stopped(_)) {
                continue;
            }
            self.workers.retain(|pid| *pid != ended.pid);
            if let Some(exec) = self.execs.of_process(ended.pid) {
                exec.collected(&ended, now);
            }
        }
    }

    /// Does what the time has come for, and notes what has come to its end.
    fn settle(&mut self) {
        let now = self.clock.now();
        for exec in self.execs.iter_mut() {
            if !self.clock.is_held() {
                exec.tick(now);
            }
            exec.settle();
            exec.let_go();
        }
        self.settle_connections();
    }

    /// Answers those who wait for something that has come about.
    fn settle_connections(&mut self) {
        let now = now_us();
        self.is_stopped =
            self.stopping_us.as_mut().is_some_and(|kill_us| has_stopped(kill_us, now));
        for connection in &mut self.connections {
            let answer = match &mut connection.role {
                Role::Cancelling { id, kill_us } => {
                    settle_cancelling(id, kill_us, &mut self.execs, now)
                }
                Role::Feeding(feeding) => settle_feeding(feeding, &self.execs),
                Role::Greeting
                | Role::Asking
                | Role::Following(_)
                | Role::Attending
                | Role::Served => None,
            };
            if let Some(answer) = answer {
                connection.answer(answer);
            }
        }
        if self.is_stopped {
            self.last_word();
        }
    }

    /// Answers who attends to the end, and who has asked for it just now.
    fn last_word(&mut self) {
        self.accept();
        for index in 0..self.connections.len() {
            self.serve(index);
        }
        let now = now_us();
        for connection in &mut self.connections {
            if matches!(connection.role, Role::Attending) {
                connection.answer(Ok(Reply::Done));
            }
            connection.flush(now);
        }
    }

    // Connections.

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while self.connections.len() < self.limits.connections {
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(fd) => {
                    self.connections.push(Connection::new(fd, now_us()));
                    // What it wants is there already, as a rule.
                    self.serve(self.connections.len() - 1);
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
                // Most likely there is no descriptor left, and the queue stays ready.
                Err(_) => {
                    self.accept_us = now_us() + ACCEPT_AGAIN_US;
                    return;
                }
            }
        }
    }

    /// Receives what a connection says and does it.
    fn serve(&mut self, index: usize) {
        let may_say_more = self.connections[index].receive();
        self.take_frames(index);
        if !may_say_more {
            self.disconnected(index);
        }
        self.connections[index].flush(now_us());
    }

    /// Does what a connection has said, as far as it can be done now.
    fn take_frames(&mut self, index: usize) {
        loop {
            let connection = &self.connections[index];
            if connection.is_closed() || matches!(connection.role, Role::Served) {
                return;
            }
            match self.frame(index) {
                Ok(true) => {}
                Ok(false) => return,
                Err(problem) => return self.connections[index].answer(Err(problem)),
            }
        }
    }

    /// Goes on with input that was received while a command took none.
    fn feed_on(&mut self) {
        for index in 0..self.connections.len() {
            if matches!(self.connections[index].role, Role::Feeding(_)) {
                self.take_frames(index);
            }
        }
    }

    /// Takes one frame; says whether there was one.
    fn frame(&mut self, index: usize) -> Result<bool, Problem> {
        let malformed = |error: &dyn std::error::Error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Problem::new(Code::Invalid, format!("{error}{cause}"))
        };
        let connection = &mut self.connections[index];
        let is_feeding = matches!(connection.role, Role::Feeding(_));
        if is_feeding && !self.listens_to(&self.connections[index]) {
            return Ok(false);
        }
        let connection = &mut self.connections[index];
        let (is_greeting, is_asking) =
            (matches!(connection.role, Role::Greeting), matches!(connection.role, Role::Asking));
        let Some(frame) = connection.next().map_err(|error| malformed(&error))? else {
            return Ok(false);
        };
        match frame.kind {
            Kind::Hello if is_greeting => {
                let hello: Hello = frame.json().map_err(|error| malformed(&error))?;
                let agreed = hello.agree();
                connection.say(Kind::Hello, &Hello::OURS);
                agreed.map_err(|error| Problem::new(Code::Unsupported, error.to_string()))?;
                connection.role = Role::Asking;
                Ok(true)
            }
            Kind::Request if is_asking => {
                let request: Request = frame.json().map_err(|error| malformed(&error))?;
                self.request(index, request)?;
                Ok(true)
            }
            Kind::Body if is_feeding => {
                let bytes = frame.payload.to_vec();
                self.feed(index, &bytes)?;
                Ok(true)
            }
            Kind::End if is_feeding => {
                self.end_feed(index)?;
                Ok(true)
            }
            kind => Err(Problem::new(Code::Invalid, format!("a {kind:?} frame out of place"))),
        }
    }

    /// The other side is gone, or says nothing more.
    fn disconnected(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !matches!(connection.role, Role::Served) {
            connection.close();
        }
    }

    /// Forgets connections that are over. A follower that is gone, which is seen as well by
    /// what it cannot be given, may take its exec along.
    fn let_go(&mut self) {
        for connection in self.connections.iter().filter(|connection| connection.is_closed()) {
            if let Role::Following(following) = &connection.role
                && following.on_disconnect == OnDisconnect::Kill
                && let Some(exec) = self.execs.find_mut(&following.id)
            {
                exec.kill(Cause::Disconnected);
            }
        }
        self.connections.retain(|connection| !connection.is_closed());
    }

    /// Gives every connection what there is for it.
    fn hand_over(&mut self) {
        let now = now_us();
        for connection in &mut self.connections {
            let Role::Following(following) = &connection.role else {
                connection.flush(now);
                connection.beat(now);
                continue;
            };
            match self.execs.find(&following.id) {
                Some(exec) => connection.follow(exec, now),
                None => connection.answer(Err(absent(&following.id.clone()))),
            }
        }
    }
}

pub(super) type Answer = Result<Reply, Problem>;

/// Kills an exec whose time is over; the answer, once it has ended.
fn settle_cancelling(
    id: &str,
    kill_us: &mut u64,
    execs: &mut Table,
    now_us: u64,
) -> Option<Answer> {
    let Some(exec) = execs.find_mut(id) else { return Some(Err(absent(id))) };
    if exec.ended().is_some() {
        return Some(Ok(Reply::Done));
    }
    if *kill_us <= now_us {
        *kill_us = u64::MAX;
        exec.kill(Cause::Cancelled);
    }
    None
}

/// Kills everybody whose time is over; says whether nobody is left.
fn has_stopped(kill_us: &mut u64, now_us: u64) -> bool {
    /// Until it is looked again for those made meanwhile.
    const AGAIN_US: u64 = 10_000;
    if session::others().next().is_none() {
        return true;
    }
    if *kill_us <= now_us {
        session::signal_others(Signal::KILL);
        *kill_us = now_us + AGAIN_US;
    }
    false
}

/// Says how feeding ended, once it has.
pub(super) fn settle_feeding(feeding: &Feeding, execs: &Table) -> Option<Answer> {
    let Some(exec) = execs.find(&feeding.id) else { return Some(Err(absent(&feeding.id))) };
    match exec.fed_so_far() {
        Some(Fed::Refused) => {
            let text = format!("exec {} has closed its standard input", feeding.id);
            Some(Err(Problem::new(Code::Conflict, text)))
        }
        Some(Fed::Taken) if feeding.is_whole => Some(Ok(Reply::Done)),
        Some(Fed::Taken) | None => None,
    }
}
