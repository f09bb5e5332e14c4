//! A server that dies and another one that comes after it, on the same records and host.

use crate::support::{World, all, live, named, state};
use atoll_api::id::SandboxId;
use atoll_api::ports::Visibility;
use atoll_api::sandbox::{CreateSandbox, EventKind, State};
use atoll_engine::backend::Processes;
use atoll_engine::backend::fake::{Call, Gate, Moment};
use atoll_engine::error::{CreateError, OperationError, StartError};
use atoll_engine::records::{ONCE_KEPT_FOR, Once, RecordsError};
use atoll_engine::{Beside, Config, Engine};
use std::sync::Arc;

/// Lets a server die while it is at `moment` of `call`, with everything else that it did.
///
/// `prepare` makes what is there before, and `act` brings the call about.
fn dies_at<P, A>(world: &World, call: Call, moment: Moment, prepare: P, act: A)
where
    P: AsyncFnOnce(&Engine),
    A: AsyncFnOnce(&Engine),
{
    let mut gate: Option<Arc<Gate>> = None;
    live(async {
        let engine = world.start().await;
        prepare(&engine).await;
        let held = gate.insert(world.host.hold(call, moment));
        tokio::select! {
            () = act(&engine) => panic!("{call:?} does not come to {moment:?}"),
            () = held.reached(1) => {}
        }
    });
    // What the dead server was about to do does not happen any more.
    gate.unwrap().caller_is_gone();
    world.host.heal();
}

/// Starts anew and looks at what there is; afterwards the name can be used.
fn starts_anew(world: &World, expect: impl AsyncFnOnce(&Engine)) {
    live(async {
        let engine = world.start().await;
        world.settled(&engine).await;
        world.nothing_is_left_behind(&engine);
        expect(&engine).await;
        if let Some(sandbox) = engine.find(&"web".parse().unwrap()) {
            engine.delete(sandbox.id).await.unwrap();
        }
        engine.create(named("web")).await.unwrap();
        world.settled(&engine).await;
        world.nothing_is_left_behind(&engine);
        engine.shutdown().await;
    });
}

fn web(engine: &Engine) -> SandboxId {
    engine.find(&"web".parse().unwrap()).unwrap().id
}

async fn make(engine: &Engine) {
    engine.create(named("web")).await.unwrap();
    engine.create(named("other")).await.unwrap();
}

#[test]
fn a_death_during_creation_leaves_nothing() {
    for call in [Call::Create, Call::Start] {
        for moment in Moment::ALL {
            let world = World::new();
            let other = async |engine: &Engine| {
                engine.create(named("other")).await.unwrap();
            };
            dies_at(&world, call, moment, other, async |engine| {
                engine.create(named("web")).await.unwrap();
            });
            assert_eq!(
                world.host.ids().len(),
                if (call, moment) == (Call::Create, Moment::Before) { 1 } else { 2 }
            );
            starts_anew(&world, async |engine| {
                let names: Vec<_> = all(engine).into_iter().filter_map(|one| one.name).collect();
                assert_eq!(names, ["other".parse().unwrap()], "{call:?} {moment:?}");
            });
        }
    }
}

#[test]
fn a_death_during_a_stop_is_followed_by_the_stop() {
    for (call, moment) in [
        (Call::Stop, Moment::Before),
        (Call::Stop, Moment::After),
        (Call::Kill, Moment::Before),
        (Call::Kill, Moment::After),
    ] {
        let world = World::new();
        dies_at(&world, call, moment, make, async |engine| {
            engine.stop(web(engine)).await.unwrap();
        });
        starts_anew(&world, async |engine| {
            let id = web(engine);
            world.host.until(|host| host.processes(id) == Processes::None).await;
            assert_eq!(engine.stop(id).await.unwrap().state, State::Stopped);
            assert_eq!(engine.resume(id).await.unwrap().state, State::Running);
        });
    }
}

#[test]
fn a_death_during_deletion_is_followed_by_the_removal() {
    for (call, moment) in [
        (Call::Kill, Moment::Before),
        (Call::Kill, Moment::After),
        (Call::Remove, Moment::Before),
        (Call::Remove, Moment::Midway),
        (Call::Remove, Moment::After),
    ] {
        let world = World::new();
        dies_at(&world, call, moment, make, async |engine| {
            engine.delete(web(engine)).await.unwrap();
            // The removal comes after the answer.
            std::future::pending().await
        });
        starts_anew(&world, async |engine| {
            assert_eq!(engine.find(&"web".parse().unwrap()), None, "{call:?} {moment:?}");
            assert_eq!(all(engine).len(), 1);
        });
    }
}

