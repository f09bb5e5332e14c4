//! Sandboxes from their making to their end.

use crate::support::{Answer, Client, World, live};
use atoll_engine::backend::fake::{Call, Moment};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::task::JoinSet;

fn id(sandbox: &Value) -> String {
    sandbox["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_life() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        let request = json!({
            "name": "web",
            "env": {"TOKEN": "hidden"},
            "labels": {"team": "red"},
            "limits": {"memory_bytes": 1 << 30},
            "lifecycle": {"lease_ms": 60_000},
        });
        let made = client.json("POST", "/v1/sandboxes", &request).await.expect(201);
        assert_eq!(made["state"], "running");
        assert_eq!(made["limits"], json!({"memory_bytes": 1 << 30}));
        assert!(!made.to_string().contains("hidden"), "{made}");
        let path = format!("/v1/sandboxes/{}", id(&made));
        assert_eq!(client.get(&path).await.expect(200), made);
        assert_eq!(client.get("/v1/sandboxes/web").await.expect(200), made);
        let timeline = client.get("/v1/sandboxes/web/timeline").await.expect(200);
        assert!(timeline["runtime_ready_us"].is_u64(), "{timeline}");
        for (verb, state) in [
            ("pause", "paused"),
            ("resume", "running"),
            ("stop", "stopped"),
            ("resume", "running"),
            ("kill", "stopped"),
        ] {
            let sandbox = client.post(&format!("{path}/{verb}")).await.expect(200);
            assert_eq!(sandbox["state"], state, "after {verb}");
        }
        let times = json!({"lease_ms": 5000});
        let set = client.json("PUT", &format!("{path}/lifecycle"), &times).await.expect(200);
        assert_eq!(set["lifecycle"], times);
        client.delete("/v1/sandboxes/web").await.expect(200);
        assert_eq!(client.get(&path).await.code(), "not_found");
        assert_eq!(client.get("/v1/sandboxes/web").await.code(), "not_found");
        server.shut_down().await;
    });
}

#[test]
fn a_workspace_has_one_source_and_what_cannot_be_made_leaves_nothing() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        for (workspace, code, field) in [
            (json!({}), "invalid", "workspace.git"),
            (json!({"path": "app", "git": {"url": "/a"}}), "invalid", "workspace.path"),
            (json!({"git": {"url": "-a"}}), "invalid", "workspace.git.url"),
            (json!({"git": {"url": "/a", "depth": 0}}), "invalid", "workspace.git.depth"),
            (json!({"git": {"url": "/a", "tag": "b"}}), "invalid", "workspace.git.tag"),
            (json!({"git": {"url": "https://a.example/b"}}), "refused_by_policy", "workspace"),
        ] {
            let request = json!({"name": "web", "workspace": workspace});
            let answer = client.json("POST", "/v1/sandboxes", &request).await;
            assert_eq!(answer.code(), code, "{workspace}: {answer:?}");
            let found = answer.json()["error"]["details"]["field"].clone();
            assert_eq!(found, field, "{workspace}: {answer:?}");
            let put = client.json("PUT", "/v1/sandboxes/web", &request).await;
            assert_eq!(put.code(), code, "{workspace}: {put:?}");
        }
        let kind = ("content-type", "application/vnd.atoll.create");
        let twice = r#"{"workspace":{"git":{"url":"/a"}}}"#;
        for (body, field) in [
            ("", "body"),
            ("{}", "workspace"),
            ("{\"nam\":\"web\"}\narchive", "nam"),
            (&format!("{twice}\narchive"), "workspace.git"),
            ("{\"name\":\"web\"}\n\u{1f}no gzip", "body"),
        ] {
            let answer = client.send("POST", "/v1/sandboxes", &[kind], body).await;
            let error = &answer.json()["error"];
            assert_eq!(
                (&error["took_effect"], &error["details"]["field"]),
                (&json!("no"), &json!(field)),
                "{body:?}: {answer:?}"
            );
        }
        let long = format!("{{\"name\":\"{}\"", "a".repeat(world.config.body_bytes_max));
        assert_eq!(client.send("POST", "/v1/sandboxes", &[kind], &long).await.code(), "too_large");
        assert_eq!(client.get("/v1/sandboxes").await.expect(200)["sandboxes"], json!([]));
        // The name is free.
        client.json("POST", "/v1/sandboxes", &json!({"name": "web"})).await.expect(201);
    });
}

