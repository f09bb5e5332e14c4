//! Keys that may little, pages of browsers and names that lead elsewhere, against the API.

use crate::support::{Running, World, live};
use atoll_api::key::Scope;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SECRET: &str = "a-word-that-nobody-may-see";

/// Sends these bytes over TCP, and gives all that comes back.
async fn raw(server: &Running, bytes: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 4096]);
    // Up to its end, or to where nothing more comes of what is no whole request.
    loop {
        let quiet = if answer.is_empty() { 5000 } else { 500 };
        let read = timeout(Duration::from_millis(quiet), stream.read(&mut buffer));
        match read.await {
            Ok(Ok(length @ 1..)) => answer.extend_from_slice(&buffer[..length]),
            // A connection may be reset when its end was not read.
            Ok(Ok(0) | Err(_)) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

async fn sandbox(server: &Running) -> Value {
    let request = json!({ "env": { "KEY": SECRET } });
    server.local().json("PUT", "/v1/sandboxes/web", &request).await.expect(201)
}

#[test]
fn a_key_that_may_only_see_is_told_no_secret() {
    live(async {
        let server = World::new().start().await;
        let made = sandbox(&server).await;
        let expose = "/v1/sandboxes/web/ports/80/expose";
        let preview = server.local().json("POST", expose, &json!({})).await.expect(200);
        let token = preview["token"].as_str().unwrap();
        let (see, run) = (server.with_key(Scope::Read), server.with_key(Scope::Run));
        // The control: whoever may run is told the token.
        assert!(run.get("/v1/sandboxes/web/ports").await.text.contains(token));
        let api = see.get("/v1/openapi.json").await.expect(200);
        let mut allowed = 0;
        for (path, item) in api["paths"].as_object().unwrap() {
            let id = made["id"].as_str().unwrap();
            let path = path.replace("{sandbox}", id).replace("{service}", "web");
            let path = path.replace("{port}", "80").replace("{exec}", "exe_00000000000000000abc");
            if item.get("get").is_none() || path == "/v1/openapi.json" {
                continue;
            }
            let response = see.open("GET", &path, &[], "").await;
            if response.status().is_success() {
                allowed += 1;
            }
            let mut body = response.into_body();
            let mut seen = Vec::new();
            // A stream of events has told all that has happened long before.
            let quiet = Duration::from_millis(200);
            while let Ok(Some(Ok(frame))) = timeout(quiet, body.frame()).await {
                seen.extend(frame.into_data().unwrap_or_default());
            }
            let text = String::from_utf8_lossy(&seen);
            assert!(!text.contains(SECRET) && !text.contains(token), "{path}: {text}");
        }
        assert!(allowed >= 7, "only {allowed} were looked at");
    });
}

#[test]
fn a_page_of_somebody_else_gets_nothing_done_by_a_browser() {
    live(async {
        let server = World::new().start().await;
        sandbox(&server).await;
        let port = server.address.port();
        let origin = "Origin: http://evil.example\r\n";
        // What a browser sends for a page: no key, and a body of a kind that needs no leave.
        for (what, request) in [
            (
                "a form",
                "POST /v1/sandboxes HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n",
            ),
            ("an image", "GET /v1/sandboxes HTTP/1.1\r\n"),
            ("a stream", "GET /v1/events HTTP/1.1\r\nAccept: text/event-stream\r\n"),
            (
                "a question for leave",
                "OPTIONS /v1/sandboxes HTTP/1.1\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-api-key\r\n",
            ),
            ("a cookie", "GET /v1/sandboxes HTTP/1.1\r\nCookie: x-api-key=e2b_00\r\n"),
            (
                "a socket",
                "GET /v1/sandboxes/web/execs/exe_00000000000000000abc/attach HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            ),
        ] {
            for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
                let close =
                    if what == "a socket" { "Connection: upgrade" } else { "Connection: close" };
                let answer =
                    raw(&server, &format!("{request}{origin}Host: {host}\r\n{close}\r\n\r\n{{}}"))
                        .await;
                assert!(answer.starts_with("HTTP/1.1 401 "), "{what}: {answer}");
                assert!(
                    !answer.to_ascii_lowercase().contains("access-control-"),
                    "{what}: {answer}"
                );
            }
        }
        // A name of the page's own that leads here, with a key that it would have stolen.
        let key = server.with_key(Scope::Admin).key.unwrap();
        for path in ["/v1/sandboxes", "/v1/keys", "/healthz", "/metrics", "/v1/openapi.json"] {
            for host in [
                "evil.example",
                "localhost.evil.example",
                "127.0.0.1.nip.io",
                "localhost:80@evil.example",
            ] {
                let head = format!(
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {key}\r\nConnection: close\r\n\r\n"
                );
                let answer = raw(&server, &head).await;
                assert!(
                    answer.starts_with("HTTP/1.1 403 ") || answer.starts_with("HTTP/1.1 400 "),
                    "{path} {host}: {answer}"
                );
            }
            // The control.
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\nConnection: close\r\n\r\n"
            );
            assert!(raw(&server, &head).await.starts_with("HTTP/1.1 200 "), "{path}");
        }
    });
}

#[test]
fn a_request_is_one_request() {
    live(async {
        let server = World::new().start().await;
        sandbox(&server).await;
        let key = server.with_key(Scope::Read).key.unwrap();
        let with = format!("Host: localhost\r\nX-API-Key: {key}\r\n");
        let hidden = format!("DELETE /v1/sandboxes/web HTTP/1.1\r\n{with}\r\n");
        for (case, head) in [
            ("two lengths", format!("Content-Length: 0\r\nContent-Length: {}\r\n", hidden.len())),
            (
                "a length and chunks",
                format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", hidden.len()),
            ),
            ("odd chunks", "Transfer-Encoding: xchunked\r\n".to_owned()),
            ("a length with a sign", format!("Content-Length: +{}\r\n", hidden.len())),
            ("a name with a space", format!("Content-Length : {}\r\n", hidden.len())),
            ("a folded line", "X: a\r\n b\r\n".to_owned()),
            ("two hosts", "Host: evil.example\r\n".to_owned()),
            ("two keys", "X-API-Key: e2b_00\r\n".to_owned()),
        ] {
            let answers =
                raw(&server, &format!("GET /v1/sandboxes HTTP/1.1\r\n{with}{head}\r\n{hidden}"))
                    .await;
            // What is deleted needs more than this key: 403 says that it came to be a request.
            let was_one = answers.matches("HTTP/1.1 ").count() <= 1
                || answers.contains("HTTP/1.1 403 ")
                    && !head.contains("Content-Length")
                    && !head.contains("chunked");
            assert!(was_one, "{case}: {answers}");
            server.local().get("/v1/sandboxes/web").await.expect(200);
        }
        // Nobody can say that a request is another one.
        for name in [
            "X-HTTP-Method-Override",
            "X-HTTP-Method",
            "X-Method-Override",
            "X-Original-URL",
            "X-Rewrite-URL",
        ] {
            let head = format!(
                "GET /v1/sandboxes/web HTTP/1.1\r\n{with}{name}: DELETE\r\nConnection: close\r\n\r\n"
            );
            assert!(raw(&server, &head).await.starts_with("HTTP/1.1 200 "), "{name}");
            server.local().get("/v1/sandboxes/web").await.expect(200);
        }
    });
}

#[test]
fn ids_lead_nowhere_but_to_what_they_name() {
    live(async {
        let server = World::new().start().await;
        sandbox(&server).await;
        let key = server.with_key(Scope::Run).key.unwrap();
        for path in [
            "/v1/sandboxes/..",
            "/v1/sandboxes/../keys",
            "/v1/sandboxes/%2e%2e/keys",
            "/v1/sandboxes/..%2fkeys",
            "/v1/sandboxes/web%2f..%2f..%2fkeys",
            "/v1/sandboxes/web%00",
            "/v1/sandboxes/web/",
            "/v1/sandboxes//web",
            "//v1/keys",
            "/v1/sandboxes/%ff",
            "/v1/sandboxes/web;x=1",
            "/v1/sandboxes/web/execs/..%2f..%2f..%2fkeys",
            "/v1/sandboxes/web/execs/%2e%2e",
            "/v1/sandboxes/web/services/..%2f..%2fkill/restart",
            "/v1/sandboxes/web/ports/80%2f..%2f..%2fkill/expose",
            "/v1/sandboxes/web/ports/99999999999999999999/expose",
            "/preview/../v1/keys",
            "/preview/%2e%2e/v1/keys",
        ] {
            for method in ["GET", "POST", "DELETE"] {
                let head = format!(
                    "{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
                let answer = raw(&server, &head).await;
                let is_refused = ["400", "403", "404", "405"]
                    .iter()
                    .any(|code| answer.starts_with(&format!("HTTP/1.1 {code} ")));
                assert!(is_refused, "{method} {path}: {answer}");
                assert!(!answer.contains("\"keys\""), "{method} {path}: {answer}");
            }
        }
        let state = server.local().get("/v1/sandboxes/web").await.expect(200);
        assert_eq!(state["state"], "running");
    });
}

#[test]
fn tokens_of_previews_and_keys_are_not_found_by_trying() {
    live(async {
        let server = World::new().start().await;
        sandbox(&server).await;
        let expose = "/v1/sandboxes/web/ports/80/expose";
        let preview = server.local().json("POST", expose, &json!({})).await.expect(200);
        let (token, url) =
            (preview["token"].as_str().unwrap(), preview["path_url"].as_str().unwrap());
        let path = url.strip_prefix(&format!("http://{}", server.address)).unwrap();
        let ask = async |path: &str, headers: &str| {
            let head = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n"
            );
            raw(&server, &head).await
        };
        // The control: nothing listens, but whoever has the token is told so.
        assert!(ask(path, "").await.starts_with("HTTP/1.1 502 "), "{path}");
        let other = if token.ends_with('0') { "1" } else { "0" };
        let almost = path.replace(token, &format!("{}{other}", &token[..token.len() - 1]));
        let without = path.replace(&format!("-{token}"), "");
        let another_port = path.replace("/80-", "/81-");
        let unknown = path.replace("80-", "80-ffff");
        let mut answers = Vec::new();
        for path in [
            &almost,
            &without,
            &another_port,
            &unknown,
            &path.replace(token, &token.to_uppercase()),
        ] {
            answers.push((path.clone(), ask(path, "").await));
        }
        answers.push((
            "header".to_owned(),
            ask(
                &without,
                &format!(
                    "Atoll-Preview-Token: {}\r\n",
                    &almost[almost.len() - 33..almost.len() - 1]
                ),
            )
            .await,
        ));
        for (path, answer) in &answers {
            assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
            // Whether there is a sandbox, or a port, is not told apart.
            assert!(answer.contains("there is no preview at this address"), "{path}: {answer}");
        }
        // A key of the API opens no preview, and the token of one no API.
        let key = server.with_key(Scope::Admin).key.unwrap();
        assert!(ask(&without, &format!("X-API-Key: {key}\r\n")).await.starts_with("HTTP/1.1 404 "));
        assert!(
            ask("/v1/sandboxes", &format!("X-API-Key: {token}\r\n"))
                .await
                .starts_with("HTTP/1.1 401 ")
        );
        let half = &key[..key.len() - 1];
        assert!(
            ask("/v1/sandboxes", &format!("X-API-Key: {half}\r\n"))
                .await
                .starts_with("HTTP/1.1 401 ")
        );
        assert!(
            ask("/v1/sandboxes", &format!("X-API-Key: {key}\r\n"))
                .await
                .starts_with("HTTP/1.1 200 ")
        );
    });
}
