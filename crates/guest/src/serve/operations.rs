//! What each request does.

use super::connection::{Feeding, Following, Role};
use super::exec::Exec;
use super::server::{Server, settle_feeding};
use super::worker::{self, Work};
use super::{launch, ports, session, shell};
use crate::workload::now_us;
use atoll_protocol::exec::{
    self, Cause, ID_BYTES_MAX, KEEP_BYTES_MAX, KEEP_BYTES_MIN, NAME_BYTES_MAX, OnDisconnect,
};
use atoll_protocol::frame::Kind;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Guest, Reply, Request, Use};
use rustix::process::{Resource, Signal};
use std::borrow::Cow;
use std::os::fd::{AsFd as _, OwnedFd};

impl Server {
    pub(super) fn request(&mut self, index: usize, request: Request) -> Result<(), Problem> {
        let reply = match request {
            Request::Guest => Reply::Guest(self.guest()),
            Request::Attend => {
                self.connections[index].role = Role::Attending;
                return Ok(());
            }
            Request::HoldClock => {
                self.clock.hold();
                Reply::Done
            }
            Request::ReleaseClock => {
                self.clock.release();
                Reply::Done
            }
            Request::Bind { environment } => {
                self.base.bind(environment)?;
                Reply::Done
            }
            Request::Start(start) => return self.start(index, &start),
            Request::Follow(follow) => return self.follow(index, follow),
            Request::Feed(feed) => return self.begin_feed(index, feed),
            Request::Signal(signal) => self.signal(&signal)?,
            Request::Cancel(cancel) => return self.cancel(index, cancel),
            Request::Resize(resize) => self.resize(&resize)?,
            Request::Forget(forget) => {
                self.execs.forget(&forget.id)?;
                Reply::Done
            }
            Request::Execs => {
                let now = self.clock.now();
                Reply::Execs(self.execs.iter().map(|exec| exec.listed(now)).collect())
            }
            Request::Ports => Reply::Ports(ports::listening(&self.own_sockets)?),
            Request::WaitForPort(wait) => {
                let own = self.own_sockets.clone();
                return self.hand_to_worker(index, Work::WaitForPort { wait, own });
            }
            Request::Listeners => return self.hand_listeners(index),
            Request::Connect(connect) => match ports::connect_at_once(connect.port)? {
                Some(socket) => {
                    self.connections[index].answer_with(&Reply::Connected, &[socket.as_fd()]);
                    return Ok(());
                }
                None => return self.hand_to_worker(index, Work::Connect { port: connect.port }),
            },
            Request::Stop { grace_ms } => {
                session::signal_others(Signal::TERM);
                let kill_us = now_us().saturating_add(grace_ms.saturating_mul(1000));
                self.stopping_us = Some(self.stopping_us.map_or(kill_us, |one| one.min(kill_us)));
                self.connections[index].role = Role::Attending;
                return Ok(());
            }
            request => return self.hand_to_worker(index, Work::Request(request)),
        };
        self.connections[index].answer(Ok(reply));
        Ok(())
    }

    fn hand_listeners(&mut self, index: usize) -> Result<(), Problem> {
        let Some(listeners) = &self.listeners else {
            let text = "the sandbox's network is not captured";
            return Err(Problem::new(Code::NotFound, text));
        };
        let count = |sockets: &[OwnedFd]| u8::try_from(sockets.len()).unwrap_or(u8::MAX);
        let reply = Reply::Listeners(atoll_protocol::ports::Listeners {
            tcp: count(&listeners.tcp),
            udp: count(&listeners.udp),
            is_complete: listeners.is_complete,
        });
        let all: Vec<_> = listeners.tcp.iter().chain(&listeners.udp).map(OwnedFd::as_fd).collect();
        self.connections[index].answer_with(&reply, &all);
        Ok(())
    }

