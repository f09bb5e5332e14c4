use super::line::Hash;
use super::verify::Whole;
use super::*;
use atoll_api::audit::AuditRecord;
use std::fs;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn small() -> Limits {
    Limits { file_bytes_max: 2000, ..Limits::default() }
}

fn open(folder: &Path, limits: Limits) -> Audit {
    Audit::open(folder, limits, NOW).unwrap()
}

fn deny(host: &str) -> AuditKind {
    let host = host.to_owned();
    let (port, method, path, rule) = (Some(443), None, None, None);
    AuditKind::EgressDenied {
        code: "not-allowed".to_owned(),
        host,
        port,
        method,
        path,
        rule,
        count: 1,
    }
}

fn settle(audit: &Audit) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(audit.sync());
}

fn all(audit: &Audit) -> Vec<AuditRecord> {
    settle(audit);
    let mut records = Vec::new();
    let mut after = 0;
    loop {
        let page = audit.read(after, 7, &Filter::default()).unwrap();
        records.extend(page.records);
        if !page.has_more {
            return records;
        }
        after = page.looked_through;
    }
}

fn words(records: &[AuditRecord]) -> Vec<&'static str> {
    records.iter().map(|record| record.what.as_str()).collect()
}

#[track_caller]
fn whole(folder: &Path) -> Whole {
    match verify(folder, None).unwrap() {
        Verdict::Whole(whole) => whole,
        Verdict::Broken(broken) => panic!("{broken:?}"),
    }
}

#[track_caller]
fn broken(folder: &Path) -> verify::Broken {
    match verify(folder, None).unwrap() {
        Verdict::Broken(broken) => broken,
        Verdict::Whole(whole) => panic!("{whole:?}"),
    }
}

fn only_file(folder: &Path) -> PathBuf {
    read::files(folder).unwrap().pop().unwrap().1
}

