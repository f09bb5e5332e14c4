//! Clients: HTTP/1.1 byte by byte, and HTTP/2.

use super::{Inside, Site, expose, host, told};
use crate::support::{World, live};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(super) async fn http2<B>(address: SocketAddr) -> SendRequest<B>
where
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let mut connection = Box::pin(connection);
    // Until the server has said what it can, of which nobody is told.
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    while !connection.is_extended_connect_protocol_enabled() {
        tokio::select! {
            _ = &mut connection => panic!("it has ended"),
            _ = tick.tick() => {}
        }
    }
    tokio::spawn(connection);
    sender
}

#[test]
fn many_requests_of_one_http2_connection_go_on_at_once() {
    live(async {
        let inside = Inside::mirror().await;
        let mut world = World::new();
        world.previews.streams_max = 100;
        let site = Site::new(world, inside.port).await;
        let sender = http2(site.server.address).await;
        let mut requests = tokio::task::JoinSet::new();
        for n in 0..100 {
            let mut sender = sender.clone();
            let request = Request::builder()
                .method("POST")
                .uri(format!("http://{}/{n}?q", site.host()))
                .header("cookie", "a=1")
                .header("cookie", "__atoll=ours")
                .header("cookie", format!("n={n}"))
                .body(Full::<Bytes>::from(format!("body {n}")))
                .unwrap();
            requests.spawn(async move {
                let response = sender.send_request(request).await.unwrap();
                assert_eq!(response.status(), 200);
                let bytes = response.into_body().collect().await.unwrap().to_bytes();
                (n, serde_json::from_slice::<serde_json::Value>(&bytes).unwrap())
            });
        }
        while let Some(answered) = requests.join_next().await {
            let (n, mirrored) = answered.unwrap();
            assert_eq!(mirrored["target"], format!("/{n}?q"));
            assert_eq!(mirrored["body"], format!("body {n}"));
            assert_eq!(told(&mirrored, "cookie"), Some(format!("a=1; n={n}").as_str()));
            assert_eq!(told(&mirrored, "host"), Some(site.host().as_str()));
        }
        // The API is served so too, to whom it is open.
        let mut sender = http2(site.server.address).await;
        for (host, status) in [("localhost", 200), ("evil.example", 403)] {
            let uri = format!("http://{host}/healthz");
            let request = Request::builder().uri(uri).body(Empty::<Bytes>::new()).unwrap();
            assert_eq!(sender.send_request(request).await.unwrap().status(), status, "{host}");
        }
    });
}

#[test]
fn an_http2_connection_without_requests_is_ended() {
    live(async {
        let mut world = World::new();
        world.config.header_timeout = Duration::from_millis(200);
        let site = Site::new(world, 1).await;
        let mut idle = TcpStream::connect(site.server.address).await.unwrap();
        // The preface and empty settings, and nothing more.
        idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        idle.read_to_end(&mut Vec::new()).await.unwrap();
        // Nor is one kept that does not even say which version it speaks.
        let mut silent = TcpStream::connect(site.server.address).await.unwrap();
        silent.write_all(b"PR").await.unwrap();
        drop(silent.read_to_end(&mut Vec::new()).await);
    });
}

#[test]
fn grpc_is_spoken_as_http2_with_its_trailers() {
    live(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(async |request: Request<hyper::body::Incoming>| {
                assert_eq!(request.headers()["te"], "trailers");
                let authority = request.uri().authority().unwrap().to_string();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let trailers = HeaderMap::from_iter([(
                    hyper::header::HeaderName::from_static("grpc-status"),
                    "0".parse().unwrap(),
                )]);
                let text = format!("{authority} {}", String::from_utf8_lossy(&body));
                let body = Full::new(Bytes::from(text))
                    .with_trailers(std::future::ready(Some(Ok(trailers))));
                Ok::<_, Infallible>(Response::new(body))
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
        });
        let site = Site::new(World::new(), port).await;
        let mut sender = http2(site.server.address).await;
        let request = Request::builder()
            .method("POST")
            .uri(format!("http://{}/Service/Call", site.host()))
            .header("content-type", "application/grpc+proto")
            .header("te", "trailers")
            .body(Full::<Bytes>::from("message"))
            .unwrap();
        let body = sender.send_request(request).await.unwrap().into_body();
        let collected = body.collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(collected.to_bytes(), format!("{} message", site.host()));
        server.abort();
    });
}

#[test]
fn no_bytes_of_one_request_are_taken_for_another_one() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
        let chunked = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
        let both = format!("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}");
        let length = hidden.len();
        let cases = [
            ("control", format!("Content-Length: {length}\r\n\r\n{hidden}"), Some(hidden)),
            ("chunks", format!("Transfer-Encoding: chunked\r\n\r\n{chunked}"), Some(hidden)),
            // The length says nothing then (RFC 9112, section 6.3).
            ("both", both, Some(hidden)),
            (
                "lengths",
                format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"),
                None,
            ),
            ("list", format!("Content-Length: 0, {length}\r\n\r\n{hidden}"), None),
            ("sign", format!("Content-Length: +{length}\r\n\r\n{hidden}"), None),
            ("not last", format!("Transfer-Encoding: chunked, identity\r\n\r\n{chunked}"), None),
            ("unknown", format!("Transfer-Encoding: xchunked\r\n\r\n{chunked}"), None),
            ("space", format!("Content-Length : {length}\r\n\r\n{hidden}"), None),
            ("fold", format!("X: a\r\n Content-Length: {length}\r\n\r\n"), None),
            ("chunk size", format!("Transfer-Encoding: chunked\r\n\r\n-1\r\n{hidden}"), None),
            ("chunk end", "Transfer-Encoding: chunked\r\n\r\n1\r\nxGET /hidden ".to_owned(), None),
            ("control character", "X: a\0b\r\n\r\n".to_owned(), None),
        ];
        for (case, rest, body) in cases {
            let before = inside.asked.lock().unwrap().len();
            let host = site.host();
            let text =
                format!("POST /{case} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{rest}");
            let answer = site.raw(&text.replace("/control character", "/control")).await;
            let asked = inside.asked.lock().unwrap().split_off(before);
            assert_eq!(answer.starts_with("HTTP/1.1 200 "), body.is_some(), "{case}: {answer}");
            let bodies: Vec<_> = asked.iter().map(|one| one["body"].as_str().unwrap()).collect();
            assert_eq!(bodies, body.into_iter().collect::<Vec<_>>(), "{case}");
        }
    });
}

#[test]
fn each_request_of_a_connection_is_judged_anew() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let public = json!({ "visibility": "public" });
        let other = host(&expose(&site.server, 2, &public).await);
        let ask = |host: &str, last: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n{last}\r\n");
        let all = [
            ask(&site.host(), ""),
            ask("localhost", ""),
            ask(&other, ""),
            ask("x.localhost", ""),
            ask("evil.example", ""),
            ask(
                &site.host(),
                "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, close\r\n",
            ),
        ];
        let answers = site.raw(&all.concat()).await;
        let statuses: Vec<&str> =
            answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(statuses, ["200", "401", "502", "404", "403", "200"], "{answers}");
        let asked = inside.asked.lock().unwrap();
        assert_eq!(told(&asked[1], "upgrade"), None);
        assert_eq!(told(&asked[1], "http2-settings"), None);
    });
}

#[test]
fn a_tunnel_to_anything_but_a_websocket_is_refused() {
    live(async {
        let inside = Inside::mirror().await;
        let site = Site::new(World::new(), inside.port).await;
        let host = site.host();
        let request =
            format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = site.raw(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert_eq!(inside.asked.lock().unwrap().len(), 0);
    });
}
