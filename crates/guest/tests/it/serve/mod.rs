//! A guest that serves operations (`examples/guest.rs`), asked as a host asks.

mod ending;
mod hostile;
mod input;
mod output;
mod ports;
mod run;

use atoll_protocol::exec::{self, Ended, Stream};
use atoll_protocol::frame::{Decoder, Kind, header, put_json};
use atoll_protocol::hello::Hello;
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Event, Reply, Request};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::User;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

/// How long any one answer may take; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A guest and the directory of its socket.
struct Guest {
    child: Child,
    dir: tempfile::TempDir,
}

struct Options {
    /// How long a follower is waited for.
    patience_ms: u64,
    kept_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience_ms: 10_000, kept_bytes: 256 << 20 }
    }
}

/// Runs a test with a guest of every user.
fn each(test: impl Fn(&Guest)) {
    each_with(&Options::default(), test);
}

fn each_with(options: &Options, test: impl Fn(&Guest)) {
    for user in User::all() {
        test(&Guest::start(user, options));
    }
}

impl Guest {
    fn start(user: User, options: &Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        user.give(dir.path());
        let mut command = Command::new("unshare");
        command.args(["-Ur", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(program());
        command.arg(dir.path().join("socket"));
        command.args([options.patience_ms.to_string(), options.kept_bytes.to_string()]);
        user.become_for(&mut command);
        let child = command.current_dir("/").env_clear().spawn().unwrap();
        let guest = Self { child, dir };
        wait_until("the guest", || UnixStream::connect(guest.socket()).is_ok());
        guest
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// A connection that has said nothing.
    fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream, decoder: Decoder::default() }
    }

    /// A connection that has asked for this.
    fn ask(&self, request: &Request) -> Client {
        let mut client = self.connect();
        let mut bytes = Vec::new();
        put_json(&mut bytes, Kind::Hello, &Hello::OURS).unwrap();
        put_json(&mut bytes, Kind::Request, request).unwrap();
        client.send(&bytes);
        client
    }

    /// What is answered to this at once.
    fn answer(&self, request: &Request) -> Result<Reply, Problem> {
        self.ask(request).answer()
    }

    /// Runs a command to its end.
    fn run(&self, start: exec::Start) -> Ran {
        self.ask(&Request::Start(start)).follow()
    }

    /// Runs a line of shell to its end.
    fn sh(&self, script: &str) -> Ran {
        self.run(sh(script))
    }

    fn status(&self, id: &str) -> exec::Status {
        let Reply::Execs(execs) = self.answer(&Request::Execs).unwrap() else { panic!() };
        execs.into_iter().find(|exec| exec.id == id).unwrap()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        let panics = self.dir.path().join("socket.panics");
        let panics = std::fs::read_to_string(panics).unwrap_or_default();
        if std::thread::panicking() {
            writeln!(std::io::stderr(), "the guest: {panics}").ok();
        } else {
            assert_eq!(panics, "");
        }
    }
}

fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().with_file_name("examples").join("guest");
    assert!(path.exists(), "{} is not built: build the examples", path.display());
    path
}

/// A command with an id of its own.
fn command(words: &[&str]) -> exec::Start {
    let arguments = words.iter().map(|word| Octets::try_from(*word).unwrap()).collect();
    exec::Start {
        id: atoll_testkit::process::marker(),
        command: exec::Command {
            arguments,
            environment: Vec::new(),
            directory: None,
            user: exec::User::Workload,
        },
        input: exec::Input::Closed,
        timeout_ms: None,
        keep_bytes: exec::KEEP_BYTES_DEFAULT,
        on_disconnect: exec::OnDisconnect::GoOn,
    }
}

fn sh(script: &str) -> exec::Start {
    command(&["sh", "-c", script])
}

/// One connection, as the host has it.
struct Client {
    stream: UnixStream,
    decoder: Decoder,
}

/// One frame, read.
#[derive(Debug, PartialEq)]
enum Said {
    Hello(Hello),
    Reply(Reply),
    Problem(Problem),
    Output(Stream, u64, Vec<u8>),
    Event(Event),
    End,
    Heartbeat,
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next frame; none at the end.
    fn next(&mut self) -> Option<Said> {
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
    fn answer(&mut self) -> Result<Reply, Problem> {
        match self.next() {
            Some(Said::Hello(hello)) => assert_eq!(hello, Hello::OURS),
            other => panic!("no greeting but {other:?}"),
        }
        match self.next() {
            Some(Said::Reply(reply)) => Ok(reply),
            Some(Said::Problem(problem)) => Err(problem),
            other => panic!("no answer but {other:?}"),
        }
    }

    /// How the exec started that this connection follows.
    fn started(&mut self) -> (bool, exec::Status) {
        match self.answer().unwrap() {
            Reply::Started { is_new, status } => (is_new, status),
            other => panic!("not started but {other:?}"),
        }
    }

    /// Reads until standard output has this in it.
    fn expect(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.next().unwrap_or_else(|| panic!("no {text:?} in {seen:?}")) {
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
    fn follow(mut self) -> Ran {
        let (is_new, status) = self.started();
        let mut ran = self.rest();
        (ran.is_new, ran.status) = (is_new, Some(status));
        ran
    }

    /// Follows to the end after the answer.
    fn rest(&mut self) -> Ran {
        let mut ran = Ran::default();
        loop {
            match self.next().expect("the end is said") {
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
        assert_eq!(self.next(), None, "nothing after the end");
        ran
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.send(&header(Kind::Body, bytes.len()));
        self.send(bytes);
    }

    fn end(&mut self) {
        self.send(&header(Kind::End, 0));
    }
}

/// An exec that was followed to its end.
#[derive(Debug, Default)]
struct Ran {
    is_new: bool,
    status: Option<exec::Status>,
    /// Offset of the first byte of standard output.
    first: Option<u64>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    dropped: Vec<(Stream, u64, u64)>,
    ended: Option<Ended>,
}

impl Ran {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    fn ended(&self) -> &Ended {
        self.ended.as_ref().expect("it has ended")
    }

    fn outcome(&self) -> exec::Outcome {
        self.ended().outcome
    }
}

/// What kind of problem an answer is.
fn code(answer: &Result<Reply, Problem>) -> Option<Code> {
    answer.as_ref().err().map(|problem| problem.code)
}
