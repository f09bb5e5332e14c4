//! One sandbox from its creation to its end, as a caller sees it.

use crate::support::{World, all, live, named, state, told};
use atoll_api::error::{ErrorCode, Retry, TookEffect};
use atoll_api::sandbox::{CreateSandbox, EventKind, Limits, State};
use atoll_engine::backend::fake::{Call, Fake, Moment};
use atoll_engine::backend::{Backend as _, Capabilities, Processes};
use atoll_engine::error::{CreateError, OperationError};
use std::time::Duration;

#[test]
fn a_life() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let sandbox = engine.create(named("web")).await.unwrap();
        let id = sandbox.id;
        assert_eq!(sandbox.state, State::Running);
        let timeline = sandbox.timeline;
        let stages = [
            timeline.accepted_us,
            timeline.allocated_us,
            timeline.filesystem_ready_us,
            timeline.runtime_ready_us,
        ];
        assert!(stages.iter().all(Option::is_some) && stages.is_sorted(), "{timeline:?}");
        assert_eq!(engine.find(&"web".parse().unwrap()), Some(sandbox.clone()));

        assert_eq!(engine.pause(id).await.unwrap().state, State::Paused);
        assert_eq!(world.host.processes(id), Processes::Frozen);
        assert_eq!(engine.resume(id).await.unwrap().state, State::Running);
        assert_eq!(world.host.processes(id), Processes::Running);
        assert_eq!(engine.stop(id).await.unwrap().state, State::Stopped);
        assert_eq!(world.host.processes(id), Processes::None);
        assert_eq!(engine.resume(id).await.unwrap().state, State::Running);
        engine.pause(id).await.unwrap();
        assert_eq!(engine.stop(id).await.unwrap().state, State::Stopped);
        engine.delete(id).await.unwrap();
        assert!(matches!(engine.get(id), Err(OperationError::NotFound { .. })));
        world.settled(&engine).await;

        let events = engine.events(0, 100).await.unwrap();
        let forced = |forced| EventKind::Stopped { forced };
        let request = || "request".to_owned();
        let expect = [
            EventKind::Requested,
            EventKind::Started,
            EventKind::Pausing,
            EventKind::Paused,
            EventKind::Resuming,
            EventKind::Started,
            EventKind::Stopping { reason: request() },
            forced(false),
            EventKind::Resuming,
            EventKind::Started,
            EventKind::Pausing,
            EventKind::Paused,
            EventKind::Stopping { reason: request() },
            forced(false),
            EventKind::Deleted { reason: request() },
        ];
        let told: Vec<_> = events.into_iter().map(|event| event.what).take(expect.len()).collect();
        assert_eq!(told, expect);
        engine.shutdown().await;
    });
}

