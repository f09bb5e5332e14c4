//! A guest that says what a test has it say, whatever it is asked.

use atoll_engine::guest::{Followed, Guest, GuestError, Output, Settings};
use atoll_protocol::exec::{Ended, Follow, Outcome, Printed, Start};
use atoll_protocol::files::Stat;
use atoll_protocol::frame::{self, Decoder, Kind};
use atoll_protocol::hello::Hello;
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::{Code, Problem};
use atoll_protocol::request::{Event, Reply};
pub(super) use atoll_testkit::liar::status;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// Short times: what is waited for in vain is over soon.
pub(super) fn hasty() -> Settings {
    Settings {
        connections_max: 8,
        ports_max: 2,
        long_max: 2,
        heartbeat: Duration::from_millis(60),
        answer: Duration::from_millis(400),
        work: Duration::from_millis(400),
    }
}

/// What a guest does after its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Closes the connection.
    Close,
    /// Keeps it, and takes what comes.
    Listen,
    /// Keeps it, and takes nothing.
    Stare,
    /// Says it again for ever.
    Again,
}

/// A guest of a test, which is gone with this.
pub(super) struct Player {
    pub(super) guest: Guest,
    /// How many bytes it could say so far.
    pub(super) said: Arc<AtomicUsize>,
    task: JoinHandle<()>,
    _dir: TempDir,
}

impl Drop for Player {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// On every connection, once it has been asked: `words`, then `repeated` as it is said.
pub(super) fn plays(words: Vec<u8>, repeated: Vec<u8>, then: Then) -> Player {
    plays_with(hasty(), words, repeated, then)
}

pub(super) fn says(words: Vec<u8>, then: Then) -> Player {
    plays(words.clone(), words, then)
}

pub(super) fn plays_with(
    settings: Settings,
    words: Vec<u8>,
    repeated: Vec<u8>,
    then: Then,
) -> Player {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("guest");
    let listener = UnixListener::bind(&path).unwrap();
    let said = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&said);
    let task = tokio::spawn(async move {
        let mut peers = tokio::task::JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            peers.spawn(play(stream, words.clone(), repeated.clone(), then, Arc::clone(&count)));
        }
    });
    Player { guest: Guest::with_settings(path, settings), said, task, _dir: dir }
}

async fn play(
    mut stream: UnixStream,
    words: Vec<u8>,
    repeated: Vec<u8>,
    then: Then,
    said: Arc<AtomicUsize>,
) {
    asked(&mut stream).await;
    // Whoever asked may be gone, which is as good an end as another.
    stream.write_all(&words).await.ok();
    match then {
        Then::Close => {}
        Then::Listen => {
            let mut buffer = vec![0; 64 << 10];
            while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
        }
        Then::Stare => std::future::pending().await,
        Then::Again => {
            while stream.write_all(&repeated).await.is_ok() {
                said.fetch_add(repeated.len(), Ordering::Relaxed);
            }
        }
    }
}

/// Takes the greeting and the question.
pub(super) async fn asked(stream: &mut UnixStream) {
    let mut decoder = Decoder::default();
    let mut frames = 0;
    while frames < 2 {
        let Ok(length @ 1..) = stream.read(decoder.space()).await else { return };
        decoder.filled(length);
        while decoder.next().unwrap().is_some() {
            frames += 1;
        }
    }
}

// Words.

pub(super) fn word(kind: Kind, value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::put_json(&mut bytes, kind, value).unwrap();
    bytes
}

pub(super) fn raw(kind: Kind, payload: &[u8]) -> Vec<u8> {
    [&frame::header(kind, payload.len()), payload].concat()
}

pub(super) fn hello() -> Vec<u8> {
    word(Kind::Hello, &Hello::OURS)
}

/// A greeting and an answer.
pub(super) fn reply(reply: &Reply) -> Vec<u8> {
    [hello(), word(Kind::Reply, reply)].concat()
}

pub(super) fn problem(code: Code, message: &str) -> Vec<u8> {
    word(Kind::Problem, &Problem { code, message: message.to_owned(), errno: None })
}

pub(super) fn event(event: &Event) -> Vec<u8> {
    word(Kind::Event, event)
}

pub(super) fn out(offset: u64, bytes: &[u8]) -> Vec<u8> {
    [&frame::output_header(Kind::Stdout, offset, bytes.len()), bytes].concat()
}

pub(super) fn end() -> Vec<u8> {
    raw(Kind::End, &[])
}

pub(super) fn beat() -> Vec<u8> {
    raw(Kind::Heartbeat, &[])
}

/// The end of a command that printed so much and went well.
pub(super) fn ended(stdout: u64, stderr: u64) -> Vec<u8> {
    let printed = |bytes| Printed { bytes, dropped_bytes: 0 };
    event(&Event::Ended(Ended {
        outcome: Outcome::Exited(0),
        cause: None,
        duration_us: 1,
        cpu_us: 1,
        max_rss_kib: 1,
        fed_bytes: 0,
        stdout: printed(stdout),
        stderr: printed(stderr),
    }))
}

pub(super) fn path(text: &str) -> Octets {
    Octets::try_from(text).unwrap()
}

/// A greeting, and word that the exec `one` runs.
pub(super) fn started() -> Vec<u8> {
    reply(&Reply::Started { is_new: true, status: status("one") })
}

pub(super) fn stat(name: &str, bytes: u64) -> Stat {
    Stat { bytes, ..atoll_testkit::liar::stat(&path(name)) }
}

// Questions.

/// A start of the exec `one`.
pub(super) fn start() -> Start {
    Start { id: "one".into(), ..atoll_testkit::guest::command(&["true"]) }
}

pub(super) fn follow(stdout: u64) -> Follow {
    Follow { id: "one".into(), stdout, stderr: 0, is_snapshot: false }
}

/// Everything of an exec up to its end, or why there is none.
pub(super) async fn all(mut followed: Followed) -> Result<Vec<Output>, GuestError> {
    let mut found = Vec::new();
    while let Some(next) = followed.output.next().await? {
        found.push(next);
    }
    Ok(found)
}

/// What becomes of a start whose guest says this after it has begun.
pub(super) async fn after_start(words: Vec<u8>, then: Then) -> Result<Vec<Output>, GuestError> {
    let player = says([started(), words].concat(), then);
    all(player.guest.start(start()).await.unwrap()).await
}

#[track_caller]
pub(super) fn assert_malformed<T: std::fmt::Debug>(result: Result<T, GuestError>, what: &str) {
    match result {
        Err(GuestError::Malformed { what: found }) => {
            assert!(found.contains(what), "{found:?} and not {what:?}");
            assert!(found.len() < 200, "{} bytes of text", found.len());
        }
        other => panic!("not malformed ({what}) but {other:?}"),
    }
}