#[test]
fn records_are_numbered_in_their_order_and_the_chain_goes_on_across_servers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let sandbox = SandboxId::from_random([1; 10]);
    {
        let audit = open(&path, Limits::default());
        audit.tell(NOW, Some(sandbox), deny("a.example"));
        audit.tell(NOW, None, deny("b.example"));
        let records = all(&audit);
        assert_eq!(
            words(&records),
            ["continued", "server_started", "egress_denied", "egress_denied"]
        );
        assert_eq!(records.iter().map(|one| one.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let found = audit.read(0, 10, &Filter { sandbox: Some(sandbox), ..Filter::default() });
        assert_eq!(found.unwrap().records, records[2..3]);
        let kinds = vec!["server_started".to_owned()];
        let found = audit.read(0, 10, &Filter { kinds, ..Filter::default() }).unwrap();
        assert_eq!((found.records, found.looked_through), (records[1..2].to_vec(), 4));
        audit.tell(NOW, None, AuditKind::ServerStopped);
        audit.close();
        audit.tell(NOW, None, deny("too.late"));
    }
    let before = whole(&path);
    assert_eq!((before.first, before.last), (1, 5));
    let audit = open(&path, Limits::default());
    let records = all(&audit);
    let started = AuditKind::ServerStarted {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        was_in_order: true,
    };
    assert_eq!((records[5].seq, &records[5].what), (6, &started));
    drop(audit);
    // A hash from earlier proves that what was before it is there still.
    let has = |hash| {
        matches!(verify(&path, Some(hash)), Ok(Verdict::Whole(Whole { has_known: true, .. })))
    };
    assert!(has(before.hash) && has(Hash::START));
    assert!(!has(Hash::parse(&"1".repeat(64)).unwrap()));
    let audit = open(&path, Limits::default());
    let started = &all(&audit)[6].what;
    assert!(matches!(started, AuditKind::ServerStarted { was_in_order: false, .. }), "{started:?}");
}

#[test]
fn every_changed_byte_is_found_at_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path(), Limits::default());
    for host in ["a.example", "b.example", "c.example"] {
        audit.tell(NOW, None, deny(host));
    }
    drop(audit);
    let path = only_file(folder.path());
    let bytes = fs::read(&path).unwrap();
    whole(folder.path());
    let mut line = 1;
    for place in 0..bytes.len() {
        let mut other = bytes.clone();
        other[place] ^= 1;
        fs::write(&path, &other).unwrap();
        if bytes[place] == b'\n' {
            // Two lines become one, or the last is not whole.
            let is_last = place + 1 == bytes.len();
            match verify(folder.path(), None).unwrap() {
                Verdict::Broken(broken) => assert_eq!(broken.line, line),
                Verdict::Whole(whole) => assert!(is_last && whole.torn_bytes > 0, "{whole:?}"),
            }
            line += 1;
        } else {
            assert_eq!(broken(folder.path()).line, line, "byte {place}");
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (order, at) in [
        (&[0, 1, 3, 2, 4][..], 3),
        (&[0, 1, 3, 4], 3),
        (&[0, 1, 2, 2, 3, 4], 4),
        (&[1, 2, 3, 4], 1),
    ] {
        fs::write(&path, order.iter().map(|&n| lines[n]).collect::<String>()).unwrap();
        assert_eq!(broken(folder.path()).line, at, "{order:?}");
    }
    fs::write(&path, &text).unwrap();
    whole(folder.path());
}

#[test]
fn a_torn_last_line_is_taken_away_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path(), Limits::default());
    audit.tell(NOW, None, deny("a.example"));
    drop(audit);
    let path = only_file(folder.path());
    let bytes = fs::read(&path).unwrap();
    let begin_of_last = bytes[..bytes.len() - 1].iter().rposition(|&b| b == b'\n').unwrap() + 1;
    for cut in begin_of_last + 1..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        assert_eq!(whole(folder.path()).torn_bytes, (cut - begin_of_last) as u64);
        let audit = open(folder.path(), Limits::default());
        let records = all(&audit);
        assert_eq!(
            words(&records),
            ["continued", "server_started", "repaired", "server_started"],
            "cut at {cut}"
        );
        let AuditKind::Repaired { bytes } = records[2].what else { panic!("{records:?}") };
        assert_eq!(bytes, (cut - begin_of_last) as u64);
        drop(audit);
        whole(folder.path());
    }
    // Also where not even the first line is whole.
    fs::write(&path, &bytes[..10]).unwrap();
    let audit = open(folder.path(), Limits::default());
    assert_eq!(words(&all(&audit)), ["continued", "repaired", "server_started"]);
    drop(audit);
    whole(folder.path());
}

#[test]
fn files_follow_on_each_other_and_the_oldest_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { files_count_max: 3, ..small() };
    let audit = open(folder.path(), limits);
    for n in 0..60 {
        audit.tell(NOW, None, deny(&format!("{n}.example")));
        settle(&audit);
    }
    let records = all(&audit);
    drop(audit);
    let files = read::files(folder.path()).unwrap();
    assert_eq!(files.len(), 3);
    let whole_log = whole(folder.path());
    assert_eq!(whole_log.first, files[0].0);
    assert!(whole_log.first > 1);
    assert_eq!(records[0].seq, whole_log.first, "what is there is read from its start");
    let seqs: Vec<u64> = records.iter().map(|record| record.seq).collect();
    assert!(seqs.is_sorted_by(|a, b| a + 1 == *b), "{seqs:?}");
    let let_go: Vec<u64> = records
        .iter()
        .filter_map(|record| match record.what {
            AuditKind::LetGo { through } => Some(through),
            _ => None,
        })
        .collect();
    assert_eq!(let_go.last(), Some(&(whole_log.first - 1)), "{let_go:?}");
    // One in the middle that is gone is missed.
    let kept = fs::read(&files[1].1).unwrap();
    fs::remove_file(&files[1].1).unwrap();
    assert_eq!(broken(folder.path()).path, files[2].1);
    fs::write(&files[1].1, &kept).unwrap();
    whole(folder.path());
    // One that was about to be begun when the machine stopped is no harm.
    fs::write(read::file_path(folder.path(), whole_log.last + 1), "{\"seq").unwrap();
    let audit = open(folder.path(), limits);
    assert_eq!(words(&all(&audit)).last(), Some(&"server_started"));
    drop(audit);
    assert_eq!(whole(folder.path()).last, whole_log.last + 2);
}

