//! A guest, asked over its socket as a host asks.
//!
//! What goes wrong here has the test fail: nothing gives an error back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::process::marker;
use atoll_protocol::exec::{self, Ended, Stream};
use atoll_protocol::frame::{Decoder, Kind, header, put_json};
use atoll_protocol::hello::Hello;
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Event, Reply, Request};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long any one answer may take; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a guest listens.
#[derive(Debug, Clone)]
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// The guest that listens there, now or later.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Says whether it listens.
    #[must_use]
    pub fn is_there(&self) -> bool {
        UnixStream::connect(&self.path).is_ok()
    }

    /// A connection that has said nothing.
    pub fn connect(&self) -> Client {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream, decoder: Decoder::default() }
    }

    /// A connection that has asked for this.
    pub fn ask(&self, request: &Request) -> Client {
        let mut client = self.connect();
        let mut bytes = Vec::new();
        put_json(&mut bytes, Kind::Hello, &Hello::OURS).unwrap();
        put_json(&mut bytes, Kind::Request, request).unwrap();
        client.send(&bytes);
        client
    }

    /// What is answered to this at once.
    pub fn answer(&self, request: &Request) -> Result<Reply, Problem> {
        self.ask(request).answer()
    }

    /// Runs a command to its end.
    pub fn run(&self, start: exec::Start) -> Ran {
        self.ask(&Request::Start(start)).follow()
    }

    /// Runs a line of shell to its end.
    pub fn sh(&self, script: &str) -> Ran {
        self.run(sh(script))
    }

    pub fn status(&self, id: &str) -> exec::Status {
        let Reply::Execs(execs) = self.answer(&Request::Execs).unwrap() else { panic!() };
        execs.into_iter().find(|exec| exec.id == id).unwrap()
    }
}

/// A command with an id of its own.
pub fn command(words: &[&str]) -> exec::Start {
    let arguments = words.iter().map(|word| Octets::try_from(*word).unwrap()).collect();
    exec::Start {
        id: marker(),
        command: exec::Command {
            arguments,
            environment: Vec::new(),
            directory: None,
            user: exec::User::Workload,
        },
        session: None,
        input: exec::Input::Closed,
        timeout_ms: None,
        keep_bytes: exec::KEEP_BYTES_DEFAULT,
        on_disconnect: exec::OnDisconnect::GoOn,
        name: None,
    }
}

pub fn sh(script: &str) -> exec::Start {
    command(&["sh", "-c", script])
}

/// One connection, as the host has it.
pub struct Client {
    pub stream: UnixStream,
    decoder: Decoder,
}

/// One frame, read.
#[derive(Debug, PartialEq)]
pub enum Said {
    Hello(Hello),
    Reply(Reply),
    Problem(Problem),
    Output(Stream, u64, Vec<u8>),
    Event(Event),
    End,
    Heartbeat,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next frame; none at the end.
    pub fn hear(&mut self) -> Option<Said> {
        loop {
            if let Some(frame) = self.decoder.next().unwrap() {
                let output = |stream| {
                    let (offset, bytes) = frame.output();
                    Said::Output(stream, offset, bytes.to_vec())
                };
                return Some(match frame.kind {
                    Kind::Hello => Said::Hello(frame.json().unwrap()),
                    Kind::Reply => Said::Reply(frame.json().unwrap()),
                    Kind::Problem => Said::Problem(frame.json().unwrap()),
                    Kind::Event => Said::Event(frame.json().unwrap()),
                    Kind::Stdout => output(Stream::Stdout),
                    Kind::Stderr => output(Stream::Stderr),
                    Kind::End => Said::End,
                    Kind::Heartbeat => Said::Heartbeat,
                    Kind::Request | Kind::Body => panic!("{:?} from a guest", frame.kind),
                });
            }
            let length = self.stream.read(self.decoder.space()).unwrap();
            if length == 0 {
                assert!(!self.decoder.is_within_frame(), "cut off");
                return None;
            }
            self.decoder.filled(length);
        }
    }

    /// The greeting and the answer.
    pub fn answer(&mut self) -> Result<Reply, Problem> {
        match self.hear() {
            Some(Said::Hello(hello)) => assert_eq!(hello, Hello::OURS),
            other => panic!("no greeting but {other:?}"),
        }
        match self.hear() {
            Some(Said::Reply(reply)) => Ok(reply),
            Some(Said::Problem(problem)) => Err(problem),
            other => panic!("no answer but {other:?}"),
        }
    }

    /// How the exec started that this connection follows.
    pub fn started(&mut self) -> (bool, exec::Status) {
        match self.answer().unwrap() {
            Reply::Started { is_new, status } => (is_new, status),
            other => panic!("not started but {other:?}"),
        }
    }

    /// Reads until standard output has this in it.
    pub fn expect(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.hear().unwrap_or_else(|| panic!("no {text:?} in {seen:?}")) {
                Said::Output(Stream::Stdout, _, bytes) => seen.extend(bytes),
                Said::Heartbeat | Said::Output(..) => {}
                other => panic!("no {text:?} in {seen:?} but {other:?}"),
            }
            let seen = String::from_utf8_lossy(&seen);
            if seen.contains(text) {
                return seen.into_owned();
            }
        }
    }

    /// Follows to the end, the answer too.
    pub fn follow(mut self) -> Ran {
        let (is_new, status) = self.started();
        let mut ran = self.rest();
        (ran.is_new, ran.status) = (is_new, Some(status));
        ran
    }

    /// Follows to the end after the answer.
    pub fn rest(&mut self) -> Ran {
        let mut ran = Ran::default();
        loop {
            match self.hear().expect("the end is said") {
                Said::Output(Stream::Stdout, offset, bytes) => {
                    ran.first.get_or_insert(offset);
                    ran.stdout.extend(bytes);
                }
                Said::Output(Stream::Stderr, _, bytes) => ran.stderr.extend(bytes),
                Said::Event(Event::Dropped { stream, from, to }) => {
                    ran.dropped.push((stream, from, to));
                }
                Said::Event(Event::Ended(ended)) => ran.ended = Some(ended),
                Said::Heartbeat => {}
                Said::End => break,
                other => panic!("{other:?} after the start"),
            }
        }
        assert_eq!(self.hear(), None, "nothing after the end");
        ran
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.send(&header(Kind::Body, bytes.len()));
        self.send(bytes);
    }

    pub fn end(&mut self) {
        self.send(&header(Kind::End, 0));
    }
}

/// An exec that was followed to its end.
#[derive(Debug, Default)]
pub struct Ran {
    pub is_new: bool,
    pub status: Option<exec::Status>,
    /// Offset of the first byte of standard output.
    pub first: Option<u64>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub dropped: Vec<(Stream, u64, u64)>,
    pub ended: Option<Ended>,
}

impl Ran {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub fn ended(&self) -> &Ended {
        self.ended.as_ref().expect("it has ended")
    }

    pub fn outcome(&self) -> exec::Outcome {
        self.ended().outcome
    }
}

/// What kind of problem an answer is.
pub fn code(answer: &Result<Reply, Problem>) -> Option<Code> {
    answer.as_ref().err().map(|problem| problem.code)
}
