//! Links that are planted in a sandbox: whoever asks for files from outside never leaves
//! its root, whatever the sandbox does meanwhile.

use super::execs::{printed, run};
use super::support::{socket, state, try_ask};
use super::{Served, each, wire};
use atoll_testkit::process::wait_until;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// What is in files of the host, and of nobody else.
const SECRET: &str = "of the host";
/// Operations while a directory and a link are exchanged.
const ROUNDS: usize = 400;
/// Far more than anything here takes, and far less than what it must not wait for.
const SOON: Duration = Duration::from_secs(20);

/// A question about a path, and its answer: the status, and all that was said.
fn ask(
    served: &Served<'_>,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> (u16, Vec<u8>) {
    let headers = format!("connection: close\r\n{headers}content-length: {}\r\n", body.len());
    let path = format!("/v1/sandboxes/web/files/{path}");
    let mut stream = served.begin(method, &path, &headers);
    stream.write_all(body).unwrap();
    let mut answer = wire::answer(stream).unwrap();
    let mut seen = Vec::new();
    if path.contains("/watch?") && answer.status == 200 {
        // It would go on for ever.
        let mut first = vec![0; 4096];
        let length = answer.body.read(&mut first).unwrap();
        seen.extend_from_slice(&first[..length]);
    } else {
        // What breaks off is no answer either.
        answer.body.read_to_end(&mut seen).unwrap_or_default();
    }
    (answer.status, seen)
}

fn get(served: &Served<'_>, what: &str) -> (u16, Vec<u8>) {
    ask(served, "GET", what, "", b"")
}

fn post(served: &Served<'_>, what: &str, body: &Value) -> (u16, Vec<u8>) {
    let kind = "content-type: application/json\r\n";
    ask(served, "POST", what, kind, body.to_string().as_bytes())
}

/// Everything that there is below a directory, with its content and its mode.
fn picture(directory: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_dir() {
            picture(&path).join(",")
        } else {
            std::fs::read_to_string(&path).unwrap()
        };
        found.push(format!("{} {:o} {content}", path.display(), meta.permissions().mode()));
    }
    found.sort();
    found
}

/// Whether what is outside is in something that was said.
fn leaks(seen: &[u8]) -> bool {
    seen.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}