#[test]
fn a_creation_that_is_sent_again_to_the_next_server_makes_no_second_sandbox() {
    live(async {
        let world = World::new();
        let send = async |client: &Client, key: &str, body: &Value| {
            let headers = [("content-type", "application/json"), ("idempotency-key", key)];
            client.send("POST", "/v1/sandboxes", &headers, &body.to_string()).await
        };
        let request = json!({"env": {"A": "b"}, "labels": {"team": "red"}});
        let server = world.start().await;
        let made = send(&server.local(), "k", &request).await.expect(201);
        let failed = json!({"workspace": {"git": {"url": "/none"}}});
        assert!(send(&server.local(), "f", &failed).await.status != 201);
        server.shut_down().await;
        let server = world.start().await;
        let again = send(&server.local(), "k", &request).await;
        assert_eq!(again.headers["idempotency-replayed"], "true");
        assert_eq!(id(&again.expect(201)), id(&made));
        let other = json!({"env": {"A": "c"}, "labels": {"team": "red"}});
        assert_eq!(send(&server.local(), "k", &other).await.code(), "conflict");
        // One that failed can be another one.
        send(&server.local(), "f", &json!({})).await.expect(201);
        server.shut_down().await;
        // A day later nobody sends it again.
        world.clock.advance(std::time::Duration::from_secs(24 * 3600));
        let server = world.start().await;
        let anew = send(&server.local(), "k", &other).await;
        assert!(anew.headers.get("idempotency-replayed").is_none());
        assert_ne!(id(&anew.expect(201)), id(&made));
        server.shut_down().await;
    });
}

#[test]
fn a_hundred_who_ask_for_one_name_get_one_sandbox() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let held = world.host.hold(Call::Create, Moment::Before);
        let mut callers = JoinSet::new();
        for n in 0..100 {
            let key = atoll_api::key::Scope::Run;
            let client = if n % 2 == 0 { server.local() } else { server.with_key(key) };
            callers.spawn(async move { client.json("PUT", "/v1/sandboxes/web", &json!({})).await });
        }
        held.reached(1).await;
        held.open();
        let answers: Vec<Answer> = callers.join_all().await;
        let ids: BTreeSet<String> = answers.iter().map(|answer| id(&answer.json())).collect();
        assert_eq!(ids.len(), 1);
        let made = answers.iter().filter(|answer| answer.status == 201).count();
        let given = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!((made, given), (1, 99));
        assert_eq!(world.host.count(Call::Create), 1);
    });
}

#[test]
fn pages_hold_while_sandboxes_come_and_go() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        let mut there = BTreeSet::new();
        for n in 0..25 {
            let request = json!({"labels": {"kind": "kept", "n": n.to_string()}});
            there.insert(id(&client.json("POST", "/v1/sandboxes", &request).await.expect(201)));
        }
        let busy = client.clone();
        let others = tokio::spawn(async move {
            for _ in 0..40 {
                let other = busy.json("POST", "/v1/sandboxes", &json!({})).await.expect(201);
                busy.delete(&format!("/v1/sandboxes/{}", id(&other))).await.expect(200);
            }
        });
        while !others.is_finished() {
            let (mut seen, mut path) = (Vec::new(), "/v1/sandboxes?page_count=7".to_owned());
            loop {
                let page = client.get(&path).await.expect(200);
                let sandboxes = page["sandboxes"].as_array().unwrap();
                assert!(sandboxes.len() <= 7);
                seen.extend(sandboxes.iter().map(id));
                let Some(next) = page["next"].as_str() else { break };
                path = format!("/v1/sandboxes?page_count=7&cursor={next}");
            }
            let unique: BTreeSet<String> = seen.iter().cloned().collect();
            assert_eq!(unique.len(), seen.len(), "one was on two pages");
            assert!(unique.is_superset(&there), "one that was there is on no page");
        }
        others.await.unwrap();
    });
}

