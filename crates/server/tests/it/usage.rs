//! What sandboxes have used, over the API.

use crate::support::{World, live};
use atoll_api::key::Scope;
use serde_json::json;
use std::time::Duration;

#[test]
fn usage_is_told_of_one_and_of_all_and_as_a_table() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        let mut ids = Vec::new();
        for (name, team) in [("web", "red"), ("db", "blue")] {
            let wanted = json!({"name": name, "labels": {"team": team}});
            let made = client.json("POST", "/v1/sandboxes", &wanted).await.expect(201);
            ids.push(made["id"].as_str().unwrap().to_owned());
            // They are listed by their age, and by their ids where that is the same.
            world.clock.advance(Duration::from_secs(1));
        }
        world.host.use_cpu(ids[0].parse().unwrap(), Duration::from_millis(1500));
        let usage = client.get("/v1/sandboxes/web/usage").await.expect(200);
        assert_eq!(usage["sandbox_id"], json!(ids[0]));
        assert_eq!(usage["used"], json!({"cpu_us": 1_500_000}));
        assert_eq!(usage["disk"]["is_complete"], true);
        client.delete("/v1/sandboxes/web").await.expect(200);
        assert_eq!(client.get("/v1/sandboxes/web/usage").await.code(), "not_found");
        let usage = client.get(&format!("/v1/sandboxes/{}/usage", ids[0])).await.expect(200);
        assert_eq!(usage["used"]["cpu_us"], 1_500_000);
        assert!(usage["deleted_at"].is_string(), "{usage}");

        let red = client.get("/v1/usage?label=team=red").await.expect(200);
        assert_eq!(red["total"], json!({"sandboxes": 1, "used": {"cpu_us": 1_500_000}}));
        assert_eq!(red["sandboxes"][0]["name"], "web");
        let all = client.get("/v1/usage?page_count=1").await.expect(200);
        assert_eq!(all["total"]["sandboxes"], 2);
        assert!(all["next"].is_string(), "{all}");

        let csv = client.get("/v1/usage?format=csv").await;
        assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8; header=present");
        let lines: Vec<&str> = csv.text.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("sandbox_id,name,labels,"), "{lines:?}");
        assert!(lines[1].starts_with(&format!("{},web,\"{{\"\"team\"\":", ids[0])), "{lines:?}");
        assert!(lines[1].contains(",1,1500000,"), "{lines:?}");

        for (path, field) in [
            ("/v1/usage?label=team", "label"),
            ("/v1/usage?page_count=0", "page_count"),
            ("/v1/usage?format=xml", "format"),
            ("/v1/usage?format=csv&page_count=5", "page_count"),
            ("/v1/usage?since=1", "since"),
        ] {
            let refused = client.get(path).await.expect(400);
            assert_eq!(refused["error"]["details"]["field"], field, "{path}: {refused}");
        }
        // Who may only look may look.
        let reader = server.with_key(Scope::Read);
        reader.get("/v1/usage").await.expect(200);
        assert_eq!(server.stranger().get("/v1/usage").await.status, 401);
    });
}