    fn guest(&self) -> Guest {
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Guest {
            age_ms: self.clock.now().saturating_sub(self.born_us) / 1000,
            running: u32::try_from(self.execs.running()).unwrap_or(u32::MAX),
            processes: u32::try_from(session::others().count()).unwrap_or(u32::MAX),
            // The listing's own is not counted.
            descriptors: Use { used: descriptors.saturating_sub(1) as u64, limit },
            kept_bytes: Use { used: self.execs.memory(), limit: self.limits.kept_bytes },
        }
    }

    fn start(&mut self, index: usize, start: &exec::Start) -> Result<(), Problem> {
        check(start)?;
        let now = self.clock.now();
        let is_new = match self.execs.find(&start.id) {
            Some(exec) if exec.is_of(start) => false,
            Some(_) => {
                let text = format!("exec {} is there and is of another command", start.id);
                return Err(Problem::new(Code::Conflict, text));
            }
            None => {
                let connections = &self.connections;
                let is_followed = |id: &str| {
                    connections.iter().any(|connection| {
                        matches!(&connection.role, Role::Following(one) if one.id == id)
                    })
                };
                let bytes = 2 * start.keep_bytes + super::exec::bytes(&start.command);
                self.execs.make_room(bytes, &self.limits, is_followed)?;
                let command = self.command(start)?;
                let walls = self.walls.as_mut();
                let launched = launch::launch(&command, start.input, &self.base, walls)?;
                self.execs.add(Exec::new(start, launched, now));
                true
            }
        };
        let following = Following {
            id: start.id.clone(),
            offsets: [0, 0],
            is_snapshot: false,
            on_disconnect: start.on_disconnect,
        };
        self.begin_following(index, following, is_new)
    }

