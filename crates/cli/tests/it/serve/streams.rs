//! Much that goes through a server: its memory stays flat, nobody waits for a reader that
//! is slow, and what breaks off is never taken for whole.

use super::execs::{post, printed, run};
use super::support::peak_kib;
use super::{Served, each, wire};
use atoll_testkit::process::wait_until;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// Far more than anything here takes, and far less than what it must not wait for.
const SOON: Duration = Duration::from_secs(20);
/// So much more memory a server may need, whatever goes through it.
const MORE_KIB: u64 = 64 << 10;

const LARGE: u64 = 200 << 20;

/// A mebibyte that is like no other.
fn piece(index: u64) -> Vec<u8> {
    let mut piece = vec![0; 1 << 20];
    for (place, bytes) in piece.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&(index << 32 | place as u64).to_le_bytes());
    }
    piece
}

fn content(name: &str) -> String {
    format!("/v1/sandboxes/web/files/content?path=/home/user/{name}")
}

#[test]
fn a_large_file_goes_both_ways_in_little_memory() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let before = peak_kib(&served);
        let headers = format!("connection: close\r\ncontent-length: {LARGE}\r\n");
        let mut stream = served.begin("PUT", &content("large"), &headers);
        for index in 0..LARGE >> 20 {
            stream.write_all(&piece(index)).unwrap();
        }
        assert_eq!(wire::answer(stream).unwrap().status, 200);
        let mut answer = served.open("GET", &content("large"), None);
        assert_eq!(answer.header("content-length"), Some(&*LARGE.to_string()));
        let mut buffer = vec![0; 1 << 20];
        for index in 0..LARGE >> 20 {
            answer.body.read_exact(&mut buffer).unwrap();
            assert!(buffer == piece(index), "mebibyte {index} is another one");
        }
        assert_eq!(answer.body.read(&mut buffer).unwrap(), 0);
        let more = peak_kib(&served) - before;
        assert!(more < MORE_KIB, "{more} KiB more");
    });
}

#[test]
fn who_reads_slowly_holds_nobody_up_and_costs_no_memory() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        run(&served, &json!({ "shell": "head -c 100000000 /dev/zero > zeros" }));
        let before = peak_kib(&served);
        let mut slow = Vec::new();
        for number in 0..10 {
            let id = format!("exe_0000000000000000{number:04}");
            let flood = json!({ "id": id, "command": ["head", "-c", "100000000", "/dev/zero"] });
            assert_eq!(post(&served, "execs", &flood).status, 201);
            let exec = format!("/v1/sandboxes/web/execs/{id}");
            for path in [format!("{exec}/stdout"), content("zeros")] {
                let mut answer = served.open("GET", &path, None);
                answer.body.read_exact(&mut [0; 1]).unwrap();
                slow.push(answer);
            }
            let mut events = served.events(&format!("{exec}/events"));
            events.until("output");
            // Held, and not read any more.
            slow.push(served.open("GET", &format!("{exec}/events"), None));
        }
        let began = Instant::now();
        for _ in 0..10 {
            assert_eq!(printed(&run(&served, &json!({ "shell": "echo quick" }))), "quick\n");
        }
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        let more = peak_kib(&served) - before;
        assert!(more < MORE_KIB, "{more} KiB more");
        // What they have not read is still all there.
        let mut last = slow.remove(1);
        let mut rest = 0;
        let mut buffer = vec![0; 1 << 20];
        while let Ok(length @ 1..) = last.body.read(&mut buffer) {
            rest += length;
        }
        assert_eq!(rest, 99_999_999);
    });
}

#[test]
fn a_flood_of_half_a_gigabyte_leaves_the_other_stream_alone() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let before = peak_kib(&served);
        let shell = "echo note >&2; echo first; head -c 500000000 /dev/zero; echo last; sleep 600";
        let id = "exe_0000000000000000cafe";
        let command = json!({ "id": id, "shell": shell, "timeout_ms": 3_600_000 });
        assert_eq!(post(&served, "execs", &command).status, 201);
        let exec = format!("/v1/sandboxes/web/execs/{id}");
        wait_until("all of it", || {
            let asked = served.ask("GET", &exec, None).body;
            asked["stdout"]["bytes"] == 500_000_000 + 6 + 5
        });
        assert_eq!(
            post(&served, &format!("execs/{id}/cancel"), &json!({ "grace_ms": 0 })).status,
            200
        );
        let result = served.ask("GET", &format!("{exec}/result?wait_ms=20000"), None).body;
        assert_eq!(result["exec"]["ended"]["cause"], "cancelled", "{}", result["exec"]);
        assert_eq!(result["stderr"]["head"]["text"], "note\n");
        let kept = &result["stdout"];
        assert!(kept["head"]["text"].as_str().unwrap().starts_with("first\n"));
        assert!(kept["tail"]["text"].as_str().unwrap().ends_with("last\n"));
        let length = |part: &str| kept[part]["text"].as_str().unwrap().len() as u64;
        let dropped = kept["dropped_bytes"].as_u64().unwrap();
        assert_eq!(length("head") + dropped + length("tail"), 500_000_000 + 6 + 5);
        let more = peak_kib(&served) - before;
        assert!(more < MORE_KIB, "{more} KiB more");
    });
}

#[test]
fn an_upload_that_breaks_off_leaves_what_was_there() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        run(
            &served,
            &json!({ "shell": "mkdir d; echo old > d/file; mkdir d/into; echo old > d/into/file" }),
        );
        let lines = "d\nd/file\nd/into\nd/into/file\n";
        let part = vec![b'x'; 1 << 20];
        let archive = "/v1/sandboxes/web/files/archive?path=/home/user/d/into";
        let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), &part, b"\r\n"].concat();
        for (path, headers, sent) in [
            (content("d/file"), "content-length: 10000000\r\n", &part),
            (content("d/new"), "content-length: 10000000\r\n", &part),
            (content("d/file"), "transfer-encoding: chunked\r\n", &chunk),
            (content("d/file&existing=append"), "transfer-encoding: chunked\r\n", &chunk),
            (archive.to_owned(), "transfer-encoding: chunked\r\n", &chunk),
        ] {
            let mut stream = served.begin("PUT", &path, headers);
            stream.write_all(sent).unwrap();
            // It is on its way: a worker of the guest has it.
            stream.shutdown(Shutdown::Both).unwrap();
            drop(stream);
            wait_until("nothing is left of it", || {
                let listed = run(&served, &json!({ "shell": "find d | sort" }));
                let health = served.ask("GET", "/v1/sandboxes/web/health", None).body;
                printed(&listed) == lines && health["guest"]["processes"] == 0
            });
            let read = |name: &str| served.open("GET", &content(name), None).bytes().unwrap();
            if path.contains("append") {
                // What is added in place cannot be taken back, but what was there stays.
                assert!(read("d/file").starts_with(b"old\n"), "{path}");
                run(&served, &json!({ "shell": "echo old > d/file" }));
            }
            assert_eq!(read("d/file"), b"old\n", "{path}");
            assert_eq!(read("d/into/file"), b"old\n", "{path}");
        }
        // The control: one that is whole is there.
        let mut stream =
            served.begin("PUT", &content("d/file"), "connection: close\r\ncontent-length: 4\r\n");
        stream.write_all(b"new\n").unwrap();
        assert_eq!(wire::answer(stream).unwrap().status, 200);
        assert_eq!(served.open("GET", &content("d/file"), None).bytes().unwrap(), b"new\n");
    });
}
