//! Git, services and waiting in real sandboxes, over HTTP.

use super::execs::{post, printed, run};
use super::{Served, each};
use serde_json::json;

#[test]
fn git_is_run_inside_and_its_answers_are_typed() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let script = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
            GIT_COMMITTER_EMAIL=a@b; git init -q -b main origin && cd origin && echo one > file && \
            git add . && git commit -q -m first && git branch other";
        let made = run(&served, &json!({ "shell": script }));
        assert_eq!(made["exec"]["ended"]["exit_code"], 0, "{made}");
        let from = json!({ "url": "/home/user/origin", "path": "/home/user/copy" });
        let cloned = post(&served, "git/clone", &from);
        assert_eq!((cloned.status, &cloned.body["branch"]), (200, &json!("main")), "{cloned:?}");
        run(&served, &json!({ "shell": "cd copy && echo two > file && touch 'a b'" }));
        let ask = |what: &str| served.ask("GET", &format!("/v1/sandboxes/web/git/{what}"), None);
        let status = ask("status?path=/home/user/copy").body;
        let paths: Vec<_> =
            status["entries"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
        assert_eq!(paths, [&json!("file"), &json!("a b")], "{status}");
        let diff = ask("diff?path=/home/user/copy").body;
        assert!(diff["text"].as_str().unwrap().contains("-one\n+two\n"), "{diff}");
        let there = json!({ "path": "/home/user/origin", "target": "other" });
        assert_eq!(post(&served, "git/checkout", &there).body["branch"], "other");
        // What looks like a flag is none, and what is elsewhere is not reached.
        let flag = json!({ "path": "/home/user/origin", "target": "--orphan=x" });
        assert!(post(&served, "git/checkout", &flag).status >= 400);
        let away = json!({ "url": "https://example.com/x.git", "path": "/home/user/away" });
        let refused = post(&served, "git/clone", &away);
        assert_eq!(refused.body["error"]["code"], "refused_by_policy", "{refused:?}");
        let looked = run(&served, &json!({ "shell": "ls -d away 2>&1 || true" }));
        assert!(printed(&looked).contains("No such"), "{looked}");
    });
}

#[test]
fn what_is_waited_for_is_a_port_a_line_or_an_answer() {
    each(|project| {
        let served = Served::start(project, &[]);
        let service = json!({ "name": "web", "ready": { "port": 8126 },
            "shell": "exec python3 -m http.server --bind 127.0.0.1 8126" });
        let made = served.ask(
            "POST",
            "/v1/sandboxes",
            Some(&json!({ "name": "web", "services": [service] })),
        );
        assert_eq!(made.status, 201, "{made:?}");
        let services = served.ask("GET", "/v1/sandboxes/web/services", None).body;
        assert_eq!(services["services"][0]["state"], "ready", "{services}");
        let wait = |what| post(&served, "wait", &json!({ "for": what, "timeout_ms": 10_000 }));
        assert_eq!(wait(json!({ "port": 8126 })).status, 200);
        let answered = wait(json!({ "http": { "port": 8126, "path": "/" } }));
        assert_eq!(
            (answered.status, &answered.body["matched"]),
            (200, &json!("200")),
            "{answered:?}"
        );
        let missing = wait(json!({ "http": { "port": 8126, "path": "/none", "status": 404 } }));
        assert_eq!(missing.status, 200, "{missing:?}");
        let id = "exe_0000000000000000beef";
        post(
            &served,
            "execs",
            &json!({ "id": id, "shell": "sleep 0.2; echo ready in 5 ms; sleep 600" }),
        );
        let line = wait(json!({ "log": { "exec": id, "pattern": "ready in \\d+" } }));
        assert_eq!(line.body["matched"], "ready in 5 ms", "{line:?}");
        let never = json!({ "for": { "port": 8127 }, "timeout_ms": 100 });
        let never = post(&served, "wait", &never);
        assert_eq!(never.body["error"]["code"], "timed_out", "{never:?}");
        // Who wakes it finds the service again.
        assert_eq!(post(&served, "stop", &json!({})).status, 200);
        assert_eq!(wait(json!({ "http": { "port": 8126 } })).status, 200);
    });
}
