//! Servers inside that do not keep to HTTP, on purpose or not.

use super::{Inside, Site, eventually, open};
use crate::support::{World, live};
use http_body_util::BodyExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

#[test]
fn what_is_no_answer_is_told_as_such() {
    live(async {
        let header = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(200 << 10));
        let headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: x\r\n".repeat(1000));
        for (case, bytes) in [
            ("nothing", ""),
            ("garbage", "SSH-2.0-OpenSSH_9.2\r\n"),
            ("half a head", "HTTP/1.1 200 OK\r\nX: "),
            ("no status", "HTTP/1.1 \r\n\r\n"),
            ("a large header", &header),
            ("many headers", &headers),
            ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
            ("a bad length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
            ("interim answers only", "HTTP/1.1 100 Continue\r\n\r\n"),
            (
                "another protocol",
                "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
            ),
        ] {
            let inside = Inside::says(bytes).await;
            let site = Site::new(World::new(), inside.port).await;
            let answer = site.get("/").await;
            assert_eq!(answer.code(502), "unreachable", "{case}");
            assert!(!answer.json()["error"]["next_step"].as_str().unwrap().is_empty());
            let page = site.ask(&site.host(), "/", &[("accept", "text/html")]).await;
            assert!(page.status == 502 && page.text.starts_with("<!doctype html>"), "{case}");
        }
    });
}

#[test]
fn what_has_no_end_before_an_answer_is_given_up() {
    live(async {
        for (begin, repeated) in [
            ("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
            ("HTTP/1.1 200 OK\r\nX: ", "x"),
            ("HTTP/1.1 200 OK\r\n", "X: x\r\n"),
        ] {
            let said = Arc::<AtomicUsize>::default();
            let count = said.clone();
            let inside = Inside::talks(move |mut stream: TcpStream, _| {
                let count = count.clone();
                async move {
                    stream.write_all(begin.as_bytes()).await.unwrap();
                    let block = repeated.repeat(1024);
                    while stream.write_all(block.as_bytes()).await.is_ok() {
                        count.fetch_add(block.len(), Ordering::Relaxed);
                    }
                }
            })
            .await;
            let site = Site::new(World::new(), inside.port).await;
            assert_eq!(site.get("/").await.code(502), "unreachable", "{repeated:?}");
            let said = said.load(Ordering::Relaxed);
            assert!(said < 16 << 20, "{said} bytes were taken of {repeated:?}");
        }
    });
}

#[test]
fn an_answer_that_breaks_off_is_not_taken_for_a_whole_one() {
    live(async {
        for (case, bytes) in [
            ("length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
            ("chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf"),
            ("no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
            (
                "bad chunk",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
            ),
        ] {
            let inside = Inside::says(bytes).await;
            let site = Site::new(World::new(), inside.port).await;
            let mut body = open(site.server.address, &site.host(), "/", &[]).await.into_body();
            let frame = body.frame().await.unwrap();
            if let Ok(frame) = frame {
                assert_eq!(frame.into_data().unwrap(), "half", "{case}");
                assert!(body.frame().await.unwrap().is_err(), "{case}");
            }
            let holds = || site.server.engine.get(site.id).unwrap().holds.len();
            eventually("nothing goes on any more", || holds() == 0).await;
        }
    });
}

#[test]
fn nothing_behind_an_answer_is_one() {
    live(async {
        let second = "HTTP/1.1 200 OK\r\nSet-Cookie: stolen=1\r\nContent-Length: 6\r\n\r\nSECOND";
        let first = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nFIRST";
        let inside = Inside::says(format!("{first}{second}")).await;
        let site = Site::new(World::new(), inside.port).await;
        let host = site.host();
        let once = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let last = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answers = site.raw(&format!("{once}{once}{last}")).await;
        assert_eq!(answers.matches("FIRST").count(), 3, "{answers}");
        assert!(!answers.contains("SECOND") && !answers.contains("stolen"), "{answers}");
    });
}

#[test]
fn a_head_and_no_body_come_with_the_length_of_the_body() {
    live(async {
        let inside = Inside::says("HTTP/1.0 200 OK\r\nContent-Length: 12345\r\n\r\n").await;
        let site = Site::new(World::new(), inside.port).await;
        let host = site.host();
        let request = format!("HEAD / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = site.raw(&request).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.contains("content-length: 12345\r\n") && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
    });
}
