//! Snapshots, forks and the way back in real sandboxes, over HTTP.

use super::execs::printed;
use super::support::{log, socket, state, try_ask};
use super::{Served, each};
use atoll_testkit::process::wait_until;
use serde_json::{Value, json};
use std::path::Path;

impl Served<'_> {
    /// What a line of shell prints in a sandbox, which must succeed.
    #[track_caller]
    fn sh_in(&self, sandbox: &str, shell: &str) -> String {
        let path = format!("/v1/sandboxes/{sandbox}/execs?wait_ms=60000");
        let answer = self.ask("POST", &path, Some(&json!({ "shell": shell })));
        let ended = &answer.body["exec"]["ended"]["exit_code"];
        assert_eq!((answer.status, ended), (200, &json!(0)), "{shell}: {answer:?}");
        printed(&answer.body).to_owned()
    }

    #[track_caller]
    fn made(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask("POST", path, Some(body));
        assert_eq!(answer.status, 201, "{path}: {answer:?}");
        answer.body
    }

    /// Takes a snapshot of a sandbox as it is; where its processes cannot be made to stand still,
    /// which is refused in these words, it is stopped for that.
    #[track_caller]
    fn snapshot(&self, sandbox: &str) -> Value {
        let path = format!("/v1/sandboxes/{sandbox}/snapshots");
        let can = self.ask("GET", "/v1/capabilities", None).body;
        assert_eq!(can["flags"]["snapshot"], true, "{can}");
        let is_running = self.state(sandbox) == "running";
        if is_running && can["flags"]["pause"] == false {
            let refused = self.ask("POST", &path, Some(&json!({})));
            let error = &refused.body["error"];
            let told = (refused.status, &error["details"]["capability"]);
            assert_eq!(told, (422, &json!("pause")), "{refused:?}");
            let stopped = self.ask("POST", &format!("/v1/sandboxes/{sandbox}/stop"), None);
            assert_eq!(stopped.status, 200, "{stopped:?}");
            let taken = self.made(&path, &json!({}));
            self.ask("POST", &format!("/v1/sandboxes/{sandbox}/resume"), None);
            return taken;
        }
        let taken = self.made(&path, &json!({}));
        assert_eq!(taken["way"] == "rename", !is_running, "{taken}");
        assert_eq!(taken["frozen_us"] == 0, !is_running, "{taken}");
        taken
    }
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap()
}

/// A repository with something committed, something changed and something new.
const REPOSITORY: &str = "mkdir -p app/deep && cd app && git init -q -b main . && \
    git config user.name a && git config user.email a@b && echo one > file && echo x > gone && \
    git add . && git commit -q -m first && echo two > file && rm gone && echo new > 'a b' && \
    ln -s file link && chmod +x file";

#[test]
fn forks_have_what_there_was_at_the_moment_and_go_ways_of_their_own() {
    each(|project| {
        let served = Served::start(project, &[]);
        let service = json!({ "name": "dev", "ready": { "port": 8131 },
            "shell": "mkdir -p app; cd app; exec python3 -m http.server --bind 127.0.0.1 8131" });
        let wanted = json!({ "name": "web", "env": { "KEPT": "yes" }, "services": [service] });
        served.made("/v1/sandboxes", &wanted);
        served.sh_in("web", REPOSITORY);
        let status =
            "cd app && git status --porcelain=v2 --branch --untracked-files=all -- . ':!log'";
        let before = served.sh_in("web", status);
        assert!(before.lines().count() >= 4, "{before}");
        // One writes all the time, and one holds a directory.
        let writes = "cd app; n=0; while :; do n=$((n+1)); echo $n >> log; done";
        for shell in [writes, "cd app/deep; exec sleep 600"] {
            served.made("/v1/sandboxes/web/execs", &json!({ "shell": shell }));
        }
        wait_until("lines", || served.sh_in("web", "[ -s app/log ] && echo so || :") == "so\n");

        let taken = served.snapshot("web");
        served.sh_in("web", "cd app && echo later > later && rm file && git add -A");
        let fork = format!("/v1/snapshots/{}/fork", id(&taken));
        let body = json!({ "count": 3, "sandbox": { "name": "try" } });
        let forks = served.made(&fork, &body);
        assert_eq!(forks["forks"].as_array().unwrap().len(), 3, "{forks}");
        let mut logs = Vec::new();
        for name in ["try-1", "try-2", "try-3"] {
            assert_eq!(served.sh_in(name, status), before, "{name}");
            assert_eq!(served.sh_in(name, "ls app/later 2>&1 || :; echo $KEPT").lines().count(), 2);
            assert_eq!(served.sh_in(name, "git -C app fsck 2>&1 && readlink app/link"), "file\n");
            logs.push(served.sh_in(name, "tail -c 100000 app/log"));
            // The dev server is a service of the sandbox, so it runs here too.
            let services = served.ask("GET", &format!("/v1/sandboxes/{name}/services"), None).body;
            assert_eq!(services["services"][0]["state"], "ready", "{services}");
            let get = "python3 -c 'import urllib.request as u; \
                       print(u.urlopen(\"http://127.0.0.1:8131/file\").read().decode())'";
            assert_eq!(served.sh_in(name, get), "two\n\n");
        }
        // All have the same moment, with no line lost before it.
        assert!(logs.iter().all(|one| *one == logs[0]), "{logs:?}");
        let numbers: Vec<u64> = logs[0].lines().skip(1).map(|line| line.parse().unwrap()).collect();
        assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]), "{numbers:?}");
        served.sh_in("try-1", "cd app && git commit -q -a -m own && echo mine > log");
        assert_eq!(
            served.sh_in("try-2", "cat app/log | wc -l"),
            served.sh_in("try-3", "wc -l < app/log")
        );
        if taken["way"] != "rename" {
            // They went on where they were.
            let lines = || served.sh_in("web", "wc -l < app/log").trim().parse::<u64>().unwrap();
            let now = lines();
            wait_until("more lines", || lines() > now);
            let execs = served.ask("GET", "/v1/sandboxes/web/execs", None).body;
            let running = execs["execs"].as_array().unwrap();
            assert_eq!(
                running.iter().filter(|exec| exec["state"] == "running").count(),
                3,
                "{execs}"
            );
        }

        // What was taken first goes, and with it nothing of the others.
        assert_eq!(served.ask("DELETE", "/v1/sandboxes/web", None).status, 200);
        assert_eq!(
            served.ask("DELETE", &format!("/v1/snapshots/{}", id(&taken)), None).status,
            204
        );
        if taken["way"] == "rename" {
            served.ask("POST", "/v1/sandboxes/try-2/stop", None);
        }
        let again = served.made("/v1/sandboxes/try-2/fork", &json!({}));
        let last = again["forks"][0]["sandbox"]["id"].as_str().unwrap();
        assert_eq!(served.sh_in(last, status), before);
    });
}

