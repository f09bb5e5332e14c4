//! The end of a server: what runs finishes, what streams is told, and it takes limited time.

use crate::support::{World, live};
use atoll_engine::backend::fake::{Call, Moment};
use http_body_util::BodyExt as _;
use serde_json::json;
use std::time::Duration;

#[test]
fn requests_that_run_finish_and_streams_are_told() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let stream = server.local().open("GET", "/v1/events", &[], "").await;
        let held = world.host.hold(Call::Create, Moment::Before);
        let client = server.local();
        let creation =
            tokio::spawn(async move { client.json("PUT", "/v1/sandboxes/web", &json!({})).await });
        held.reached(1).await;
        let address = server.address;
        let ending = tokio::spawn(server.shut_down());
        // The stream ends while the request goes on.
        let body = stream.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.into()).unwrap();
        assert!(text.ends_with("event: end\ndata: {\"reason\":\"shutdown\"}\n\n"), "{text}");
        assert!(tokio::net::TcpStream::connect(address).await.is_err(), "it still listens");
        assert!(!ending.is_finished());
        held.open();
        creation.await.unwrap().expect(201);
        ending.await.unwrap();
        // It is there for the next server.
        world.host.heal();
        let again = world.start().await;
        let found = again.local().get("/v1/sandboxes/web").await.expect(200);
        assert_eq!(found["state"], "running");
    });
}

#[test]
fn requests_that_do_not_finish_are_broken_off() {
    live(async {
        let mut world = World::new();
        world.config.shutdown_grace = Duration::from_millis(300);
        let server = world.start().await;
        let held = world.host.hold(Call::Create, Moment::Before);
        let client = server.local();
        let creation = tokio::spawn(async move {
            client
                .open("PUT", "/v1/sandboxes/web", &[("content-type", "application/json")], "{}")
                .await
        });
        // One under a key, whose task outlives its connection.
        let client = server.local();
        let keyed = tokio::spawn(async move {
            let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
            client.open("POST", "/v1/sandboxes", &headers, "{}").await
        });
        held.reached(2).await;
        drop(server.stop);
        server.task.await.unwrap();
        assert!(creation.await.is_err(), "there was nothing to answer with");
        assert!(keyed.await.is_err());
        held.open();
    });
}

#[test]
fn connections_that_idle_do_not_hold_the_server_up() {
    live(async {
        let world = World::new();
        let server = world.start().await;
        let idle = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let client = server.local();
        client.get("/healthz").await.expect(200);
        server.shut_down().await;
        drop(idle);
    });
}
