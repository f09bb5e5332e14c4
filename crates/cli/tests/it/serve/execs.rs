//! Commands in real sandboxes, over HTTP: what is told of them is what happened.

use super::support::{socket, try_ask};
use super::{Answer, Served, each};
use atoll_testkit::process::wait_until;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Far more than anything here takes, and far less than what it must not wait for.
const SOON: Duration = Duration::from_secs(20);

/// Runs a command in the sandbox `web`, and waits for its end.
#[track_caller]
pub(super) fn run(served: &Served<'_>, request: &Value) -> Value {
    let answer = post(served, "execs?wait_ms=60000", request);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[track_caller]
pub(super) fn post(served: &Served<'_>, what: &str, request: &Value) -> Answer {
    served.ask("POST", &format!("/v1/sandboxes/web/{what}"), Some(request))
}

impl Served<'_> {
    #[track_caller]
    fn run(&self, request: &Value) -> Value {
        run(self, request)
    }

    #[track_caller]
    fn sh(&self, shell: &str) -> Value {
        self.run(&json!({ "shell": shell }))
    }

    #[track_caller]
    fn post(&self, what: &str, request: &Value) -> Answer {
        post(self, what, request)
    }

    #[track_caller]
    fn get(&self, what: &str) -> Answer {
        self.ask("GET", &format!("/v1/sandboxes/web/{what}"), None)
    }
}

fn with_sandbox(test: impl Fn(&mut Served<'_>)) {
    each(|project| {
        let mut served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        test(&mut served);
    });
}

#[track_caller]
pub(super) fn printed(result: &Value) -> &str {
    assert_eq!(result["stdout"]["dropped_bytes"], 0, "{result}");
    result["stdout"]["head"]["text"].as_str().unwrap()
}

#[test]
fn streams_and_status_are_exact_and_input_is_closed() {
    with_sandbox(|served| {
        let ran = served.sh("cat; printf out; printf err >&2; exit 7");
        assert_eq!(printed(&ran), "out");
        assert_eq!(ran["stderr"]["head"]["text"], "err");
        assert_eq!(
            (&ran["exec"]["state"], &ran["exec"]["ended"]["exit_code"]),
            (&json!("ended"), &json!(7))
        );
        let ran = served.sh("kill -TERM $$");
        assert_eq!(ran["exec"]["ended"]["signal"], 15);
        assert!(ran["exec"]["ended"]["exit_code"].is_null(), "{ran}");
        let ran = served.sh(r"printf '\377\000x'");
        assert_eq!(ran["stdout"]["head"], json!({ "base64": "/wB4" }));
        let missing =
            served.post("execs?wait_ms=1000", &json!({ "command": ["/no/such/program"] }));
        assert_eq!(missing.body["error"]["details"]["reason"], "program_not_found", "{missing:?}");
    });
}

#[test]
fn a_command_that_hangs_ends_in_its_time_and_poisons_nothing() {
    with_sandbox(|served| {
        let began = Instant::now();
        let hangs = json!({ "shell": "echo before; trap '' TERM; sleep 600 & wait; sleep 600",
            "session": "main", "timeout_ms": 1000 });
        let ran = served.run(&hangs);
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(printed(&ran), "before\n");
        assert_eq!(ran["exec"]["ended"]["cause"], "timed_out");
        // Nobody of it is left, and the session goes on as others do.
        assert_eq!(printed(&served.sh("pgrep -c sleep || true")), "0\n");
        let ok = served.run(&json!({ "shell": "echo ok", "session": "main" }));
        assert_eq!(printed(&ok), "ok\n");
        let ok = served.run(&json!({ "shell": "echo ok", "session": "other" }));
        assert_eq!(printed(&ok), "ok\n");
    });
}

#[test]
fn who_holds_the_output_open_does_not_hold_the_call() {
    with_sandbox(|served| {
        let began = Instant::now();
        let ran = served.sh("sleep 600 & echo started");
        assert_eq!(printed(&ran), "started\n");
        assert_eq!(ran["exec"]["ended"]["exit_code"], 0);
        let ran =
            served.run(&json!({ "shell": "sleep 600 & echo here; sleep 600", "timeout_ms": 500 }));
        assert_eq!(printed(&ran), "here\n");
        assert_eq!(ran["exec"]["ended"]["cause"], "timed_out");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    });
}

#[test]
fn an_id_that_is_sent_again_runs_nothing_again() {
    with_sandbox(|served| {
        let request =
            json!({ "id": "exe_00000000000000000abc", "shell": "echo once | tee -a runs" });
        let runs = std::thread::scope(|threads| {
            let runs: Vec<_> = (0..8).map(|_| threads.spawn(|| served.run(&request))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
        });
        for run in &runs {
            assert_eq!(printed(run), "once\n");
        }
        assert_eq!(printed(&served.sh("cat runs")), "once\n");
        let other = json!({ "id": "exe_00000000000000000abc", "shell": "echo other" });
        let refused = served.post("execs", &other);
        assert_eq!((refused.status, &refused.body["error"]["code"]), (409, &json!("conflict")));
    });
}

#[test]
fn what_a_dead_sandbox_ran_is_lost_and_has_no_exit_code() {
    with_sandbox(|served| {
        let began = Instant::now();
        let ran = std::thread::scope(|threads| {
            let waiting = threads.spawn(|| served.sh("echo begun; sleep 600"));
            wait_until("the command runs", || {
                let execs = served.get("execs").body;
                execs["execs"][0]["stdout"]["bytes"] == 6
            });
            assert_eq!(served.post("kill", &json!({})).status, 200);
            waiting.join().unwrap()
        });
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(ran["exec"]["state"], "lost", "{ran}");
        assert!(ran["exec"]["ended"].is_null(), "{ran}");
        assert_eq!(printed(&ran), "begun\n");
    });
}

#[test]
fn a_flood_keeps_head_and_tail_and_says_what_is_missing() {
    with_sandbox(|served| {
        let shell = "echo first; echo note >&2; head -c 100000000 /dev/zero; echo last; sleep 600";
        let ran = served.run(&json!({ "shell": shell, "timeout_ms": 5000, "keep_bytes": 65536 }));
        assert_eq!(ran["exec"]["ended"]["cause"], "timed_out");
        assert_eq!(ran["stderr"]["head"]["text"], "note\n");
        let stdout = &ran["stdout"];
        let length = |part: &str| stdout[part]["text"].as_str().unwrap().len() as u64;
        assert!(stdout["head"]["text"].as_str().unwrap().starts_with("first\n"));
        assert!(stdout["tail"]["text"].as_str().unwrap().ends_with("last\n"));
        let dropped = stdout["dropped_bytes"].as_u64().unwrap();
        assert_eq!(length("head") + dropped + length("tail"), 100_000_000 + 6 + 5);
    });
}

#[test]
fn what_is_kept_before_a_gap_is_read_before_the_body_breaks_off() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let id = "exe_00000000000000000abc";
        let shell = "head -c 1000000 /dev/zero | tr '\\0' a";
        let ran = served.run(&json!({ "id": id, "shell": shell, "keep_bytes": 65536 }));
        let head = ran["stdout"]["head"]["text"].as_str().unwrap().len();
        let path = format!("execs/{id}/stdout");
        let mut stream = UnixStream::connect(socket(project)).unwrap();
        let line = format!("GET /v1/sandboxes/web/{path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        // In chunks, the last of which, an empty one, is missing.
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let is_output = |line: &&str| line.len() > 8 && line.bytes().all(|byte| byte == b'a');
        assert_eq!(body.split("\r\n").filter(is_output).map(str::len).sum::<usize>(), head);
        assert!(!body.ends_with("\r\n0\r\n\r\n"), "the body ends as if that were all");
        let gone = served.get(&format!("{path}?offset={head}"));
        assert_eq!(gone.body["error"]["code"], "lost", "{}", gone.body);
    });
}

