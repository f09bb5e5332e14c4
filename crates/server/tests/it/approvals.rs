//! Approvals over the API: seen, followed, decided, and waited for.

use crate::support::{Client, DEADLINE, Running, World, live};
use atoll_api::approval::{ApprovalWhat, GrantScope};
use atoll_api::id::SandboxId;
use atoll_engine::approvals::{Asked, Outcome, Question, Status};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

async fn sandbox(client: &Client, name: &str) -> SandboxId {
    let made = client.json("POST", "/v1/sandboxes", &json!({"name": name})).await.expect(201);
    made["id"].as_str().unwrap().parse().unwrap()
}

fn question(sandbox: SandboxId, name: &str) -> Question {
    let host = name.to_owned();
    let what = ApprovalWhat::Network { host, port: Some(443), method: None, path: None };
    Question {
        sandbox: Some(sandbox),
        asked_by: None,
        what,
        rule: "*".to_owned(),
        name: format!("{name}:443"),
    }
}

async fn ask(server: &Running, sandbox: SandboxId, name: &str) -> Asked {
    server.engine.approvals().ask(question(sandbox, name)).await.unwrap()
}

async fn next(stream: &mut Response<Incoming>) -> Value {
    let mut text = String::new();
    while !text.ends_with("\n\n") || text.starts_with(':') {
        let frame = timeout(DEADLINE, stream.body_mut().frame()).await.unwrap();
        let bytes = frame.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        text = text.trim_start_matches(": \n\n").to_owned();
    }
    assert!(text.starts_with("event: approval\n"), "{text}");
    serde_json::from_str(text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap())
        .unwrap()
}

#[test]
fn what_is_asked_for_is_decided_and_whoever_waits_is_told() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        let web = sandbox(&client, "web").await;
        let asked = ask(&server, web, "a.example").await;
        assert_eq!(asked.status, Status::Pending);
        assert_eq!(ask(&server, web, "a.example").await, asked);
        let mut stream = client.open("GET", "/v1/approvals/events", &[], "").await;
        assert_eq!(next(&mut stream).await["id"], asked.id.to_string());

        let path = format!("/v1/approvals/{}", asked.id);
        let shown = client.get(&path).await.expect(200);
        assert_eq!((&shown["status"], &shown["count"]), (&json!("pending"), &json!(2)));
        assert_eq!(shown["what"]["host"], "a.example");
        for (query, count) in
            [("", 1), ("?status=pending&sandbox=web", 1), ("?status=denied", 0), ("?cursor=1", 0)]
        {
            let page = client.get(&format!("/v1/approvals{query}")).await.expect(200);
            assert_eq!(page["approvals"].as_array().unwrap().len(), count, "{query}");
        }

        let engine = server.engine.clone();
        let waiting = tokio::spawn(async move { engine.approvals().decided(asked.id).await });
        let runner = server.with_key(atoll_api::key::Scope::Run);
        let sandbox_scope = json!({"scope": "sandbox", "expires_in_s": 60});
        let refused = runner.json("POST", &format!("{path}/approve"), &sandbox_scope).await;
        assert_eq!(refused.code(), "forbidden");
        let made =
            client.json("POST", &format!("{path}/approve"), &sandbox_scope).await.expect(200);
        assert_eq!(made["decided"]["scope"], "sandbox");
        assert_eq!(waiting.await.unwrap(), Outcome::Approved(GrantScope::Sandbox));
        assert_eq!(next(&mut stream).await, made);
        let again = client.json("POST", &format!("{path}/approve"), &sandbox_scope).await;
        assert_eq!(again.code(), "conflict");
        let approvals = server.engine.approvals();
        assert!(approvals.matching_grant(Some(web), "*", "a.example:443").is_some());
        world.clock.advance(Duration::from_secs(60));
        assert!(approvals.matching_grant(Some(web), "*", "a.example:443").is_none());

        let asked = ask(&server, web, "b.example").await;
        next(&mut stream).await;
        let path = format!("/v1/approvals/{}/deny", asked.id);
        let reason = json!({"reason": "use the mirror"});
        client.json("POST", &path, &reason).await.expect(200);
        let denied = Status::Denied(Some("use the mirror".to_owned()));
        assert_eq!(ask(&server, web, "b.example").await.status, denied);
        assert_eq!(next(&mut stream).await["status"], "denied");

        // What nobody decides ends, and so does what a sandbox wanted that is gone.
        let asked = ask(&server, web, "c.example").await;
        next(&mut stream).await;
        let engine = server.engine.clone();
        let waiting = tokio::spawn(async move { engine.approvals().decided(asked.id).await });
        world.clock.awaited(Duration::from_secs(600)).await;
        world.clock.advance(Duration::from_secs(600));
        assert_eq!(waiting.await.unwrap(), Outcome::Expired);
        assert_eq!(next(&mut stream).await["status"], "expired");
        ask(&server, web, "d.example").await;
        next(&mut stream).await;
        client.delete("/v1/sandboxes/web").await.expect(200);
        assert_eq!(next(&mut stream).await["decided"]["by"], "sandbox");

        server.engine.audit().sync().await;
        let audit = client.get("/v1/audit?kind=approval_decided&kind=approval_expired").await;
        let audit = audit.expect(200);
        let kinds: Vec<&str> = audit["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|record| record["what"]["kind"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            ["approval_decided", "approval_decided", "approval_expired", "approval_expired"]
        );
        assert_eq!(audit["records"][1]["what"]["reason"], "use the mirror");
    });
}

