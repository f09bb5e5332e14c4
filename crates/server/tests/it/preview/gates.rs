//! Who gets in, and who does not get where.

use super::{Inside, Site, expose, host, told};
use crate::support::{World, live};
use atoll_api::key::Scope;
use serde_json::json;
use std::time::Duration;

#[test]
fn a_private_preview_is_opened_by_its_token_and_by_nothing_else() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let token = site.preview["token"].as_str().unwrap();
        let key = site.server.with_key(Scope::Admin).key.unwrap();
        let (open, path) = (site.host(), site.path());
        assert_eq!(site.get("/x?y=1").await.json()["target"], "/x?y=1");
        let by_path = site.ask("127.0.0.1", &format!("{path}x?y=1"), &[]).await;
        assert_eq!(by_path.json()["target"], "/x?y=1");
        let bare = open.replace(&format!("-{token}"), "");
        let by_header = site.ask(&bare, "/", &[("atoll-preview-token", token)]).await;
        assert_eq!((by_header.status, by_header.json()["target"].as_str()), (200, Some("/")));
        assert_eq!(by_header.headers["cache-control"], "no-store");

        let other = "0".repeat(32);
        let wrong = open.replace(token, &other);
        let other_port = open.replacen(&inside.port.to_string(), "1", 1);
        let answers = [
            site.ask(&bare, "/", &[]).await,
            site.ask(&wrong, "/", &[]).await,
            site.ask(&wrong, "/", &[("atoll-preview-token", token)]).await,
            site.ask(&bare, "/", &[("atoll-preview-token", &other)]).await,
            site.ask(&bare, "/", &[("x-api-key", &key)]).await,
            site.ask(&bare, "/", &[("authorization", &format!("Bearer {key}"))]).await,
            site.ask(&other_port, "/", &[]).await,
            site.ask("127.0.0.1", &path.replace(token, &other), &[]).await,
            site.ask("x.localhost", "/", &[]).await,
        ];
        for answer in answers {
            assert_eq!(answer.code(404), "not_found");
            assert!(!answer.text.contains(token) && !answer.text.contains("web"));
        }
        assert_eq!(inside.asked.lock().unwrap().len(), 3);
    });
}

#[test]
fn what_was_taken_back_or_has_expired_opens_nothing() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let first = site.host();
        let path = format!("/v1/sandboxes/web/ports/{}/expose", inside.port);
        assert_eq!(site.server.local().delete(&path).await.status.as_u16(), 204);
        assert_eq!(site.get("/").await.code(404), "not_found");
        let again = expose(&site.server, inside.port, &json!({ "expires_in_ms": 1000 })).await;
        let second = host(&again);
        assert_ne!(first, second);
        assert_eq!(site.ask(&second, "/", &[]).await.status, 200);
        assert_eq!(site.ask(&first, "/", &[]).await.code(404), "not_found");
        site.world.clock.advance(Duration::from_secs(1));
        assert_eq!(site.ask(&second, "/", &[]).await.code(404), "not_found");
        let public = json!({ "visibility": "public" });
        let public = host(&expose(&site.server, inside.port, &public).await);
        assert_eq!(site.ask(&public, "/", &[]).await.status, 200);
        assert_eq!(site.ask(&second, "/", &[]).await.code(404), "not_found");
        site.server.local().delete("/v1/sandboxes/web").await.expect(200);
        assert_eq!(site.ask(&public, "/", &[]).await.code(404), "not_found");
    });
}

#[test]
fn no_name_of_a_preview_or_a_stranger_leads_to_the_api() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let key = site.server.with_key(Scope::Admin).key.unwrap();
        let headers = [("x-api-key", key.as_str())];
        // Controls: with its own names the same request gets there.
        for host in ["localhost", "127.0.0.1:1", "[::1]"] {
            assert_eq!(site.ask(host, "/v1/sandboxes", &headers).await.status, 200, "{host}");
        }
        // The sandbox is asked, and without the key.
        let mirrored = site.ask(&site.host(), "/v1/sandboxes", &headers).await.json();
        assert_eq!(
            (&mirrored["target"], told(&mirrored, "x-api-key")),
            (&json!("/v1/sandboxes"), None)
        );
        for host in ["x.localhost", "a.b.localhost", ".localhost"] {
            assert_eq!(site.ask(host, "/v1/sandboxes", &headers).await.code(404), "not_found");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "atoll"] {
            assert_eq!(site.ask(host, "/v1/sandboxes", &headers).await.code(403), "forbidden");
            assert_eq!(site.ask(host, "/healthz", &[]).await.code(403), "forbidden");
            assert_eq!(site.ask(host, &site.path(), &[]).await.code(403), "forbidden");
        }
        let two = "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nHost: x\r\n\
                   Connection: close\r\n\r\n";
        assert!(site.raw(two).await.starts_with("HTTP/1.1 400 "));
        // Whoever has the unix socket has no need of previews.
        let local = site.server.local().get(&site.path()).await;
        assert_eq!(local.code(), "not_found");
        assert_eq!(inside.asked.lock().unwrap().len(), 1);
    });
}

#[test]
fn a_listener_of_their_own_serves_previews_and_nothing_else() {
    live(async {
        let inside = Inside::mirror().await;
        let mut world = World::new();
        world.has_preview_listener = true;
        let site = Site::new(world, inside.port).await;
        let apart = site.server.preview_address.unwrap();
        assert!(site.host().ends_with(&format!(":{}", apart.port())));
        let ask = async |address, host: &str, path: &str| {
            super::open(address, host, path, &[]).await.status().as_u16()
        };
        assert_eq!(ask(apart, &site.host(), "/").await, 200);
        assert_eq!(ask(apart, "localhost", "/healthz").await, 404);
        assert_eq!(ask(site.server.address, &site.host(), "/").await, 403);
        assert_eq!(ask(site.server.address, "localhost", "/healthz").await, 200);
        let path = format!("/preview/{}/", site.host().split('.').next().unwrap());
        assert_eq!(ask(apart, "localhost", &path).await, 200);
        assert_eq!(ask(site.server.address, "localhost", &path).await, 404);
    });
}
