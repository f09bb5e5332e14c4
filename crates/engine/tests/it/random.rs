//! Random lives of servers and sandboxes on a host where anything may fail.
//!
//! Whatever happens, a sandbox that is at rest is what the host says it is, a name has
//! one holder, and in the end everything can be deleted and nothing is left.

use crate::support::{World, all, live, named, told};
use atoll_api::sandbox::{EventKind, Sandbox, State};
use atoll_engine::Engine;
use atoll_engine::backend::Processes;
use atoll_engine::backend::fake::{Call, Moment};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// Longest that anything waits before it is tried again.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Something that happens to one of three names.
#[derive(Debug, Clone, Copy)]
enum Act {
    Create,
    GetOrCreate,
    Pause,
    Resume,
    Stop,
    Kill,
    Delete,
    EndsByItself,
    Fail(Call, Moment),
    Heal,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Shutdown,
    Death,
}

type Life = (Vec<(Act, u8)>, End);

fn acts() -> impl Strategy<Value = Act> {
    let call = prop::sample::select(&Call::ALL[..]);
    let moment = prop::sample::select(&Moment::ALL[..]);
    prop_oneof![
        3 => Just(Act::Create),
        3 => Just(Act::GetOrCreate),
        2 => Just(Act::Pause),
        2 => Just(Act::Resume),
        2 => Just(Act::Stop),
        1 => Just(Act::Kill),
        2 => Just(Act::Delete),
        1 => Just(Act::EndsByItself),
        2 => (call, moment).prop_map(|(call, moment)| Act::Fail(call, moment)),
        2 => Just(Act::Heal),
    ]
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let end = prop_oneof![Just(End::Shutdown), Just(End::Death)];
    prop::collection::vec((prop::collection::vec((acts(), 0..3u8), 0..20), end), 1..4)
}

async fn happen(world: &World, engine: &Engine, act: Act, name: u8) {
    let request = named(&format!("box-{name}"));
    let holder = engine.find(request.name.as_ref().unwrap());
    // Every answer is fine as long as what is true afterwards is.
    match (act, holder) {
        (Act::Create, _) => drop(engine.create(request).await),
        (Act::GetOrCreate, _) => drop(engine.get_or_create(request).await),
        (Act::Fail(call, moment), _) => world.host.fail(call, moment),
        (Act::Heal, _) => world.host.heal(),
        (_, None) => {}
        (Act::Pause, Some(sandbox)) => drop(engine.pause(sandbox.id).await),
        (Act::Resume, Some(sandbox)) => drop(engine.resume(sandbox.id).await),
        (Act::Stop, Some(sandbox)) => drop(engine.stop(sandbox.id).await),
        (Act::Kill, Some(sandbox)) => drop(engine.kill(sandbox.id).await),
        (Act::Delete, Some(sandbox)) => drop(engine.delete(sandbox.id).await),
        (Act::EndsByItself, Some(sandbox)) => end(world, engine, &sandbox).await,
    }
}

/// Ends the first process of a sandbox, and waits until the engine knows.
async fn end(world: &World, engine: &Engine, sandbox: &Sandbox) {
    if matches!(sandbox.state, State::Running | State::Paused) {
        let mut events = engine.subscribe();
        world.host.end(sandbox.id);
        told(&mut events, sandbox.id, |what| {
            matches!(what, EventKind::Stopped { .. } | EventKind::Failed { .. })
        })
        .await;
    }
}

fn holds_true(world: &World, engine: &Engine) {
    let listed = all(engine);
    let names: BTreeSet<_> = listed.iter().filter_map(|one| one.name.clone()).collect();
    assert_eq!(names.len(), listed.len(), "a name has two holders: {listed:?}");
    for sandbox in listed {
        let expect = match sandbox.state {
            State::Running => Processes::Running,
            State::Paused => Processes::Frozen,
            State::Stopped => Processes::None,
            // What broke may be in any condition.
            State::Failed => continue,
            under_way => panic!("{under_way} though nobody does anything: {sandbox:?}"),
        };
        assert_eq!(world.host.processes(sandbox.id), expect, "{sandbox:?}");
    }
}

/// Waits until stops that a start goes on with are over.
async fn is_at_rest(world: &World, engine: &Engine) {
    let is_stopping = || all(engine).iter().any(|one| one.state == State::Stopping);
    while is_stopping() {
        world.clock.advance(world.config.stop_grace);
        tokio::task::yield_now().await;
    }
}

fn check(lives: Vec<Life>) {
    let world = World::new();
    for (acts, end) in lives {
        live(async {
            let engine = world.start().await;
            is_at_rest(&world, &engine).await;
            holds_true(&world, &engine);
            for (act, name) in acts {
                happen(&world, &engine, act, name).await;
                holds_true(&world, &engine);
            }
            if let End::Shutdown = end {
                engine.shutdown().await;
            }
        });
    }
    world.host.heal();
    live(async {
        let engine = world.start().await;
        for sandbox in all(&engine) {
            engine.delete(sandbox.id).await.unwrap();
        }
        while !world.host.ids().is_empty() {
            world.clock.advance(PATIENCE);
            tokio::task::yield_now().await;
        }
        engine.shutdown().await;
    });
    live(async { assert_eq!(all(&world.start().await), []) });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_list_is_what_the_host_says(lives in lives()) {
        check(lives);
    }
}
