//! A guest that lies, as one would that an attacker has got hold of.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use atoll_protocol::exec::{KEEP_BYTES_DEFAULT, Printed, Status};
use atoll_protocol::files::{Kind as FileKind, Match, Stat};
use atoll_protocol::frame::{
    DATA_BYTES_MAX, Decoder, HEADER_BYTES, Kind, header, output_header, put_json,
};
use atoll_protocol::hello::Hello;
use atoll_protocol::octets::Octets;
use atoll_protocol::ports::Listening;
use atoll_protocol::request::{Guest, Reply, Request, Use};
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// What it says instead of the truth, whatever it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// The connection ends without a word.
    HangUp,
    /// The answer comes without a greeting.
    NoGreeting,
    /// The greeting is of a version that there is not.
    OtherVersion,
    /// Greetings come without end.
    GreetingsForEver,
    /// A frame is of a kind that there is not.
    UnknownKind,
    /// A frame is said to have 4 GiB.
    Endless,
    /// A frame has fewer bytes than it is said to have, and then the connection ends.
    Short,
    /// Output comes in a frame too short for its offset.
    NoOffset,
    /// The answer is no UTF-8.
    NotText,
    /// The answer is as many brackets as fit.
    Deep,
    /// The answer is one to another question.
    OtherAnswer,
    /// The answer comes without end.
    SameAnswerForEver,
    /// The guest asks.
    Request,
    /// All numbers are as large as can be.
    HugeNumbers,
    /// All numbers are below zero.
    NegativeNumbers,
    /// All names, paths and texts are no text, or break out of what they are put into.
    OddNames,
    /// What there may be several of is there as often as fits.
    TooMany,
    /// The answer is of another exec, another file or another path.
    OtherOne,
    /// Nothing is said.
    Silence,
    /// A frame comes a byte at a time, and never to its end.
    Slow,
    /// A heartbeat comes, for ever.
    Heartbeats,
    /// Output comes without end.
    OutputForEver,
    /// Content comes without end.
    BodyForEver,
    /// Changed names come without end.
    EventsForEver,
    /// Output comes twice.
    OutputTwice,
    /// Output jumps ahead.
    OutputAhead,
    /// Output is at the last offset that there is.
    OutputAtTheEndOfNumbers,
    /// Dropped bytes end before they begin.
    DroppedBackwards,
    /// More bytes were dropped than can be counted.
    DroppedTooMuch,
    /// The exec ends twice.
    TwoEnds,
    /// The exec prints after its end.
    OutputAfterTheEnd,
    /// The exec ends before all that it printed was said.
    EndOfMore,
    /// The exec ends with a status that no command has.
    OddStatus,
    /// The stream ends, and the exec did not.
    EndWithoutStatus,
    /// The reason of a failure is longer than any.
    LongProblem,
    /// The reason of a failure is one that there is not.
    OddProblem,
    /// Descriptors come with every byte.
    Descriptors,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 37] = [
        Self::HangUp,
        Self::NoGreeting,
        Self::OtherVersion,
        Self::GreetingsForEver,
        Self::UnknownKind,
        Self::Endless,
        Self::Short,
        Self::NoOffset,
        Self::NotText,
        Self::Deep,
        Self::OtherAnswer,
        Self::SameAnswerForEver,
        Self::Request,
        Self::HugeNumbers,
        Self::NegativeNumbers,
        Self::OddNames,
        Self::TooMany,
        Self::OtherOne,
        Self::Silence,
        Self::Slow,
        Self::Heartbeats,
        Self::OutputForEver,
        Self::BodyForEver,
        Self::EventsForEver,
        Self::OutputTwice,
        Self::OutputAhead,
        Self::OutputAtTheEndOfNumbers,
        Self::DroppedBackwards,
        Self::DroppedTooMuch,
        Self::TwoEnds,
        Self::OutputAfterTheEnd,
        Self::EndOfMore,
        Self::OddStatus,
        Self::EndWithoutStatus,
        Self::LongProblem,
        Self::OddProblem,
        Self::Descriptors,
    ];

    /// Whether whoever asked may be kept waiting by it.
    #[must_use]
    pub fn keeps_waiting(self) -> bool {
        matches!(self, Self::Silence | Self::Slow | Self::Heartbeats)
    }
}

/// A liar in the place of a guest, which has its place back when this is dropped.
#[derive(Debug)]
pub struct Liar {
    path: PathBuf,
    lie: Arc<Mutex<Lie>>,
}

