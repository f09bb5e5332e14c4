//! Sandboxes that are archived, and come back.

use super::{Fault, Faulty, all_files, archives, key, names, on};
use crate::support::{World, live_long, named, state, told};
use atoll_api::archive::{ArchiveKind, RestoredArchive};
use atoll_api::error::{ErrorCode, TookEffect};
use atoll_api::id::SandboxId;
use atoll_api::sandbox::{CreateSandbox, EventKind, Lifecycle, State};
use atoll_engine::Engine;
use atoll_engine::archives::Archives;
use atoll_engine::backend::fake::{Call, Moment};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

/// One that is stopped, with these files.
async fn stopped(world: &World, engine: &Engine) -> SandboxId {
    let labels = [("a".to_owned(), "b".to_owned())].into();
    let id = engine.create(CreateSandbox { labels, ..named("web") }).await.unwrap().id;
    for (path, bytes) in all_files() {
        world.host.write(id, &path, bytes);
    }
    engine.stop(id).await.unwrap();
    id
}

fn files(world: &World, id: SandboxId) -> Vec<(String, Option<u64>)> {
    world.host.files(id).into_iter().collect()
}

/// Waits until the store lists as many archives as that.
async fn listed(engine: &Engine, count: usize) {
    while archives(engine).await.len() != count {
        tokio::task::yield_now().await;
    }
}

/// Nothing is here of it but what is written down, once garbage was collected.
async fn is_away(world: &World, engine: &Engine, id: SandboxId) {
    assert_eq!(state(engine, id), State::Archived);
    world.host.until(|host| !host.ids().contains(&id) && host.layers().is_empty()).await;
}

#[test]
fn a_sandbox_goes_into_the_store_and_comes_back_with_all_that_it_had() {
    for encrypted in [false, true] {
        let (store, world) = (memory(), World::new());
        live_long(async {
            let key = encrypted.then(|| key(&world.own(), 'a'));
            let engine = world.start_with_archives(on(&world, &store, key)).await;
            let id = stopped(&world, &engine).await;
            let archived = engine.archive_sandbox(id, false).await.unwrap();
            assert_eq!(archived.archive.kind, ArchiveKind::Sandbox);
            assert_eq!((archived.archive.sandbox_id, archived.sent_layers), (id, 1));
            assert_eq!(archived.archive.is_encrypted, encrypted);
            is_away(&world, &engine, id).await;
            let shown = engine.find(&"web".parse().unwrap()).unwrap();
            assert_eq!(shown.archive_id, Some(archived.archive.id));
            assert_eq!(shown.labels["a"], "b");
            // Once more is no mistake.
            let again = engine.archive_sandbox(id, true).await.unwrap();
            assert_eq!((again.archive, again.sent_layers), (archived.archive.clone(), 0));
            // It is this sandbox's.
            let refused = engine.delete_archive(archived.archive.id).await.unwrap_err().to_api();
            assert_eq!((refused.code, refused.details.sandbox_id), (ErrorCode::Conflict, Some(id)));
            let back = engine.resume(id).await.unwrap();
            assert_eq!((back.state, back.archive_id), (State::Running, None));
            assert_eq!(files(&world, id), all_files());
            // What it came from goes when its files are on the disk for sure.
            assert_eq!(archives(&engine).await.len(), 1);
            world.clock.advance(Duration::from_secs(120));
            listed(&engine, 0).await;
            // And again, with what it has written since.
            world.host.write(id, "/d", Some(5));
            let refused = engine.archive_sandbox(id, false).await.unwrap_err().to_api();
            assert_eq!(
                (refused.code, refused.took_effect),
                (ErrorCode::WrongState, TookEffect::No)
            );
            assert_eq!(state(&engine, id), State::Running);
            let archived = engine.archive_sandbox(id, true).await.unwrap();
            assert_eq!(
                (archived.archive.layers, archived.sent_layers),
                (2, 1),
                "the rest is there"
            );
            engine.resume(id).await.unwrap();
            assert_eq!(files(&world, id).len(), 4);
            engine.shutdown().await;
        });
    }
}

