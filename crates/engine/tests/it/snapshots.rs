//! Snapshots on a machine in memory: what is recorded, what stays, and what a death leaves.

use crate::support::{World, live, named, state};
use atoll_api::error::{ErrorCode, TookEffect};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::sandbox::{CreateSandbox, EventKind, Limits, State};
use atoll_api::snapshot::{
    CreateSnapshot, Fork, ForkSnapshot, ListSnapshots, Snapshot, SnapshotWay,
};
use atoll_engine::Engine;
use atoll_engine::backend::fake::{Call, Fake, Moment};
use atoll_engine::backend::{Backend as _, Capabilities, Processes};
use atoll_engine::error::{CreateError, SnapshotError};
use std::time::Duration;

async fn snapshot(engine: &Engine, id: SandboxId) -> Snapshot {
    engine.snapshot(id, CreateSnapshot::default()).await.unwrap()
}

fn list(engine: &Engine) -> Vec<SnapshotId> {
    let page = engine.list_snapshots(&ListSnapshots::default()).unwrap();
    page.snapshots.iter().map(|snapshot| snapshot.id).collect()
}

fn from(id: SnapshotId) -> CreateSandbox {
    CreateSandbox { snapshot: Some(id), ..CreateSandbox::default() }
}

#[test]
fn a_snapshot_is_taken_of_what_runs_stands_still_or_is_stopped() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let first = snapshot(&engine, id).await;
        assert_eq!((first.way, first.parent_id), (SnapshotWay::Copy, None));
        // It went on.
        assert_eq!(world.host.processes(id), Processes::Running);
        engine.pause(id).await.unwrap();
        world.clock.advance(Duration::from_millis(1));
        let second = snapshot(&engine, id).await;
        assert_eq!((second.way, second.frozen_us), (SnapshotWay::Copy, 0));
        assert_eq!(world.host.processes(id), Processes::Frozen);
        engine.stop(id).await.unwrap();
        world.clock.advance(Duration::from_millis(1));
        let third = snapshot(&engine, id).await;
        assert_eq!((third.way, third.frozen_us), (SnapshotWay::Rename, 0));
        assert_eq!([second.parent_id, third.parent_id], [Some(first.id), Some(second.id)]);
        assert_eq!(list(&engine), [first.id, second.id, third.id]);
        assert_eq!(engine.get(id).unwrap().snapshot_id, Some(third.id));
        assert_eq!(third.sandbox_name, Some("web".parse().unwrap()));
        // One that is gone leaves its place to its parent.
        engine.delete_snapshot(second.id).await.unwrap();
        assert_eq!(engine.get_snapshot(third.id).unwrap().parent_id, Some(first.id));
        let gone = engine.delete_snapshot(second.id).await.unwrap_err();
        assert_eq!(gone.to_api().code, ErrorCode::NotFound);
        engine.shutdown().await;
    });
}

#[test]
fn a_snapshot_that_fails_leaves_the_sandbox_as_it_was_and_nothing_listed() {
    for (call, moment) in [
        (Call::Freeze, Moment::Before),
        (Call::Freeze, Moment::After),
        (Call::Snapshot, Moment::Before),
    ] {
        let world = World::new();
        live(async {
            let engine = world.start().await;
            let id = engine.create(named("web")).await.unwrap().id;
            world.host.fill_disk(call, moment);
            let failed = engine.snapshot(id, CreateSnapshot::default()).await.unwrap_err();
            let answer = failed.to_api();
            assert_eq!((answer.code, answer.took_effect), (ErrorCode::Capacity, TookEffect::No));
            assert_eq!((state(&engine, id), list(&engine)), (State::Running, Vec::new()));
            assert_eq!(world.host.processes(id), Processes::Running, "{call:?} {moment:?}");
            world.host.heal();
            snapshot(&engine, id).await;
            assert_eq!(list(&engine).len(), 1);
            engine.shutdown().await;
        });
    }
}

#[test]
fn what_cannot_stand_still_is_stopped_first() {
    let world = World::new();
    live(async {
        let can = Fake::on(&world.host).capabilities();
        let backend = Fake::on(&world.host).with(Capabilities { pause: false, ..can });
        let engine = world.start_with(backend).await;
        let id = engine.create(named("web")).await.unwrap().id;
        let refused = engine.snapshot(id, CreateSnapshot::default()).await.unwrap_err().to_api();
        assert_eq!(refused.details.capability.as_deref(), Some("pause"));
        assert!(refused.next_step.contains("stop it"), "{refused:?}");
        engine.stop(id).await.unwrap();
        let first = snapshot(&engine, id).await;
        // One that is gone is nobody's parent.
        engine.delete_snapshot(first.id).await.unwrap();
        assert_eq!(snapshot(&engine, id).await.parent_id, None);
        engine.shutdown().await;
    });
}

