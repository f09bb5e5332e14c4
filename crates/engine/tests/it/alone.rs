//! What happens when nobody asks: leases, idleness and what holds off from it.

use crate::support::{World, live, named, state, told, with_lifecycle};
use atoll_api::error::ErrorCode;
use atoll_api::id::ExecId;
use atoll_api::sandbox::{CreateSandbox, EventKind, HoldCause, Lifecycle, Limits, State};
use atoll_engine::error::OperationError;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Idle for 40 seconds: the use of the processor is looked at every ten.
const IDLE: Lifecycle = Lifecycle {
    lease_ms: None,
    idle_stop_ms: Some(40_000),
    archive_after_ms: None,
    delete_after_ms: None,
    max_lifetime_ms: None,
};

fn exec() -> HoldCause {
    HoldCause::Exec { exec_id: ExecId::from_random([7; 10]) }
}

fn is_stop(what: &EventKind) -> bool {
    matches!(what, EventKind::Stopping { .. })
}

/// Lets the time pass that is looked at four times.
async fn pass_40_s(world: &World) {
    for _ in 0..4 {
        world.clock.awaited(10 * SECOND).await;
        world.clock.advance(10 * SECOND);
    }
}

#[test]
fn one_that_does_not_work_is_stopped() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(with_lifecycle(IDLE)).await.unwrap().id;
        let mut events = engine.subscribe();
        pass_40_s(&world).await;
        let stopping = told(&mut events, id, is_stop).await;
        assert_eq!(stopping, EventKind::Stopping { reason: "idle_stop_ms".to_owned() });
        told(&mut events, id, |what| matches!(what, EventKind::Stopped { .. })).await;
        assert_eq!(state(&engine, id), State::Stopped);
        let cause = engine.get(id).unwrap().cause;
        assert_eq!(cause.unwrap(), "nothing worked in it for as long as idle_stop_ms says");
    });
}

#[test]
fn requests_alone_are_no_work_but_a_running_command_is() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(with_lifecycle(IDLE)).await.unwrap().id;
        let hold = engine.hold(id, exec(), 900 * SECOND).await.unwrap();
        assert_eq!(engine.get(id).unwrap().holds[0].cause, exec());
        for _ in 0..22 {
            pass_40_s(&world).await;
        }
        assert_eq!(state(&engine, id), State::Running);
        engine.release(id, hold).await.unwrap();
        let mut events = engine.subscribe();
        for _ in 0..4 {
            // Somebody looks all the time, which is no work.
            assert_eq!(state(&engine, id), State::Running);
            world.clock.awaited(10 * SECOND).await;
            world.clock.advance(10 * SECOND);
        }
        told(&mut events, id, is_stop).await;
    });
}

#[test]
fn a_command_that_hangs_is_listed_and_stops_to_count() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(with_lifecycle(IDLE)).await.unwrap().id;
        engine.hold(id, exec(), 80 * SECOND).await.unwrap();
        pass_40_s(&world).await;
        let holds = engine.get(id).unwrap().holds;
        assert_eq!((holds.len(), &holds[0].cause), (1, &exec()));
        pass_40_s(&world).await;
        assert_eq!(engine.get(id).unwrap().holds, []);
        let mut events = engine.subscribe();
        pass_40_s(&world).await;
        told(&mut events, id, is_stop).await;
    });
}

#[test]
fn the_use_of_the_processor_is_work() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(with_lifecycle(IDLE)).await.unwrap().id;
        for _ in 0..20 {
            world.clock.awaited(10 * SECOND).await;
            world.host.use_cpu(id, SECOND);
            world.clock.advance(10 * SECOND);
        }
        world.clock.awaited(10 * SECOND).await;
        let sandbox = engine.get(id).unwrap();
        assert_eq!((sandbox.state, &sandbox.holds[0].cause), (State::Running, &HoldCause::Cpu));
        let mut events = engine.subscribe();
        pass_40_s(&world).await;
        told(&mut events, id, is_stop).await;
    });
}

#[test]
fn work_since_the_last_look_is_seen_before_it_is_too_late() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(with_lifecycle(IDLE)).await.unwrap().id;
        world.clock.awaited(10 * SECOND).await;
        world.clock.advance(10 * SECOND);
        world.clock.awaited(10 * SECOND).await;
        world.host.use_cpu(id, SECOND);
        world.clock.advance(9 * SECOND);
        // By what was seen until now it has been idle for longer than that.
        let shorter = Lifecycle { idle_stop_ms: Some(12_000), ..IDLE };
        engine.set_lifecycle(id, shorter).await.unwrap();
        world.clock.awaited(3 * SECOND).await;
        assert_eq!(state(&engine, id), State::Running);
    });
}