#[test]
fn lists_are_narrowed_by_state_and_labels() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        for (name, team) in [("a", "red"), ("b", "red"), ("c", "blue")] {
            let request = json!({"name": name, "labels": {"team": team, "x": "y=z"}});
            client.json("POST", "/v1/sandboxes", &request).await.expect(201);
        }
        client.post("/v1/sandboxes/b/pause").await.expect(200);
        for (query, expect) in [
            ("", vec!["a", "b", "c"]),
            ("?label=team%3Dred", vec!["a", "b"]),
            ("?label=team=red&state=paused", vec!["b"]),
            ("?state=running&state=paused&label=x=y=z", vec!["a", "b", "c"]),
            ("?label=team=red&label=x=none", vec![]),
            ("?state=stopped", vec![]),
        ] {
            let page = client.get(&format!("/v1/sandboxes{query}")).await.expect(200);
            let names = page["sandboxes"].as_array().unwrap().iter();
            let names: BTreeSet<&str> = names.map(|one| one["name"].as_str().unwrap()).collect();
            assert_eq!(names, expect.into_iter().collect(), "{query}");
        }
    });
}

#[test]
fn a_creation_that_is_sent_again_makes_no_second_sandbox() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        let send = async |key: &str, body: &str| {
            let headers = [("content-type", "application/json"), ("idempotency-key", key)];
            client.send("POST", "/v1/sandboxes", &headers, body).await
        };
        // The first caller goes away while it is made.
        let held = world.host.hold(Call::Create, Moment::Before);
        tokio::select! {
            _ = send("k1", "{}") => unreachable!("creations are held"),
            () = held.reached(1) => {}
        }
        held.open();
        world.host.heal();
        let again = send("k1", "{}").await;
        assert_eq!(again.headers["idempotency-replayed"], "true");
        let made = again.expect(201);
        assert_eq!(id(&send("k1", "{}").await.expect(201)), id(&made));
        assert_eq!(world.host.count(Call::Create), 1);
        let other = send("k2", "{}").await;
        assert!(other.headers.get("idempotency-replayed").is_none());
        assert_ne!(id(&other.expect(201)), id(&made));
        let conflict = send("k1", r#"{"image":"other"}"#).await;
        assert_eq!(conflict.status, 409);
        assert_eq!(conflict.json()["error"]["details"]["field"], "Idempotency-Key");
        // One that failed may be tried again under its key.
        world.host.fail(Call::Start, Moment::Before);
        assert_eq!(send("k3", "{}").await.code(), "internal");
        world.host.heal();
        let tried_again = send("k3", "{}").await;
        assert!(tried_again.headers.get("idempotency-replayed").is_none());
        tried_again.expect(201);
        // The key stays used when its sandbox is gone.
        client.delete(&format!("/v1/sandboxes/{}", id(&made))).await.expect(200);
        let gone = send("k1", "{}").await;
        assert_eq!((gone.status.as_u16(), gone.code().as_str()), (404, "not_found"));
    });
}

#[test]
fn a_creation_without_a_key_is_given_up_with_its_caller() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        let held = world.host.hold(Call::Create, Moment::Midway);
        let body = json!({});
        tokio::select! {
            _ = client.json("POST", "/v1/sandboxes", &body) => unreachable!("creations are held"),
            () = held.reached(1) => {}
        }
        // The only connection left is the one that asks.
        let left = "\natoll_http_connections 1\n";
        while !client.get("/metrics").await.text.contains(left) {
            tokio::task::yield_now().await;
        }
        held.open();
        world.host.until(|host| host.ids().is_empty()).await;
        assert_eq!(client.get("/v1/sandboxes").await.expect(200)["sandboxes"], json!([]));
    });
}