#[test]
fn a_sandbox_that_does_not_go_on_says_so_and_its_snapshot_is_there() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        world.host.fail(Call::Thaw, Moment::Before);
        let taken = snapshot(&engine, id).await;
        let sandbox = engine.get(id).unwrap();
        assert_eq!((sandbox.state, list(&engine)), (State::Failed, vec![taken.id]));
        assert!(sandbox.cause.unwrap().contains("stood still for a snapshot"));
        world.host.heal();
        let fork = engine.create(from(taken.id)).await.unwrap();
        assert_eq!(fork.state, State::Running);
        engine.shutdown().await;
    });
}

#[test]
fn forks_are_like_their_origin_but_in_what_is_asked_for() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let mut request = named("web");
        request.env.0.insert("COLOUR".into(), "blue".into());
        request.env.0.insert("SIZE".into(), "small".into());
        request.limits = Limits { pids: Some(100), ..Limits::default() };
        request.exec_ask = vec!["git push*".parse().unwrap()];
        let id = engine.create(request).await.unwrap().id;
        let taken = snapshot(&engine, id).await;
        let mut wanted = ForkSnapshot { count: 3, sandbox: named("try") };
        wanted.sandbox.limits.memory_bytes = Some(1 << 30);
        wanted.sandbox.env.0.insert("SIZE".into(), "large".into());
        engine.create(named("try-2")).await.unwrap();
        let forks = engine.fork(taken.id, wanted).await.unwrap().forks;
        let [Fork::Sandbox(first), Fork::Error(second), Fork::Sandbox(third)] = &forks[..] else {
            panic!("{forks:?}")
        };
        assert_eq!(second.code, ErrorCode::Conflict);
        assert_eq!(third.name, Some("try-3".parse().unwrap()));
        assert_eq!((first.limits.pids, first.limits.memory_bytes), (Some(100), Some(1 << 30)));
        assert_eq!((first.exec_ask.len(), first.snapshot_id), (1, Some(taken.id)));
        engine.shutdown().await;
    });
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let taken = snapshot(&engine, id).await;
        let none = SnapshotId::from_random([9; 10]);
        let refused = engine.create(from(none)).await.unwrap_err();
        assert!(matches!(refused, CreateError::NoSnapshot { id } if id == none), "{refused:?}");
        let both = CreateSandbox { image: "/an/image".to_owned(), ..from(taken.id) };
        let refused = engine.create(both).await.unwrap_err().to_api();
        assert_eq!(refused.details.field.as_deref(), Some("image"));
        let refused = engine.restore(id, none).await.unwrap_err();
        assert!(matches!(refused, SnapshotError::NotFound { .. }), "{refused:?}");
        let refused = engine.fork(taken.id, ForkSnapshot { count: 0, ..ForkSnapshot::default() });
        assert_eq!(refused.await.unwrap_err().to_api().details.field.as_deref(), Some("count"));
        let request = CreateSnapshot { delete_after_ms: Some(0), ..CreateSnapshot::default() };
        let refused = engine.snapshot(id, request).await.unwrap_err().to_api();
        assert_eq!(refused.details.field.as_deref(), Some("delete_after_ms"));
        engine.delete(id).await.unwrap();
        let refused = engine.snapshot(id, CreateSnapshot::default()).await.unwrap_err().to_api();
        assert_eq!(refused.code, ErrorCode::NotFound);
        engine.shutdown().await;
    });
}

#[test]
fn layers_stay_for_as_long_as_somebody_needs_them() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        engine.stop(id).await.unwrap();
        let taken = snapshot(&engine, id).await;
        let fork = engine.create(from(taken.id)).await.unwrap().id;
        assert_eq!(world.host.layers().len(), 1);
        // The snapshot is gone, but its files are below both.
        engine.delete_snapshot(taken.id).await.unwrap();
        engine.delete(id).await.unwrap();
        let second = snapshot(&engine, fork).await;
        assert_eq!(world.host.layers().len(), 2);
        engine.delete(fork).await.unwrap();
        // And below the snapshot of the one that is made of it.
        let last = engine.create(from(second.id)).await.unwrap().id;
        assert_eq!(world.host.layers().len(), 2);
        engine.delete(last).await.unwrap();
        engine.delete_snapshot(second.id).await.unwrap();
        world.host.until(|host| host.layers().is_empty()).await;
        engine.shutdown().await;
    });
}

#[test]
fn a_snapshot_goes_when_its_time_is_over_and_what_was_made_of_it_stays() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let request = CreateSnapshot { delete_after_ms: Some(60_000), ..CreateSnapshot::default() };
        let taken = engine.snapshot(id, request).await.unwrap();
        let fork = engine.create(from(taken.id)).await.unwrap().id;
        // Whoever waits for the time has begun to when the clock has one more that waits.
        engine.delete(id).await.unwrap();
        world.clock.advance(Duration::from_secs(61));
        while !list(&engine).is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(state(&engine, fork), State::Running);
        assert_eq!(world.host.layers().len(), 1);
        engine.shutdown().await;
    });
}

