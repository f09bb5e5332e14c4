//! A guest that an attacker has got hold of, behind the API of a real server.

use super::execs::run;
use super::support::{guest_of, log, peak_kib};
use super::{Served, each, wire};
use atoll_testkit::liar::{Liar, Lie};
use serde_json::{Value, json};
use std::io::{self, Read as _, Write as _};
use std::time::{Duration, Instant};

/// Far more than an honest sandbox takes, and far less than a liar could keep one waiting.
const SOON: Duration = Duration::from_secs(20);
/// Nothing more comes of a stream after so long a silence.
const QUIET: Duration = Duration::from_millis(100);
/// No more of an answer is read.
const ENOUGH: usize = 4 << 20;
/// The server may need so much more memory for all of it: a few answers that are as long as
/// they may be, and what is made of them.
const MORE_KIB: u64 = 160 << 10;

const EXEC: &str = "execs/exe_00000000000000000abc";

/// Everything that can be asked for inside a sandbox: method, path, body.
fn questions() -> Vec<(&'static str, String, Value)> {
    let mut all: Vec<(&str, String, Value)> = Vec::new();
    for path in [
        "execs",
        "health",
        "ports",
        "services",
        "files/content?path=/home/user/file",
        "files/content?path=/home/user/file&offset=1&length=1",
        "files/list?path=/home/user",
        "files/stat?path=/home/user/file",
        "files/archive?path=/home/user",
        "files/archive?path=/home/user&format=tar.gz",
        "files/watch?path=/home/user",
        "git/status?path=/home/user",
        "git/diff?path=/home/user",
    ] {
        all.push(("GET", path.to_owned(), Value::Null));
    }
    for what in ["", "/result?wait_ms=200", "/events", "/stdout", "/stderr?follow=false"] {
        all.push(("GET", format!("{EXEC}{what}"), Value::Null));
    }
    all.push(("DELETE", EXEC.to_owned(), Value::Null));
    let run = json!({ "command": ["true"] });
    let file = json!({ "path": "/home/user/file" });
    let with = |key: &str, value: Value| {
        let mut request = file.clone();
        request[key] = value;
        request
    };
    for (path, body) in [
        ("execs", run.clone()),
        ("execs?wait_ms=200", run),
        (&format!("{EXEC}/signal"), json!({ "signal": "TERM" })),
        (&format!("{EXEC}/cancel"), json!({ "grace_ms": 0 })),
        (&format!("{EXEC}/resize"), json!({ "rows": 1, "columns": 1 })),
        (&format!("{EXEC}/stdin"), json!("input")),
        ("files/make_directory", file.clone()),
        ("files/remove", file.clone()),
        ("files/move", json!({ "from": "/home/user/file", "to": "/home/user/other" })),
        ("files/set_mode", with("mode", json!("0600"))),
        ("files/edit", with("replacements", json!([{ "old": "a", "new": "b" }]))),
        ("files/glob", with("pattern", json!("*"))),
        ("files/grep", with("pattern", json!("x"))),
        ("git/checkout", json!({ "path": "/home/user", "target": "main" })),
        ("wait", json!({ "for": { "port": 80 }, "timeout_ms": 200 })),
        ("wait", json!({ "for": { "http": { "port": 80 } }, "timeout_ms": 200 })),
    ] {
        all.push(("POST", path.to_owned(), body));
    }
    all.push(("PUT", "files/content?path=/home/user/file".to_owned(), json!("content")));
    all.push(("PUT", "files/archive?path=/home/user".to_owned(), json!("no archive")));
    for path in [format!("{EXEC}/attach"), "ports/80/connect".to_owned()] {
        all.push(("UPGRADE", path, Value::Null));
    }
    all
}

fn ask(served: &Served<'_>, method: &str, path: &str, body: &Value) -> io::Result<wire::Answer> {
    let path = format!("/v1/sandboxes/liar/{path}");
    let (method, mut headers, body) = match (method, body) {
        ("UPGRADE", _) => (
            "GET",
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                .to_owned(),
            String::new(),
        ),
        (method, Value::Null) => (method, "connection: close\r\n".to_owned(), String::new()),
        (method, body) => (method, "connection: close\r\n".to_owned(), body.to_string()),
    };
    let kind = "content-type: application/json";
    headers.push_str(&format!("{kind}\r\ncontent-length: {}\r\n", body.len()));
    let mut stream = served.begin(method, &path, &headers);
    stream.write_all(body.as_bytes()).unwrap();
    wire::answer(stream)
}

/// Whether the answer is what a guest sends, as it comes: then it may break off before a
/// byte of it was seen.
fn is_stream(method: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap();
    let ends = ["/stdout", "/stderr", "/content", "/archive", "/events", "/watch"];
    method == "GET" && ends.iter().any(|end| path.ends_with(end))
}

