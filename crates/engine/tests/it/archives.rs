//! Archives of a machine in memory: what goes into a store, what comes of it elsewhere, and what is
//! left when the store fails.

mod faulty;
mod sandboxes;

use crate::support::{World, live_long, named};
use atoll_api::archive::{Archived, ListArchives, RestoredArchive};
use atoll_api::error::{ErrorCode, TookEffect};
use atoll_api::id::{ArchiveId, SnapshotId};
use atoll_api::sandbox::CreateSandbox;
use atoll_api::snapshot::{CreateSnapshot, ListSnapshots, SnapshotWay};
use atoll_engine::Engine;
use atoll_engine::archives::{Access, Archives, Credentials, Place, Swept};
use atoll_engine::backend::fake::{Call, Moment};
use atoll_engine::images::Outside;
use atoll_store::archive::ArchiveKey;
use atoll_testkit::object_store::{BUCKET, ObjectServer};
use faulty::{Fault, Faulty};
use futures_util::StreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path as Location;
use object_store::{ObjectStore, ObjectStoreExt as _};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

fn on(world: &World, store: &Arc<dyn ObjectStore>, key: Option<ArchiveKey>) -> Archives {
    Archives::on_store(store.clone(), None, key, &world.own(), LONG).unwrap()
}

fn key(directory: &Path, digit: char) -> ArchiveKey {
    std::fs::create_dir_all(directory).unwrap();
    let path = directory.join(format!("key-{digit}"));
    std::fs::write(&path, format!("{}\n", digit.to_string().repeat(64))).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    ArchiveKey::read(&path).unwrap()
}

/// A snapshot with two layers below it, with these files in all.
async fn three_layers(world: &World, engine: &Engine) -> SnapshotId {
    let id = engine.create(named("web")).await.unwrap().id;
    engine.stop(id).await.unwrap();
    let mut last = None;
    for (path, bytes) in [("/a", 100), ("/b", 70_000), ("/c", 3)] {
        world.host.write(id, path, Some(bytes));
        last = Some(engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id);
    }
    last.unwrap()
}

fn snapshots(engine: &Engine) -> Vec<SnapshotId> {
    let page = engine.list_snapshots(&ListSnapshots::default()).unwrap();
    page.snapshots.iter().map(|snapshot| snapshot.id).collect()
}

async fn archives(engine: &Engine) -> Vec<ArchiveId> {
    let page = engine.list_archives(&ListArchives::default()).await.unwrap();
    assert!(page.unreadable.is_empty(), "{page:?}");
    page.archives.iter().map(|archive| archive.id).collect()
}

async fn restored(engine: &Engine, id: ArchiveId) -> SnapshotId {
    let restored = engine.restore_archive(id).await.unwrap();
    let RestoredArchive::Snapshot(snapshot) = restored else { panic!("{restored:?}") };
    assert_eq!(snapshot.way, SnapshotWay::Archive);
    snapshot.id
}

/// The files of a sandbox that is made of a snapshot.
async fn files(world: &World, engine: &Engine, snapshot: SnapshotId) -> Vec<(String, Option<u64>)> {
    let request = CreateSandbox { snapshot: Some(snapshot), ..CreateSandbox::default() };
    let id = engine.create(request).await.unwrap().id;
    world.host.files(id).into_iter().collect()
}

fn all_files() -> Vec<(String, Option<u64>)> {
    [("/a", 100), ("/b", 70_000), ("/c", 3)]
        .map(|(path, bytes)| (path.to_owned(), Some(bytes)))
        .into()
}

async fn names(store: &Arc<dyn ObjectStore>, above: &str) -> BTreeSet<String> {
    let found = store.list(Some(&Location::from(above)));
    found.map(|meta| meta.unwrap().location.to_string()).collect().await
}