#[test]
fn a_death_during_pause_or_resume_leaves_what_the_host_says() {
    for (call, moment, expect) in [
        (Call::Freeze, Moment::Before, State::Running),
        (Call::Freeze, Moment::After, State::Paused),
        (Call::Thaw, Moment::Before, State::Paused),
        (Call::Thaw, Moment::After, State::Running),
    ] {
        let world = World::new();
        let prepare = async |engine: &Engine| {
            make(engine).await;
            if call == Call::Thaw {
                engine.pause(web(engine)).await.unwrap();
            }
        };
        dies_at(&world, call, moment, prepare, async |engine| {
            let id = web(engine);
            match call {
                Call::Freeze => engine.pause(id).await.unwrap(),
                _ => engine.resume(id).await.unwrap(),
            };
        });
        starts_anew(&world, async |engine| {
            assert_eq!(state(engine, web(engine)), expect, "{call:?} {moment:?}");
            assert_eq!(engine.resume(web(engine)).await.unwrap().state, State::Running);
        });
    }
}

#[test]
fn a_request_came_true_exactly_when_its_sandbox_stays() {
    let once = || Once { key: "k".to_owned(), digest: "d".to_owned() };
    let beside = || Beside { once: Some(once()), archive: None };
    for (call, moment) in [
        (Call::Create, Moment::Before),
        (Call::Create, Moment::After),
        (Call::Start, Moment::Midway),
        (Call::Start, Moment::After),
    ] {
        let world = World::new();
        let gate = live(async {
            let engine = world.start().await;
            assert_eq!(engine.came_true(), []);
            let gate = world.host.hold(call, moment);
            tokio::select! {
                _ = engine.create_with(named("web"), beside()) => panic!("it is held"),
                // The server dies here.
                () = gate.reached(1) => {}
            }
            gate
        });
        gate.caller_is_gone();
        world.host.heal();
        let made = live(async {
            let engine = world.start().await;
            // Nothing stays of it, so that it can be made.
            assert_eq!(engine.came_true(), []);
            engine.create_with(named("web"), beside()).await.unwrap()
            // It dies again, before anybody was answered.
        });
        live(async {
            let engine = world.start().await;
            let [came_true] = engine.came_true() else { panic!("{:?}", engine.came_true()) };
            assert_eq!((&came_true.once, came_true.id), (&once(), made.id));
            assert_eq!(state(&engine, made.id), State::Running);
            // What is deleted came true all the same.
            engine.delete(made.id).await.unwrap();
            world.settled(&engine).await;
            engine.shutdown().await;
        });
        live(async {
            let engine = world.start().await;
            assert_eq!(engine.came_true().len(), 1);
            world.clock.advance(ONCE_KEPT_FOR);
            let other = Once { key: "other".to_owned(), digest: "d".to_owned() };
            let beside = Beside { once: Some(other.clone()), archive: None };
            engine.create_with(named("web"), beside).await.unwrap();
            engine.shutdown().await;
            let engine = world.start().await;
            let kept: Vec<_> = engine.came_true().iter().map(|one| &one.once).collect();
            assert_eq!(kept, [&other], "the old one has gone");
            engine.shutdown().await;
        });
    }
}

#[test]
fn running_ones_are_taken_up_and_watched() {
    let world = World::new();
    let (running, stopped) = live(async {
        let engine = world.start().await;
        make(&engine).await;
        let stopped = engine.create(named("stopped")).await.unwrap().id;
        engine.stop(stopped).await.unwrap();
        (engine.get(web(&engine)).unwrap(), stopped)
    });
    live(async {
        let engine = world.start().await;
        assert_eq!(engine.get(running.id).unwrap(), running);
        assert_eq!(state(&engine, stopped), State::Stopped);
        let mut events = engine.subscribe();
        world.host.end(running.id);
        let ended = crate::support::told(&mut events, running.id, |what| {
            matches!(what, EventKind::Stopped { .. })
        });
        assert_eq!(ended.await, EventKind::Stopped { forced: false });
    });
}

#[test]
fn a_machine_that_was_started_anew_has_stopped_sandboxes() {
    let world = World::new();
    live(async { make(&world.start().await).await });
    let ids = world.host.ids();
    world.host.end(ids[0]);
    world.host.lose(ids[1]);
    live(async {
        let engine = world.start().await;
        let whole = engine.get(ids[0]).unwrap();
        assert_eq!(whole.state, State::Stopped);
        assert_eq!(whole.cause.as_deref(), Some("its processes ended while no server ran"));
        assert_eq!(engine.resume(ids[0]).await.unwrap().state, State::Running);
        let lost = engine.get(ids[1]).unwrap();
        assert_eq!(lost.state, State::Failed);
        assert!(lost.cause.is_some());
        engine.delete(ids[1]).await.unwrap();
        world.settled(&engine).await;
        world.nothing_is_left_behind(&engine);
    });
}

