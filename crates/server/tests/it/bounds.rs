//! Clients that are slow, or send too much.

use crate::support::{Running, World, live};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn raw(server: &Running, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// All that comes until the server closes.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A server that closes while the client still writes resets the connection.
    drop(stream.read_to_end(&mut bytes).await);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_body_is_as_large_as_it_may_be() {
    live(async {
        let mut world = World::new();
        world.config.body_bytes_max = 1000;
        let server = world.start().await;
        let client = server.local();
        let request = |bytes: usize| {
            let text = json!({"image": ""}).to_string();
            text.replace("\"\"", &format!("\"{}\"", "i".repeat(bytes - text.len())))
        };
        let kind = [("content-type", "application/json")];
        // It is too long for an image, but it was read.
        let fits = client.send("POST", "/v1/sandboxes", &kind, &request(1000)).await;
        assert_eq!(fits.json()["error"]["details"]["field"], "image");
        let large = client.send("POST", "/v1/sandboxes", &kind, &request(1001)).await;
        assert_eq!(large.status, 413);
        let error = &large.json()["error"];
        assert_eq!(error["code"], "too_large");
        assert_eq!(error["details"]["limit"], "body_bytes_max");
        assert_eq!(error["details"]["limit_value"], 1000);
    });
}

#[test]
fn headers_are_as_large_as_they_may_be() {
    live(async {
        let mut world = World::new();
        world.config.header_bytes_max = 4096;
        let server = world.start().await;
        let request = |bytes: usize| {
            let filler = "x".repeat(bytes);
            format!(
                "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: {filler}\r\n\r\n"
            )
        };
        for (bytes, expect) in [(3000, "200 OK"), (5000, "431 "), (1 << 20, "431 ")] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            // What does not fit need not be taken.
            drop(stream.write_all(request(bytes).as_bytes()).await);
            let text = rest(stream).await;
            let is_reset = bytes == 1 << 20 && text.is_empty();
            assert!(is_reset || text.starts_with(&format!("HTTP/1.1 {expect}")), "{bytes}: {text}");
        }
    });
}

#[test]
fn who_does_not_finish_the_headers_is_left() {
    live(async {
        let mut world = World::new();
        world.config.header_timeout = Duration::from_millis(200);
        let server = world.start().await;
        for text in ["", "GET /healthz HTT", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "] {
            let stream = raw(&server, text).await;
            let text = rest(stream).await;
            assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
        }
        // A connection that was used is not kept for ever either.
        let used = raw(&server, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(rest(used).await.starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn who_does_not_finish_the_body_is_told_so() {
    live(async {
        let mut world = World::new();
        world.config.body_timeout = Duration::from_millis(200);
        let server = world.start().await;
        let key = server.with_key(atoll_api::key::Scope::Run).key.unwrap();
        let text = format!(
            "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\
             Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
        );
        let text = rest(raw(&server, &text).await).await;
        assert!(text.starts_with("HTTP/1.1 400"), "{text}");
        assert!(text.contains("body_timeout_ms"), "{text}");
        assert_eq!(server.engine.list(&Default::default()).unwrap().sandboxes, []);
    });
}

#[test]
fn slow_clients_take_only_their_own_places() {
    live(async {
        let mut world = World::new();
        world.config.connections_max = 3;
        world.config.header_timeout = Duration::from_millis(300);
        let server = world.start().await;
        let mut slow = Vec::new();
        for _ in 0..9 {
            slow.push(raw(&server, "GET /healthz HTTP/1.1\r\n").await);
        }
        // It waits for a place, and gets one when the slow ones are left.
        server.stranger().get("/healthz").await.expect(200);
        assert!(slow.len() == 9);
    });
}

#[test]
fn who_fills_one_socket_does_not_close_the_other() {
    live(async {
        let mut world = World::new();
        world.config.connections_max = 2;
        let server = world.start().await;
        let mut slow = Vec::new();
        for _ in 0..4 {
            slow.push(raw(&server, "GET /healthz HTTP/1.1\r\n").await);
        }
        let client = server.local();
        // Both places are taken for as long as headers may take, beside this one's.
        let taken = "\natoll_http_connections 3\n";
        while !client.get("/metrics").await.text.contains(taken) {
            tokio::task::yield_now().await;
        }
        assert_eq!(slow.len(), 4);
    });
}

#[test]
fn bytes_that_are_no_http_end_the_connection() {
    live(async {
        let server = World::new().start().await;
        for text in ["\0\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n"] {
            let text = rest(raw(&server, text).await).await;
            assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
        }
        server.stranger().get("/healthz").await.expect(200);
    });
}
