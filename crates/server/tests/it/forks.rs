//! Snapshots over the API: taken, listed, forked, gone back to and deleted.

use crate::support::{Client, World, live};
use atoll_api::key::Scope;
use atoll_engine::backend::Processes;
use atoll_engine::backend::fake::{Call, Moment};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap()
}

async fn take(client: &Client, sandbox: &str, body: &Value) -> Value {
    client.json("POST", &format!("/v1/sandboxes/{sandbox}/snapshots"), body).await.expect(201)
}

async fn listed(client: &Client, query: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/snapshots{query}")).await.expect(200);
    page["snapshots"].as_array().unwrap().clone()
}

#[test]
fn a_snapshot_from_its_taking_to_its_end() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.with_key(Scope::Run);
        let request = json!({"name": "web", "env": {"A": "b"}, "limits": {"pids": 7}});
        let web = client.json("POST", "/v1/sandboxes", &request).await.expect(201);
        let wanted = json!({"labels": {"step": "one"}, "delete_after_ms": 60_000});
        let first = take(&client, "web", &wanted).await;
        assert_eq!(
            (&first["sandbox_id"], &first["sandbox_name"], &first["way"], &first["limits"]["pids"]),
            (&web["id"], &json!("web"), &json!("copy"), &json!(7))
        );
        client.post("/v1/sandboxes/web/stop").await.expect(200);
        world.clock.advance(Duration::from_secs(1));
        let second = take(&client, id(&web), &json!({})).await;
        assert_eq!((&second["way"], &second["frozen_us"]), (&json!("rename"), &json!(0)));
        assert_eq!(second["parent_id"], first["id"]);
        let reader = server.with_key(Scope::Read);
        assert_eq!(reader.get(&format!("/v1/snapshots/{}", id(&first))).await.expect(200), first);
        assert_eq!(listed(&reader, "").await, [first.clone(), second.clone()]);
        assert_eq!(
            listed(&reader, "?label=step%3Done&sandbox=web").await,
            std::slice::from_ref(&first)
        );
        let page = reader.get("/v1/snapshots?page_count=1").await.expect(200);
        assert_eq!(page["next"], first["id"]);
        let rest = format!("?page_count=1&after={}", id(&first));
        assert_eq!(listed(&reader, &rest).await, std::slice::from_ref(&second));

        let fork = format!("/v1/snapshots/{}/fork", id(&first));
        let body = json!({"count": 2, "sandbox": {"name": "try", "labels": {"n": "1"}}});
        let forks = client.json("POST", &fork, &body).await.expect(201);
        assert_eq!(forks["snapshot_id"], first["id"]);
        for (fork, name) in forks["forks"].as_array().unwrap().iter().zip(["try-1", "try-2"]) {
            let sandbox = &fork["sandbox"];
            assert_eq!(sandbox["name"], name, "{fork}");
            assert_eq!(sandbox["snapshot_id"], first["id"], "{fork}");
            assert_eq!(sandbox["limits"]["pids"], 7, "{fork}");
            assert_eq!(sandbox["state"], "running", "{fork}");
        }
        let back = json!({"snapshot": first["id"]});
        let back = client.json("POST", "/v1/sandboxes/try-2/restore", &back).await.expect(200);
        assert_eq!((&back["state"], &back["snapshot_id"]), (&json!("running"), &first["id"]));

        // What is of it outlives it, and it outlives what it is of.
        client.delete("/v1/sandboxes/web").await.expect(200);
        assert_eq!(listed(&reader, &format!("?sandbox={}", id(&web))).await.len(), 2);
        assert_eq!(reader.get("/v1/snapshots?sandbox=web").await.code(), "not_found");
        assert_eq!(client.delete(&format!("/v1/snapshots/{}", id(&second))).await.status, 204);
        world.clock.advance(Duration::from_secs(61));
        while !listed(&reader, "").await.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.json("POST", &fork, &json!({})).await.code(), "not_found");
        client.get("/v1/sandboxes/try-1").await.expect(200);
    });
}

