//! The client and a real guest, in a sandbox of the container tier: each test runs once
//! more as an ordinary user.

mod ending;
mod execs;
mod files;
mod ports;

use crate::container::Machine;
use crate::support::{live_in_parallel, named};
use atoll_engine::guest::{Followed, Guest, GuestError, Output};
use atoll_protocol::exec::{self, Ended, Start, Stream};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use std::path::PathBuf;

/// A sandbox that runs.
struct Real {
    guest: Guest,
    socket: PathBuf,
}

/// Runs a test with a sandbox, as every user.
fn with_sandbox<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Real) -> F) {
    crate::container::again_as_ordinary(&format!("guest::real::{name}"));
    live_in_parallel(async {
        let machine = Machine::new();
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        // Nobody but the test is to do anything with it.
        engine.shutdown().await;
        let socket = machine.state().join(id.to_string()).join("guest");
        test(Real { guest: Guest::new(&socket), socket }).await;
        // Until here it lives.
        drop(machine);
    });
}

impl Real {
    /// What a line of shell prints.
    async fn sh(&self, script: &str) -> String {
        let ran = ran(self.guest.start(sh(script)).await.unwrap()).await.unwrap();
        String::from_utf8(ran.stdout).unwrap()
    }

    /// Kills PID 1, and with it everybody.
    fn kill(&self) {
        let (_, pidfd) = atoll_spawner::client::find(&self.socket).unwrap().unwrap();
        rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).unwrap();
    }
}

fn text(text: &str) -> Octets {
    Octets::try_from(text).unwrap()
}

fn sh(script: &str) -> Start {
    atoll_testkit::guest::sh(script)
}

fn piped(script: &str) -> Start {
    Start { input: exec::Input::Pipe, ..sh(script) }
}

/// An exec that was followed to its end.
#[derive(Default)]
struct Ran {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ended: Option<Ended>,
}

impl Ran {
    fn outcome(&self) -> exec::Outcome {
        self.ended.as_ref().unwrap().outcome
    }
}

async fn ran(mut followed: Followed) -> Result<Ran, GuestError> {
    let mut ran = Ran::default();
    while let Some(next) = followed.output.next().await? {
        match next {
            Output::Bytes { stream: Stream::Stdout, bytes, .. } => ran.stdout.extend(bytes),
            Output::Bytes { stream: Stream::Stderr, bytes, .. } => ran.stderr.extend(bytes),
            Output::Ended(ended) => ran.ended = Some(ended),
            Output::Heartbeat => {}
            dropped @ Output::Dropped { .. } => panic!("{dropped:?}"),
        }
    }
    Ok(ran)
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T, GuestError>, code: Code) {
    match result {
        Err(GuestError::Refused(problem)) => assert_eq!(problem.code, code, "{problem}"),
        other => panic!("not refused but {other:?}"),
    }
}