#[test]
fn a_snapshot_comes_back_on_another_server_with_all_that_it_was() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (here, there) = (World::new(), World::new());
    let id = live_long(async {
        let engine = here.start_with_archives(on(&here, &store, None)).await;
        let snapshot = three_layers(&here, &engine).await;
        let Archived { archive, sent_layers, sent_bytes } =
            engine.archive_snapshot(snapshot).await.unwrap();
        assert_eq!((sent_layers, sent_bytes, archive.layers), (3, archive.bytes, 3));
        assert_eq!(archive.snapshot_id, Some(snapshot));
        // Once more: it is there.
        let again = engine.archive_snapshot(snapshot).await.unwrap();
        assert_eq!((again.sent_layers, again.archive.clone()), (0, archive.clone()));
        assert_eq!(engine.get_archive(archive.id).await.unwrap(), archive);
        engine.shutdown().await;
        archive.id
    });
    live_long(async {
        let engine = there.start_with_archives(on(&there, &store, None)).await;
        assert_eq!(archives(&engine).await, [id]);
        let (one, other) = (restored(&engine, id).await, restored(&engine, id).await);
        assert_eq!(snapshots(&engine).len(), 2);
        assert_eq!(files(&there, &engine, one).await, all_files());
        assert_eq!(files(&there, &engine, other).await, all_files());
        engine.delete_archive(id).await.unwrap();
        assert_eq!(archives(&engine).await, []);
        let gone = engine.delete_archive(id).await.unwrap_err().to_api();
        assert_eq!(gone.code, ErrorCode::NotFound);
        // What was restored stays.
        assert_eq!(files(&there, &engine, one).await, all_files());
        engine.shutdown().await;
    });
}

#[test]
fn only_what_is_missing_is_sent() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let world = World::new();
    live_long(async {
        let engine = world.start_with_archives(on(&world, &store, None)).await;
        let snapshot = three_layers(&world, &engine).await;
        engine.archive_snapshot(snapshot).await.unwrap();
        let sent = names(&store, "layers").await;
        let id = engine.find(&"web".parse().unwrap()).unwrap().id;
        world.host.write(id, "/d", Some(5));
        let next = engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id;
        let archived = engine.archive_snapshot(next).await.unwrap();
        assert_eq!((archived.sent_layers, archived.archive.layers), (1, 4));
        let now = names(&store, "layers").await;
        assert_eq!((now.len(), now.is_superset(&sent)), (4, true));
        engine.shutdown().await;
    });
}

#[test]
fn a_store_that_fails_leaves_the_snapshot_whole_and_nothing_half_listed() {
    for fault in [Fault::Before, Fault::After] {
        for number in 0.. {
            let faulty = Arc::new(Faulty::new());
            let store: Arc<dyn ObjectStore> = faulty.clone();
            let world = World::new();
            let was_hit = live_long(async {
                let engine = world.start_with_archives(on(&world, &store, None)).await;
                let snapshot = three_layers(&world, &engine).await;
                faulty.arm(fault, number);
                let outcome = engine.archive_snapshot(snapshot).await;
                let was_hit = faulty.disarm();
                if let Err(error) = &outcome {
                    let answer = error.to_api();
                    assert_eq!(answer.code, ErrorCode::Unreachable, "{answer:?}");
                    assert_eq!(answer.took_effect, TookEffect::No, "{answer:?}");
                }
                assert!(was_hit || outcome.is_ok(), "{outcome:?}");
                // Whatever is listed is whole.
                for id in archives(&engine).await {
                    let snapshot = restored(&engine, id).await;
                    assert_eq!(files(&world, &engine, snapshot).await, all_files());
                }
                let again = engine.archive_snapshot(snapshot).await.unwrap();
                assert_eq!(again.archive.layers, 3, "{fault:?} {number}");
                let spool = std::fs::read_dir(world.own().join("spool")).unwrap();
                assert_eq!(spool.count(), 0);
                engine.shutdown().await;
                was_hit
            });
            if !was_hit {
                assert!(number > 10, "{number} operations");
                break;
            }
        }
    }
}

