//! One connection: what it has received, what it has yet to send, and what it is
//! there for.

use super::exec::Exec;
use super::kept::At;
use atoll_protocol::exec::{OnDisconnect, Stream};
use atoll_protocol::frame::{self, Decoder, Frame, FrameError, HEARTBEAT_MS, Kind};
use atoll_protocol::problem::Problem;
use atoll_protocol::request::{Event, Reply};
use rustix::io::Errno;
use rustix::net::SendFlags;
use serde::Serialize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What is put together before it is sent, in bytes: a follower is given so much
/// at once.
const OUT_BYTES: usize = 128 << 10;

/// Silence is covered after so long, in us.
const HEARTBEAT_US: u64 = HEARTBEAT_MS * 1000;

#[derive(Debug)]
pub(super) struct Connection {
    fd: OwnedFd,
    pub(super) decoder: Decoder,
    out: Vec<u8>,
    sent: usize,
    pub(super) role: Role,
    /// Nothing more is said: it is closed once all is sent.
    closing: bool,
    closed: bool,
    /// When something was last sent.
    moved_us: u64,
}

/// What a connection is there for.
#[derive(Debug)]
pub(super) enum Role {
    /// It has yet to say its version.
    Greeting,
    /// It has yet to say what it wants.
    Asking,
    Following(Following),
    Feeding(Feeding),
    /// It waits for an exec to end, which is killed at this time.
    Cancelling {
        id: String,
        kill_us: u64,
    },
    /// It waits for the guest to end.
    Attending,
    /// It has been served.
    Served,
}

/// A connection that follows an exec.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) id: String,
    /// Up to here both streams were handed over.
    pub(super) offsets: [u64; 2],
    /// It ends with what is there.
    pub(super) is_snapshot: bool,
    pub(super) on_disconnect: OnDisconnect,
}

/// A connection that feeds an exec.
#[derive(Debug)]
pub(super) struct Feeding {
    pub(super) id: String,
    /// Bytes that were fed before and are sent again.
    pub(super) skip: u64,
    pub(super) keep_open: bool,
    /// Everything was received.
    pub(super) is_whole: bool,
}

