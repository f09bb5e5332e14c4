//! Long chains of layers on a machine in memory: made short in the background, whatever goes wrong.

use crate::support::{World, live, named};
use atoll_api::id::{SandboxId, SnapshotId};
use atoll_api::sandbox::CreateSandbox;
use atoll_api::snapshot::CreateSnapshot;
use atoll_engine::Engine;
use atoll_engine::backend::fake::{Call, Host, Moment};
use atoll_engine::snapshots::LAYERS_MAX;
use std::collections::BTreeMap;
use std::time::Duration;

type Files = BTreeMap<String, Option<u64>>;

async fn snapshot(engine: &Engine, id: SandboxId) -> SnapshotId {
    engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id
}

/// A sandbox above so many layers, and its files.
async fn deep(world: &World, engine: &Engine, count: u64) -> (SandboxId, Files) {
    let id = engine.create(named("web")).await.unwrap().id;
    engine.stop(id).await.unwrap();
    for number in 0..count {
        let host = &world.host;
        host.write(id, "/all", Some(number));
        host.write(id, &format!("/of-{number}"), Some(1));
        host.write(id, &format!("/of-{}", number / 2), None);
        snapshot(engine, id).await;
    }
    let files = world.host.files(id);
    (id, files)
}

fn is_short(host: &Host) -> bool {
    host.deepest() <= LAYERS_MAX
}

#[test]
fn depth_is_bounded_and_what_runs_keeps_what_it_has() {
    let world = World::new();
    live(async {
        let engine = world.start().await;
        let mut id = engine.create(named("web")).await.unwrap().id;
        let mut running = None;
        for number in 1..=30 {
            world.host.write(id, "/all", Some(number));
            world.host.write(id, &format!("/of-{number}"), Some(1));
            engine.stop(id).await.unwrap();
            let taken = snapshot(&engine, id).await;
            let files = world.host.files(id);
            let from = CreateSandbox { snapshot: Some(taken), ..CreateSandbox::default() };
            let next = engine.create(from).await.unwrap().id;
            assert_eq!(world.host.files(next), files, "{number}");
            if number == 11 {
                // Above eleven, which are made one while it runs.
                let from = CreateSandbox { snapshot: Some(taken), ..named("runs") };
                running = Some((engine.create(from).await.unwrap().id, files));
            }
            if number % 3 == 0 {
                engine.delete_snapshot(taken).await.unwrap();
            }
            engine.delete(id).await.unwrap();
            id = next;
        }
        world.host.until(is_short).await;
        assert_eq!(world.host.files(id).len(), 31);
        let (running, files) = running.unwrap();
        assert_eq!(world.host.files(running), files);
        engine.stop(running).await.unwrap();
        engine.resume(running).await.unwrap();
        assert_eq!(world.host.files(running), files);
        engine.shutdown().await;
    });
}

#[test]
fn a_failure_leaves_all_as_it_was_and_is_tried_again() {
    for moment in Moment::ALL {
        let world = World::new();
        live(async {
            let engine = world.start().await;
            world.host.fill_disk(Call::Flatten, moment);
            let (id, files) = deep(&world, &engine, 14).await;
            world.host.until(|host| host.count(Call::Flatten) == 1).await;
            assert_eq!(world.host.files(id), files, "{moment:?}");
            // Not at once, and later less often; what came before the last moment is done already.
            let mut wait = Duration::from_secs(30);
            for round in 2..5 {
                if moment == Moment::After {
                    break;
                }
                snapshot(&engine, id).await;
                assert_eq!(world.host.count(Call::Flatten), round - 1);
                world.clock.awaited(wait).await;
                world.clock.advance(wait);
                world.host.until(|host| host.count(Call::Flatten) == round).await;
                assert_eq!(world.host.files(id), files, "{moment:?}");
                wait *= 2;
            }
            world.host.heal();
            world.clock.awaited(wait).await;
            world.clock.advance(wait);
            world.host.until(is_short).await;
            assert_eq!(world.host.files(id), files, "{moment:?}");
            engine.shutdown().await;
        });
    }
}

#[test]
fn a_death_leaves_the_old_chain_or_the_new_one() {
    for moment in Moment::ALL {
        let world = World::new();
        let mut gate = None;
        let (id, files) = live(async {
            let engine = world.start().await;
            let held = gate.insert(world.host.hold(Call::Flatten, moment));
            let found = deep(&world, &engine, 14).await;
            held.reached(1).await;
            found
        });
        gate.unwrap().caller_is_gone();
        world.host.heal();
        assert_eq!(world.host.files(id), files, "{moment:?}");
        live(async {
            let engine = world.start().await;
            world.host.until(is_short).await;
            assert_eq!(world.host.files(id), files, "{moment:?}");
            for snapshot in engine.list_snapshots(&Default::default()).unwrap().snapshots {
                engine.delete_snapshot(snapshot.id).await.unwrap();
            }
            engine.delete(id).await.unwrap();
            world.host.until(|host| host.layers().is_empty()).await;
            engine.shutdown().await;
        });
    }
}
