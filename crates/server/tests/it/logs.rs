//! What is logged: ids, routes and outcomes, and never what was sent.

use crate::support::{World, live};
use atoll_api::key::Scope;
use atoll_engine::backend::fake::{Call, Moment};
use serde_json::json;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Everything that is logged, at every level, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

/// Writes fields.
struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Log {
    fn line(&self, kind: &str, record: impl FnOnce(&mut Fields<'_>)) {
        let mut text = self.0.lock().unwrap();
        text.push_str(kind);
        record(&mut Fields(&mut text));
        text.push('\n');
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.line(span.metadata().name(), |fields| span.record(fields));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.line("record", |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.line(event.metadata().level().as_str(), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn nothing_that_was_sent_is_logged() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    live(async {
        let world = World::new();
        let server = world.start().await;
        let client = server.with_key(Scope::Run);
        let request = json!({"env": {"A": "hidden-1"}, "labels": {"a": "hidden-2"}});
        client.json("PUT", "/v1/sandboxes/hidden-3", &request).await.expect(201);
        for body in [r#"{"env": {"A": ["hidden-4"]}}"#, r#"{"hidden-5": 1}"#, "hidden-6"] {
            let kind = [("content-type", "application/json"), ("idempotency-key", "hidden-7")];
            let refused = client.send("POST", "/v1/sandboxes", &kind, body).await;
            assert_eq!(refused.status, 400);
        }
        client.get("/v1/sandboxes?label=hidden-8").await.expect(400);
        client.get("/v1/hidden-9").await.expect(404);
        let key = [("x-api-key", "e2b_hidden-10"), ("cookie", "hidden-11")];
        server.stranger().send("GET", "/v1/sandboxes", &key, "").await.expect(401);
        let note = json!({"scope": "read", "note": "hidden-12"});
        let made = server.local().json("POST", "/v1/keys", &note).await.expect(201);
        let text = log.text();
        assert!(!text.contains("hidden"), "{text}");
        for secret in [client.key.unwrap(), made["secret"].as_str().unwrap().to_owned()] {
            assert!(!text.contains(&secret["e2b_".len()..]), "{text}");
        }
        assert!(text.contains(r#" route="/v1/sandboxes/{sandbox}""#), "{text}");
        server.shut_down().await;
    });
}

#[test]
fn what_the_caller_is_not_told_is_logged_under_the_id_of_the_request() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    live(async {
        let world = World::new();
        let server = world.start().await;
        world.host.fail(Call::Create, Moment::Before);
        let answer = server.local().json("POST", "/v1/sandboxes", &json!({})).await;
        assert_eq!(answer.status, 500);
        let cause = "could not do what a test lets fail";
        assert!(!answer.text.contains(cause), "{answer:?}");
        let text = log.text();
        // The engine tells of it too, and knows no requests.
        let is_it = |line: &&str| line.starts_with("ERROR") && line.contains(cause);
        let line = text.lines().find(is_it);
        assert!(line.is_some(), "{text}");
        let is_told = |line: &str| line.starts_with("WARN") && line.contains("the host failed");
        assert!(text.lines().any(is_told), "{text}");
        let id = answer.headers["x-request-id"].to_str().unwrap();
        assert!(text.contains(&format!("request request_id={id}")), "{text}");
    });
}
