//! Access to what is inside: who is woken, and what counts as work.

use super::{Machine, also_as_ordinary, eventually};
use crate::support::{live, named, with_lifecycle};
use atoll_api::exec::StartExec;
use atoll_api::sandbox::{HoldCause, Lifecycle, State};
use atoll_engine::Wake;
use atoll_engine::error::OperationError;
use atoll_engine::guest::Output;
use atoll_protocol::exec::{Command, Outcome, Start, User};
use atoll_protocol::octets::Octets;

fn sh(id: &str, script: &str) -> Start {
    let arguments = ["sh", "-c", script].map(|argument| Octets::new(argument).unwrap());
    Start {
        id: id.to_owned(),
        command: Command {
            arguments: arguments.into(),
            environment: Vec::new(),
            directory: None,
            user: User::default(),
        },
        session: None,
        input: Default::default(),
        timeout_ms: None,
        keep_bytes: atoll_protocol::exec::KEEP_BYTES_DEFAULT,
        on_disconnect: Default::default(),
        name: None,
    }
}

#[test]
fn the_timeline_tells_when_the_first_command_ended_whoever_saw_it() {
    also_as_ordinary("inside::the_timeline_tells_when_the_first_command_ended_whoever_saw_it");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let start = |shell: &str| StartExec { shell: Some(shell.to_owned()), ..Default::default() };
        for is_watched in [true, false] {
            let made = engine.create(named("web")).await.unwrap();
            let id = made.id;
            assert_eq!(engine.timeline(id).await.unwrap().first_command_done_us, None);
            let inside = engine.inside(id, Wake::Never).await.unwrap();
            let mut started = inside.start_exec(start("sleep 0.1")).await.unwrap();
            if is_watched {
                while started.following.next().await.unwrap().is_some() {}
                eventually("it was noted", || {
                    engine.get(id).unwrap().timeline.first_command_done_us.is_some()
                })
                .await;
            } else {
                let exec = started.following.exec().id;
                drop(started);
                // Nobody looks but the test, past the server.
                eventually("it has ended", || {
                    machine.guest(id).status(&exec.to_string()).ended.is_some()
                })
                .await;
            }
            let timeline = engine.timeline(id).await.unwrap();
            let first_us = timeline.first_command_done_us.unwrap();
            // The tenth of a second that it took is in it, to the millisecond that guests tell.
            let least_us = timeline.runtime_ready_us.unwrap() + 100_000;
            assert!(first_us + 2_000 > least_us, "{timeline:?}");
            assert!(first_us < least_us + 5_000_000, "{timeline:?}");
            let mut second = inside.start_exec(start("true")).await.unwrap().following;
            while second.next().await.unwrap().is_some() {}
            assert_eq!(engine.timeline(id).await.unwrap(), timeline);
            engine.delete(id).await.unwrap();
        }
        engine.shutdown().await;
    });
}

#[test]
fn who_wants_to_use_a_sandbox_that_sleeps_wakes_it() {
    also_as_ordinary("inside::who_wants_to_use_a_sandbox_that_sleeps_wakes_it");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        assert_eq!(engine.inside(id, Wake::Never).await.unwrap().id(), id);
        engine.stop(id).await.unwrap();
        let refused = engine.inside(id, Wake::Never).await.unwrap_err();
        assert!(
            matches!(refused, OperationError::NotRunning { state: State::Stopped, .. }),
            "{refused}"
        );
        // A hundred at once wake it once.
        let all = (0..100).map(|_| engine.inside(id, Wake::IfAsleep));
        let mut inside = Vec::new();
        for one in all {
            inside.push(one.await.unwrap());
        }
        assert_eq!(inside[99].guest().state().await.unwrap().running, 0);
        if engine.tier().1.pause {
            engine.pause(id).await.unwrap();
            let inside = engine.inside(id, Wake::IfAsleep).await.unwrap();
            assert_eq!(inside.guest().state().await.unwrap().running, 0);
        }
        engine.delete(id).await.unwrap();
        let gone = engine.inside(id, Wake::IfAsleep).await.unwrap_err();
        assert!(matches!(gone, OperationError::NotFound { .. }), "{gone}");
        engine.shutdown().await;
    });
}

#[test]
fn a_command_that_runs_is_work_also_if_nobody_listens() {
    also_as_ordinary("inside::a_command_that_runs_is_work_also_if_nobody_listens");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let lifecycle = Lifecycle { idle_stop_ms: Some(1000), ..Lifecycle::default() };
        let id = engine.create(with_lifecycle(lifecycle)).await.unwrap().id;
        let inside = engine.inside(id, Wake::Never).await.unwrap();
        // Longer than the idle time, without any use of the processor.
        let mut followed =
            inside.guest().start(sh("exe_00000000000000000001", "sleep 4")).await.unwrap();
        eventually("the exec is listed as what holds it", || {
            let holds = engine.get(id).unwrap().holds;
            holds.iter().any(|hold| matches!(hold.cause, HoldCause::Exec { .. }))
        })
        .await;
        let ended = loop {
            match followed.output.next().await.unwrap() {
                Some(Output::Ended(ended)) => break ended,
                Some(_) => {}
                None => panic!("a stream ends with an end"),
            }
        };
        assert_eq!(ended.outcome, Outcome::Exited(0));
        eventually("it is idle now", || engine.get(id).unwrap().state == State::Stopped).await;
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn a_hold_ends_when_it_is_dropped() {
    also_as_ordinary("inside::a_hold_ends_when_it_is_dropped");
    let machine = Machine::new();
    live(async {
        let engine = machine.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let inside = engine.inside(id, Wake::Never).await.unwrap();
        let held = inside.hold(HoldCause::Stream { name: "terminal".to_owned() }).await.unwrap();
        assert_eq!(engine.get(id).unwrap().holds.len(), 1);
        drop(held);
        eventually("the hold is gone", || engine.get(id).unwrap().holds.is_empty()).await;
        engine.delete(id).await.unwrap();
        // Who still has access does not keep it.
        engine.shutdown().await;
        drop(inside);
    });
}