/// An archive with this member, which holds "planted" or leads to `target`.
fn archive(name: &str, kind: u8, target: &str) -> Vec<u8> {
    let data: &[u8] = if kind == b'0' { b"planted" } else { b"" };
    let mut head = vec![0; 512];
    head[..name.len()].copy_from_slice(name.as_bytes());
    head[100..108].copy_from_slice(b"0000644\0");
    head[108..124].copy_from_slice(b"0000000\x000000000\0");
    head[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
    head[136..148].copy_from_slice(b"00000000000\0");
    head[148..156].fill(b' ');
    head[156] = kind;
    head[157..157 + target.len()].copy_from_slice(target.as_bytes());
    head[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head.extend_from_slice(data);
    head.resize(head.len().next_multiple_of(512), 0);
    head
}

#[test]
fn no_question_leads_out_through_a_link() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let other = served.create("other").body;
        let outside = project.outside().join("of-host");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), SECRET).unwrap();
        let sibling =
            state(project).join("sandboxes").join(other["id"].as_str().unwrap()).join("top/home");
        let there = "/v1/sandboxes/other/files/content?path=/home/user/secret";
        assert_eq!(
            try_ask(&socket(project), "PUT", there, Some(&json!(SECRET))).unwrap().status,
            200
        );
        let before = [picture(&outside), picture(&sibling)];
        assert!(before[1].iter().any(|line| line.contains(SECRET)), "{before:?}");

        let mut script = "mkdir own; echo text > own/file; ln -s own gooddir; ln -s own/file good; \
                          mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; \
                          ln -s sock tosock; ln -s pipe topipe; ln -s /proc/1/root root; \
                          ln -s /proc/self/fd fds; ln -s /proc/self/cwd cwd; ln -s . self; ln -s loop loop; "
            .to_owned();
        for (index, place) in [outside.as_path(), &sibling].into_iter().enumerate() {
            let deep = "../".repeat(40);
            let place = place.display();
            script.push_str(&format!(
                "ln -s {place} dir{index}; ln -s {place}/secret file{index}; \
                 ln -s {deep}{place} up{index}; ln -s /proc/1/root{place} proc{index}; "
            ));
        }
        let made = run(&served, &json!({ "shell": script }));
        assert_eq!(made["exec"]["ended"]["exit_code"], 0, "{made}");

        let mut bad: Vec<String> =
            ["sock", "tosock", "pipe", "topipe", "loop", "fds/0", "fds/3"].map(String::from).into();
        for index in 0..2 {
            bad.extend([format!("file{index}")]);
            let place = if index == 0 { &outside } else { &sibling };
            bad.push(format!("root{}/secret", place.display()));
            for way in ["dir", "up", "proc"] {
                bad.push(format!("{way}{index}/secret"));
            }
        }
        let began = Instant::now();
        for name in &bad {
            let path = format!("/home/user/{name}");
            let mut answers = vec![
                ("content", get(&served, &format!("content?path={path}"))),
                ("archive", get(&served, &format!("archive?path={path}"))),
                ("list", get(&served, &format!("list?path={path}"))),
                ("watch", get(&served, &format!("watch?path={path}"))),
                ("grep", post(&served, "grep", &json!({ "path": path, "pattern": "host" }))),
                ("glob", post(&served, "glob", &json!({ "path": path, "pattern": "**" }))),
                (
                    "edit",
                    post(
                        &served,
                        "edit",
                        &json!({ "path": path, "replacements": [{ "old": "host", "new": "x" }] }),
                    ),
                ),
            ];
            // What follows a link that leads nowhere may make it anew, but only in here.
            if !name.contains("sock") && !name.contains("pipe") {
                let new = format!("{path}/new");
                answers.extend([
                    ("make", post(&served, "make_directory", &json!({ "path": new }))),
                    (
                        "move to",
                        post(&served, "move", &json!({ "from": "/home/user/own/file", "to": new })),
                    ),
                    (
                        "unpack",
                        ask(
                            &served,
                            "PUT",
                            &format!("archive?path={path}"),
                            "",
                            &archive("new", b'0', ""),
                        ),
                    ),
                ]);
            }
            for (what, (status, seen)) in answers {
                let text = String::from_utf8_lossy(&seen);
                assert!((400..500).contains(&status), "{what} {name}: {status}: {text}");
                assert!(!leaks(&seen), "{what} {name}: {text}");
            }
            if name.contains('/') {
                for query in ["", "&existing=append", "&existing=keep"] {
                    let (status, _) =
                        ask(&served, "PUT", &format!("content?path={path}{query}"), "", b"planted");
                    assert!((400..500).contains(&status), "write {name}{query}: {status}");
                }
                let mode = post(&served, "set_mode", &json!({ "path": path, "mode": "0777" }));
                let removed = post(&served, "remove", &json!({ "path": path, "recursive": true }));
                let moved =
                    post(&served, "move", &json!({ "from": path, "to": "/home/user/taken" }));
                for (what, (status, seen)) in [("mode", mode), ("remove", removed), ("move", moved)]
                {
                    assert!(
                        (400..500).contains(&status),
                        "{what} {name}: {status}: {}",
                        String::from_utf8_lossy(&seen)
                    );
                }
            }
        }
        assert!(began.elapsed() < SOON * 3, "{:?}", began.elapsed());
        // Of all of it: links are told, and not followed.
        for (what, (status, seen)) in [
            ("archive", get(&served, "archive?path=/home/user")),
            ("list", get(&served, "list?path=/home/user&depth=64")),
            ("grep", post(&served, "grep", &json!({ "path": "/home/user", "pattern": "of the" }))),
            (
                "glob",
                post(&served, "glob", &json!({ "path": "/home/user", "pattern": "**/secret" })),
            ),
        ] {
            assert_eq!(status, 200, "{what}: {}", String::from_utf8_lossy(&seen));
            assert!(!leaks(&seen), "{what}");
        }
        assert_eq!([picture(&outside), picture(&sibling)], before);

        // The control: links that stay inside work.
        for name in ["good", "gooddir/file", "self/good", "cwd/good"] {
            let (status, seen) = get(&served, &format!("content?path=/home/user/{name}"));
            // Links of processes are no way, wherever they lead.
            let wanted = if name.starts_with("cwd") { (403, false) } else { (200, true) };
            assert_eq!(
                (status, seen == b"text\n"),
                wanted,
                "{name}: {}",
                String::from_utf8_lossy(&seen)
            );
        }
        let (status, _) = ask(&served, "PUT", "content?path=/home/user/gooddir/new", "", b"new");
        assert_eq!(status, 200);
        let looked = run(&served, &json!({ "shell": "cat own/new; cat own/file; ls own" }));
        assert_eq!(printed(&looked), "newtext\nfile\nnew\n");
    });
}

