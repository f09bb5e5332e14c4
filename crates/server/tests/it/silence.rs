//! Streams on which nothing happens for long, through a proxy that ends idle connections.

use crate::support::{World, live};
use atoll_api::key::Scope;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

/// How long the proxy bears silence.
const IDLE: Duration = Duration::from_millis(1500);

/// A proxy in front of `server` that ends connections on which nothing is said for
/// [`IDLE`] either way.
async fn proxy(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let (mut up, mut down) = (vec![0; 4096], vec![0; 4096]);
                loop {
                    let said = async {
                        tokio::select! {
                            length = client.read(&mut up) => {
                                server.write_all(&up[..length.ok()?]).await.ok()?;
                                Some(())
                            }
                            length = server.read(&mut down) => match length.ok()? {
                                0 => None,
                                length => client.write_all(&down[..length]).await.ok(),
                            }
                        }
                    };
                    if !matches!(timeout(IDLE, said).await, Ok(Some(()))) {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Whether a stream still goes on after twice as long as the proxy bears silence.
async fn outlives(proxy: SocketAddr, key: &str, path: &str, more: &str) -> bool {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (until, mut buffer, mut seen) = (Instant::now() + 2 * IDLE, vec![0; 4096], Vec::new());
    loop {
        match tokio::time::timeout_at(until, stream.read(&mut buffer)).await {
            Err(_) => break true,
            Ok(Ok(length @ 1..)) => {
                seen.extend_from_slice(&buffer[..length]);
                if !more.is_empty() {
                    // A pong, as every client of a WebSocket answers.
                    stream.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).await.unwrap();
                }
                let text = String::from_utf8_lossy(&seen);
                assert!(
                    text.starts_with("HTTP/1.1 200 ") || text.starts_with("HTTP/1.1 101 "),
                    "{text}"
                );
            }
            Ok(Ok(0) | Err(_)) => break false,
        }
    }
}

#[test]
fn heartbeats_keep_silent_streams_open_through_a_proxy() {
    live(async {
        for (heartbeat, lives) in
            [(Duration::from_millis(400), true), (Duration::from_secs(60), false)]
        {
            let mut world = World::new();
            world.config.heartbeat = heartbeat;
            world.guest.is_silent = true;
            let server = world.start().await;
            server.local().json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
            let key = server.with_key(Scope::Run).key.unwrap();
            let proxy = proxy(server.address).await;
            let exec = "/v1/sandboxes/web/execs/exe_00000000000000000abc";
            let (events, attach) = (format!("{exec}/events"), format!("{exec}/attach"));
            let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                           sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
            let outlived = tokio::join!(
                outlives(proxy, &key, &events, ""),
                outlives(proxy, &key, &attach, upgrade),
                outlives(proxy, &key, "/v1/sandboxes/web/files/watch?path=/", ""),
                outlives(proxy, &key, "/v1/events", ""),
            );
            assert_eq!(outlived, (lives, lives, lives, lives), "with {heartbeat:?}");
        }
    });
}