/// What came of the body, up to where enough of it has been seen.
fn some(answer: &mut wire::Answer) -> Vec<u8> {
    answer.body.connection().set_read_timeout(Some(QUIET)).unwrap();
    let (mut seen, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while seen.len() < ENOUGH {
        match answer.body.read(&mut buffer) {
            Ok(length @ 1..) => seen.extend_from_slice(&buffer[..length]),
            // Its end, its breaking off, or nothing more for now.
            Ok(0) | Err(_) => break,
        }
    }
    seen
}

/// Whether a status is one that a liar can bring about.
#[track_caller]
fn check(lie: Lie, what: &str, answer: &wire::Answer, seen: &[u8]) {
    let text = String::from_utf8_lossy(&seen[..seen.len().min(2000)]);
    let is_fine = matches!(answer.status, 101 | 200 | 201 | 204 | 400..500 | 502 | 503);
    assert!(is_fine && answer.status != 429, "{lie:?}: {what}: {}: {text}", answer.status);
    assert!(answer.header("set-cookie").is_none(), "{lie:?}: {what}: {:?}", answer.headers);
    if answer.status >= 400 {
        let body: Value =
            serde_json::from_slice(seen).unwrap_or_else(|_| panic!("{lie:?}: {what}: {text}"));
        let error = &body["error"];
        let code = error["code"].as_str().unwrap();
        assert!(
            !matches!(code, "internal" | "capacity" | "unauthenticated"),
            "{lie:?}: {what}: {error}"
        );
        assert!(
            error.to_string().len() < 16 << 10,
            "{lie:?}: {what}: {} bytes",
            error.to_string().len()
        );
        let is_typed = [502, 503].contains(&answer.status);
        assert!(
            !is_typed || ["lost", "not_ready", "unreachable"].contains(&code),
            "{lie:?}: {what}: {error}"
        );
    }
    // Whatever it says, no exec of its has ended well by a lie.
    let lies_of_ends = [Lie::EndOfMore, Lie::OddStatus, Lie::EndWithoutStatus, Lie::OutputTwice];
    if lies_of_ends.contains(&lie) {
        assert!(!text.contains("\"exit_code\":0"), "{lie:?}: {what}: {text}");
    }
}

#[test]
fn a_guest_that_lies_harms_nobody_else() {
    each(|project| {
        let served = Served::start(project, &["--log-level", "off"]);
        assert_eq!(served.create("web").status, 201);
        let made = served.create("liar").body;
        let questions = questions();
        // The control: whoever does not lie is asked for all of it, and answers.
        for (method, path, body) in &questions {
            let mut answer = ask(&served, method, path, body).unwrap();
            some(&mut answer);
            assert!(answer.status < 500 || answer.status == 502, "{path}: {}", answer.status);
        }
        let echo = || {
            let began = Instant::now();
            let ran = run(&served, &json!({ "command": ["echo", "honest"] }));
            assert_eq!(ran["stdout"]["head"]["text"], "honest\n", "{ran}");
            assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        };
        echo();
        let before = peak_kib(&served);
        {
            let liar = Liar::instead_of(&guest_of(project, &made));
            for lie in Lie::ALL {
                liar.tell(lie);
                std::thread::scope(|threads| {
                    for (method, path, body) in &questions {
                        let served = &served;
                        threads.spawn(move || {
                            let asked = std::panic::AssertUnwindSafe(|| {
                                try_once(served, lie, method, path, body)
                            });
                            std::panic::catch_unwind(asked)
                                .unwrap_or_else(|_| panic!("{lie:?}: {method} {path}"));
                        });
                    }
                    echo();
                });
            }
        }
        assert_eq!(served.ask("GET", "/healthz", None).status, 200);
        let more = peak_kib(&served) - before;
        assert!(more < MORE_KIB, "{more} KiB more");
        assert!(!log(project).contains("panicked"), "{}", log(project));
        // With the truth back all of it works again.
        let ran = served.ask(
            "POST",
            "/v1/sandboxes/liar/execs?wait_ms=20000",
            Some(&json!({ "command": ["echo", "back"] })),
        );
        assert_eq!(ran.body["stdout"]["head"]["text"], "back\n", "{ran:?}");
    });
}

fn try_once(served: &Served<'_>, lie: Lie, method: &str, path: &str, body: &Value) {
    if lie.keeps_waiting() {
        return hang_up(served, method, path, body);
    }
    let mut answer = match ask(served, method, path, body) {
        Ok(answer) => answer,
        Err(_) if is_stream(method, path) => return,
        Err(error) => panic!("{error}"),
    };
    let seen = some(&mut answer);
    check(lie, &format!("{method} {path}"), &answer, &seen);
}

/// Asks, waits a moment, and goes away.
fn hang_up(served: &Served<'_>, method: &str, path: &str, body: &Value) {
    let (method, body) = if method == "UPGRADE" { ("GET", &Value::Null) } else { (method, body) };
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", text.len());
    let mut stream = served.begin(method, &format!("/v1/sandboxes/liar/{path}"), &headers);
    stream.write_all(text.as_bytes()).unwrap();
    stream.set_read_timeout(Some(QUIET)).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(_) => {}
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
        Err(error) => panic!("{method} {path}: {error}"),
    }
}
