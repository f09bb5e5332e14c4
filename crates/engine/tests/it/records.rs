//! The file of records: what comes back from it, and how it fails.

use atoll_api::id::SandboxId;
use atoll_api::ports::{PreviewToken, Visibility};
use atoll_api::sandbox::{Env, EventKind, Lifecycle, Limits, State, Tier, Timeline};
use atoll_api::service::{Ready, Restart, Service};
use atoll_api::time::Timestamp;
use atoll_engine::exposure::{Exposure, Exposures};
use atoll_engine::records::{Change, Database, EVENTS_KEPT, Fate, Record, RecordsError};
use rusqlite::Connection;
use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.sqlite");
    (folder, path)
}

fn exposure() -> Exposure {
    Exposure {
        visibility: Visibility::Private,
        token: Some(PreviewToken::from_random([7; 16])),
        expires_at: None,
    }
}

fn service() -> Service {
    Service {
        name: "web".to_owned(),
        shell: Some("exec serve".to_owned()),
        command: None,
        user: Default::default(),
        directory: Some("/srv".to_owned()),
        env: Env([("PORT".to_owned(), "80".to_owned())].into()),
        restart: Restart::Always,
        ready: Some(Ready::Port(80)),
        ready_timeout_ms: Some(5),
    }
}

fn record(n: u8, name: Option<&str>) -> Record {
    Record {
        pool: None,
        id: SandboxId::from_random([n; 10]),
        name: name.map(|name| name.parse().unwrap()),
        state: State::Running,
        cause: None,
        state_since: Timestamp::from_unix_us(1_800_000_000_000_001).unwrap(),
        stopped_at: None,
        archive: None,
        stale_archive: None,
        image: "host".to_owned(),
        image_pull: atoll_api::image::ImagePull::Missing,
        layer: None,
        snapshot: None,
        template: Some("web@2".parse().unwrap()),
        directory: Some("/srv".to_owned()),
        build: None,
        tier: Tier::Container,
        env: Env([("TOKEN".to_owned(), "t".to_owned())].into()),
        limits: Limits { pids: Some(100), ..Limits::default() },
        labels: [("team".to_owned(), "red".to_owned())].into(),
        lifecycle: Lifecycle { lease_ms: Some(60_000), ..Lifecycle::default() },
        budget: atoll_api::budget::Budget::default(),
        created_at: Timestamp::from_unix_us(1_800_000_000_000_000).unwrap(),
        lease_from: Timestamp::from_unix_us(1_800_000_000_000_000).unwrap(),
        timeline: Timeline { accepted_us: Some(12), ..Timeline::default() },
        exposures: [(5173, exposure())].into(),
        services: vec![service()],
        exec_ask: vec!["git push *".parse().unwrap()],
        network: None,
        volumes: vec![atoll_engine::volumes::Mount {
            volume: atoll_api::id::VolumeId::from_random([n; 10]),
            name: "data".parse().unwrap(),
            path: "/data".to_owned(),
            access: atoll_api::volume::VolumeAccess::Shared,
            host_path: None,
        }],
        workspace: Some("/home/user/app".try_into().unwrap()),
    }
}

fn keep(record: Record) -> Change {
    Change {
        at: record.state_since,
        record,
        fate: Fate::Keep,
        what: Some(EventKind::Started),
        once: None,
    }
}

fn forget(record: Record) -> Change {
    Change { fate: Fate::Forget, what: Some(EventKind::Removed), ..keep(record) }
}

#[test]
fn what_is_written_comes_back() {
    let (_folder, path) = folder();
    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.load().unwrap(), []);
    let first = database.apply(&keep(record(1, Some("web")))).unwrap().unwrap();
    database.apply(&keep(record(2, None))).unwrap();
    let changed = Record { state: State::Stopped, ..record(1, Some("web")) };
    let last = database.apply(&keep(changed.clone())).unwrap().unwrap();
    drop(database);

    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.load().unwrap(), [changed, record(2, None)]);
    let events = database.events(0, 100).unwrap();
    assert_eq!((events.len(), &events[0], &events[2]), (3, &first, &last));
    assert_eq!(database.events(first.seq, 1).unwrap()[0].sandbox_id, record(2, None).id);
    database.apply(&forget(record(2, None))).unwrap();
    assert_eq!(database.load().unwrap().len(), 1);
}

#[test]
fn a_sync_empties_the_log_into_the_file() {
    let (_folder, path) = folder();
    let mut database = Database::open(&path).unwrap();
    database.apply(&keep(record(1, Some("web")))).unwrap();
    let before = fs::read(&path).unwrap();
    database.sync().unwrap();
    let after = fs::read(&path).unwrap();
    let holds = |file: &[u8]| file.windows(9).any(|part| part == br#"name":"we"#);
    assert!(!holds(&before) && holds(&after));
}

#[test]
fn only_its_owner_may_read_it() {
    let (folder, path) = folder();
    let mut database = Database::open(&path).unwrap();
    database.apply(&keep(record(1, None))).unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", entry.path());
    }
}

#[test]
fn a_name_belongs_to_one_until_that_one_is_deleted() {
    let (_folder, path) = folder();
    let mut database = Database::open(&path).unwrap();
    database.apply(&keep(record(1, Some("web")))).unwrap();
    let taken = database.apply(&keep(record(2, Some("web"))));
    assert!(matches!(taken, Err(RecordsError::NameTaken { .. })), "{taken:?}");
    assert_eq!(database.load().unwrap().len(), 1);

    let deleted = Record { state: State::Deleted, ..record(1, Some("web")) };
    database.apply(&keep(deleted.clone())).unwrap();
    database.apply(&keep(record(2, Some("web")))).unwrap();
    // What is left of the first one goes without taking the name along.
    database.apply(&forget(deleted)).unwrap();
    let taken = database.apply(&keep(record(3, Some("web"))));
    assert!(matches!(taken, Err(RecordsError::NameTaken { .. })), "{taken:?}");
}