#[test]
fn a_restore_of_what_is_damaged_leaves_nothing_and_can_be_tried_again() {
    for fault in [Fault::Before, Fault::Flip, Fault::Cut, Fault::Lengthen] {
        for encrypted in [false, true] {
            let faulty = Arc::new(Faulty::new());
            let store: Arc<dyn ObjectStore> = faulty.clone();
            let world = World::new();
            live_long(async {
                let key = encrypted.then(|| key(&world.own(), 'a'));
                let engine = world.start_with_archives(on(&world, &store, key)).await;
                let snapshot = three_layers(&world, &engine).await;
                let id = engine.archive_snapshot(snapshot).await.unwrap().archive.id;
                let layers = world.host.layers().len();
                // The manifest, and three layers.
                for number in 0..4 {
                    faulty.arm(fault, number);
                    let error = engine.restore_archive(id).await.unwrap_err().to_api();
                    assert!(faulty.disarm(), "{fault:?} {number}");
                    let reason = error.details.reason.as_deref();
                    let wanted =
                        if fault == Fault::Before { "archive-store" } else { "archive-damaged" };
                    assert_eq!(reason, Some(wanted), "{fault:?} {number}: {error:?}");
                    assert_eq!(error.took_effect, TookEffect::No);
                    assert_eq!(snapshots(&engine).len(), 3);
                    assert_eq!(world.host.layers().len(), layers);
                }
                let snapshot = restored(&engine, id).await;
                assert_eq!(files(&world, &engine, snapshot).await, all_files());
                engine.shutdown().await;
            });
        }
    }
}

#[test]
fn a_host_that_fails_leaves_nothing_listed_that_is_not_whole() {
    let calls = [
        (Call::Show, Moment::Before),
        (Call::Stage, Moment::Before),
        (Call::Stage, Moment::Midway),
        (Call::Place, Moment::Before),
        (Call::Place, Moment::Midway),
    ];
    for (call, moment) in calls {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let world = World::new();
        live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            let snapshot = three_layers(&world, &engine).await;
            let archived = match call {
                Call::Show => None,
                _ => Some(engine.archive_snapshot(snapshot).await.unwrap().archive.id),
            };
            world.host.fill_disk(call, moment);
            let failed = match archived {
                None => engine.archive_snapshot(snapshot).await.map(drop),
                Some(id) => engine.restore_archive(id).await.map(drop),
            };
            let answer = failed.unwrap_err().to_api();
            assert_eq!(answer.code, ErrorCode::Capacity, "{call:?} {moment:?}: {answer:?}");
            assert_eq!(snapshots(&engine).len(), 3, "{call:?} {moment:?}");
            world.host.heal();
            let id = engine.archive_snapshot(snapshot).await.unwrap().archive.id;
            let snapshot = restored(&engine, id).await;
            assert_eq!(files(&world, &engine, snapshot).await, all_files());
            engine.shutdown().await;
        });
    }
}

#[test]
fn a_server_that_dies_while_layers_are_placed_leaves_a_snapshot_or_none() {
    for (moment, is_there) in [(Moment::Midway, false), (Moment::After, true)] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let world = World::new();
        let gate = world.host.hold(Call::Place, moment);
        let before = live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            let snapshot = three_layers(&world, &engine).await;
            let id = engine.archive_snapshot(snapshot).await.unwrap().archive.id;
            tokio::select! {
                restored = engine.restore_archive(id) => panic!("{restored:?}"),
                () = gate.reached(1) => {}
            }
            snapshots(&engine)
        });
        gate.caller_is_gone();
        world.host.heal();
        live_long(async {
            let engine = world.start_with_archives(on(&world, &store, None)).await;
            let found = snapshots(&engine);
            assert_eq!(found.len(), if is_there { 4 } else { 3 }, "{moment:?}");
            for snapshot in found.iter().filter(|id| !before.contains(id)) {
                assert_eq!(files(&world, &engine, *snapshot).await, all_files());
            }
            engine.shutdown().await;
        });
    }
}