impl Connection {
    pub(super) fn new(fd: OwnedFd, now_us: u64) -> Self {
        Self {
            fd,
            decoder: Decoder::default(),
            out: Vec::new(),
            sent: 0,
            role: Role::Greeting,
            closing: false,
            closed: false,
            moved_us: now_us,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Receives what is there, without waiting; says whether the other side still
    /// may send.
    pub(super) fn receive(&mut self) -> bool {
        match rustix::io::read(&self.fd, self.decoder.space()) {
            Ok(length @ 1..) => {
                self.decoder.filled(length);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Ok(_) | Err(_) => false,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        self.decoder.next()
    }

    /// Nothing more can be said to it.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn say(&mut self, kind: Kind, value: &impl Serialize) {
        if frame::put_json(&mut self.out, kind, value).is_err() {
            // An answer that is too long: the operation has no end that is known.
            self.closed = true;
        }
    }

    /// The last word of an operation.
    pub(super) fn answer(&mut self, answer: Result<Reply, Problem>) {
        match answer {
            Ok(reply) => self.say(Kind::Reply, &reply),
            Err(problem) => self.say(Kind::Problem, &problem),
        }
        self.role = Role::Served;
        self.closing = true;
    }

    /// Answers with sockets beside the first byte.
    pub(super) fn answer_with(&mut self, reply: &Reply, sockets: &[BorrowedFd<'_>]) {
        self.flush(0);
        self.role = Role::Served;
        self.closing = true;
        let mut bytes = Vec::new();
        if !self.out.is_empty() || frame::put_json(&mut bytes, Kind::Reply, reply).is_err() {
            self.closed = true;
            return;
        }
        // So few bytes fit whole, or the other side reads nothing at all.
        if atoll_sys::scm::send_all(self.fd.as_fd(), &bytes, sockets).is_err() {
            self.closed = true;
        }
    }

    /// Says whether something waits to be sent.
    pub(super) fn is_pending(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Says whether an exec is to wait for it: it follows, and has taken something
    /// not long ago.
    pub(super) fn is_waited_for(&self, now_us: u64, patience_us: u64) -> bool {
        !self.is_pending() || now_us.saturating_sub(self.moved_us) < patience_us
    }

    /// When it has to be looked at even if nothing happens.
    pub(super) fn next_time(&self, now_us: u64, patience_us: u64) -> Option<u64> {
        let kill = match &self.role {
            Role::Cancelling { kill_us, .. } => Some(*kill_us),
            _ => None,
        };
        let own = match &self.role {
            // Once it is not waited for any more there is nothing to look at.
            Role::Following(_) if self.is_pending() => {
                Some(self.moved_us + patience_us).filter(|time| *time > now_us)
            }
            _ => self.is_silent().then_some(self.moved_us + HEARTBEAT_US),
        };
        own.into_iter().chain(kill).min()
    }

    /// Says whether the other side waits for something that takes its time.
    fn is_silent(&self) -> bool {
        let waits = match &self.role {
            Role::Following(_) | Role::Feeding(_) | Role::Cancelling { .. } | Role::Attending => {
                true
            }
            Role::Greeting | Role::Asking | Role::Served => false,
        };
        waits && !self.is_pending() && !self.closed
    }

    /// Says that we are alive, where that is due.
    pub(super) fn beat(&mut self, now_us: u64) {
        if self.is_silent() && now_us.saturating_sub(self.moved_us) >= HEARTBEAT_US {
            self.out.extend(frame::header(Kind::Heartbeat, 0));
            self.flush(now_us);
        }
    }

    /// Sends what the other side takes now.
    pub(super) fn flush(&mut self, now_us: u64) {
        while self.is_pending() && !self.closed {
            match rustix::net::send(&self.fd, &self.out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(length) => {
                    self.sent += length;
                    self.moved_us = self.moved_us.max(now_us);
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => self.closed = true,
            }
        }
        self.out.clear();
        self.sent = 0;
        if self.closing {
            self.closed = true;
        }
    }

    /// Hands over what an exec has printed, as far as the other side takes it.
    pub(super) fn follow(&mut self, exec: &Exec, now_us: u64) {
        loop {
            self.flush(now_us);
            if self.is_pending() || self.closed || !self.put_next(exec) {
                break;
            }
        }
        self.beat(now_us);
    }

    /// Puts together what comes next; says whether there is something.
    fn put_next(&mut self, exec: &Exec) -> bool {
        let Role::Following(following) = &mut self.role else { return false };
        let mut found = false;
        for (stream, offset) in
            [Stream::Stdout, Stream::Stderr].into_iter().zip(&mut following.offsets)
        {
            found |= put_output(&mut self.out, exec, stream, offset);
        }
        if found {
            return true;
        }
        if let Some(ended) = exec.ended() {
            let event = Event::Ended(ended.clone());
            self.say(Kind::Event, &event);
        } else if !following.is_snapshot {
            return false;
        }
        self.out.extend(frame::header(Kind::End, 0));
        self.role = Role::Served;
        self.closing = true;
        true
    }
}

/// Adds the next bytes of a stream, up to the command's end.
fn put_output(out: &mut Vec<u8>, exec: &Exec, stream: Stream, offset: &mut u64) -> bool {
    let printed = exec.ended().map(|ended| match stream {
        Stream::Stdout => ended.stdout.bytes,
        Stream::Stderr => ended.stderr.bytes,
    });
    let kind = match stream {
        Stream::Stdout => Kind::Stdout,
        Stream::Stderr => Kind::Stderr,
    };
    match exec.kept(stream).at(*offset) {
        At::Bytes(bytes) => {
            let until_end = printed.map_or(u64::MAX, |end| end.saturating_sub(*offset));
            let length = bytes.len().min(OUT_BYTES);
            let length = length.min(usize::try_from(until_end).unwrap_or(usize::MAX));
            if length == 0 {
                return false;
            }
            out.extend(frame::output_header(kind, *offset, length));
            out.extend(&bytes[..length]);
            *offset += length as u64;
            true
        }
        At::Dropped { to } => {
            let to = printed.map_or(to, |end| to.min(end));
            if to <= *offset {
                return false;
            }
            let event = Event::Dropped { stream, from: *offset, to };
            if frame::put_json(out, Kind::Event, &event).is_err() {
                return false;
            }
            *offset = to;
            true
        }
        At::End => false,
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    const PATIENCE_US: u64 = 10_000_000;

    fn connection(role: Role) -> (UnixStream, Connection) {
        let (theirs, ours) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut connection = Connection::new(ours.into(), 0);
        connection.role = role;
        (theirs, connection)
    }

    fn following() -> Role {
        let id = "one".to_owned();
        let on_disconnect = OnDisconnect::GoOn;
        Role::Following(Following { id, offsets: [0; 2], is_snapshot: false, on_disconnect })
    }

    #[test]
    fn whoever_waits_hears_that_we_are_alive() {
        let feeding = Feeding { id: "one".into(), skip: 0, keep_open: false, is_whole: false };
        let cancelling = Role::Cancelling { id: "one".into(), kill_us: u64::MAX };
        for role in [following(), Role::Feeding(feeding), cancelling, Role::Attending] {
            let (mut theirs, mut connection) = connection(role);
            let mut buffer = [0; 64];
            assert_eq!(connection.next_time(0, PATIENCE_US), Some(HEARTBEAT_US));
            connection.beat(HEARTBEAT_US - 1);
            assert!(theirs.read(&mut buffer).is_err(), "too early");
            connection.beat(HEARTBEAT_US);
            assert_eq!(theirs.read(&mut buffer).unwrap(), frame::HEADER_BYTES);
            assert_eq!(buffer[4], Kind::Heartbeat.byte());
            assert_eq!(connection.next_time(HEARTBEAT_US, PATIENCE_US), Some(2 * HEARTBEAT_US));
        }
        let (mut theirs, mut connection) = connection(Role::Asking);
        connection.beat(2 * HEARTBEAT_US);
        assert!(theirs.read(&mut [0; 64]).is_err(), "who has asked nothing hears nothing");
        assert_eq!(connection.next_time(0, PATIENCE_US), None);
    }

    #[test]
    fn who_takes_nothing_is_looked_at_once_and_then_no_more() {
        for (role, expected) in [(following(), Some(PATIENCE_US)), (Role::Attending, None)] {
            let (_theirs, mut connection) = connection(role);
            connection.out = vec![0; 8 << 20];
            connection.flush(0);
            assert!(connection.is_pending());
            assert_eq!(connection.next_time(PATIENCE_US - 1, PATIENCE_US), expected);
            // Else the loop would never wait again.
            assert_eq!(connection.next_time(PATIENCE_US, PATIENCE_US), None);
            connection.beat(2 * HEARTBEAT_US);
            assert_eq!(connection.out.len(), 8 << 20);
        }
    }
}