#[test]
fn one_server_has_it() {
    let (_folder, path) = folder();
    let first = Database::open(&path).unwrap();
    let second = Database::open(&path);
    assert!(matches!(second, Err(RecordsError::InUse { .. })), "{second:?}");
    drop(first);
    Database::open(&path).unwrap();
}

#[test]
fn without_room_nothing_is_half_written() {
    let (_folder, path) = folder();
    let mut database = Database::open(&path).unwrap();
    database.apply(&keep(record(0, Some("first")))).unwrap();
    database.limit(64 * 1024).unwrap();
    let full = (1..=u8::MAX).find_map(|n| database.apply(&keep(record(n, None))).err());
    assert!(matches!(full, Some(RecordsError::Full { .. })), "{full:?}");
    let known = database.load().unwrap();
    // History went first: what is there now is all there.
    assert_eq!(database.events(0, 1000).unwrap(), []);
    let names: Vec<_> = known.iter().filter_map(|record| record.name.clone()).collect();
    assert_eq!(names, ["first".parse().unwrap()]);

    // What goes makes room for what comes.
    database.apply(&forget(known[0].clone())).unwrap();
    database.apply(&forget(known[1].clone())).unwrap();
    assert_eq!(database.load().unwrap().len(), known.len() - 2);
    database.apply(&keep(record(u8::MAX, None))).unwrap();
}

#[test]
fn old_events_make_room() {
    let (_folder, path) = folder();
    drop(Database::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    let fill = "WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < ?1)
         INSERT INTO events SELECT seq, 0, 'sbx_00000000000000000000', '{\"kind\":\"started\"}' FROM n";
    connection.execute(fill, [EVENTS_KEPT + 5]).unwrap();
    drop(connection);
    let mut database = Database::open(&path).unwrap();
    database.apply(&keep(record(1, None))).unwrap();
    assert_eq!(database.events(0, 1).unwrap()[0].seq, 7);
}

#[track_caller]
fn damaged(path: &Path) {
    let error = Database::open(path).and_then(|database| database.load()).unwrap_err();
    assert!(matches!(error, RecordsError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains("records.sqlite"), "{error}");
}

/// A file with enough in it to be broken in the middle.
fn filled(path: &Path) {
    let mut database = Database::open(path).unwrap();
    for n in 0..=u8::MAX {
        database.apply(&keep(record(n, None))).unwrap();
    }
}

#[test]
fn damage_is_told_apart() {
    let (_folder, path) = folder();
    fs::write(&path, "this was never a file of records, or has been overwritten").unwrap();
    damaged(&path);

    fs::remove_file(&path).unwrap();
    filled(&path);
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(5 * 4096)).unwrap();
    file.write_all(&[0xa5; 4096]).unwrap();
    drop(file);
    damaged(&path);

    fs::remove_file(&path).unwrap();
    filled(&path);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(6 * 4096).unwrap();
    drop(file);
    damaged(&path);
}

#[test]
fn a_record_that_is_not_its_own_is_damage() {
    for sql in
        ["UPDATE sandboxes SET body = '{'", "UPDATE sandboxes SET id = 'sbx_ffffffffffffffffffff'"]
    {
        let (_folder, path) = folder();
        Database::open(&path).unwrap().apply(&keep(record(1, None))).unwrap();
        Connection::open(&path).unwrap().execute(sql, []).unwrap();
        damaged(&path);
    }
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let (_folder, path) = folder();
    drop(Database::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let error = Database::open(&path).unwrap_err();
    assert!(matches!(error, RecordsError::TooNew { found: 99, .. }), "{error:?}");
}

/// What version 1 wrote, as text. Later versions add a file of theirs and never
/// change this one.
#[test]
fn a_file_of_version_1_is_read() {
    let (_folder, path) = folder();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(include_str!("records/version-1.sql")).unwrap();
    drop(connection);
    let mut database = Database::open(&path).unwrap();
    // What came later is not in it.
    let old = Record {
        exposures: Exposures::new(),
        services: Vec::new(),
        exec_ask: Vec::new(),
        workspace: None,
        template: None,
        directory: None,
        volumes: Vec::new(),
        ..record(1, Some("web"))
    };
    assert_eq!(database.load().unwrap(), [old]);
    let events = database.events(0, 10).unwrap();
    assert_eq!(events[0].what, EventKind::Stopped { forced: true });
    assert_eq!(database.apply(&keep(record(2, None))).unwrap().unwrap().seq, 8);
}

#[test]
fn the_latest_event_is_known_and_a_write_can_be_tried() {
    let (_folder, path) = folder();
    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.last_event().unwrap(), 0);
    database.apply(&keep(record(1, None))).unwrap();
    let event = database.apply(&keep(record(1, None))).unwrap().unwrap();
    assert_eq!(database.last_event().unwrap(), event.seq);
    let length = || fs::metadata(path.with_extension("sqlite-wal")).unwrap().len();
    let before = length();
    database.check_write().unwrap();
    assert!(length() > before, "nothing went to the disk");
    assert_eq!(database.load().unwrap(), [record(1, None)]);
}
