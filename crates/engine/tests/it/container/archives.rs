//! Archives of real sandboxes: what is in a folder, and what comes of it on another machine, as root
//! and as an ordinary user.

use super::{Machine, also_as_ordinary};
use crate::support::{live, named};
use atoll_api::archive::RestoredArchive;
use atoll_api::id::SnapshotId;
use atoll_api::sandbox::CreateSandbox;
use atoll_api::snapshot::{CreateSnapshot, ListSnapshots};
use atoll_engine::archives::{Access, Archives, Credentials, Place};
use atoll_engine::images::Outside;
use atoll_engine::{Config, Engine, Outward};
use atoll_store::archive::ArchiveKey;
use atoll_testkit::object_store::{BUCKET, ObjectServer};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn key(directory: &Path) -> ArchiveKey {
    let path = directory.join("key");
    std::fs::write(&path, format!("{}\n", "5a".repeat(32))).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    ArchiveKey::read(&path).unwrap()
}

async fn start(machine: &Machine, folder: &Path) -> Engine {
    let own = machine.records().with_file_name("archives");
    std::fs::create_dir_all(&own).unwrap();
    let place: Place = format!("file://{}", folder.display()).parse().unwrap();
    let (access, outside) = (Access::default(), Outside::default());
    let archives = Archives::open(&place, &access, Some(key(&own)), &outside, &own).unwrap();
    let outward = Outward { archives: Some(archives), ..Outward::default() };
    machine.start_outward(Config::default(), outward).await
}

/// Every file in the folder.
fn objects(folder: &Path) -> Vec<PathBuf> {
    let (mut todo, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { todo.push(path) } else { found.push(path) }
        }
    }
    found
}

const FILL: &str = "mkdir -p a/b; echo a-secret-word > a/b/secret-name; ln -s b/secret-name a/link; \
                    ln a/b/secret-name a/hard; mkfifo pipe; mkdir -m 311 shut; echo gone > gone; \
                    head -c 3000000 /dev/urandom > large; md5sum large > sum";

const LOOK: &str = "cat a/link; stat -c '%h %a %U' a/hard shut; test -p pipe && md5sum -c sum; ls";

#[test]
fn another_machine_shows_what_was_archived_and_the_store_nothing() {
    also_as_ordinary("archives::another_machine_shows_what_was_archived_and_the_store_nothing");
    let (here, there) = (Machine::new(), Machine::new());
    let folder = tempfile::tempdir().unwrap();
    let seen = "a-secret-word\n2 644 user\n2 311 user\nlarge: OK\na\nlarge\npipe\nshut\nsum\n";
    let id = live(async {
        let engine = start(&here, folder.path()).await;
        let id = engine.create(named("a-quiet-harbour")).await.unwrap().id;
        here.guest(id).sh(FILL);
        engine.stop(id).await.unwrap();
        engine.snapshot(id, CreateSnapshot::default()).await.unwrap();
        engine.resume(id).await.unwrap();
        // Above a layer, so that what is gone from it is a mark.
        here.guest(id).sh("rm gone");
        engine.stop(id).await.unwrap();
        let taken = engine.snapshot(id, CreateSnapshot::default()).await.unwrap().id;
        let archived = engine.archive_snapshot(taken).await.unwrap();
        assert_eq!((archived.sent_layers, archived.archive.layers), (2, 2));
        assert!(archived.archive.bytes > 3_000_000, "{archived:?}");
        engine.shutdown().await;
        archived.archive.id
    });
    let objects = objects(folder.path());
    assert_eq!(objects.len(), 3, "{objects:?}");
    for object in objects {
        let bytes = std::fs::read(&object).unwrap();
        for word in ["a-secret-word", "secret-name", "a-quiet-harbour"] {
            let is_there = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!is_there, "{word} in {}", object.display());
        }
    }
    let snapshot = live(async {
        let engine = start(&there, folder.path()).await;
        let restored = engine.restore_archive(id).await.unwrap();
        let RestoredArchive::Snapshot(snapshot) = restored else { panic!("{restored:?}") };
        let request = CreateSandbox { snapshot: Some(snapshot.id), ..CreateSandbox::default() };
        let fork = engine.create(request).await.unwrap().id;
        assert_eq!(there.guest(fork).sh(LOOK).text(), seen);
        // It can be written, and set aside and archived in its turn: what is there is not sent.
        there.guest(fork).sh("echo more > a/more; chmod 755 shut; echo in > shut/in");
        engine.stop(fork).await.unwrap();
        let next = engine.snapshot(fork, CreateSnapshot::default()).await.unwrap().id;
        let archived = engine.archive_snapshot(next).await.unwrap();
        assert_eq!((archived.sent_layers, archived.archive.layers), (1, 3));
        engine.shutdown().await;
        snapshot.id
    });
    // The next server of that machine has it, and nothing lies about.
    live(async {
        let engine = start(&there, folder.path()).await;
        assert_eq!(listed(&engine).len(), 2);
        assert!(listed(&engine).contains(&snapshot));
        assert!(!there.state().join("arriving").exists());
        engine.shutdown().await;
    });
}