#[test]
fn a_lease_ends_unless_it_is_renewed() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let lease = Lifecycle { lease_ms: Some(60_000), ..Lifecycle::default() };
        let request = CreateSandbox { lifecycle: lease, ..named("web") };
        let sandbox = engine.create(request).await.unwrap();
        let id = sandbox.id;
        assert_eq!(sandbox.lease_ends_at, Some(sandbox.created_at.after(60 * SECOND)));
        world.clock.awaited(60 * SECOND).await;
        world.clock.advance(59 * SECOND);
        let renewed = engine.set_lifecycle(id, lease).await.unwrap();
        assert_eq!(renewed.lease_ends_at, Some(sandbox.created_at.after(119 * SECOND)));
        world.clock.awaited(60 * SECOND).await;
        world.clock.advance(59 * SECOND);
        assert_eq!(state(&engine, id), State::Running);

        let mut events = engine.subscribe();
        world.clock.advance(SECOND);
        let deleted = told(&mut events, id, |what| matches!(what, EventKind::Deleted { .. })).await;
        assert_eq!(deleted, EventKind::Deleted { reason: "lease_ms".to_owned() });
        told(&mut events, id, |what| *what == EventKind::Removed).await;
        world.nothing_is_left_behind(&engine);
        assert_eq!(engine.find(&"web".parse().unwrap()), None);
    });
}

#[test]
fn a_stopped_one_is_deleted_in_its_time_and_the_idle_time_can_be_set_late() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        let mut events = engine.subscribe();
        let late = Lifecycle { delete_after_ms: Some(90_000), ..IDLE };
        engine.set_lifecycle(id, late).await.unwrap();
        pass_40_s(&world).await;
        told(&mut events, id, |what| matches!(what, EventKind::Stopped { .. })).await;
        world.clock.awaited(90 * SECOND).await;
        world.clock.advance(90 * SECOND);
        told(&mut events, id, |what| *what == EventKind::Removed).await;
    });
}

#[test]
fn one_that_cannot_be_stopped_has_failed_and_is_deleted_in_its_time() {
    let world = World::new();
    live(async {
        use atoll_engine::backend::fake::{Call, Moment};
        let engine = world.start().await;
        let request = with_lifecycle(Lifecycle { delete_after_ms: Some(90_000), ..IDLE });
        let id = engine.create(request).await.unwrap().id;
        world.host.fail(Call::Kill, Moment::Before);
        let mut events = engine.subscribe();
        pass_40_s(&world).await;
        told(&mut events, id, |what| matches!(what, EventKind::Failed { .. })).await;
        assert_eq!(state(&engine, id), State::Failed);
        world.clock.awaited(90 * SECOND).await;
        world.clock.advance(90 * SECOND);
        told(&mut events, id, |what| matches!(what, EventKind::NotRemoved { .. })).await;
        world.host.heal();
        world.clock.awaited(30 * SECOND).await;
        world.clock.advance(30 * SECOND);
        told(&mut events, id, |what| *what == EventKind::Removed).await;
        world.nothing_is_left_behind(&engine);
    });
}

#[test]
fn what_is_above_a_cap_is_refused_with_the_cap_named() {
    let mut world = World::new();
    world.config.caps.lifecycle.lease_ms = Some(3_600_000);
    world.config.caps.lifecycle.idle_stop_ms = Some(60_000);
    world.config.caps.limits.memory_bytes = Some(1 << 30);
    world.config.hold_max = 60 * SECOND;
    live(async {
        let engine = world.start().await;
        let too_long = Lifecycle { lease_ms: Some(3_600_001), ..Lifecycle::default() };
        let answer = engine.create(with_lifecycle(too_long)).await.unwrap_err().to_api();
        assert_eq!(answer.code, ErrorCode::RefusedByPolicy);
        assert_eq!(answer.details.field.as_deref(), Some("lifecycle.lease_ms"));
        assert_eq!(answer.details.limit.as_deref(), Some("lease_ms_max"));
        assert_eq!(answer.details.limit_value, Some(3_600_000));
        let limits = Limits { memory_bytes: Some(1 << 31), ..Limits::default() };
        let answer = engine.create(CreateSandbox { limits, ..named("a") }).await.unwrap_err();
        assert_eq!(answer.to_api().details.limit.as_deref(), Some("memory_bytes_max"));

        let id = engine.create(CreateSandbox::default()).await.unwrap().id;
        let refused = engine.set_lifecycle(id, too_long).await.unwrap_err();
        assert!(matches!(refused, OperationError::Cap(_)), "{refused:?}");
        // One that is set late is neither lowered to its cap, nor changes anything.
        let before = engine.get(id).unwrap().lifecycle;
        let idle = |ms| Lifecycle { idle_stop_ms: Some(ms), ..Lifecycle::default() };
        let refused = engine.set_lifecycle(id, idle(60_001)).await.unwrap_err().to_api();
        assert_eq!(refused.details.limit.as_deref(), Some("idle_stop_ms_max"));
        assert_eq!(engine.get(id).unwrap().lifecycle, before);
        let set = engine.set_lifecycle(id, idle(60_000)).await.unwrap().lifecycle;
        assert_eq!(set.idle_stop_ms, Some(60_000));
        let refused = engine.hold(id, exec(), 61 * SECOND).await.unwrap_err().to_api();
        assert_eq!(
            refused.message,
            format!(
                "could not hold sandbox {id} awake: a hold of 61s is longer than the cap hold_max of 60s"
            )
        );
    });
}