impl Liar {
    /// Takes the place of the guest that listens at `path`.
    #[must_use]
    pub fn instead_of(path: &Path) -> Self {
        let listener = supplant(path);
        let lie = Arc::new(Mutex::new(Lie::HangUp));
        let told = Arc::clone(&lie);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let lie = *told.lock().unwrap();
                // Whoever asked may be gone, which is as good an end as another.
                thread::spawn(move || answer(lie, stream.unwrap()).unwrap_or_default());
            }
        });
        Self { path: path.to_owned(), lie }
    }

    /// Has it say this from now on.
    pub fn tell(&self, lie: Lie) {
        *self.lie.lock().unwrap() = lie;
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        give_back(&self.path);
    }
}

/// Listens where somebody else does, whose socket is set aside.
///
/// # Panics
///
/// If it cannot.
#[must_use]
pub fn supplant(path: &Path) -> UnixListener {
    std::fs::rename(path, aside(path)).unwrap();
    let listener = UnixListener::bind(path).unwrap();
    // The server may be another user's.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
    listener
}

/// Puts a socket back that was set aside by [`supplant`].
///
/// # Panics
///
/// If it cannot.
pub fn give_back(path: &Path) {
    std::fs::rename(aside(path), path).unwrap();
}

/// Where a socket is that was set aside.
#[must_use]
pub fn aside(path: &Path) -> PathBuf {
    path.with_extension("aside")
}

fn answer(lie: Lie, mut stream: UnixStream) -> io::Result<()> {
    let Some(request) = asked(&mut stream)? else { return Ok(()) };
    if lie == Lie::Descriptors {
        let null = std::fs::File::open("/dev/null")?;
        for byte in [hello(), truth(&request)].concat() {
            atoll_sys::scm::send(stream.as_fd(), &[byte], Some(null.as_fd()))?;
        }
        return linger(&mut stream);
    }
    let (first, repeated) = words(lie, &request);
    if lie == Lie::Slow {
        for byte in first {
            stream.write_all(&[byte])?;
            rustix::event::poll(
                &mut [],
                Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 }),
            )?;
        }
    } else {
        stream.write_all(&first)?;
    }
    if !repeated.is_empty() {
        loop {
            stream.write_all(&repeated)?;
        }
    }
    match lie {
        Lie::HangUp | Lie::Short | Lie::EndWithoutStatus => Ok(()),
        _ => linger(&mut stream),
    }
}

/// Takes what comes until the other side has enough.
fn linger(stream: &mut UnixStream) -> io::Result<()> {
    io::copy(stream, &mut io::sink()).map(drop)
}

/// Takes the greeting and the question.
fn asked(stream: &mut UnixStream) -> io::Result<Option<Request>> {
    let mut decoder = Decoder::default();
    loop {
        if let Some(frame) = decoder.next().unwrap() {
            if frame.kind == Kind::Request {
                return Ok(Some(frame.json().unwrap()));
            }
            continue;
        }
        let length = stream.read(decoder.space())?;
        if length == 0 {
            return Ok(None);
        }
        decoder.filled(length);
    }
}