#[test]
fn an_archive_unpacks_nothing_outside() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let outside = project.outside().join("of-host");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), SECRET).unwrap();
        let before = picture(&outside);
        run(&served, &json!({ "shell": "mkdir into; echo own > own" }));
        let place = outside.display().to_string();
        let absolute = format!("{place}/absolute");
        let up = format!("{}{place}/up", "../".repeat(20));
        let file = |name: &str| archive(name, b'0', "");
        for (case, bytes) in [
            ("absolute", file(&absolute)),
            ("up", file(&up)),
            ("beside", file("../beside")),
            ("through a link", [archive("way", b'2', &place), file("way/through")].concat()),
            (
                "over a link",
                [archive("over", b'2', &format!("{place}/secret")), file("over")].concat(),
            ),
            ("a hard link out", archive("hard", b'1', &format!("{place}/secret"))),
            ("a hard link up", archive("own2", b'1', "../own")),
            ("a device", archive("device", b'3', "")),
            ("a pipe", archive("pipe", b'6', "")),
            ("a link of proc", [archive("fd", b'2', "/proc/self/fd"), file("fd/1")].concat()),
        ] {
            let bytes = [bytes, vec![0; 1024]].concat();
            let (status, seen) = ask(&served, "PUT", "archive?path=/home/user/into", "", &bytes);
            let text = String::from_utf8_lossy(&seen);
            assert!(status == 200 || (400..500).contains(&status), "{case}: {status}: {text}");
        }
        assert_eq!(picture(&outside), before);
        let looked = run(
            &served,
            &json!({ "shell": "ls -A; cat own; find into -type b -o -type c; stat -c %h own" }),
        );
        assert_eq!(printed(&looked), "into\nown\nown\n1\n");
        // The control: a plain one is unpacked.
        let bytes = [file("plain"), vec![0; 1024]].concat();
        assert_eq!(ask(&served, "PUT", "archive?path=/home/user/into", "", &bytes).0, 200);
        assert_eq!(printed(&run(&served, &json!({ "shell": "cat into/plain" }))), "planted");
    });
}

#[test]
fn a_process_s_own_files_are_neither_read_nor_written() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        for path in [
            "self/mem",
            "self/environ",
            "self/oom_score_adj",
            "thread-self/comm",
            "1/mem",
            "self/attr/current",
            "1/oom_score_adj",
            "sysrq-trigger",
            "self/uid_map",
        ] {
            let path = format!("/proc/{path}");
            for query in ["", "&existing=append"] {
                let (status, seen) =
                    ask(&served, "PUT", &format!("content?path={path}{query}"), "", b"1000");
                assert!(
                    (400..500).contains(&status),
                    "{path}: {status}: {}",
                    String::from_utf8_lossy(&seen)
                );
            }
        }
        for path in ["self/mem", "self/environ", "1/environ", "self/maps", "1/maps", "kcore"] {
            let (status, seen) = get(&served, &format!("content?path=/proc/{path}"));
            assert!(
                (400..500).contains(&status),
                "{path}: {status}: {}",
                String::from_utf8_lossy(&seen)
            );
        }
        // Nobody else's work was disturbed.
        assert_eq!(printed(&run(&served, &json!({ "shell": "cat /proc/1/oom_score_adj" }))), "0\n");
    });
}

/// Exchanges `way`, a directory, and `link`, a link to the outside, until it is told to end.
const EXCHANGE: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
count = 0
while not os.path.exists("end"):
    for _ in range(100):
        if libc.renameat2(-100, b"way", -100, b"link", 2) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))
        count += 1
print(count)
"#;

#[test]
fn nothing_leads_out_through_what_is_exchanged_meanwhile() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let outside = project.outside().join("of-host");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), SECRET).unwrap();
        let before = picture(&outside);
        let place = outside.display();
        // In here is a directory of the same name, which the link may lead to.
        let plant = format!(
            "mkdir way apart; echo inside > way/secret; echo apart > apart/secret; ln -s {place} link"
        );
        run(&served, &json!({ "shell": plant }));
        let id = "exe_0000000000000000cafe";
        let exchange = json!({ "id": id, "command": ["python3", "-c", EXCHANGE] });
        assert_eq!(super::execs::post(&served, "execs", &exchange).status, 201);
        wait_until("the exchange", || {
            get(&served, "stat?path=/home/user/way").1.windows(4).any(|part| part == b"link")
        });
        let mut seen = [0, 0];
        for round in 0..ROUNDS {
            let path = "/home/user/way/secret";
            let (status, bytes) = match round % 4 {
                0 => ask(&served, "PUT", &format!("content?path={path}"), "", b"inside\n"),
                1 => ask(
                    &served,
                    "PUT",
                    &format!("content?path=/home/user/way/new{}", round % 8),
                    "",
                    b"new",
                ),
                2 => post(&served, "grep", &json!({ "path": "/home/user", "pattern": "of the" })),
                _ => get(&served, &format!("content?path={path}")),
            };
            assert!(status == 200 || (400..500).contains(&status), "{status}");
            assert!(!leaks(&bytes), "round {round}: {}", String::from_utf8_lossy(&bytes));
            if round % 4 == 3 {
                assert!(
                    status != 200 || bytes == b"inside\n",
                    "{}",
                    String::from_utf8_lossy(&bytes)
                );
                seen[usize::from(status == 200)] += 1;
            }
        }
        run(&served, &json!({ "shell": "touch end" }));
        let result = served
            .ask("GET", &format!("/v1/sandboxes/web/execs/{id}/result?wait_ms=20000"), None)
            .body;
        assert_eq!(result["exec"]["ended"]["exit_code"], 0, "{result}");
        let exchanged: u64 = printed(&result).trim().parse().unwrap();
        assert!(exchanged > ROUNDS as u64, "exchanged only {exchanged} times");
        assert!(seen[0] > 0 && seen[1] > 0, "both were met: {seen:?}");
        assert_eq!(picture(&outside), before);
    });
}