#[test]
fn a_server_that_is_killed_takes_nothing_from_a_command() {
    with_sandbox(|served| {
        let id = "exe_00000000000000000def";
        let shell = "echo before; while ! [ -e go ]; do sleep 0.05; done; echo after; exit 5";
        assert_eq!(served.post("execs", &json!({ "id": id, "shell": shell })).status, 201);
        served.kill();
        served.again();
        assert_eq!(served.get(&format!("execs/{id}")).body["state"], "running");
        served.sh("touch go");
        let result = served.get(&format!("execs/{id}/result?wait_ms=20000")).body;
        assert_eq!(printed(&result), "before\nafter\n");
        assert_eq!(result["exec"]["ended"]["exit_code"], 5);
    });
}

#[test]
fn files_are_the_sandboxes_own_whatever_links_are_planted() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let secret = project.outside().join("secret");
        std::fs::write(&secret, "of the host").unwrap();
        // Without a sandbox the link leads there.
        let here = project.outside().join("link");
        std::os::unix::fs::symlink(&secret, &here).unwrap();
        assert_eq!(std::fs::read_to_string(&here).unwrap(), "of the host");
        let script = format!(
            "ln -s {secret} last; ln -s {directory} middle; ln -s /proc/1/root proc; \
             ln -s /proc/1/environ environ; mkfifo pipe; echo mine > own; ln -s own good",
            secret = secret.display(),
            directory = project.outside().display(),
        );
        assert_eq!(served.sh(&script)["exec"]["ended"]["exit_code"], 0);
        let read = |name: &str| {
            let path = format!("/v1/sandboxes/web/files/content?path=/home/user/{name}");
            try_ask(&socket(project), "GET", &path, None).map(|answer| answer.status)
        };
        for name in ["last", "middle/secret", "environ", "pipe"] {
            let status = read(name).unwrap();
            assert!((400..500).contains(&status), "{name}: {status}");
        }
        assert_eq!(read("good").unwrap(), 200);
        let through = format!("proc{}", secret.display());
        assert_ne!(read(&through).unwrap(), 200);
        let write = |name: &str| {
            let path = format!("/v1/sandboxes/web/files/content?path=/home/user/{name}");
            try_ask(&socket(project), "PUT", &path, Some(&json!("planted"))).unwrap().status
        };
        assert_ne!(write("last"), 200);
        assert_ne!(write("middle/secret"), 200);
        assert_eq!(write("good"), 200);
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "of the host");
    });
}