#[test]
fn a_creation_that_hangs_is_given_up_in_time_and_undone_when_the_host_comes_back() {
    for (call, moment) in [(Call::Create, Moment::Midway), (Call::Start, Moment::Midway)] {
        let world = World::new();
        live(async {
            let engine = world.start().await;
            let gate = world.host.hold(call, moment);
            let time = world.config.create_timeout;
            let caller = engine.create(named("web"));
            let time_passes = async {
                gate.reached(1).await;
                world.clock.awaited(time).await;
                world.clock.advance(time);
            };
            let (made, ()) = tokio::join!(caller, time_passes);
            let error = made.unwrap_err().to_api();
            assert_eq!((error.code, error.took_effect), (ErrorCode::TimedOut, TookEffect::No));
            assert_eq!(error.details.limit.as_deref(), Some("create_timeout_ms"));
            assert_eq!(error.details.limit_value, Some(600_000));
            // Its name is free, and its place is not while something may come of the call.
            let stuck = world.host.ids()[0];
            assert_eq!(all(&engine), []);
            let refused = engine.delete(stuck).await;
            assert!(refused.is_ok(), "it is deleted already: {refused:?}");
            world.host.heal();
            let other = engine.create(named("web")).await.unwrap();
            assert!(world.host.ids().contains(&stuck));
            gate.open();
            world.host.until(|host| host.ids() == [other.id]).await;
            world.nothing_is_left_behind(&engine);
            engine.shutdown().await;
        });
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_host_that_hangs() {
    let world = World::new();
    let gate = live(async {
        let engine = world.start().await;
        let gate = world.host.hold(Call::Create, Moment::Midway);
        let time = world.config.create_timeout;
        let time_passes = async {
            gate.reached(1).await;
            world.clock.awaited(time).await;
            world.clock.advance(time);
        };
        let (made, ()) = tokio::join!(engine.create(named("web")), time_passes);
        made.unwrap_err();
        engine.shutdown().await;
        gate
    });
    gate.caller_is_gone();
    world.host.heal();
    live(async {
        let engine = world.start().await;
        world.settled(&engine).await;
        assert_eq!(world.host.ids(), []);
        engine.shutdown().await;
    });
}

#[test]
fn asking_twice_is_no_mistake_and_nonsense_is_refused() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        engine.resume(id).await.unwrap();
        engine.stop(id).await.unwrap();
        engine.stop(id).await.unwrap();
        engine.kill(id).await.unwrap();
        let error = engine.pause(id).await.unwrap_err().to_api();
        assert_eq!(
            (error.code, error.details.state),
            (ErrorCode::WrongState, Some(State::Stopped))
        );
        assert_eq!(error.took_effect, TookEffect::No);
        assert_eq!(world.host.count(Call::Freeze), 0);
        engine.delete(id).await.unwrap();
        let error = engine.stop(id).await.unwrap_err().to_api();
        assert_eq!((error.code, error.details.sandbox_id), (ErrorCode::NotFound, Some(id)));
    });
}

#[test]
fn a_name_is_free_the_moment_that_delete_returns() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let held = world.host.hold(Call::Remove, Moment::Before);
        let first = engine.create(named("web")).await.unwrap();
        let taken = engine.create(named("web")).await.unwrap_err();
        assert_eq!(taken.to_api().details.sandbox_id, Some(first.id));
        engine.delete(first.id).await.unwrap();
        // Its files are still there, its processes are not.
        assert_eq!(world.host.processes(first.id), Processes::None);
        assert!(world.host.ids().contains(&first.id));
        let second = engine.create(named("web")).await.unwrap();
        assert_ne!(first.id, second.id);
        held.open();
        world.settled(&engine).await;
        assert_eq!(engine.find(&"web".parse().unwrap()).map(|found| found.id), Some(second.id));
    });
}

#[test]
fn a_creation_that_fails_leaves_nothing_whereever_it_fails() {
    let calls = [Call::Create, Call::Start];
    for (call, moment) in
        calls.into_iter().flat_map(|call| Moment::ALL.map(|moment| (call, moment)))
    {
        let mut world = World::new();
        world.config.sandboxes_max = 1;
        live(async {
            let engine = world.start().await;
            world.host.fail(call, moment);
            let error = engine.create(named("web")).await.unwrap_err();
            assert!(matches!(error, CreateError::Backend { .. }), "{error:?}");
            let answer = error.to_api();
            assert_eq!((answer.code, answer.took_effect), (ErrorCode::Internal, TookEffect::No));
            assert_eq!((world.host.ids(), all(&engine)), (vec![], vec![]), "{call:?} {moment:?}");
            // Its name and its place are free.
            world.host.heal();
            engine.create(named("web")).await.unwrap();
        });
    }
}