    /// What is run for `start`.
    fn command<'a>(&self, start: &'a exec::Start) -> Result<Cow<'a, exec::Command>, Problem> {
        let Some(session) = &start.session else { return Ok(Cow::Borrowed(&start.command)) };
        if let Some(exec) = self.execs.iter().find(|exec| exec.occupies(session)) {
            let text = format!("session {session} is running exec {}", exec.id);
            return Err(Problem::new(Code::Conflict, text));
        }
        shell::command(session, &start.command, &self.base).map(Cow::Owned)
    }

    fn follow(&mut self, index: usize, follow: exec::Follow) -> Result<(), Problem> {
        let following = Following {
            id: follow.id,
            offsets: [follow.stdout, follow.stderr],
            is_snapshot: follow.is_snapshot,
            on_disconnect: OnDisconnect::GoOn,
        };
        self.begin_following(index, following, false)
    }

    fn begin_following(
        &mut self,
        index: usize,
        following: Following,
        is_new: bool,
    ) -> Result<(), Problem> {
        let status = self.execs.get(&following.id)?.status(self.clock.now());
        let connection = &mut self.connections[index];
        connection.say(Kind::Reply, &Reply::Started { is_new, status });
        connection.role = Role::Following(following);
        Ok(())
    }

    fn signal(&mut self, request: &exec::Signal) -> Result<Reply, Problem> {
        let signal = signal_number(request.signal)?;
        let exec = self.execs.get(&request.id)?;
        if exec.signal(signal, request.target) {
            return Ok(Reply::Done);
        }
        let text = format!("exec {} has ended, so there is nobody to signal", request.id);
        Err(Problem::new(Code::Conflict, text))
    }

    fn cancel(&mut self, index: usize, cancel: exec::Cancel) -> Result<(), Problem> {
        let signal = signal_number(cancel.signal)?;
        let exec = self.execs.get(&cancel.id)?;
        exec.note_cause(Cause::Cancelled);
        if cancel.grace_ms > 0 {
            exec.signal(signal, exec::Target::Group);
        }
        let kill_us = now_us().saturating_add(cancel.grace_ms.saturating_mul(1000));
        self.connections[index].role = Role::Cancelling { id: cancel.id, kill_us };
        Ok(())
    }

    fn resize(&mut self, resize: &exec::Resize) -> Result<Reply, Problem> {
        match self.execs.get(&resize.id)?.resize(resize.size) {
            Ok(true) => Ok(Reply::Done),
            Ok(false) => {
                let text = format!("exec {} has no terminal", resize.id);
                Err(Problem::new(Code::Conflict, text))
            }
            Err(error) => {
                let text = format!("cannot size the terminal of exec {}: {error}", resize.id);
                Err(Problem::new(Code::Failed, text).with_errno(Some(error.raw_os_error())))
            }
        }
    }

    fn begin_feed(&mut self, index: usize, feed: exec::Feed) -> Result<(), Problem> {
        let exec = self.execs.get(&feed.id)?;
        if !exec.has_input() {
            let text = format!("exec {} was started without a standard input", feed.id);
            return Err(Problem::new(Code::Conflict, text));
        }
        let fed = exec.fed();
        let skip = fed.checked_sub(feed.offset.unwrap_or(fed)).ok_or_else(|| {
            let text = format!("exec {} was fed {fed} bytes, so some are missing", feed.id);
            Problem::new(Code::Invalid, text)
        })?;
        let (id, keep_open) = (feed.id, feed.keep_open);
        self.connections[index].role =
            Role::Feeding(Feeding { id, skip, keep_open, is_whole: false });
        Ok(())
    }

    pub(super) fn feed(&mut self, index: usize, bytes: &[u8]) -> Result<(), Problem> {
        let Role::Feeding(feeding) = &mut self.connections[index].role else { return Ok(()) };
        let skip = feeding.skip.min(bytes.len() as u64);
        feeding.skip -= skip;
        let bytes = &bytes[usize::try_from(skip).unwrap_or(bytes.len())..];
        self.execs.get(&feeding.id)?.feed(bytes);
        Ok(())
    }

    pub(super) fn end_feed(&mut self, index: usize) -> Result<(), Problem> {
        let Role::Feeding(feeding) = &mut self.connections[index].role else { return Ok(()) };
        feeding.is_whole = true;
        let exec = self.execs.get(&feeding.id)?;
        if !feeding.keep_open {
            exec.close_input();
        }
        if let Some(answer) = settle_feeding(feeding, &self.execs) {
            self.connections[index].answer(answer);
        }
        Ok(())
    }

    /// Lets a process of its own serve the connection.
    fn hand_to_worker(&mut self, index: usize, work: Work) -> Result<(), Problem> {
        if self.workers.len() >= self.limits.workers {
            let text =
                format!("{} operations are under way, which is the limit", self.limits.workers);
            return Err(Problem::new(Code::Limit, text));
        }
        let connection = &mut self.connections[index];
        connection.flush(now_us());
        let pid = worker::start(connection, work, self.walls.as_mut()).map_err(|error| {
            let text = format!("no process to do it: {error}");
            Problem::new(Code::Limit, text).with_errno(error.raw_os_error())
        })?;
        self.workers.push(pid);
        self.connections[index].close();
        Ok(())
    }
}

fn check(start: &exec::Start) -> Result<(), Problem> {
    let id = &start.id;
    if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text = format!("the id of an exec has 1 to {ID_BYTES_MAX} printable characters");
        return Err(Problem::new(Code::Invalid, text));
    }
    if start.name.as_ref().is_some_and(|name| name.len() > NAME_BYTES_MAX) {
        let text = format!("the name of an exec has at most {NAME_BYTES_MAX} bytes");
        return Err(Problem::new(Code::Invalid, text));
    }
    if !(KEEP_BYTES_MIN..=KEEP_BYTES_MAX).contains(&start.keep_bytes) {
        let limits = format!("{KEEP_BYTES_MIN} to {KEEP_BYTES_MAX}");
        let text = format!("keep_bytes is {}, but can be {limits}", start.keep_bytes);
        return Err(Problem::new(Code::Invalid, text));
    }
    Ok(())
}

fn signal_number(number: i32) -> Result<Signal, Problem> {
    Signal::from_named_raw(number).ok_or_else(|| {
        Problem::new(Code::Invalid, format!("{number} is no signal that can be sent"))
    })
}
