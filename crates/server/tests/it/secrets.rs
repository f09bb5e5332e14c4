//! Secrets over the API: set, listed, deleted, never given back.

use crate::support::{World, live};
use atoll_api::key::Scope;
use serde_json::json;

#[test]
fn a_secret_is_set_and_listed_and_its_value_is_nowhere() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        assert_eq!(client.get("/v1/secrets").await.expect(200), json!({"secrets": []}));
        let value = json!({"value": "s3cr3t-value"});
        let made = client.json("PUT", "/v1/secrets/GITHUB", &value).await.expect(201);
        assert_eq!(made["name"], "GITHUB");
        world.clock.advance(std::time::Duration::from_secs(1));
        let binary = json!({"value_base64": "/wA="});
        let again = client.json("PUT", "/v1/secrets/GITHUB", &binary).await.expect(200);
        assert_eq!(again["created_at"], made["created_at"]);
        assert_ne!(again["updated_at"], made["updated_at"]);
        let listed = client.get("/v1/secrets").await.expect(200);
        assert_eq!(listed["secrets"], json!([again]));
        let reader = server.with_key(Scope::Read);
        assert_eq!(reader.get("/v1/secrets").await.expect(200), listed);
        let name = "GITHUB".parse().unwrap();
        let kept = server.engine.secret(&name).await.unwrap().unwrap();
        assert_eq!(kept.as_bytes(), b"\xff\0", "what is kept is what was sent");
        assert_eq!(client.delete("/v1/secrets/GITHUB").await.status, 204);
        assert_eq!(client.delete("/v1/secrets/GITHUB").await.code(), "not_found");
        assert!(server.engine.secret(&name).await.unwrap().is_none());
    });
}

#[test]
fn what_is_no_secret_is_refused_without_its_value() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        let large = "v4lue".repeat(20_000);
        for (path, body, code, field) in [
            ("GITHUB", json!({}), "invalid", "value"),
            ("GITHUB", json!({"value": ""}), "invalid", "value"),
            ("GITHUB", json!({"value": "v4lue", "value_base64": "YQ=="}), "invalid", "value"),
            ("GITHUB", json!({"value_base64": "v4lue"}), "invalid", "value_base64"),
            ("GITHUB", json!({"value": "v4lue", "more": 1}), "invalid", "more"),
            ("a%2Fb", json!({"value": "v4lue"}), "invalid", "secret"),
            ("%2E%2E", json!({"value": "v4lue"}), "invalid", "secret"),
            ("GITHUB", json!({"value": large}), "too_large", ""),
        ] {
            let refused = client.json("PUT", &format!("/v1/secrets/{path}"), &body).await;
            assert_eq!(refused.code(), code, "{path}: {}", refused.text);
            let said = refused.json()["error"]["details"]["field"].clone();
            assert_eq!(said.as_str().unwrap_or_default(), field, "{}", refused.text);
            assert!(!refused.text.contains("v4lue"), "{}", refused.text);
        }
        assert_eq!(client.get("/v1/secrets").await.expect(200), json!({"secrets": []}));
    });
}

#[test]
fn secrets_that_cannot_be_read_are_an_error_that_says_no_path() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.local();
        let value = json!({"value": "one"});
        client.json("PUT", "/v1/secrets/A", &value).await.expect(201);
        let file = world.folder().join("secrets");
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        for answer in
            [client.get("/v1/secrets").await, client.json("PUT", "/v1/secrets/B", &value).await]
        {
            assert_eq!(answer.code(), "internal");
            assert!(!answer.text.contains(world.folder().to_str().unwrap()), "{}", answer.text);
        }
        assert_eq!(std::fs::read(&file).unwrap(), &whole[..whole.len() - 1], "it is left alone");
        std::fs::write(&file, &whole).unwrap();
        assert_eq!(client.get("/v1/secrets").await.expect(200)["secrets"][0]["name"], "A");
    });
}