#[test]
fn keys_keep_archives_from_others_and_say_so() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let world = World::new();
    let other = World::new();
    let id = live_long(async {
        let mine = key(&world.own(), 'a');
        let engine = world.start_with_archives(on(&world, &store, Some(mine))).await;
        let snapshot = three_layers(&world, &engine).await;
        let archived = engine.archive_snapshot(snapshot).await.unwrap().archive;
        assert!(archived.is_encrypted);
        engine.shutdown().await;
        archived.id
    });
    for with in [None, Some(key(&other.own(), 'b'))] {
        live_long(async {
            let has_key = with.is_some();
            let engine = other.start_with_archives(on(&other, &store, with)).await;
            let refused = engine.restore_archive(id).await.unwrap_err().to_api();
            assert_eq!(refused.details.reason.as_deref(), Some("archive-key"), "{has_key}");
            let page = engine.list_archives(&ListArchives::default()).await.unwrap();
            assert_eq!((page.archives.len(), page.unreadable.len()), (0, 1));
            assert_eq!(page.unreadable[0].id, id);
            engine.shutdown().await;
        });
    }
    // What anybody could have put there is not believed by who has a key.
    live_long(async {
        let engine = other.start_with_archives(on(&other, &store, None)).await;
        let snapshot = three_layers(&other, &engine).await;
        let plain = engine.archive_snapshot(snapshot).await.unwrap().archive.id;
        engine.shutdown().await;
        let mine = key(&world.own(), 'a');
        let engine = world.start_with_archives(on(&world, &store, Some(mine))).await;
        let refused = engine.restore_archive(plain).await.unwrap_err().to_api();
        assert_eq!(refused.details.reason.as_deref(), Some("archive-not-encrypted"));
        restored(&engine, id).await;
        engine.shutdown().await;
    });
}

#[test]
fn objects_that_change_places_are_found_out() {
    for encrypted in [false, true] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let world = World::new();
        live_long(async {
            let key = encrypted.then(|| key(&world.own(), 'a'));
            let engine = world.start_with_archives(on(&world, &store, key)).await;
            let snapshot = three_layers(&world, &engine).await;
            let id = engine.archive_snapshot(snapshot).await.unwrap().archive.id;
            let layers: Vec<_> = names(&store, "layers").await.into_iter().collect();
            let [one, other] = [&layers[0], &layers[1]].map(|name| Location::from(name.as_str()));
            let spare = Location::from("spare");
            for (from, to) in [(&one, &spare), (&other, &one), (&spare, &other)] {
                store.copy(from, to).await.unwrap();
            }
            let refused = engine.restore_archive(id).await.unwrap_err().to_api();
            assert_eq!(refused.details.reason.as_deref(), Some("archive-damaged"));
            assert_eq!(refused.code, ErrorCode::Conflict);
            // So are manifests.
            let manifest = Location::from(format!("archives/{id}"));
            let stranger = "arc_00000000000000000000";
            let copy = Location::from(format!("archives/{stranger}"));
            store.copy(&manifest, &copy).await.unwrap();
            let refused = engine.get_archive(stranger.parse().unwrap()).await.unwrap_err();
            assert_eq!(refused.to_api().details.reason.as_deref(), Some("archive-damaged"));
            engine.shutdown().await;
        });
    }
}

#[test]
fn layers_go_when_no_archive_names_them_after_a_second_look() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (world, watcher) = (World::new(), World::new());
    live_long(async {
        // Nothing is old for this one, and for that one everything.
        let young = on(&watcher, &store, None);
        let old = Archives::on_store(store.clone(), None, None, &watcher.own(), Duration::ZERO);
        let old = old.unwrap();
        let engine = world.start_with_archives(on(&world, &store, None)).await;
        let snapshot = three_layers(&world, &engine).await;
        let first = engine.archive_snapshot(snapshot).await.unwrap().archive.id;
        let id = engine.find(&"web".parse().unwrap()).unwrap().id;
        world.host.write(id, "/d", Some(5));
        let next = engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id;
        let second = engine.archive_snapshot(next).await.unwrap().archive.id;
        assert_eq!(old.sweep().await.unwrap(), Swept::default());
        engine.delete_archive(second).await.unwrap();
        assert_eq!(young.sweep().await.unwrap(), Swept::default());
        assert_eq!(old.sweep().await.unwrap(), Swept { condemned: 1, removed: 0 });
        assert_eq!(names(&store, "layers").await.len(), 4);
        // What is condemned is used by nobody any more: it is sent once more.
        let again = engine.archive_snapshot(next).await.unwrap();
        assert_eq!(again.sent_layers, 1);
        assert_eq!(names(&store, "layers").await.len(), 5);
        assert_eq!(young.sweep().await.unwrap(), Swept::default());
        assert_eq!(old.sweep().await.unwrap(), Swept { condemned: 0, removed: 1 });
        for id in [first, second] {
            restored(&engine, id).await;
        }
        // Of a manifest that nobody here can read nobody knows what it names.
        let strange = Location::from("archives/arc_00000000000000000000");
        store.put(&strange, "strange".into()).await.unwrap();
        assert!(old.sweep().await.is_err());
        engine.shutdown().await;
    });
}

