//! A server that ends while its sandboxes run.

use super::{Machine, also_as_ordinary, eventually};
use crate::support::{all, live, named};
use atoll_api::sandbox::State;
use atoll_engine::backend::Container;
use atoll_protocol::exec;
use atoll_protocol::request::Request;
use atoll_testkit::guest::sh;
use atoll_testkit::process::{left, marker};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn what_runs_is_taken_up_with_its_processes_and_output() {
    also_as_ordinary("restart::what_runs_is_taken_up_with_its_processes_and_output");
    let machine = Machine::new();
    let start = sh("echo early; until [ -e go ]; do sleep 0.02; done; echo late; exit 7");
    // The engine is dropped where it stands.
    let (id, gone) = live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let gone = engine.create(named("gone")).await.unwrap().id;
        let mut client = machine.guest(id).ask(&Request::Start(start.clone()));
        client.started();
        client.expect("early");
        (id, gone)
    });
    machine.guest(gone).ask(&Request::Stop { grace_ms: 0 }).answer().unwrap();
    // What was half made has no end.
    let half = atoll_api::id::SandboxId::from_random([7; 10]);
    std::fs::create_dir_all(machine.state().join(half.to_string()).join("top/home")).unwrap();
    live(async {
        let engine = machine.start().await;
        assert_eq!(engine.get(id).unwrap().state, State::Running);
        assert_eq!(engine.get(gone).unwrap().state, State::Stopped);
        eventually("the half-made one is gone", || machine.left().len() == 2).await;
        let guest = machine.guest(id);
        guest.sh("touch go");
        let follow =
            exec::Follow { id: start.id.clone(), stdout: 0, stderr: 0, is_snapshot: false };
        let ran = guest.ask(&Request::Follow(follow)).follow();
        assert_eq!((ran.text(), ran.outcome()), ("early\nlate\n", exec::Outcome::Exited(7)));
        // Its name is its own, and that of one that is deleted is free at once.
        assert_eq!(engine.find(&"web".parse().unwrap()).unwrap().id, id);
        engine.delete(gone).await.unwrap();
        engine.create(named("gone")).await.unwrap();
        assert_eq!(all(&engine).len(), 2);
        engine.shutdown().await;
    });
}

#[test]
fn two_servers_do_not_keep_the_same_sandboxes() {
    also_as_ordinary("restart::two_servers_do_not_keep_the_same_sandboxes");
    let machine = Machine::new();
    let first = machine.backend();
    let mut spawner = Command::new(super::program("spawner"));
    spawner.env_clear().current_dir("/");
    let refused = Container::open(&machine.state(), spawner, Duration::ZERO).unwrap_err();
    assert!(format!("{refused:?}").contains("another server"), "{refused:?}");
    drop(first);
    drop(machine.backend());
}

#[test]
fn a_sandbox_that_dies_is_noticed() {
    also_as_ordinary("restart::a_sandbox_that_dies_is_noticed");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let socket = machine.state().join(id.to_string()).join("guest");
        let (_, pidfd) = atoll_spawner::client::find(&socket).unwrap().unwrap();
        rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).unwrap();
        eventually("its end", || {
            matches!(engine.get(id).unwrap().state, State::Failed | State::Stopped)
        })
        .await;
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn a_server_that_is_killed_again_and_again_leaves_what_it_lists_and_nothing_else() {
    also_as_ordinary(
        "restart::a_server_that_is_killed_again_and_again_leaves_what_it_lists_and_nothing_else",
    );
    let machine = Machine::new();
    let mark = marker();
    for round in 0..20 {
        let mut churn = Command::new(super::program("churn"));
        churn.arg(machine.state()).arg(machine.records()).arg(super::program("spawner")).arg(&mark);
        let mut churn = churn.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(churn.stdout.take().unwrap()).lines();
        // At another moment of its work each time.
        assert_eq!(lines.take(20 + round * 3).count(), 20 + round * 3);
        churn.kill().unwrap();
        churn.wait().unwrap();
        live(async {
            let engine = machine.start().await;
            eventually("the host is as it is listed", || {
                let mut listed: Vec<_> =
                    all(&engine).iter().map(|sandbox| sandbox.id.to_string()).collect();
                let mut left = machine.left();
                listed.sort();
                left.sort();
                listed == left
            })
            .await;
            eventually("nothing is on its way", || {
                all(&engine).iter().all(|sandbox| {
                    matches!(sandbox.state, State::Running | State::Stopped | State::Failed)
                })
            })
            .await;
            for sandbox in all(&engine) {
                let guest = machine.guest(sandbox.id);
                match sandbox.state {
                    State::Running => assert_eq!(guest.sh("echo ok").text(), "ok\n"),
                    _ => assert!(!guest.is_there(), "{sandbox:?}"),
                }
            }
            let got = engine.get_or_create(named("n1")).await.unwrap().sandbox;
            if got.state == State::Running {
                assert_eq!(machine.guest(got.id).sh("echo ok").text(), "ok\n");
            }
        });
    }
    live(async {
        let engine = machine.start().await;
        for sandbox in all(&engine) {
            engine.delete(sandbox.id).await.unwrap();
        }
        eventually("nothing is left", || machine.left().is_empty()).await;
        engine.shutdown().await;
    });
    left(&mark, <[i32]>::is_empty);
}