#[test]
fn a_store_that_fails_leaves_it_stopped_with_its_files_and_nothing_listed() {
    for fault in [Fault::Before, Fault::After, Fault::Flip, Fault::Cut] {
        for number in 0.. {
            let faulty = Arc::new(Faulty::new());
            let (store, world): (Arc<dyn ObjectStore>, _) = (faulty.clone(), World::new());
            let was_hit = live_long(async {
                let engine = world.start_with_archives(on(&world, &store, None)).await;
                let id = stopped(&world, &engine).await;
                faulty.arm(fault, number);
                let outcome = engine.archive_sandbox(id, false).await;
                let was_hit = faulty.disarm();
                match outcome {
                    Ok(_) => is_away(&world, &engine, id).await,
                    Err(error) => {
                        let answer = error.to_api();
                        assert_eq!(answer.took_effect, TookEffect::No, "{answer:?}");
                        assert_eq!(state(&engine, id), State::Stopped, "{fault:?} {number}");
                        assert_eq!(files(&world, id), all_files());
                        listed(&engine, 0).await;
                        let layers = world.host.layers().len();
                        engine.archive_sandbox(id, false).await.unwrap();
                        // A layer that was made is not made again.
                        assert!(layers <= 1, "{fault:?} {number}");
                    }
                }
                engine.resume(id).await.unwrap();
                assert_eq!(files(&world, id), all_files(), "{fault:?} {number}");
                engine.shutdown().await;
                was_hit
            });
            if !was_hit {
                assert!(number > 5, "{number} operations");
                break;
            }
        }
    }
}

#[test]
fn what_is_damaged_in_the_store_does_not_come_back_and_stays_archived() {
    for fault in [Fault::Before, Fault::Flip, Fault::Cut, Fault::Lengthen] {
        let faulty = Arc::new(Faulty::new());
        let (store, world): (Arc<dyn ObjectStore>, _) = (faulty.clone(), World::new());
        live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            let id = stopped(&world, &engine).await;
            engine.archive_sandbox(id, false).await.unwrap();
            // The manifest, and the layer.
            for number in 0..2 {
                faulty.arm(fault, number);
                let error = engine.resume(id).await.unwrap_err().to_api();
                assert!(faulty.disarm());
                let reason = error.details.reason.as_deref();
                let wanted =
                    if fault == Fault::Before { "archive-store" } else { "archive-damaged" };
                assert_eq!(reason, Some(wanted), "{fault:?} {number}: {error:?}");
                assert_eq!(error.took_effect, TookEffect::No);
                is_away(&world, &engine, id).await;
            }
            engine.resume(id).await.unwrap();
            assert_eq!(files(&world, id), all_files());
            engine.shutdown().await;
        });
    }
}

#[test]
fn a_host_that_fails_loses_nothing_on_either_way() {
    let calls = [Call::Snapshot, Call::Show, Call::Remove, Call::Stage, Call::Place, Call::Create];
    for call in calls.into_iter().chain([Call::Start, Call::Kill]) {
        for moment in Moment::ALL {
            let (store, world) = (memory(), World::new());
            live_long(async {
                let engine = world.start_with_archives(on(&world, &store, None)).await;
                let id = stopped(&world, &engine).await;
                world.host.fill_disk(call, moment);
                let away = engine.archive_sandbox(id, false).await;
                let state_then = state(&engine, id);
                let expect = if away.is_ok() { State::Archived } else { State::Stopped };
                assert_eq!(state_then, expect, "{call:?} {moment:?}");
                if away.is_err() {
                    assert_eq!(files(&world, id), all_files(), "{call:?} {moment:?}");
                    world.host.heal();
                    listed(&engine, 0).await;
                    engine.archive_sandbox(id, false).await.unwrap();
                    world.host.fill_disk(call, moment);
                }
                let back = engine.resume(id).await;
                world.host.heal();
                let state_then = state(&engine, id);
                match &back {
                    Ok(_) => assert_eq!(state_then, State::Running),
                    Err(error) => {
                        let after = [State::Archived, State::Stopped];
                        assert!(after.contains(&state_then), "{call:?} {moment:?}: {error:?}");
                        engine.resume(id).await.unwrap();
                    }
                }
                assert_eq!(files(&world, id), all_files(), "{call:?} {moment:?}");
                engine.shutdown().await;
            });
        }
    }
}

/// Where a server dies, and what is found.
#[test]
fn a_server_that_dies_on_the_way_there_leaves_it_whole_on_one_side() {
    for (call, moment) in [
        (Call::Snapshot, Moment::Before),
        (Call::Snapshot, Moment::After),
        (Call::Show, Moment::Before),
        (Call::Show, Moment::After),
        (Call::Remove, Moment::Before),
        (Call::Remove, Moment::Midway),
        (Call::Remove, Moment::After),
    ] {
        let (store, world) = (memory(), World::new());
        let gate = world.host.hold(call, moment);
        let id = live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            let id = stopped(&world, &engine).await;
            tokio::select! {
                done = engine.archive_sandbox(id, false) => panic!("{done:?}"),
                () = gate.reached(1) => {}
            }
            id
        });
        gate.caller_is_gone();
        world.host.heal();
        live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            if call == Call::Remove {
                is_away(&world, &engine, id).await;
                listed(&engine, 1).await;
            } else {
                assert_eq!(state(&engine, id), State::Stopped, "{call:?} {moment:?}");
                assert_eq!(files(&world, id), all_files());
                listed(&engine, 0).await;
                engine.archive_sandbox(id, false).await.unwrap();
            }
            engine.resume(id).await.unwrap();
            assert_eq!(files(&world, id), all_files(), "{call:?} {moment:?}");
            engine.shutdown().await;
        });
    }
}

