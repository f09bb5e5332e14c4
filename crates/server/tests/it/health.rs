//! How the server says that it is.

use crate::support::{World, live};
use serde_json::{Value, json};

fn check<'a>(health: &'a Value, name: &str) -> &'a Value {
    let checks = health["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn a_server_with_everything_is_well() {
    live(async {
        let mut world = World::new();
        world.config.descriptors_free_min = 1;
        let server = world.start().await;
        let health = server.stranger().get("/healthz").await.expect(200);
        assert_eq!(health["status"], "ok", "{health}");
        for name in ["descriptors", "disk", "records", "shutdown"] {
            assert_eq!(*check(&health, name), json!({"name": name, "status": "ok"}));
        }
    });
}

#[test]
fn what_runs_short_is_said() {
    for name in ["descriptors", "disk"] {
        live(async {
            let mut world = World::new();
            match name {
                "disk" => world.config.disk_free_bytes_min = u64::MAX,
                _ => world.config.descriptors_free_min = u64::MAX,
            }
            let server = world.start().await;
            let health = server.stranger().get("/healthz").await.expect(200);
            assert_eq!(health["status"], "degraded");
            assert_eq!(check(&health, name)["status"], "degraded");
            assert!(check(&health, name)["reason"].is_string());
            assert_eq!(check(&health, "records")["status"], "ok");
        });
    }
}

#[test]
fn records_without_room_are_said_until_there_is_room_again() {
    live(async {
        let mut world = World::new();
        world.engine.records_bytes_max = 96 * 1024;
        let server = world.start().await;
        let client = server.local();
        loop {
            let answer = client.json("POST", "/v1/sandboxes", &json!({})).await;
            if answer.status != 201 {
                assert_eq!(answer.json()["error"]["details"]["limit"], "records_bytes_max");
                break;
            }
        }
        let health = client.get("/healthz").await.expect(200);
        assert_eq!(check(&health, "records")["status"], "degraded", "{health}");
        let page = client.get("/v1/sandboxes?page_count=1000").await.expect(200);
        for sandbox in page["sandboxes"].as_array().unwrap() {
            let id = sandbox["id"].as_str().unwrap();
            client.delete(&format!("/v1/sandboxes/{id}")).await.expect(200);
        }
        world.host.until(|host| host.ids().is_empty()).await;
        client.json("POST", "/v1/sandboxes", &json!({})).await.expect(201);
        // What was seen holds for a moment.
        while client.get("/healthz").await.expect(200)["status"] != "ok" {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn counters_are_told() {
    live(async {
        let server = World::new().start().await;
        let client = server.with_key(atoll_api::key::Scope::Run);
        for name in ["a", "b"] {
            client.json("PUT", &format!("/v1/sandboxes/{name}"), &json!({})).await.expect(201);
        }
        client.json("PUT", "/v1/sandboxes/a", &json!({})).await.expect(200);
        client.json("POST", "/v1/sandboxes", &json!({"name": "a"})).await.expect(409);
        client.post("/v1/sandboxes/a/pause").await.expect(200);
        client.send("BREW", "/v1/sandboxes/a?secret=1", &[], "").await;
        client.get("/v1/nothing").await;
        let answer = client.get("/metrics").await;
        assert!(answer.headers["content-type"].to_str().unwrap().contains("openmetrics"));
        for line in [
            r#"atoll_sandboxes{state="running"} 1"#,
            r#"atoll_sandboxes{state="paused"} 1"#,
            r#"atoll_sandboxes{state="failed"} 0"#,
            r#"atoll_sandbox_creates_total{outcome="made"} 2"#,
            r#"atoll_sandbox_creates_total{outcome="given"} 1"#,
            r#"atoll_sandbox_creates_total{outcome="conflict"} 1"#,
            "atoll_sandbox_create_duration_seconds_count 2",
            r#"atoll_http_requests_total{method="PUT",route="/v1/sandboxes/{sandbox}",status="201"} 2"#,
            r#"atoll_http_requests_total{method="GET",route="",status="404"} 1"#,
            r#"atoll_http_requests_total{method="other",route="/v1/sandboxes/{sandbox}",status="405"} 1"#,
        ] {
            assert!(answer.text.lines().any(|one| one == line), "{line} is not in {}", answer.text);
        }
        assert!(!answer.text.contains("secret") && !answer.text.contains("BREW"));
        assert!(answer.text.ends_with("# EOF\n"));
    });
}