#[test]
fn a_sandbox_goes_back_to_a_snapshot_in_its_place() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        served.sh_in("web", REPOSITORY);
        let first = served.snapshot("web");
        served.sh_in("web", "cd app && git commit -q -a -m second && rm -r deep && echo b > more");
        let second = served.snapshot("web");
        assert_eq!(second["parent_id"], first["id"], "{second}");
        let back = |to: &Value| {
            let body = json!({ "snapshot": to["id"] });
            served.ask("POST", "/v1/sandboxes/web/restore", Some(&body))
        };
        for (to, log, more) in [(&first, "first\n", "no\n"), (&second, "second\nfirst\n", "b\n")] {
            let answer = back(to);
            assert_eq!(
                (answer.status, &answer.body["state"]),
                (200, &json!("running")),
                "{answer:?}"
            );
            assert_eq!(answer.body["snapshot_id"], to["id"]);
            assert_eq!(served.sh_in("web", "git -C app log --format=%s"), log);
            assert_eq!(served.sh_in("web", "cat app/more 2>/dev/null || echo no"), more);
            served.sh_in("web", "rm -rf app; touch spoiled");
        }
        // One that is stopped stays so, and one of it is of where it stands.
        served.ask("POST", "/v1/sandboxes/web/stop", None);
        let answer = back(&first);
        assert_eq!((answer.status, &answer.body["state"]), (200, &json!("stopped")), "{answer:?}");
        let third = served.snapshot("web");
        assert_eq!((&third["parent_id"], &third["way"]), (&first["id"], &json!("rename")));
        served.ask("POST", "/v1/sandboxes/web/resume", None);
        assert_eq!(
            served.sh_in("web", "cat app/file; ls spoiled 2>/dev/null || echo gone"),
            "two\ngone\n"
        );
        let gone = back(&json!({ "id": "snp_00000000000000000000" }));
        assert_eq!(gone.status, 404, "{gone:?}");
        assert_eq!(served.state("web"), "running");
    });
}

#[test]
fn a_server_that_is_killed_while_it_copies_leaves_the_sandbox_going_and_no_half_of_a_snapshot() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let can = served.ask("GET", "/v1/capabilities", None).body;
        if can["flags"]["pause"] == false {
            // There it is one step, which has happened or not.
            return;
        }
        let many = "import os\nfor n in range(6000):\n  os.makedirs(f'd{n%100}', exist_ok=True)\n  \
                    open(f'd{n%100}/{n}', 'w').write(str(n))";
        let python = format!("python3 -c {many:?} && echo before > mark").replace("\\n", "\n");
        served.sh_in("web", &python);
        let counts = "while :; do echo >> count; sleep 0.01; done";
        served.made("/v1/sandboxes/web/execs", &json!({ "shell": counts }));
        let socket = socket(project);
        let taking = std::thread::spawn(move || {
            try_ask(&socket, "POST", "/v1/sandboxes/web/snapshots", Some(&json!({})))
        });
        let layers = state(project).join("sandboxes/layers");
        wait_until("a copy that has begun", || !half_made(&layers).is_empty());
        served.kill();
        let answer = taking.join().unwrap();
        assert!(answer.is_err(), "it was taken before: {answer:?}");

        served.again();
        assert_eq!(served.state("web"), "running", "{}", log(project));
        assert_eq!(served.ask("GET", "/v1/snapshots", None).body["snapshots"], json!([]));
        assert!(half_made(&layers).is_empty());
        // Its processes go on, and have noticed nothing.
        let count = || served.sh_in("web", "wc -l < count").trim().parse::<u64>().unwrap();
        let now = count();
        wait_until("it to count on", || count() > now);
        let taken = served.snapshot("web");
        served.sh_in("web", "echo after > mark");
        let fork = served.made(&format!("/v1/snapshots/{}/fork", id(&taken)), &json!({}));
        let fork = fork["forks"][0]["sandbox"]["id"].as_str().unwrap();
        assert_eq!(served.sh_in(fork, "cat mark; ls d*/* | wc -l"), "before\n6000\n");
    });
}

/// Copies that are being made.
fn half_made(layers: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(layers).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".new-")).collect()
}