#[test]
fn a_server_that_dies_on_the_way_back_leaves_it_whole_on_one_side() {
    for (call, moment, is_here) in [
        (Call::Stage, Moment::Before, false),
        (Call::Stage, Moment::After, false),
        (Call::Place, Moment::Before, false),
        (Call::Place, Moment::After, false),
        (Call::Create, Moment::Before, false),
        (Call::Create, Moment::Midway, false),
        (Call::Create, Moment::After, true),
        (Call::Start, Moment::Before, true),
    ] {
        let (store, world) = (memory(), World::new());
        let (id, gate) = live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            let id = stopped(&world, &engine).await;
            engine.archive_sandbox(id, false).await.unwrap();
            is_away(&world, &engine, id).await;
            let gate = world.host.hold(call, moment);
            tokio::select! {
                done = engine.resume(id) => panic!("{done:?}"),
                () = gate.reached(1) => {}
            }
            (id, gate)
        });
        gate.caller_is_gone();
        world.host.heal();
        live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            if is_here {
                assert_eq!(state(&engine, id), State::Stopped, "{call:?} {moment:?}");
                listed(&engine, 0).await;
            } else {
                is_away(&world, &engine, id).await;
                listed(&engine, 1).await;
            }
            engine.resume(id).await.unwrap();
            assert_eq!(files(&world, id), all_files(), "{call:?} {moment:?}");
            engine.shutdown().await;
        });
    }
}

#[test]
fn deleting_one_deletes_its_archive_unless_that_is_to_stay() {
    let (store, world) = (memory(), World::new());
    live_long(async {
        let engine = world.start_with_archives(on(&world, &store, None)).await;
        let id = stopped(&world, &engine).await;
        engine.archive_sandbox(id, false).await.unwrap();
        engine.delete(id).await.unwrap();
        listed(&engine, 0).await;
        let id = stopped(&world, &engine).await;
        let archive = engine.archive_sandbox(id, false).await.unwrap().archive.id;
        engine.delete_but_archive(id).await.unwrap();
        world.settled(&engine).await;
        assert_eq!(archives(&engine).await, [archive]);
        // Its name is free, and its files come back under another id.
        let restored = engine.restore_archive(archive).await.unwrap();
        let RestoredArchive::Sandbox(first) = restored else { panic!("{restored:?}") };
        assert_eq!((first.name.unwrap().as_str(), first.labels["a"].as_str()), ("web", "b"));
        assert_ne!(first.id, id);
        assert_eq!(files(&world, first.id), all_files());
        // Once more: the name is taken now.
        let restored = engine.restore_archive(archive).await.unwrap();
        let RestoredArchive::Sandbox(second) = restored else { panic!("{restored:?}") };
        assert_eq!((second.name, second.state), (None, State::Running));
        assert_eq!(files(&world, second.id), all_files());
        assert_eq!(super::snapshots(&engine), [], "nothing else came of it");
        engine.delete_archive(archive).await.unwrap();
        engine.shutdown().await;
    });
}

#[test]
fn another_server_makes_a_sandbox_of_the_archive() {
    let (store, here, there) = (memory(), World::new(), World::new());
    let archive = live_long(async {
        let engine = here.start_with_archives(on(&here, &store, None)).await;
        let id = stopped(&here, &engine).await;
        let archive = engine.archive_sandbox(id, false).await.unwrap().archive.id;
        engine.shutdown().await;
        archive
    });
    live_long(async {
        let engine = there.start_with_archives(on(&there, &store, None)).await;
        let restored = engine.restore_archive(archive).await.unwrap();
        let RestoredArchive::Sandbox(made) = restored else { panic!("{restored:?}") };
        assert_eq!(files(&there, made.id), all_files());
        assert_eq!(archives(&engine).await, [archive]);
        engine.shutdown().await;
    });
    // Nor did the first one lose anything.
    live_long(async {
        let engine = here.start_with_archives(on(&here, &store, None)).await;
        let id = engine.find(&"web".parse().unwrap()).unwrap().id;
        engine.resume(id).await.unwrap();
        assert_eq!(files(&here, id), all_files());
        engine.shutdown().await;
    });
}