#[test]
fn a_name_is_free_though_what_was_made_cannot_be_removed() {
    let mut world = World::new();
    world.config.sandboxes_max = 2;
    live(async {
        let engine = world.start().await;
        world.host.fail(Call::Start, Moment::Midway);
        world.host.fail(Call::Remove, Moment::Before);
        engine.create(named("web")).await.unwrap_err();
        assert_eq!((world.host.ids().len(), all(&engine)), (1, vec![]));
        world.host.heal();
        engine.create(named("web")).await.unwrap();
        // Its place is not.
        let full = engine.create(named("api")).await.unwrap_err();
        assert!(matches!(full, CreateError::Capacity { sandboxes_max: 2 }), "{full:?}");
        world.clock.awaited(Duration::from_secs(30)).await;
        world.clock.advance(Duration::from_secs(30));
        world.settled(&engine).await;
    });
}

#[test]
fn without_room_for_records_nothing_is_made_but_what_is_there_can_go() {
    let mut world = World::new();
    world.config.records_bytes_max = 96 * 1024;
    live(async {
        let engine = world.start().await;
        let full = loop {
            if let Err(full) = engine.create(CreateSandbox::default()).await {
                break full;
            }
        };
        let answer = full.to_api();
        assert_eq!((answer.code, answer.took_effect), (ErrorCode::Capacity, TookEffect::No));
        assert_eq!(answer.details.limit.as_deref(), Some("records_bytes_max"));
        world.settled(&engine).await;
        let before = all(&engine);
        for sandbox in &before {
            engine.delete(sandbox.id).await.unwrap();
        }
        world.host.until(|host| host.ids().is_empty()).await;
        assert_eq!(all(&engine), []);
        engine.shutdown().await;
    });
    live(async {
        let engine = world.start().await;
        assert_eq!(all(&engine).len(), 0);
    });
}

#[test]
fn a_full_disk_is_told_as_such() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        world.host.fill_disk(Call::Create, Moment::Midway);
        let answer = engine.create(named("web")).await.unwrap_err().to_api();
        assert_eq!((answer.code, answer.retry), (ErrorCode::Capacity, Retry::Safe));
        assert_eq!(answer.details.limit.as_deref(), Some("disk_bytes"));
        world.nothing_is_left_behind(&engine);
    });
}

#[test]
fn what_cannot_be_removed_keeps_its_place_and_is_tried_again() {
    let mut world = World::new();
    world.config.sandboxes_max = 1;
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        world.host.fail(Call::Remove, Moment::Midway);
        engine.delete(id).await.unwrap();
        world.clock.awaited(Duration::from_secs(30)).await;
        let answer = engine.create(named("web")).await.unwrap_err().to_api();
        assert_eq!(answer.code, ErrorCode::Capacity);
        assert_eq!(answer.details.limit.as_deref(), Some("sandboxes_max"));
        assert_eq!(answer.details.limit_value, Some(1));
        assert!(matches!(answer.retry, Retry::After { .. }));

        world.host.heal();
        let mut events = engine.subscribe();
        world.clock.advance(Duration::from_secs(30));
        told(&mut events, id, |what| *what == EventKind::Removed).await;
        engine.create(named("web")).await.unwrap();
        world.nothing_is_left_behind(&engine);
    });
}

#[test]
fn a_pause_that_fails_leaves_it_running() {
    for moment in [Moment::Before, Moment::After] {
        let world = World::new();
        live(async {
            let engine = world.start().await;
            let id = engine.create(CreateSandbox::default()).await.unwrap().id;
            world.host.fail(Call::Freeze, moment);
            let answer = engine.pause(id).await.unwrap_err().to_api();
            assert_eq!(answer.took_effect, TookEffect::No);
            assert_eq!(answer.details.state, Some(State::Running));
            assert_eq!(state(&engine, id), State::Running);
            assert_eq!(world.host.processes(id), Processes::Running);
        });
    }
}

#[test]
fn what_cannot_go_back_either_has_failed_and_can_be_deleted() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        world.host.fail(Call::Freeze, Moment::After);
        world.host.fail(Call::Thaw, Moment::Before);
        let answer = engine.pause(id).await.unwrap_err().to_api();
        assert_eq!(answer.took_effect, TookEffect::Unknown);
        let failed = engine.get(id).unwrap();
        assert_eq!(failed.state, State::Failed);
        assert_eq!(failed.cause.as_deref(), Some("could not do what a test lets fail"));
        engine.delete(id).await.unwrap();
        world.settled(&engine).await;
    });
}

