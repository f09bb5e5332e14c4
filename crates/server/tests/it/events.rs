//! Streams of events: followed, broken off and taken up again.

use crate::support::{Client, World, live};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::time::Duration;

/// A stream that is read message by message.
struct Follower {
    body: Incoming,
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Message {
    id: Option<u64>,
    event: Option<String>,
    data: Value,
}

impl Follower {
    async fn open(client: &Client, path: &str, last: Option<u64>) -> Self {
        let last = last.map(|last| last.to_string());
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        let response = client.open("GET", path, &headers, "").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    /// The next message; nothing at the end of the stream.
    async fn next(&mut self) -> Option<Message> {
        loop {
            while let Some((piece, rest)) = self.text.split_once("\n\n") {
                let message = parse(piece);
                self.text = rest.to_owned();
                if message.is_some() {
                    return message;
                }
            }
            let frame = self.body.frame().await?.unwrap();
            let bytes = frame.into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    async fn take(&mut self, count: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        while messages.len() < count {
            messages.push(self.next().await.unwrap());
        }
        messages
    }
}

/// One message; nothing for a comment.
fn parse(piece: &str) -> Option<Message> {
    let field =
        |name: &str| piece.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let data = serde_json::from_str(&field("data: ")?).unwrap();
    Some(Message { id: field("id: ").map(|id| id.parse().unwrap()), event: field("event: "), data })
}

fn kinds(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.data["what"]["kind"].as_str().unwrap()).collect()
}

#[test]
fn what_happens_is_told_as_it_happens() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        client.json("PUT", "/v1/sandboxes/before", &json!({})).await.expect(201);
        let mut follower = Follower::open(&client, "/v1/events", None).await;
        let begin = follower.body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(begin, "id: 2\n\n", "where it begins, for who comes back");
        let made = client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        client.post("/v1/sandboxes/web/pause").await.expect(200);
        let messages = follower.take(4).await;
        assert_eq!(kinds(&messages), ["requested", "started", "pausing", "paused"]);
        for message in &messages {
            assert_eq!(message.event, None);
            assert_eq!(message.data["sandbox_id"], made["id"]);
            assert_eq!(message.data["seq"].as_u64(), message.id);
        }
    });
}

#[test]
fn who_comes_back_has_every_event_once() {
    live(async {
        let server = World::new().start().await;
        let client = server.with_key(atoll_api::key::Scope::Run);
        // More than are read at once, by many at a time.
        let makers: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    for _ in 0..20 {
                        client.json("POST", "/v1/sandboxes", &json!({})).await.expect(201);
                    }
                })
            })
            .collect();
        let total = 8 * 20 * 2;
        let (mut seen, mut last) = (Vec::new(), None);
        while seen.len() < total {
            let path = "/v1/events?after=0";
            let mut follower = Follower::open(&client, path, last).await;
            let part = 33.min(total - seen.len());
            let messages = follower.take(part).await;
            last = messages.last().unwrap().id;
            seen.extend(messages.into_iter().map(|message| message.id.unwrap()));
            // Dropped here, in the middle of the stream.
        }
        for maker in makers {
            maker.await.unwrap();
        }
        let expect: Vec<u64> = (1..=u64::try_from(total).unwrap()).collect();
        assert_eq!(seen, expect);
    });
}

#[test]
fn a_stream_can_be_of_one_sandbox() {
    live(async {
        let server = World::new().start().await;
        let client = server.local();
        for name in ["a", "b"] {
            client.json("PUT", &format!("/v1/sandboxes/{name}"), &json!({})).await.expect(201);
        }
        let path = "/v1/events?after=0&sandbox=b";
        let mut follower = Follower::open(&client, path, None).await;
        client.post("/v1/sandboxes/a/kill").await.expect(200);
        client.post("/v1/sandboxes/b/pause").await.expect(200);
        let messages = follower.take(4).await;
        assert_eq!(kinds(&messages), ["requested", "started", "pausing", "paused"]);
        let ids: std::collections::BTreeSet<_> =
            messages.iter().map(|message| message.data["sandbox_id"].to_string()).collect();
        assert_eq!(ids.len(), 1);
    });
}

#[test]
fn a_quiet_stream_shows_that_it_lives_and_makes_room_when_its_client_goes() {
    live(async {
        let mut world = World::new();
        world.config.heartbeat = Duration::from_millis(20);
        world.config.streams_max = 1;
        let server = world.start().await;
        let client = server.local();
        let mut follower = Follower::open(&client, "/v1/events", None).await;
        for said in ["id: 0\n\n", ": \n\n"] {
            let frame = follower.body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), said);
        }
        let refused = client.get("/v1/events").await;
        assert_eq!(refused.status, 429);
        assert_eq!(refused.json()["error"]["details"]["limit"], "streams_max");
        drop(follower);
        // Its place is free as soon as the server has seen that it went.
        let mut again = client.open("GET", "/v1/events", &[], "").await;
        while again.status() == 429 {
            tokio::task::yield_now().await;
            again = client.open("GET", "/v1/events", &[], "").await;
        }
        assert_eq!(again.status(), 200);
    });
}

#[test]
fn who_comes_back_too_late_learns_how_many_are_missing() {
    live(async {
        let mut world = World::new();
        // Old events make room for new ones soon.
        world.engine.records_bytes_max = 128 * 1024;
        let server = world.start().await;
        let client = server.local();
        let first = loop {
            client.json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
            client.delete("/v1/sandboxes/web").await.expect(200);
            let first = server.engine.events(0, 1).await.unwrap()[0].seq;
            if first > 1 {
                break first;
            }
        };
        let mut follower = Follower::open(&client, "/v1/events?after=0", None).await;
        let missed = follower.next().await.unwrap();
        assert_eq!(missed.event.as_deref(), Some("missed"));
        assert_eq!((missed.id, missed.data), (None, json!({"count": first - 1})));
        assert_eq!(follower.next().await.unwrap().id, Some(first));
        // Who had the last one of those misses nothing.
        let mut follower = Follower::open(&client, "/v1/events", Some(first - 1)).await;
        assert_eq!(follower.next().await.unwrap().id, Some(first));
    });
}