/// What it says once, and then again and again.
fn words(lie: Lie, request: &Request) -> (Vec<u8>, Vec<u8>) {
    let after = |frames: &[Vec<u8>]| ([hello(), truth(request), frames.concat()].concat(), vec![]);
    let instead = |frames: &[Vec<u8>]| ([hello(), frames.concat()].concat(), vec![]);
    let for_ever = |frame: Vec<u8>| ([hello(), truth(request)].concat(), frame);
    let printed = |bytes: u64| json!({ "bytes": bytes, "dropped_bytes": 0 });
    let ended = |outcome: Value, bytes: u64| {
        event(&json!({ "ended": {
            "outcome": outcome, "duration_us": 1, "cpu_us": 1, "max_rss_kib": 1, "fed_bytes": 0,
            "stdout": printed(bytes), "stderr": printed(0),
        }}))
    };
    let well = |bytes| ended(json!({ "exited": 0 }), bytes);
    let dropped = |from: u64, to: u64| {
        event(&json!({"dropped": {"stream": "stdout", "from": from, "to": to}}))
    };
    let end = || raw(Kind::End, &[]);
    match lie {
        Lie::HangUp | Lie::Silence | Lie::Descriptors => (vec![], vec![]),
        Lie::NoGreeting => (truth(request), vec![]),
        Lie::OtherVersion => {
            (word(Kind::Hello, &json!({ "version": u32::MAX, "oldest": u32::MAX })), vec![])
        }
        Lie::GreetingsForEver => (vec![], hello()),
        Lie::UnknownKind => instead(&[vec![0, 0, 0, 0, 99]]),
        Lie::Endless => instead(&[vec![0xff, 0xff, 0xff, 0xff, Kind::Reply.byte()]]),
        Lie::Short => {
            let frame = truth(request);
            instead(&[frame[..HEADER_BYTES + (frame.len() - HEADER_BYTES) / 2].to_vec()])
        }
        Lie::NoOffset => after(&[vec![3, 0, 0, 0, Kind::Stdout.byte(), 1, 2, 3]]),
        Lie::NotText => instead(&[raw(Kind::Reply, b"\"\xff\xfe\"")]),
        Lie::Deep => instead(&[raw(Kind::Reply, &vec![b'['; Kind::Reply.bytes_max()])]),
        Lie::OtherAnswer => {
            let other = if *request == Request::Ports {
                json!({"execs": []})
            } else {
                json!({"ports": []})
            };
            instead(&[word(Kind::Reply, &other)])
        }
        Lie::SameAnswerForEver => (hello(), truth(request)),
        Lie::Request => after(&[word(Kind::Request, &Request::Guest)]),
        Lie::HugeNumbers => instead(&[changed(request, |value| {
            if value.is_u64() {
                *value = json!(u64::MAX);
            }
        })]),
        Lie::NegativeNumbers => instead(&[changed(request, |value| {
            if value.is_u64() {
                *value = json!(-1);
            }
        })]),
        Lie::OddNames => instead(&[changed(request, odd)]),
        Lie::TooMany => {
            let many = |value: &mut Value| {
                let Value::Array(values) = value else { return };
                let one = values.pop().unwrap_or_default();
                let length = one.to_string().len() + 1;
                if length < 1024 {
                    values.resize((Kind::Reply.bytes_max() / 2) / length, one);
                } else {
                    values.push(one);
                }
            };
            instead(&[changed(request, many), end()])
        }
        Lie::OtherOne => instead(&[changed(request, |value| match value {
            Value::String(text) if text.starts_with("exe_") => {
                "exe_ffffffffffffffffffff".clone_into(text);
            }
            Value::String(text) if text.starts_with('/') => "/etc/passwd".clone_into(text),
            _ => {}
        })]),
        Lie::Slow => {
            ([hello(), vec![255, 255, 3, 0, Kind::Reply.byte()], vec![b' '; 5000]].concat(), vec![])
        }
        Lie::Heartbeats => (hello(), raw(Kind::Heartbeat, &[])),
        Lie::OutputForEver => for_ever(raw(Kind::Stdout, &vec![0; DATA_BYTES_MAX])),
        Lie::BodyForEver => for_ever(raw(Kind::Body, &vec![b'x'; DATA_BYTES_MAX])),
        Lie::EventsForEver => for_ever(event(&json!({ "changed": {
            "path": "x".repeat(4000), "change": "made", "is_directory": false
        }}))),
        Lie::OutputTwice => after(&[out(0, b"abc"), out(0, b"abc")]),
        Lie::OutputAhead => after(&[out(0, b"abc"), out(1000, b"abc")]),
        Lie::OutputAtTheEndOfNumbers => after(&[out(u64::MAX - 1, b"abc"), out(u64::MAX, b"abc")]),
        Lie::DroppedBackwards => after(&[out(0, b"abc"), dropped(3, 1)]),
        Lie::DroppedTooMuch => {
            after(&[dropped(0, u64::MAX), out(u64::MAX, b"abc"), well(u64::MAX), end()])
        }
        Lie::TwoEnds => {
            after(&[out(0, b"abc"), well(3), ended(json!({ "exited": 7 }), 3), end(), end()])
        }
        Lie::OutputAfterTheEnd => after(&[well(0), out(0, b"abc"), end()]),
        Lie::EndOfMore => after(&[out(0, b"abc"), well(1_000_000), end()]),
        Lie::OddStatus => after(&[ended(json!({ "signalled": -7 }), 0), end()]),
        Lie::EndWithoutStatus => after(&[out(0, b"abc"), end()]),
        Lie::LongProblem => instead(&[word(
            Kind::Problem,
            &json!({ "code": "failed", "message": "\u{1b}[31m".repeat(1 << 18) }),
        )]),
        Lie::OddProblem => {
            instead(&[word(Kind::Problem, &json!({ "code": "exploded", "message": "x" }))])
        }
    }
}