#[test]
fn a_sandbox_that_is_archived_leaves_its_machine_and_comes_back() {
    also_as_ordinary("archives::a_sandbox_that_is_archived_leaves_its_machine_and_comes_back");
    let (machine, folder) = (Machine::new(), tempfile::tempdir().unwrap());
    let seen = "a-secret-word\n2 644 user\n2 311 user\nlarge: OK\na\nlarge\npipe\nshut\nsum\n";
    live(async {
        let engine = start(&machine, folder.path()).await;
        let id = engine.create(named("a-quiet-harbour")).await.unwrap().id;
        machine.guest(id).sh(FILL);
        machine.guest(id).sh("rm gone");
        let archived = engine.archive_sandbox(id, true).await.unwrap();
        assert!(archived.archive.bytes > 3_000_000, "{archived:?}");
        let state = machine.state();
        assert!(!state.join(id.to_string()).exists());
        // What was its layer goes in the background.
        let layers = || std::fs::read_dir(state.join("layers")).map_or(0, Iterator::count);
        while layers() > 0 {
            tokio::task::yield_now().await;
        }
        for object in objects(folder.path()) {
            let bytes = std::fs::read(&object).unwrap();
            let is_there = bytes.windows(15).any(|window| window == b"a-quiet-harbour");
            assert!(!is_there, "{}", object.display());
        }
        engine.resume(id).await.unwrap();
        assert_eq!(machine.guest(id).sh(LOOK).text(), seen);
        machine.guest(id).sh("echo more > a/more; chmod 755 shut; echo in > shut/in");
        engine.archive_sandbox(id, true).await.unwrap();
        engine.shutdown().await;
    });
    live(async {
        let engine = start(&machine, folder.path()).await;
        let id = engine.find(&"a-quiet-harbour".parse().unwrap()).unwrap().id;
        engine.resume(id).await.unwrap();
        assert_eq!(
            machine.guest(id).sh("cat a/more shut/in; md5sum -c sum").text(),
            "more\nin\nlarge: OK\n"
        );
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

/// Longer than what is sent at once.
#[test]
fn a_large_layer_goes_to_s3_in_parts_and_comes_back() {
    let Some(server) = ObjectServer::start("archive-s3-parts") else { return };
    let machine = Machine::new();
    live(async {
        let own = machine.records().with_file_name("archives");
        std::fs::create_dir_all(&own).unwrap();
        let place: Place = format!("s3://{BUCKET}").parse().unwrap();
        let credentials = Credentials {
            access_key_id: "test".to_owned(),
            secret_access_key: "hidden".to_owned(),
            session_token: None,
        };
        let access = Access { endpoint: Some(server.endpoint()), region: None, credentials };
        let outside = Outside::default();
        let archives = Archives::open(&place, &access, Some(key(&own)), &outside, &own).unwrap();
        let outward = Outward { archives: Some(archives), ..Outward::default() };
        let engine = machine.start_outward(Config::default(), outward).await;
        let id = engine.create(named("web")).await.unwrap().id;
        machine.guest(id).sh("head -c 20000000 /dev/urandom > large; md5sum large > sum");
        let archived = engine.archive_sandbox(id, true).await.unwrap();
        assert!(archived.archive.bytes > 20_000_000, "{archived:?}");
        let layers: Vec<_> =
            server.names().into_iter().filter(|name| name.starts_with("layers/")).collect();
        let [layer] = &layers[..] else { panic!("{layers:?}") };
        // By its tag, as S3 makes it: of three parts.
        let head = server.ask("HEAD", &format!("/{BUCKET}/{layer}"));
        assert!(head.contains("-3\""), "{head}");
        assert_eq!(server.open_uploads(), 0);
        assert_eq!(std::fs::read_dir(own.join("uploads")).unwrap().count(), 0);
        engine.resume(id).await.unwrap();
        assert_eq!(machine.guest(id).sh("md5sum -c sum").text(), "large: OK\n");
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}

fn listed(engine: &Engine) -> Vec<SnapshotId> {
    let page = engine.list_snapshots(&ListSnapshots::default()).unwrap();
    page.snapshots.iter().map(|snapshot| snapshot.id).collect()
}
