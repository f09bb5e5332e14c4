//! Bodies: as they come, in bounded memory, for as long as they go on.

use super::{Inside, Site, eventually, open};
use crate::support::{World, live};
use http_body_util::BodyExt as _;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// More than all buffers between two sides could keep.
const MUCH: usize = 64 << 20;
/// What those of the kernel may keep, of both connections.
const KEPT_MAX: usize = 24 << 20;
/// Whoever cannot write for so long is held back.
const HELD_BACK: Duration = Duration::from_millis(500);

#[test]
fn events_are_told_one_by_one() {
    live(async {
        let next = Arc::new(Semaphore::new(0));
        let go_on = next.clone();
        let inside = Inside::talks(move |mut stream: TcpStream, _| {
            let go_on = go_on.clone();
            async move {
                let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
                stream.write_all(head).await.unwrap();
                for n in 0..3 {
                    stream.write_all(format!("data: {n}\n\n").as_bytes()).await.unwrap();
                    go_on.acquire().await.unwrap().forget();
                }
            }
        })
        .await;
        let site = Site::new(World::new(), inside.port).await;
        let mut body = open(site.server.address, &site.host(), "/", &[]).await.into_body();
        for n in 0..3 {
            // The next one is said only after this one was heard.
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(frame, format!("data: {n}\n\n"));
            next.add_permits(1);
        }
        assert!(body.frame().await.is_none());
    });
}

#[test]
fn who_does_not_read_holds_the_sandbox_back_and_loses_nothing() {
    live(async {
        let written = Arc::<AtomicUsize>::default();
        let count = written.clone();
        let inside = Inside::talks(move |mut stream: TcpStream, _| {
            let count = count.clone();
            async move {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                let block = vec![b'x'; 64 << 10];
                while count.load(Ordering::Relaxed) < MUCH {
                    stream.write_all(&block).await.unwrap();
                    count.fetch_add(block.len(), Ordering::Relaxed);
                }
            }
        })
        .await;
        let site = Site::new(World::new(), inside.port).await;
        let mut body = open(site.server.address, &site.host(), "/", &[]).await.into_body();
        let mut before = 0;
        let mut tick = tokio::time::interval(HELD_BACK);
        loop {
            tick.tick().await;
            let now = written.load(Ordering::Relaxed);
            if now > 0 && now == before {
                break;
            }
            before = now;
        }
        assert!(before < KEPT_MAX, "{before} bytes were taken of which none was read");
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            read += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(read, MUCH);
    });
}

#[test]
fn a_sandbox_that_does_not_read_holds_the_client_back() {
    live(async {
        let go_on = Arc::new(Semaphore::new(0));
        let read_on = go_on.clone();
        let inside = Inside::talks(move |mut stream: TcpStream, head| {
            let read_on = read_on.clone();
            async move {
                assert!(head.contains(&format!("content-length: {MUCH}\r\n")), "{head}");
                read_on.acquire().await.unwrap().forget();
                let mut body = vec![0; MUCH];
                stream.read_exact(&mut body).await.unwrap();
                let is_whole = body.iter().all(|&byte| byte == b'y');
                let answer = format!("HTTP/1.1 200 OK\r\n\r\n{is_whole}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        })
        .await;
        let site = Site::new(World::new(), inside.port).await;
        let stream = TcpStream::connect(site.server.address).await.unwrap();
        let (mut from, mut to) = stream.into_split();
        let head = format!(
            "PUT / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {MUCH}\r\n\r\n",
            site.host()
        );
        to.write_all(head.as_bytes()).await.unwrap();
        let block = vec![b'y'; 64 << 10];
        let mut sent = 0;
        while sent < MUCH {
            match timeout(HELD_BACK, to.write(&block[..block.len().min(MUCH - sent)])).await {
                Ok(length) => sent += length.unwrap(),
                Err(_) => break,
            }
        }
        assert!(sent < KEPT_MAX, "{sent} bytes were taken of which none was read");
        go_on.add_permits(1);
        while sent < MUCH {
            sent += to.write(&block[..block.len().min(MUCH - sent)]).await.unwrap();
        }
        let mut answer = String::new();
        from.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("true"), "{answer}");
    });
}

#[test]
fn who_goes_away_ends_the_connection_to_the_port() {
    live(async {
        let (ended, mut ends) = mpsc::channel(1);
        let (begun, mut begins) = mpsc::channel(1);
        let inside = Inside::talks(move |mut stream: TcpStream, head| {
            let (begun, ended) = (begun.clone(), ended.clone());
            async move {
                begun.send(()).await.unwrap();
                if head.starts_with("GET /begun") {
                    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx";
                    stream.write_all(head).await.unwrap();
                }
                let end = stream.read(&mut [0; 1]).await;
                let is_over = match end {
                    Ok(length) => length == 0,
                    Err(error) => error.kind() == ErrorKind::ConnectionReset,
                };
                ended.send(is_over).await.unwrap();
            }
        })
        .await;
        let site = Site::new(World::new(), inside.port).await;
        for path in ["/begun", "/silent"] {
            let mut stream = TcpStream::connect(site.server.address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", site.host());
            stream.write_all(request.as_bytes()).await.unwrap();
            let holds = || site.server.engine.get(site.id).unwrap().holds.len();
            begins.recv().await.unwrap();
            assert_eq!(holds(), 1);
            assert!(ends.try_recv().is_err());
            drop(stream);
            assert!(ends.recv().await.unwrap(), "{path}");
            eventually("nothing holds it any more", || holds() == 0).await;
        }
    });
}

#[test]
fn silence_is_cut_off_where_the_operator_says_so() {
    live(async {
        let inside = Inside::talks(async |mut stream: TcpStream, head| {
            if head.starts_with("GET /slow") {
                // Each time in time, and altogether much longer.
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n").await.unwrap();
                let mut tick = tokio::time::interval(Duration::from_millis(150));
                for _ in 0..8 {
                    tick.tick().await;
                    stream.write_all(b"x").await.unwrap();
                }
            }
            if head.starts_with("GET /begun") {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nx").await.unwrap();
            }
            drop(stream.read(&mut [0; 1]).await);
        })
        .await;
        let mut world = World::new();
        world.previews.idle = Duration::from_millis(500);
        let site = Site::new(world, inside.port).await;
        assert_eq!(site.get("/silent").await.code(504), "unreachable");
        assert_eq!(site.get("/slow").await.text, "xxxxxxxx");
        let cut = open(site.server.address, &site.host(), "/begun", &[]).await;
        assert!(cut.into_body().collect().await.is_err());
    });
}