#[test]
fn the_last_ones_of_a_series_are_kept_and_all_others_stay() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let of = |label: &str, keep_last: Option<u64>| CreateSnapshot {
            labels: [("every".to_owned(), label.to_owned())].into(),
            keep_last,
            ..CreateSnapshot::default()
        };
        let id = engine.create(named("web")).await.unwrap().id;
        let other = engine.create(named("other")).await.unwrap().id;
        let mut stay = Vec::new();
        for (of_which, request) in
            [(id, CreateSnapshot::default()), (id, of("day", None)), (other, of("hour", None))]
        {
            stay.push(engine.snapshot(of_which, request).await.unwrap().id);
        }
        let mut taken = Vec::new();
        for _ in 0..5 {
            world.clock.advance(Duration::from_secs(3600));
            taken.push(engine.snapshot(id, of("hour", Some(2))).await.unwrap().id);
        }
        let mut expected = [stay.clone(), taken[3..].to_vec()].concat();
        let mut found = list(&engine);
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        // What was made of one stays, and one that fails to be taken deletes nothing.
        let fork = engine.create(from(taken[3])).await.unwrap().id;
        world.host.fail(Call::Snapshot, Moment::Before);
        engine.snapshot(id, of("hour", Some(1))).await.unwrap_err();
        world.host.heal();
        assert_eq!(list(&engine).len(), 5);
        let last = engine.snapshot(id, of("hour", Some(1))).await.unwrap().id;
        assert_eq!(list(&engine).len(), 4);
        assert!(list(&engine).contains(&last));
        assert_eq!(state(&engine, fork), State::Running);
        let refused = engine.snapshot(id, of("hour", Some(0))).await.unwrap_err().to_api();
        assert_eq!(refused.details.field.as_deref(), Some("keep_last"));
        engine.shutdown().await;
    });
}

#[test]
fn the_way_back_ends_and_starts_what_ran() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        let taken = snapshot(&engine, id).await;
        let back = engine.restore(id, taken.id).await.unwrap();
        assert_eq!((back.state, back.snapshot_id), (State::Running, Some(taken.id)));
        assert_eq!(world.host.count(Call::Start), 2);
        engine.stop(id).await.unwrap();
        assert_eq!(engine.restore(id, taken.id).await.unwrap().state, State::Stopped);
        // One that fails leaves everything.
        world.host.fail(Call::Restore, Moment::Before);
        let failed = engine.restore(id, taken.id).await.unwrap_err().to_api();
        assert_eq!(failed.took_effect, TookEffect::No);
        world.host.heal();
        engine.resume(id).await.unwrap();
        let told: Vec<EventKind> =
            engine.events(0, 100).await.unwrap().into_iter().map(|event| event.what).collect();
        let restored = EventKind::Restored { snapshot_id: taken.id };
        assert_eq!(told.iter().filter(|what| **what == restored).count(), 2, "{told:?}");
        assert!(told.contains(&EventKind::Snapshotted { snapshot_id: taken.id }), "{told:?}");
        engine.shutdown().await;
    });
}

/// Whatever the server dies at, the next one has the snapshot or has nothing of it.
#[test]
fn a_death_leaves_a_snapshot_or_nothing_and_the_sandbox_goes_on() {
    for is_stopped in [false, true] {
        for call in [Call::Freeze, Call::Snapshot, Call::Thaw] {
            for moment in [Moment::Before, Moment::After] {
                if is_stopped && call != Call::Snapshot {
                    continue;
                }
                dies(is_stopped, call, moment);
            }
        }
    }
}

fn dies(is_stopped: bool, call: Call, moment: Moment) {
    let world = World::new();
    let mut gate = None;
    let id = live(async {
        let engine = world.start().await;
        let id = engine.create(named("web")).await.unwrap().id;
        if is_stopped {
            engine.stop(id).await.unwrap();
        }
        let held = gate.insert(world.host.hold(call, moment));
        tokio::select! {
            taken = engine.snapshot(id, CreateSnapshot::default()) => panic!("{taken:?}"),
            () = held.reached(1) => {}
        }
        id
    });
    gate.unwrap().caller_is_gone();
    world.host.heal();
    let was_made = world.host.layers().len();
    live(async {
        let engine = world.start().await;
        let expected = if is_stopped { State::Stopped } else { State::Running };
        assert_eq!(state(&engine, id), expected, "{call:?} {moment:?}");
        let found = list(&engine);
        assert_eq!(found.len(), was_made, "{call:?} {moment:?}");
        for snapshot in found {
            engine.create(from(snapshot)).await.unwrap();
            engine.delete_snapshot(snapshot).await.unwrap();
        }
        snapshot(&engine, id).await;
        engine.shutdown().await;
    });
}
