//! WebSockets of pages, over HTTP/1.1 and HTTP/2.

use super::clients::http2;
use super::{Inside, Site, eventually};
use crate::support::{World, live};
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::ext::Protocol;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async, client_async};

const BURST: usize = 2000;

/// A server that says much at once, and then what it hears.
async fn talkative() -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                #[expect(clippy::result_large_err, reason = "it is the library's")]
                let check = |request: &hyper::Request<()>, mut response: hyper::Response<()>| {
                    let headers = request.headers();
                    let is_page = headers["cookie"] == "page=1";
                    let has_key = headers.contains_key("x-api-key");
                    assert!(is_page && !has_key, "{headers:?}");
                    let host = headers["host"].clone();
                    response.headers_mut().insert("x-host", host);
                    if let Some(protocol) = headers.get("sec-websocket-protocol") {
                        response.headers_mut().insert("sec-websocket-protocol", protocol.clone());
                    }
                    Ok(response)
                };
                let Ok(mut socket) = accept_hdr_async(stream, check).await else { return };
                for n in 0..BURST {
                    socket.feed(Message::Text(format!("burst {n}").into())).await.unwrap();
                }
                socket.flush().await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() || message.is_binary() {
                        socket.send(message).await.unwrap();
                    }
                }
            });
        }
    });
    (port, server)
}

/// Hears the burst and talks a little.
async fn talk<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>) {
    for n in 0..BURST {
        assert_eq!(
            socket.next().await.unwrap().unwrap(),
            Message::Text(format!("burst {n}").into())
        );
    }
    let large = Message::Binary(vec![7; 1 << 20].into());
    socket.send(Message::Text("hello".into())).await.unwrap();
    socket.send(large.clone()).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Text("hello".into()));
    assert_eq!(socket.next().await.unwrap().unwrap(), large);
    socket.close(None).await.unwrap();
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
}

fn request(site: &Site) -> hyper::Request<()> {
    let mut request = format!("ws://{}/hmr", site.host()).into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("cookie", "page=1; __atoll=ours".parse().unwrap());
    headers.insert("x-api-key", format!("e2b_{}", "0".repeat(40)).parse().unwrap());
    headers.insert("sec-websocket-protocol", "vite-hmr".parse().unwrap());
    request
}

#[test]
fn no_frame_is_lost_and_the_host_is_that_of_the_page() {
    live(async {
        let (port, _server) = talkative().await;
        let site = Site::new(World::new(), port).await;
        for _ in 0..10 {
            let stream = TcpStream::connect(site.server.address).await.unwrap();
            let (socket, response) = client_async(request(&site), stream).await.unwrap();
            assert_eq!(response.headers()["x-host"], site.host().as_str());
            assert_eq!(response.headers()["sec-websocket-protocol"], "vite-hmr");
            talk(socket).await;
        }
        let holds = || site.server.engine.get(site.id).unwrap().holds.len();
        eventually("nothing holds it any more", || holds() == 0).await;
    });
}

#[test]
fn over_http2_it_is_the_same() {
    live(async {
        let (port, _server) = talkative().await;
        let site = Site::new(World::new(), port).await;
        let sender = http2(site.server.address).await;
        for _ in 0..10 {
            let mut sender = sender.clone();
            let mut request = Request::builder()
                .method("CONNECT")
                .uri(format!("http://{}/hmr", site.host()))
                .header("cookie", "page=1")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-protocol", "vite-hmr")
                .body(Empty::<Bytes>::new())
                .unwrap();
            request.extensions_mut().insert(Protocol::from_static("websocket"));
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["x-host"], site.host().as_str());
            assert_eq!(response.headers()["sec-websocket-protocol"], "vite-hmr");
            assert!(!response.headers().contains_key("sec-websocket-accept"));
            let stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
            talk(WebSocketStream::from_raw_socket(stream, Role::Client, None).await).await;
        }
    });
}

#[test]
fn what_is_sent_with_the_answer_is_not_lost() {
    live(async {
        let inside = Inside::talks(async |mut stream: TcpStream, head| {
            let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: "));
            let accept = derive_accept_key(key.unwrap().as_bytes());
            let mut bytes = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: vite-hmr\r\n\r\n"
            )
            .into_bytes();
            // More than one read of the answer takes: 2000 text frames of "x".
            bytes.extend([0x81, 1, b'x'].repeat(BURST));
            bytes.extend([0x88, 0]);
            stream.write_all(&bytes).await.unwrap();
            drop(stream.read_to_end(&mut Vec::new()).await);
        })
        .await;
        let site = Site::new(World::new(), inside.port).await;
        let stream = TcpStream::connect(site.server.address).await.unwrap();
        let (mut socket, _) = client_async(request(&site), stream).await.unwrap();
        for _ in 0..BURST {
            assert_eq!(socket.next().await.unwrap().unwrap(), Message::Text("x".into()));
        }
        assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
    });
}

#[test]
fn a_socket_that_is_refused_is_answered_as_any_request() {
    live(async {
        let inside = Inside::says("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await;
        let site = Site::new(World::new(), inside.port).await;
        let connect = async || {
            let stream = TcpStream::connect(site.server.address).await.unwrap();
            client_async(request(&site), stream).await
        };
        let Err(Error::Http(refused)) = connect().await else { panic!() };
        assert_eq!(refused.status().as_u16(), 403);
        let other = "HTTP/1.1 101 X\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n";
        let inside = Inside::says(other).await;
        let site = Site::new(World::new(), inside.port).await;
        let stream = TcpStream::connect(site.server.address).await.unwrap();
        let Err(Error::Http(broken)) = client_async(request(&site), stream).await else { panic!() };
        assert_eq!(broken.status().as_u16(), 502);
    });
}

#[test]
fn a_socket_holds_the_sandbox_until_it_ends_also_by_the_end_of_the_server() {
    live(async {
        let (port, _server) = talkative().await;
        let site = Site::new(World::new(), port).await;
        let stream = TcpStream::connect(site.server.address).await.unwrap();
        let (mut socket, _) = client_async(request(&site), stream).await.unwrap();
        let holds = || site.server.engine.get(site.id).unwrap().holds.len();
        assert_eq!(holds(), 1);
        // One that breaks off without a word.
        let stream = TcpStream::connect(site.server.address).await.unwrap();
        let (other, _) = client_async(request(&site), stream).await.unwrap();
        drop(other);
        assert!(matches!(socket.next().await, Some(Ok(Message::Text(_)))));
        let ended = tokio::spawn(site.server.shut_down());
        while let Some(Ok(_)) = socket.next().await {}
        // Long before the grace is over.
        let soon = Duration::from_secs(5);
        tokio::time::timeout(soon, ended).await.unwrap().unwrap();
    });
}