#[test]
fn what_was_approved_once_happens_once() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        let web = sandbox(&client, "web").await;
        let once = json!({"scope": "once"});
        // Before anybody waits: theirs who wait or ask first.
        let asked = ask(&server, web, "a.example").await;
        let path = format!("/v1/approvals/{}/approve", asked.id);
        client.json("POST", &path, &once).await.expect(200);
        let approvals = server.engine.approvals();
        assert_eq!(approvals.decided(asked.id).await, Outcome::Approved(GrantScope::Once));
        assert_eq!(approvals.decided(asked.id).await, Outcome::Taken);
        let next = ask(&server, web, "a.example").await;
        assert_eq!(next.status, Status::Pending);
        // While two wait, it is for the one of them.
        let wait = || {
            let engine = server.engine.clone();
            tokio::spawn(async move { engine.approvals().decided(next.id).await })
        };
        let waiting = [wait(), wait()];
        // The keeper has heard of both when it has answered a third.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        ask(&server, web, "a.example").await;
        let path = format!("/v1/approvals/{}/approve", next.id);
        client.json("POST", &path, &once).await.expect(200);
        let [one, other] = waiting;
        let mut outcomes = [one.await.unwrap(), other.await.unwrap()];
        outcomes.sort_by_key(|outcome| *outcome == Outcome::Taken);
        assert_eq!(outcomes, [Outcome::Approved(GrantScope::Once), Outcome::Taken]);
        assert_eq!(ask(&server, web, "a.example").await.status, Status::Pending);
    });
}

#[test]
fn what_is_for_always_is_for_later_servers_and_sandboxes_until_it_is_taken_back() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        let web = sandbox(&client, "web").await;
        let (kept, open) =
            (ask(&server, web, "a.example").await, ask(&server, web, "b.example").await);
        let path = format!("/v1/approvals/{}", kept.id);
        let always = json!({"scope": "always"});
        let made = client.json("POST", &format!("{path}/approve"), &always).await.expect(200);
        assert!(made["decided"]["until"].is_string(), "{made}");
        let engine = server.engine.clone();
        let waiting = tokio::spawn(async move { engine.approvals().decided(open.id).await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        drop(server.stop);
        server.task.await.unwrap();
        let engine = server.engine;
        let shut_down = tokio::spawn(async move {
            let mut engine = engine;
            loop {
                match std::sync::Arc::try_unwrap(engine) {
                    Ok(engine) => return engine.shutdown().await,
                    Err(shared) => engine = shared,
                }
                tokio::task::yield_now().await;
            }
        });
        // A wait holds the engine until its end; nobody would decide any more.
        waiting.abort();
        drop(waiting.await);
        shut_down.await.unwrap();

        let server = world.start().await;
        let client = server.local();
        let other = sandbox(&client, "other").await;
        let granted = Status::Approved(GrantScope::Always);
        assert_eq!(ask(&server, other, "a.example").await.status, granted);
        let gone = client.get(&format!("/v1/approvals/{}", open.id)).await.expect(200);
        assert_eq!(gone["status"], "expired");
        client.json("POST", &format!("{path}/deny"), &json!({})).await.expect(200);
        assert_eq!(ask(&server, other, "a.example").await.status, Status::Pending);
        for (path, body, code) in [
            ("approve", json!({"scope": "ever"}), "invalid"),
            ("approve", json!({"scope": "once", "expires_in_s": 0}), "invalid"),
            ("deny", json!({"reason": "a\nb"}), "invalid"),
            ("deny", json!({"reason": "x".repeat(501)}), "invalid"),
        ] {
            let path = format!("/v1/approvals/{}/{path}", open.id);
            assert_eq!(client.json("POST", &path, &body).await.code(), code, "{body}");
        }
        let unknown = "/v1/approvals/apr_00000000000000000000";
        assert_eq!(client.get(unknown).await.code(), "not_found");
        assert_eq!(client.get("/v1/approvals?status=open").await.code(), "invalid");
    });
}

