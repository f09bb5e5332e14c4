//! Clients that go away without a word, in the middle of what they asked for.

use super::each;
use super::execs::run;
use super::support::{Served, socket, state};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::Project;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

const CLIENTS: u32 = 1000;

#[test]
fn a_thousand_clients_that_vanish_leave_nothing_open_and_nothing_running() {
    each(|project| {
        let served = Served::start(project, &[]);
        let sandbox = served.create("web").body;
        let guest = state(project).join("sandboxes").join(sandbox["id"].as_str().unwrap());
        let guest = UnixStream::connect(guest.join("guest")).unwrap();
        let guest = atoll_sys::socket::peer(guest.as_fd()).unwrap().cast_unsigned();
        let server = served.child.id();
        // What the first ones bring about stays.
        for number in 0..50 {
            vanish(project, number);
        }
        let idle = || is_idle(&served);
        wait_until("the first ones to be let go", idle);
        let before = [server, guest].map(descriptors);
        for number in 0..CLIENTS {
            vanish(project, number);
        }
        wait_until("the others to be let go", || {
            is_idle(&served) && [server, guest].map(descriptors) <= before
        });
        // The control: those that stay are seen.
        let sleeps = json!({ "shell": "sleep 600" });
        let _stay: Vec<_> =
            (0..20).map(|_| ask(project, "POST", "execs", EVENTS, &sleeps)).collect();
        wait_until("those that stay", || {
            let now = [server, guest].map(descriptors);
            now[0] > before[0] && now[1] > before[1] && !is_idle(&served)
        });
    });
}

/// Descriptors of a process.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Whether no command runs, by the processes that there are.
fn is_idle(served: &Served<'_>) -> bool {
    let ran = run(served, &json!({ "shell": "ps -e -o comm= | grep -c -E '^(sleep|yes|cat)$'" }));
    ran["stdout"]["head"]["text"] == "0\n"
}

const EVENTS: &str = "accept: text/event-stream\r\n";
const SOCKET: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                      sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Asks for something that goes on, in one of several ways, and goes away.
fn vanish(project: &Project, number: u32) {
    let ends = |shell: &str| json!({ "shell": shell, "on_disconnect": "kill" });
    match number % 6 {
        // In the middle of what is printed.
        0 => heard(ask(project, "POST", "execs", EVENTS, &ends("yes"))),
        // While nothing is.
        1 => heard(ask(project, "POST", "execs", EVENTS, &ends("sleep 600"))),
        // Before there is an answer.
        2 => drop(ask(project, "POST", "execs?wait_ms=60000", "", &ends("sleep 600"))),
        3 => drop(ask(project, "POST", "execs", EVENTS, &ends("cat /dev/zero"))),
        // Of an exec that others follow too, and that ends by itself.
        4 => {
            let id = start(project, "head -c 1000000 /dev/zero");
            let output = format!("execs/{id}/stdout?follow=true");
            heard(ask(project, "GET", &output, "", &Value::Null));
        }
        _ => {
            let id = start(project, "head -c 1000000 /dev/zero");
            heard(ask(project, "GET", &format!("execs/{id}/attach"), SOCKET, &Value::Null));
        }
    }
}

/// Waits for the first bytes of an answer.
fn heard(mut stream: UnixStream) {
    let mut first = [0; 64];
    let length = stream.read(&mut first).unwrap();
    let text = String::from_utf8_lossy(&first[..length]);
    assert!(text.starts_with("HTTP/1.1 200") || text.starts_with("HTTP/1.1 101"), "{text}");
}

fn start(project: &Project, shell: &str) -> String {
    let mut stream =
        ask(project, "POST", "execs", "connection: close\r\n", &json!({ "shell": shell }));
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let exec: Value = serde_json::from_str(body).unwrap();
    exec["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Sends a request about the sandbox `web`.
fn ask(project: &Project, method: &str, what: &str, headers: &str, body: &Value) -> UnixStream {
    let mut stream = UnixStream::connect(socket(project)).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    write!(
        stream,
        "{method} /v1/sandboxes/web/{what} HTTP/1.1\r\nhost: localhost\r\n{headers}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    stream
}
