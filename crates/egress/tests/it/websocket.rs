//! WebSockets go through, and what is in them is searched as anything else.

use crate::lab::{Decided, Lab, NAME, PLACEHOLDER, Stream, VALUE, refused};
use atoll_egress::tls::{Offer, Upstream};
use futures_util::{SinkExt as _, StreamExt as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async, client_async};

/// Says again what it hears, and for `token?` what it was sent in the head.
fn host(lab: &Lab) -> SocketAddr {
    lab.raw_host(|stream| async {
        let mut token = String::new();
        #[expect(clippy::result_large_err, reason = "the library has it so")]
        let keep = |request: &Request, response: Response| {
            let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap());
            token = header("authorization").unwrap_or("nothing").to_owned();
            assert_eq!(header("sec-websocket-extensions").is_some(), token == "nothing");
            Ok(response)
        };
        let Ok(mut socket) = accept_hdr_async(stream, keep).await else { return };
        while let Some(Ok(message)) = socket.next().await {
            let answer = match message {
                Message::Text(text) if text == "token?" => Message::text(token.clone()),
                Message::Text(_) | Message::Binary(_) => message,
                _ => continue,
            };
            socket.send(answer).await.unwrap();
        }
    })
}

async fn connect(
    gateway: SocketAddr,
    roots: Vec<u8>,
    is_tls: bool,
) -> Result<WebSocketStream<Stream>, Error> {
    let stream = TcpStream::connect(gateway).await.unwrap();
    let (stream, scheme): (Stream, _) = match is_tls {
        false => (Box::new(stream), "ws"),
        true => {
            let roots = Upstream::new(roots);
            let name = crate::lab::name();
            (Box::new(roots.connect(stream, &name, Offer::Http1).await.unwrap().0), "wss")
        }
    };
    let request = hyper::Request::builder()
        .uri(format!("{scheme}://{NAME}/socket"))
        .header("host", NAME)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("sec-websocket-extensions", "permessage-deflate");
    Ok(client_async(request.body(()).unwrap(), stream).await?.0)
}

async fn next(socket: &mut WebSocketStream<Stream>) -> String {
    let message = tokio::time::timeout(Duration::from_secs(20), socket.next());
    message.await.expect("an answer comes").unwrap().unwrap().into_text().unwrap().to_string()
}

#[test]
fn messages_go_both_ways() {
    for is_tls in [false, true] {
        let lab = Lab::new(is_tls);
        let session = lab.session(host(&lab));
        let gateway = lab.gateway(&session);
        let roots = lab.authority.certificate_pem().into_bytes();
        lab.on(async move {
            let mut socket = connect(gateway, roots, is_tls).await.unwrap();
            for text in ["hello", "a", &"long ".repeat(100_000)] {
                socket.send(Message::text(text)).await.unwrap();
                assert_eq!(next(&mut socket).await, text);
            }
            socket.close(None).await.unwrap();
            while let Some(Ok(_)) = socket.next().await {}
        });
        let asked = session.seen.asked.lock().unwrap();
        assert!(asked[0].is_websocket && asked[0].path_and_query == "/socket");
        assert!(session.seen.bytes.lock().unwrap().0 > 500_000);
    }
}

#[test]
fn a_secret_is_put_in_and_does_not_come_back() {
    let lab = Lab::new(true);
    let session = lab.with_secret(host(&lab), "bearer");
    let gateway = lab.gateway(&session);
    let roots = lab.authority.certificate_pem().into_bytes();
    lab.on(async move {
        let mut socket = connect(gateway, roots, true).await.unwrap();
        socket.send(Message::text("token?")).await.unwrap();
        let covered = format!("Bearer {}", &PLACEHOLDER[..VALUE.len()]);
        assert_eq!(next(&mut socket).await, covered);
        // What ends as a secret begins does not wait for what never comes.
        for text in ["tag", "gh", "ghp", "after"] {
            socket.send(Message::text(text)).await.unwrap();
            assert_eq!(next(&mut socket).await, text);
        }
    });
    assert_eq!((session.seen.used(), session.seen.redacted()), (1, 1));
}

#[test]
fn one_that_is_refused_is_told_so() {
    let lab = Lab::new(false);
    let mut session = lab.session(host(&lab));
    session.decide = Arc::new(|_| Decided::Refuse(refused("denied", "no")));
    let gateway = lab.gateway(&session);
    lab.on(async move {
        let refused = connect(gateway, Vec::new(), false).await.err().unwrap();
        let Error::Http(response) = refused else { panic!("{refused}") };
        assert_eq!(response.status(), 403);
        assert_eq!(response.headers()["atoll-denied"], "denied");
    });
    assert_eq!(*session.seen.dialled.lock().unwrap(), 0);
    // The connection goes on as HTTP.
    let websocket = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let get = |more: &str| format!("GET /a HTTP/1.1\r\nHost: {NAME}\r\n{more}\r\n");
    let answer = lab.raw(gateway, get(websocket) + &get("Connection: close\r\n"));
    assert_eq!(answer.matches("HTTP/1.1 403 Forbidden").count(), 2, "{answer}");
}

#[test]
fn what_comes_before_the_answer_is_not_read_as_a_request() {
    let lab = Lab::new(false);
    let session = lab.session(host(&lab));
    let gateway = lab.gateway(&session);
    // A frame that closes, masked with nothing, right behind the head.
    let mut text = format!(
        "GET /a HTTP/1.1\r\nHost: {NAME}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Extensions: x\r\n\r\n"
    )
    .into_bytes();
    text.extend([0x88, 0x80, 0, 0, 0, 0]);
    let answer = lab.raw(gateway, text);
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    assert!(!answer.contains("400"), "{answer}");
    assert_eq!(session.seen.asked.lock().unwrap().len(), 1);
}