#[test]
fn without_a_place_there_are_no_archives() {
    let world = World::new();
    live_long(async {
        let engine = world.start().await;
        let snapshot = three_layers(&world, &engine).await;
        let refused = engine.archive_snapshot(snapshot).await.unwrap_err().to_api();
        assert!(refused.next_step.contains("--archive"), "{refused:?}");
        engine.shutdown().await;
    });
}

fn bucket(world: &World, endpoint: String, key: Option<ArchiveKey>) -> Archives {
    let place: Place = format!("s3://{BUCKET}/some/prefix").parse().unwrap();
    let credentials = Credentials {
        access_key_id: "test".to_owned(),
        secret_access_key: "hidden".to_owned(),
        session_token: None,
    };
    let access = Access { endpoint: Some(endpoint), region: None, credentials };
    Archives::open(&place, &access, key, &Outside::default(), &world.own()).unwrap()
}

/// One test, so that one store is enough: it is slow to start.
#[test]
fn a_store_that_speaks_s3_has_archives() {
    let Some(server) = ObjectServer::start("archive-s3") else { return };
    let (here, there) = (World::new(), World::new());
    let id = live_long(async {
        let place = bucket(&here, server.endpoint(), Some(key(&here.own(), 'a')));
        let engine = here.start_with_archives(place).await;
        let snapshot = three_layers(&here, &engine).await;
        let archived = engine.archive_snapshot(snapshot).await.unwrap();
        assert_eq!(archived.sent_layers, 3);
        // Names that exist are not written over.
        let again = engine.archive_snapshot(snapshot).await.unwrap();
        assert_eq!(again.sent_layers, 0);
        let id = engine.find(&"web".parse().unwrap()).unwrap().id;
        here.host.write(id, "/d", Some(5));
        let next = engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id;
        assert_eq!(engine.archive_snapshot(next).await.unwrap().sent_layers, 1);
        assert_eq!(archives(&engine).await.len(), 2);
        engine.shutdown().await;
        archived.archive.id
    });
    assert_eq!(server.names().len(), 6, "{:?}", server.names());
    assert!(server.names().iter().all(|name| name.starts_with("some/prefix/")));
    live_long(async {
        let archives = bucket(&there, server.endpoint(), Some(key(&there.own(), 'a')));
        let engine = there.start_with_archives(archives).await;
        let snapshot = restored(&engine, id).await;
        assert_eq!(files(&there, &engine, snapshot).await, all_files());
        engine.delete_archive(id).await.unwrap();
        engine.shutdown().await;
    });
    // An upload in parts that a server was killed in is given up by the next one.
    let name = "some/prefix/layers/x/y";
    let begun = server.ask("POST", &format!("/{BUCKET}/{name}?uploads"));
    let upload = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0;
    let note = serde_json::to_vec(&(name, upload)).unwrap();
    std::fs::write(there.own().join("uploads/note"), note).unwrap();
    assert_eq!(server.open_uploads(), 1);
    live_long(async {
        let archives = bucket(&there, server.endpoint(), Some(key(&there.own(), 'a')));
        let engine = there.start_with_archives(archives).await;
        let note = there.own().join("uploads/note");
        while note.exists() {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.open_uploads(), 0);
        engine.shutdown().await;
    });
    live_long(async {
        let endpoint = "http://127.0.0.1:1".to_owned();
        let engine = there.start_with_archives(bucket(&there, endpoint, None)).await;
        let error = engine.list_archives(&ListArchives::default()).await.unwrap_err().to_api();
        assert_eq!(error.code, ErrorCode::Unreachable);
        assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
        engine.shutdown().await;
    });
}