#[test]
fn a_command_that_has_to_be_approved_waits_and_is_refused_with_a_reason() {
    live(async {
        let mut world = World::new();
        world.guest.is_silent = true;
        world.engine.approval_hold = Duration::from_millis(1);
        let server = world.start().await;
        let client = server.local();
        let wanted = json!({"name": "web", "exec_ask": ["git push *"]});
        let made = client.json("POST", "/v1/sandboxes", &wanted).await.expect(201);
        assert_eq!(made["exec_ask"], json!(["git push *"]));
        let value = json!({"value": "s3cr3t-value"});
        client.json("PUT", "/v1/secrets/TOKEN", &value).await.expect(201);
        let run = async |command: &[&str]| {
            let body = json!({"command": command});
            client.json("POST", "/v1/sandboxes/web/execs", &body).await
        };
        // A stand-in answers for another command, and only where one got to it.
        assert_eq!(run(&["git", "pull"]).await.code(), "lost", "the control");
        let push = ["git", "push", "https://s3cr3t-value@host/x"];
        let refused = run(&push).await;
        assert_eq!(refused.code(), "refused_by_policy");
        let details = refused.json()["error"]["details"].clone();
        assert_eq!(details["reason"], "approval-pending");
        let id = details["approval_id"].as_str().unwrap().to_owned();
        assert_eq!(run(&push).await.json()["error"]["details"]["approval_id"], id.as_str());
        let path = format!("/v1/approvals/{id}");
        let shown = client.get(&path).await.expect(200);
        assert_eq!(shown["what"]["argv"][2], "https://[secret TOKEN]@host/x");
        assert_eq!((&shown["count"], &shown["rule"]), (&json!(2), &json!("exec.ask: git push *")));
        assert!(!shown.to_string().contains("s3cr3t"), "{shown}");
        let other = run(&["git", "push", "other"]).await.json();
        assert_ne!(other["error"]["details"]["approval_id"], id.as_str());

        client
            .json("POST", &format!("{path}/approve"), &json!({"scope": "once"}))
            .await
            .expect(200);
        assert_eq!(run(&push).await.code(), "lost", "it got there");
        let again = run(&push).await.json();
        assert_eq!(again["error"]["details"]["reason"], "approval-pending");
        let id = again["error"]["details"]["approval_id"].as_str().unwrap().to_owned();
        let deny = json!({"reason": "not on a Friday"});
        client.json("POST", &format!("/v1/approvals/{id}/deny"), &deny).await.expect(200);
        let denied = run(&push).await;
        let error = denied.json()["error"].clone();
        assert_eq!(error["details"]["reason"], "approval-denied");
        assert!(error["message"].as_str().unwrap().ends_with("not on a Friday"), "{error}");

        for body in [json!({"exec_ask": [" "]}), json!({"exec_ask": vec!["x"; 65]})] {
            assert_eq!(client.json("POST", "/v1/sandboxes", &body).await.code(), "invalid");
        }
    });
}

#[test]
fn changes_of_a_session_are_asked_for_and_approved_once() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        let runner = server.with_key(atoll_api::key::Scope::Run);
        let digest = format!("sha256:{}", "0a".repeat(32));
        let wanted = json!({
            "kind": "apply", "session": "ses_0123456789abcdef", "project": "/home/ada/p",
            "digest": digest, "added": 2, "modified": 1, "deleted": 0, "risky": 1,
            "risks": [{"path": ".envrc", "change": "added", "why": "direnv runs it"}],
            "said_in": "/home/ada/.config/atoll/config.toml:3",
        });
        let asked = runner.json("POST", "/v1/approvals", &wanted).await.expect(200);
        assert_eq!((&asked["status"], &asked["sandbox_id"]), (&json!("pending"), &Value::Null));
        assert!(asked["asked_by"].as_str().unwrap().starts_with("key_"), "{asked}");
        assert_eq!(asked["what"]["digest"], digest);
        let again = runner.json("POST", "/v1/approvals", &wanted).await.expect(200);
        assert_eq!((&again["id"], &again["count"]), (&asked["id"], &json!(2)));

        let path = format!("/v1/approvals/{}/approve", asked["id"].as_str().unwrap());
        let once = json!({"scope": "once"});
        assert_eq!(runner.json("POST", &path, &once).await.code(), "forbidden");
        let refused = client.json("POST", &path, &json!({"scope": "always"})).await;
        assert_eq!(refused.code(), "invalid");
        client.json("POST", &path, &once).await.expect(200);
        let given = runner.json("POST", "/v1/approvals", &wanted).await.expect(200);
        assert_eq!(given["status"], "approved");
        assert_eq!(given["decided"]["is_used"], true);
        let next = runner.json("POST", "/v1/approvals", &wanted).await.expect(200);
        assert_eq!(next["status"], "pending");
        assert_ne!(next["id"], asked["id"]);

        for (field, value) in [
            ("kind", json!("exec")),
            ("session", json!("ses_x")),
            ("digest", json!("sha256:00")),
            ("project", json!("/a\u{1b}[2J")),
            ("paths", json!(vec!["x"; 101])),
            ("risks", json!([{"path": "a\nb", "change": "added", "why": "x"}])),
            ("said_in", json!("x".repeat(5000))),
        ] {
            let mut wrong = wanted.clone();
            wrong[field] = value;
            let refused = runner.json("POST", "/v1/approvals", &wrong).await;
            assert_eq!(refused.code(), "invalid", "{field}");
        }
        let reader = server.with_key(atoll_api::key::Scope::Read);
        assert_eq!(reader.json("POST", "/v1/approvals", &wanted).await.code(), "forbidden");
        server.engine.audit().sync().await;
        let audit = client.get("/v1/audit?kind=approval_decided").await.expect(200);
        assert_eq!(audit["records"].as_array().unwrap().len(), 1);
    });
}