/// Names that are no text, and texts that break out of what they are put into.
fn odd(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "path" | "target" => *value = json!({ "hex": "2fff0a0d" }),
                    "text" | "name" | "session" => {
                        *value =
                            json!("\r\nSet-Cookie: stolen=1\r\n\r\n\u{0}\u{1b}[31m\n\ndata: x");
                    }
                    "arguments" => *value = json!([{ "hex": "ff0a" }]),
                    _ => {}
                }
            }
        }
        Value::Array(_) | Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The truth, in every part of which something is changed.
fn changed(request: &Request, change: impl Fn(&mut Value)) -> Vec<u8> {
    fn each(value: &mut Value, change: &impl Fn(&mut Value)) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| each(value, change)),
            Value::Object(fields) => fields.values_mut().for_each(|value| each(value, change)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        change(value);
    }
    let mut value = serde_json::to_value(reply(request)).unwrap();
    each(&mut value, &change);
    word(Kind::Reply, &value)
}

fn truth(request: &Request) -> Vec<u8> {
    word(Kind::Reply, &reply(request))
}

/// What a guest might answer.
fn reply(request: &Request) -> Reply {
    let usage = Use { used: 1, limit: 2 };
    match request {
        Request::Guest => Reply::Guest(Guest {
            age_ms: 1,
            running: 1,
            processes: 1,
            descriptors: usage,
            kept_bytes: usage,
        }),
        Request::Start(start) => Reply::Started { is_new: true, status: status(&start.id) },
        Request::Follow(follow) => Reply::Started { is_new: false, status: status(&follow.id) },
        Request::Execs => Reply::Execs(vec![status("exe_00000000000000000abc")]),
        Request::Read(read) => Reply::Stat(stat(&read.path)),
        Request::Write(write) => Reply::Stat(stat(&write.path)),
        Request::Look(look) => Reply::Stat(stat(&look.path)),
        Request::MakeDirectory(make) => Reply::Stat(stat(&make.path)),
        Request::Move(relocate) => Reply::Stat(stat(&relocate.to)),
        Request::SetMode(set) => Reply::Stat(stat(&set.path)),
        Request::Edit(edit) => {
            Reply::Edited { stat: stat(&edit.path), replaced: vec![1; edit.replacements.len()] }
        }
        Request::List(_) | Request::Glob(_) => {
            Reply::Entries { entries: vec![stat(&"file".try_into().unwrap())], is_cut: false }
        }
        Request::Grep(_) => Reply::Matches {
            matches: vec![Match {
                path: "file".try_into().unwrap(),
                line: 1,
                column: 1,
                text: "text".to_owned(),
            }],
            is_cut: false,
            searched: 1,
            skipped: 0,
        },
        Request::Unpack(_) => Reply::Unpacked { entries: 1, bytes: 1 },
        Request::Connect(_) => Reply::Connected,
        Request::Ports => Reply::Ports(vec![Listening { port: 80, is_any_address: false }]),
        _ => Reply::Done,
    }
}

/// A file of three bytes.
pub fn stat(path: &Octets) -> Stat {
    Stat {
        path: path.clone(),
        kind: FileKind::File,
        bytes: 3,
        mode: 0o644,
        uid: 0,
        gid: 0,
        modified_us: 0,
        target: None,
        unread: None,
    }
}

/// An exec that runs.
pub fn status(id: &str) -> Status {
    Status {
        id: id.to_owned(),
        pid: 7,
        arguments: vec!["true".try_into().unwrap()],
        name: None,
        session: None,
        keep_bytes: KEEP_BYTES_DEFAULT,
        age_ms: 1,
        stdout: Printed::default(),
        stderr: Printed::default(),
        fed_bytes: 0,
        terminal: None,
        ended: None,
    }
}

fn hello() -> Vec<u8> {
    word(Kind::Hello, &Hello::OURS)
}

fn event(value: &Value) -> Vec<u8> {
    word(Kind::Event, value)
}

fn word(kind: Kind, value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_json(&mut bytes, kind, value).unwrap();
    bytes
}

fn raw(kind: Kind, payload: &[u8]) -> Vec<u8> {
    [&header(kind, payload.len()), payload].concat()
}

fn out(offset: u64, bytes: &[u8]) -> Vec<u8> {
    [&output_header(Kind::Stdout, offset, bytes.len()), bytes].concat()
}
