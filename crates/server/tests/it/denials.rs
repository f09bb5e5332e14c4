//! What sandboxes were refused, over the API.

use crate::support::{World, live};
use atoll_api::denial::{Denial, DenialProtocol};
use atoll_engine::clock::Clock as _;
use serde_json::json;

#[test]
fn denials_are_of_one_sandbox_and_recorded() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        let mut ids = Vec::new();
        for name in ["web", "other"] {
            let made = client.json("POST", "/v1/sandboxes", &json!({"name": name})).await;
            ids.push(made.expect(201)["id"].as_str().unwrap().parse().unwrap());
        }
        let denial = |host: &str| Denial {
            seq: 0,
            at: world.clock.now(),
            code: "not-allowed".to_owned(),
            host: host.to_owned(),
            port: Some(443),
            protocol: DenialProtocol::Http,
            method: Some("GET".to_owned()),
            path: Some("/x".to_owned()),
            rule: None,
            layer: None,
            message: "no rule allows it".to_owned(),
            next_step: "ask the user".to_owned(),
            count: 3,
        };
        for n in 0..150 {
            server.engine.denied(ids[0], denial(&format!("{n}.example")));
        }
        let first = client.get("/v1/sandboxes/web/denials").await.expect(200);
        assert_eq!(
            (first["denials"].as_array().unwrap().len(), &first["next"]),
            (100, &json!(100))
        );
        assert_eq!(first["denials"][0]["host"], "0.example");
        assert_eq!(first["denials"][0]["protocol"], "http");
        let rest = client.get("/v1/sandboxes/web/denials?cursor=100").await.expect(200);
        assert_eq!(rest["denials"].as_array().unwrap().len(), 50);
        assert!(rest["next"].is_null(), "{rest}");
        let none = client.get("/v1/sandboxes/other/denials").await.expect(200);
        assert_eq!(none, json!({"denials": [], "missed": 0}));
        server.engine.audit().sync().await;
        let audit = client.get("/v1/audit?kind=egress_denied&sandbox=web&page_count=1").await;
        let audit = audit.expect(200);
        assert_eq!(audit["records"][0]["what"]["host"], "0.example");
        assert_eq!(audit["records"][0]["what"]["count"], 3);
        client.delete("/v1/sandboxes/web").await.expect(200);
        assert_eq!(client.get("/v1/sandboxes/web/denials").await.code(), "not_found");
        server.engine.denied(ids[0], denial("too.late"));
    });
}