#[test]
fn records_are_found_by_their_number_in_a_large_file() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path(), Limits::default());
    for n in 0..3000 {
        audit.tell(NOW, None, deny(&format!("{n}.{}", "x".repeat(n % 500))));
    }
    settle(&audit);
    for after in [0, 1, 2, 777, 1500, 2998, 3001, 3002, 9000] {
        let page = audit.read(after, 2, &Filter::default()).unwrap();
        let seqs: Vec<u64> = page.records.iter().map(|record| record.seq).collect();
        let expected: Vec<u64> = (after + 1..=3002).take(2).collect();
        assert_eq!(seqs, expected, "after {after}");
        assert_eq!(page.has_more, after + 2 < 3002, "after {after}");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_counted_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        waiting_bytes_max: 4000,
        retry_after: Duration::from_millis(1),
        file_bytes_max: 1,
        ..Limits::default()
    };
    let path = folder.path().join("audit");
    let audit = open(&path, limits);
    settle(&audit);
    // The next file cannot be made, as on a disk that is full.
    let next = read::file_path(&path, 3);
    fs::create_dir(&next).unwrap();
    for n in 0..100 {
        audit.tell(NOW, None, deny(&n.to_string()));
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while audit.trouble().is_none() {
        assert!(std::time::Instant::now() < deadline);
        thread::yield_now();
    }
    fs::remove_dir(&next).unwrap();
    let records = all(&audit);
    assert_eq!(audit.trouble(), None);
    let mut number = 0;
    let mut lost = 0;
    for record in &records[2..] {
        match &record.what {
            AuditKind::EgressDenied { host, .. } => {
                assert_eq!(*host, number.to_string(), "order is kept");
                number += 1;
            }
            AuditKind::Lost { count } => {
                lost += count;
                number += usize::try_from(*count).unwrap();
            }
            AuditKind::Continued { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(lost > 0 && number == 100, "{number} with {lost} lost");
    drop(audit);
    whole(&path);
}

#[test]
fn the_last_ones_are_remembered_however_many_there_were() {
    let mut recent = Recent::default();
    for n in 0..3 * KNOWN_MAX {
        assert!(recent.insert(n));
        assert!(!recent.insert(n));
        if n % 2 == 0 {
            assert!(recent.remove(&n));
        }
        assert!(recent.order.len() <= KNOWN_MAX && recent.known.len() <= KNOWN_MAX);
    }
    assert!(recent.remove(&(3 * KNOWN_MAX - 1)));
    assert!(!recent.remove(&1), "it is forgotten");
    recent.retain(|_| false);
    assert!(recent.known.is_empty() && recent.order.is_empty());
}

#[test]
fn what_is_told_once_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let audit = open(folder.path(), Limits::default());
    let (one, two) = (SandboxId::from_random([1; 10]), SandboxId::from_random([2; 10]));
    let allow =
        |host: &str| AuditKind::EgressAllowed { host: host.to_owned(), port: 1, rule: None };
    let exec = ExecId::from_random([1; 10]);
    let ended =
        || AuditKind::ExecEnded { exec_id: exec, exit_code: Some(0), signal: None, cause: None };
    for sandbox in [one, two, one] {
        audit.tell_first(NOW, sandbox, allow("a"));
        audit.tell_first(NOW, sandbox, allow("b"));
    }
    audit.exec_ended(NOW, one, exec, ended());
    audit.exec_started(NOW, one, exec, AuditKind::GatewayStarted);
    audit.exec_ended(NOW, one, exec, ended());
    audit.exec_ended(NOW, one, exec, ended());
    audit.gone(one);
    audit.tell_first(NOW, one, allow("a"));
    let records = all(&audit);
    let count = |word: &str| words(&records).iter().filter(|kind| **kind == word).count();
    assert_eq!((count("egress_allowed"), count("exec_ended")), (5, 1));
}
