//! A server that ends while its sandboxes run.

use super::{Machine, also_as_ordinary, eventually};
use crate::support::{all, live, named};
use atoll_api::sandbox::State;
use atoll_protocol::exec;
use atoll_protocol::request::Request;
use atoll_testkit::guest::sh;

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
    std::fs::create_dir_all(machine.state().join(half.to_string()).join("home")).unwrap();
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