#[test]
fn without_a_place_nothing_is_lost_and_all_is_said() {
    let (store, world) = (memory(), World::new());
    let id = live_long(async {
        let engine = world.start_with_archives(on(&world, &store, None)).await;
        let id = stopped(&world, &engine).await;
        engine.archive_sandbox(id, false).await.unwrap();
        engine.shutdown().await;
        id
    });
    live_long(async {
        let engine = world.start().await;
        for error in [engine.resume(id).await.unwrap_err(), engine.delete(id).await.unwrap_err()] {
            let answer = error.to_api();
            assert!(answer.next_step.contains("--archive"), "{answer:?}");
            assert_eq!(answer.details.state, Some(State::Archived));
        }
        engine.delete_but_archive(id).await.unwrap();
        let asked = Lifecycle { archive_after_ms: Some(1), ..Lifecycle::default() };
        let request = CreateSandbox { lifecycle: asked, ..named("other") };
        let refused = engine.create(request).await.unwrap_err().to_api();
        assert_eq!(refused.details.field.as_deref(), Some("lifecycle.archive_after_ms"));
        assert!(refused.message.contains("--archive"), "{refused:?}");
        let other = engine.create(named("other")).await.unwrap().id;
        let refused = engine.set_lifecycle(other, asked).await.unwrap_err().to_api();
        assert_eq!(refused.details.field.as_deref(), Some("lifecycle.archive_after_ms"));
        engine.shutdown().await;
    });
}

#[test]
fn one_that_is_stopped_for_long_is_archived_and_deleted_later() {
    let (store, world) = (memory(), World::new());
    live_long(async {
        let engine = world.start_with_archives(on(&world, &store, None)).await;
        let id = stopped(&world, &engine).await;
        let mut events = engine.subscribe();
        let lifecycle = Lifecycle {
            archive_after_ms: Some(60_000),
            delete_after_ms: Some(90_000),
            ..Lifecycle::default()
        };
        engine.set_lifecycle(id, lifecycle).await.unwrap();
        world.clock.advance(Duration::from_secs(59));
        assert_eq!(engine.get(id).unwrap().state, State::Stopped);
        world.clock.advance(Duration::from_secs(1));
        let is_begun = |what: &EventKind| matches!(what, EventKind::Archiving { .. });
        let begun = told(&mut events, id, is_begun).await;
        assert!(
            matches!(&begun, EventKind::Archiving { reason, .. } if reason == "archive_after_ms")
        );
        told(&mut events, id, |what| matches!(what, EventKind::Archived { .. })).await;
        is_away(&world, &engine, id).await;
        // Both are counted from the stop.
        world.clock.advance(Duration::from_secs(30));
        let gone = told(&mut events, id, |what| matches!(what, EventKind::Deleted { .. })).await;
        assert_eq!(gone, EventKind::Deleted { reason: "delete_after_ms".to_owned() });
        listed(&engine, 0).await;
        engine.shutdown().await;
    });
}

#[test]
fn who_resumes_or_deletes_it_does_not_wait_until_it_is_archived() {
    for deletes in [false, true] {
        let (store, world) = (memory(), World::new());
        live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            let id = stopped(&world, &engine).await;
            let gate = world.host.hold(Call::Show, Moment::Before);
            let archive = engine.archive_sandbox(id, false);
            let meanwhile = async {
                gate.reached(1).await;
                let asked = async {
                    if deletes { engine.delete(id).await } else { engine.resume(id).await }
                };
                let open = async {
                    tokio::task::yield_now().await;
                    world.host.heal();
                    gate.open();
                };
                tokio::join!(asked, open).0
            };
            let (archived, asked) = tokio::join!(archive, meanwhile);
            let answer = archived.unwrap_err().to_api();
            assert_eq!(answer.code, ErrorCode::NotReady, "{answer:?}");
            asked.unwrap();
            listed(&engine, 0).await;
            if !deletes {
                assert_eq!(files(&world, id), all_files());
            }
            engine.shutdown().await;
        });
    }
}

#[test]
fn layers_of_what_was_archived_go_from_the_store_in_the_end() {
    let (store, world) = (memory(), World::new());
    live_long(async {
        let engine = world.start_with_archives(on(&world, &store, None)).await;
        let id = stopped(&world, &engine).await;
        engine.archive_sandbox(id, false).await.unwrap();
        engine.delete(id).await.unwrap();
        listed(&engine, 0).await;
        engine.shutdown().await;
        let none = Duration::ZERO;
        let sweeper = Archives::on_store(store.clone(), None, None, &world.own(), none).unwrap();
        for _ in 0..3 {
            sweeper.sweep().await.unwrap();
        }
        assert_eq!(names(&store, "layers").await, BTreeSet::new());
    });
}