#[test]
fn one_that_cannot_be_taken_up_does_not_keep_the_others_from_it() {
    let world = World::new();
    live(async { make(&world.start().await).await });
    world.host.fail(Call::Adopt, Moment::Before);
    live(async {
        let engine = world.start().await;
        assert!(all(&engine).iter().all(|one| one.state == State::Failed && one.cause.is_some()));
        assert_eq!(all(&engine).len(), 2);
        // A new one can be made all the same.
        engine.create(CreateSandbox::default()).await.unwrap();
    });
}

#[test]
fn what_is_on_the_host_without_a_record_is_removed() {
    let world = World::new();
    live(async { make(&world.start().await).await });
    std::fs::remove_file(world.records()).unwrap();
    live(async {
        let engine = world.start().await;
        world.host.until(|host| host.ids().is_empty()).await;
        assert_eq!(all(&engine), []);
        engine.shutdown().await;
    });
}

#[test]
fn a_shutdown_ends_what_was_begun_and_leaves_the_rest_running() {
    let world = World::new();
    let id = live(async {
        let engine = world.start().await;
        make(&engine).await;
        let id = web(&engine);
        let held = world.host.hold(Call::Freeze, Moment::Before);
        let mut pausing = Box::pin(engine.pause(id));
        tokio::select! {
            paused = &mut pausing => panic!("{paused:?}"),
            () = held.reached(1) => {}
        }
        drop(pausing);
        held.open();
        engine.shutdown().await;
        assert_eq!(world.host.processes(id), Processes::Frozen);
        id
    });
    world.host.heal();
    live(async {
        let engine = world.start().await;
        assert_eq!(state(&engine, id), State::Paused);
        assert_eq!(all(&engine).len(), 2);
    });
}

#[test]
fn what_is_written_is_on_the_disk_a_second_later() {
    let world = World::new();
    let is_in_file = || {
        let file = std::fs::read(world.records()).unwrap();
        file.windows(3).any(|part| part == b"web")
    };
    live(async {
        let engine = world.start().await;
        engine.create(named("web")).await.unwrap();
        let second = std::time::Duration::from_secs(1);
        world.clock.awaited(second).await;
        assert!(!is_in_file());
        world.clock.advance(second);
        while !is_in_file() {
            // Each answer of the writer is another moment to look.
            engine.events(0, 1).await.unwrap();
        }
    });
}

#[test]
fn two_servers_do_not_share_records() {
    let world = World::new();
    live(async {
        let _first = world.start().await;
        let backend = Arc::new(atoll_engine::backend::fake::Fake::on(&world.host));
        let clock = world.clock.clone();
        let second = Engine::start(Config::default(), backend, clock, world.records()).await;
        assert!(matches!(second.err(), Some(StartError::Records(RecordsError::InUse { .. }))));
    });
}

#[test]
fn errors_after_the_end_are_typed() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let missing = SandboxId::from_random([9; 10]);
        assert!(matches!(engine.get(missing), Err(OperationError::NotFound { .. })));
        let wrong = CreateSandbox { image: String::new(), ..CreateSandbox::default() };
        assert!(matches!(engine.create(wrong).await, Err(CreateError::Invalid(_))));
    });
}

#[test]
fn a_preview_goes_on_with_its_token_after_a_restart() {
    let world = World::new();
    let mut told = None;
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let exposure = engine.expose(id, 5173, Visibility::Private, None).await.unwrap();
        assert_eq!(engine.expose(id, 5173, Visibility::Private, None).await.unwrap(), exposure);
        engine.expose(id, 8080, Visibility::Public, None).await.unwrap();
        engine.expose(id, 9000, Visibility::Public, None).await.unwrap();
        engine.unexpose(id, 9000).await.unwrap();
        engine.unexpose(id, 9000).await.unwrap();
        engine.shutdown().await;
        told = Some((id, exposure));
    });
    let (id, exposure) = told.unwrap();
    live(async {
        let engine = world.start().await;
        let exposures = engine.exposures(id).unwrap();
        assert_eq!(exposures.keys().copied().collect::<Vec<_>>(), [5173, 8080]);
        assert_eq!(engine.exposure(id, 5173), Some(exposure));
        assert_eq!(engine.exposure(id, 9000), None);
        engine.delete(id).await.unwrap();
        assert_eq!(engine.exposure(id, 5173), None);
        engine.shutdown().await;
    });
}
