//! Ports of sandboxes, reached from outside. The sandbox's loopback is the test's own.

mod api;
mod bodies;
mod clients;
mod gates;
mod headers;
mod hostile;
mod sockets;
mod waking;

use crate::support::{Running, World};
use atoll_api::id::SandboxId;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A server with a sandbox, one port of which is exposed.
pub(super) struct Site {
    pub(super) world: World,
    pub(super) server: Running,
    pub(super) id: SandboxId,
    pub(super) preview: Value,
}

impl Site {
    /// Exposes `port` of a new sandbox, to whom has its token.
    pub(super) async fn new(world: World, port: u16) -> Self {
        let server = world.start().await;
        let sandbox = server.local().json("PUT", "/v1/sandboxes/web", &json!({})).await.expect(201);
        let id = sandbox["id"].as_str().unwrap().parse().unwrap();
        let preview = expose(&server, port, &json!({})).await;
        Self { world, server, id, preview }
    }

    /// The host of the preview.
    pub(super) fn host(&self) -> String {
        host(&self.preview)
    }

    /// The path of the preview, with the slash at its end.
    pub(super) fn path(&self) -> String {
        let url = self.preview["path_url"].as_str().unwrap();
        url.strip_prefix(&format!("http://{}", self.server.address)).unwrap().to_owned()
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.ask(&self.host(), path, &[]).await
    }

    pub(super) async fn ask(&self, host: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let response = open(self.server.address, host, path, headers).await;
        Reply::of(response).await
    }

    /// Sends these bytes, and gives all that comes back.
    pub(super) async fn raw(&self, bytes: &str) -> String {
        let mut stream = TcpStream::connect(self.server.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A connection may be reset when its end was not read.
        drop(stream.read_to_end(&mut answer).await);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

pub(super) fn host(preview: &Value) -> String {
    let url = preview["url"].as_str().unwrap();
    url.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned()
}

pub(super) async fn expose(server: &Running, port: u16, request: &Value) -> Value {
    let path = format!("/v1/sandboxes/web/ports/{port}/expose");
    server.local().json("POST", &path, request).await.expect(200)
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Reply {
    pub(super) async fn of(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.into()).unwrap();
        Self { status: head.status.as_u16(), headers: head.headers, text }
    }

    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of the error that came back with this status.
    #[track_caller]
    pub(super) fn code(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }
}

/// Asks for a path of a host at `address`, over HTTP/1.1.
pub(super) async fn open(
    address: SocketAddr,
    host: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<Incoming> {
    let request = Request::builder().uri(path).header("host", host);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap()
}

/// A port on which a server of the test's listens until this is dropped.
pub(super) struct Inside {
    pub(super) port: u16,
    /// What was asked for, as far as it was understood.
    pub(super) asked: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inside {
    /// A server that answers with the request that it got.
    pub(super) async fn mirror() -> Self {
        Self::mirror_on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(super) fn mirror_on(listener: TcpListener) -> Self {
        let asked = Arc::<Mutex<Vec<Value>>>::default();
        let port = listener.local_addr().unwrap().port();
        let all = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let all = all.clone();
                let service = service_fn(move |request| mirrored(all.clone(), request));
                let builder = hyper::server::conn::http1::Builder::new();
                tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { port, asked, task }
    }

    /// A server that has each connection, once its request is there, go as `talk` says.
    pub(super) async fn talks<F: Future<Output = ()> + Send + 'static>(
        talk: impl Fn(TcpStream, String) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let head = head(&mut stream).await;
                tokio::spawn(talk(stream, head));
            }
        });
        Self { port, asked: Arc::default(), task }
    }

    /// A server that says these bytes and closes.
    pub(super) async fn says(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = Arc::new(bytes.into());
        Self::talks(move |mut stream, _| {
            let bytes = bytes.clone();
            async move {
                drop(stream.write_all(&bytes).await);
                // Else what it has not read would have the connection reset.
                drop(stream.shutdown().await);
                drop(stream.read_to_end(&mut Vec::new()).await);
            }
        })
        .await
    }
}

/// Reads a request up to its body.
pub(super) async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(bytes).unwrap()
}

async fn mirrored(
    all: Arc<Mutex<Vec<Value>>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(Response::new(Full::from("the body broke off")));
    };
    let headers: Vec<[String; 2]> = head
        .headers
        .iter()
        .map(|(name, value)| [name.to_string(), value.to_str().unwrap().to_owned()])
        .collect();
    let told = json!({
        "method": head.method.as_str(),
        "target": head.uri.to_string(),
        "headers": headers,
        "body": String::from_utf8_lossy(&body.to_bytes()),
    });
    all.lock().unwrap().push(told.clone());
    Ok(Response::new(Full::from(told.to_string())))
}

/// A header of what a mirror told.
pub(super) fn told<'a>(mirrored: &'a Value, name: &str) -> Option<&'a str> {
    let headers = mirrored["headers"].as_array().unwrap();
    let found: Vec<&str> = headers
        .iter()
        .filter(|pair| pair[0] == name)
        .map(|pair| pair[1].as_str().unwrap())
        .collect();
    assert!(found.len() <= 1, "{name} came {} times", found.len());
    found.first().copied()
}

/// Waits until `holds` does.
pub(super) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "waited in vain for {what}");
        tick.tick().await;
    }
}