#[test]
fn who_may_only_look_takes_and_forks_nothing() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        let taken = take(&client, "web", &json!({})).await;
        let snapshot = format!("/v1/snapshots/{}", id(&taken));
        let (fork, back) = (format!("{snapshot}/fork"), json!({"snapshot": taken["id"]}));
        for (path, body) in [
            ("/v1/sandboxes/web/snapshots", json!({})),
            ("/v1/sandboxes/web/fork", json!({})),
            ("/v1/sandboxes/web/restore", back),
            (&fork, json!({})),
        ] {
            for (scope, status) in [(Scope::Read, 403), (Scope::Run, 0)] {
                let answer = server.with_key(scope).json("POST", path, &body).await;
                let is_refused = answer.status == 403;
                assert_eq!(is_refused, status == 403, "{path} with {scope}: {answer:?}");
            }
            // What a key cannot give it cannot have by a fork.
            let network = json!({"sandbox": {"network": {"allow_cidr": ["10.0.0.0/8"]}}});
            if path.ends_with("fork") {
                let answer = server.with_key(Scope::Run).json("POST", path, &network).await;
                assert_ne!(answer.status, 201, "{answer:?}");
            }
        }
        assert_eq!(server.with_key(Scope::Read).delete(&snapshot).await.status, 403);
        assert_eq!(server.with_key(Scope::Run).delete(&snapshot).await.status, 204);
    });
}

#[test]
fn a_caller_who_goes_away_leaves_no_sandbox_frozen() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        let web = client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        let held = world.host.hold(Call::Snapshot, Moment::Before);
        let mut caller = UnixStream::connect(&server.socket).await.unwrap();
        let request = "POST /v1/sandboxes/web/snapshots HTTP/1.1\r\nHost: localhost\r\n\
                       Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        caller.write_all(request.as_bytes()).await.unwrap();
        held.reached(1).await;
        let sandbox = id(&web).parse().unwrap();
        assert_eq!(world.host.processes(sandbox), Processes::Frozen);
        drop(caller);
        // Another one waits for its turn meanwhile.
        let body = json!({});
        let (next, ()) = tokio::join!(take(&client, "web", &body), async { held.open() });
        assert_eq!(world.host.processes(sandbox), Processes::Running);
        let taken = listed(&client, "").await;
        assert!(taken.contains(&next), "{taken:?}");
        assert!(taken.iter().any(|one| one["id"] == next["parent_id"]), "{taken:?}");
    });
}

#[test]
fn each_fork_is_made_or_not_by_itself() {
    live(async {
        let mut world = World::new();
        world.engine.sandboxes_max = 3;
        let server = world.start().await;
        let client = server.local();
        client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        client.json("PUT", "/v1/sandboxes/try-2", &json!({})).await.expect(201);
        let body = json!({"count": 2, "sandbox": {"name": "try"}});
        let forks = client.json("POST", "/v1/sandboxes/web/fork", &body).await.expect(207);
        assert_eq!(forks["forks"][0]["sandbox"]["name"], "try-1");
        let error = &forks["forks"][1]["error"];
        assert_eq!((&error["code"], &error["took_effect"]), (&json!("conflict"), &json!("no")));
        let kept = listed(&client, "").await;
        assert_eq!((kept.len(), &kept[0]["id"]), (1, &forks["snapshot_id"]));

        // The host is full now: of what made no sandbox at all, nothing stays.
        let none = client.json("POST", "/v1/sandboxes/web/fork", &json!({"count": 2})).await;
        assert_eq!(none.status, 429, "{none:?}");
        assert_eq!(listed(&client, "").await, kept);
        let none = client
            .json("POST", &format!("/v1/snapshots/{}/fork", id(&kept[0])), &json!({"count": 2}))
            .await;
        assert_eq!(none.code(), "capacity");
    });
}

#[test]
fn forks_that_are_asked_for_again_are_the_same() {
    live(async {
        let mut world = World::new();
        world.engine.sandboxes_max = 3;
        let server = world.start().await;
        let client = server.local();
        client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        let taken = take(&client, "web", &json!({})).await;
        let fork = format!("/v1/snapshots/{}/fork", id(&taken));
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        let send = async || client.send("POST", &fork, &headers, r#"{"count": 3}"#).await;
        let ids = |forks: &Value| -> Vec<Value> {
            let forks = forks["forks"].as_array().unwrap();
            forks.iter().map(|fork| fork["sandbox"]["id"].clone()).collect()
        };
        // There is room for two.
        let first = send().await.expect(207);
        client.delete("/v1/sandboxes/web").await.expect(200);
        // Its place is free when its files are gone.
        let second = loop {
            let answer = send().await;
            if answer.status != 207 {
                break answer;
            }
        };
        assert!(second.headers.get("idempotency-replayed").is_none());
        let (first, second) = (ids(&first), ids(&second.expect(201)));
        assert_eq!(first.iter().filter(|id| !id.is_null()).count(), 2);
        for (before, after) in first.iter().zip(&second) {
            assert!(before.is_null() || before == after, "{first:?} {second:?}");
        }
        let third = send().await;
        assert_eq!(third.headers["idempotency-replayed"], "true");
        assert_eq!(ids(&third.expect(201)), second);
    });
}