#[test]
fn a_resume_that_fails_leaves_it_as_it_was() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        engine.pause(id).await.unwrap();
        world.host.fail(Call::Thaw, Moment::Before);
        engine.resume(id).await.unwrap_err();
        assert_eq!(state(&engine, id), State::Paused);
        world.host.heal();
        engine.stop(id).await.unwrap();
        for moment in Moment::ALL {
            world.host.fail(Call::Start, moment);
            engine.resume(id).await.unwrap_err();
            assert_eq!(state(&engine, id), State::Stopped);
            assert_eq!(world.host.processes(id), Processes::None);
            world.host.heal();
        }
        assert_eq!(engine.resume(id).await.unwrap().state, State::Running);
    });
}

#[test]
fn processes_that_do_not_end_are_killed_after_the_grace() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        world.host.ignore_stop();
        let mut events = engine.subscribe();
        let stopped = engine.stop(id);
        let grace = async {
            told(&mut events, id, |what| matches!(what, EventKind::Stopping { .. })).await;
            world.clock.awaited(world.config.stop_grace).await;
            world.clock.advance(world.config.stop_grace - Duration::from_millis(1));
            assert_eq!(state(&engine, id), State::Stopping);
            world.clock.advance(Duration::from_millis(1));
            told(&mut events, id, |what| matches!(what, EventKind::Stopped { .. })).await
        };
        let (stopped, how) = tokio::join!(stopped, grace);
        assert_eq!(stopped.unwrap().state, State::Stopped);
        assert_eq!(how, EventKind::Stopped { forced: true });
    });
}

#[test]
fn a_kill_does_not_wait_for_the_grace_of_a_stop() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        world.host.ignore_stop();
        let kill = async {
            world.host.until(|host| host.count(Call::Stop) == 1).await;
            engine.kill(id).await
        };
        // The clock stands still: only the kill ends the wait.
        let (stopped, killed) = tokio::join!(engine.stop(id), kill);
        assert_eq!(stopped.unwrap().state, State::Stopped);
        assert_eq!(killed.unwrap().state, State::Stopped);
    });
}

#[test]
fn one_that_ends_by_itself_is_stopped_and_says_so() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        let mut events = engine.subscribe();
        world.host.end(id);
        told(&mut events, id, |what| *what == EventKind::Stopped { forced: false }).await;
        let sandbox = engine.get(id).unwrap();
        assert_eq!(sandbox.state, State::Stopped);
        assert_eq!(sandbox.cause.as_deref(), Some("its first process ended by itself"));
        assert_eq!(engine.resume(id).await.unwrap().state, State::Running);
    });
}

#[test]
fn what_the_tier_lacks_is_refused_with_its_flag() {
    let world = World::new();
    live(async {
        let everything = Fake::on(&world.host).capabilities();
        let lacking = Capabilities { pause: false, limit_disk: false, ..everything };
        let engine = world.start_with(Fake::on(&world.host).with(lacking)).await;
        let limits = Limits { disk_bytes: Some(1 << 30), ..Limits::default() };
        let request = CreateSandbox { limits, ..CreateSandbox::default() };
        let answer = engine.create(request).await.unwrap_err().to_api();
        assert_eq!(answer.code, ErrorCode::UnsupportedByTier);
        assert_eq!(answer.details.capability.as_deref(), Some("limit_disk"));
        assert_eq!(world.host.count(Call::Create), 0);
        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        let answer = engine.pause(id).await.unwrap_err().to_api();
        assert_eq!(answer.details.capability.as_deref(), Some("pause"));
        assert_eq!(state(&engine, id), State::Running);
    });
}
