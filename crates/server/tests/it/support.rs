//! A server on a machine in memory, and a client of both of its sockets.

use atoll_api::key::Scope;
use atoll_api::time::Timestamp;
use atoll_engine::Engine;
use atoll_engine::backend::fake::{Fake, Host};
use atoll_engine::clock::ManualClock;
use atoll_server::{Config, KeyStore, Parts, Previews, Server};
use atoll_testkit::stand_in::StandIn;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest that a test waits for anything; nothing comes near it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// What a test decides before the server starts.
pub(crate) struct World {
    pub(crate) host: Arc<Host>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) engine: atoll_engine::Config,
    pub(crate) config: Config,
    pub(crate) previews: Previews,
    pub(crate) has_preview_listener: bool,
    /// The guest of every sandbox.
    pub(crate) guest: StandIn,
    pub(crate) owner_uid: u32,
    folder: Arc<TempDir>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            host: Host::new(),
            clock: Arc::default(),
            engine: atoll_engine::Config::default(),
            // Machines that run tests may have little room.
            config: Config { disk_free_bytes_min: 0, ..Config::default() },
            previews: Previews::default(),
            has_preview_listener: false,
            guest: StandIn::default(),
            owner_uid: rustix::process::geteuid().as_raw(),
            folder: Arc::new(tempfile::tempdir().unwrap()),
        }
    }

    /// Where everything is kept.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) async fn start(&self) -> Running {
        self.start_with(Fake::on(&self.host)).await
    }

    pub(crate) async fn start_with(&self, backend: Fake) -> Running {
        let folder = self.folder.path();
        let guest = folder.join("guest");
        if !guest.exists() {
            self.guest.listen(&guest);
            self.host.guests_at(guest);
        }
        let backend = Arc::new(backend);
        let records = folder.join("records.sqlite");
        let engine = Engine::start(self.engine.clone(), backend, self.clock.clone(), records).await;
        let engine = Arc::new(engine.unwrap());
        let keys = Arc::new(KeyStore::open(folder.join("keys.json")).unwrap());
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let socket = folder.join("server.sock");
        drop(std::fs::remove_file(&socket));
        let unix = UnixListener::bind(&socket).unwrap();
        let server = Server::new(Parts {
            config: self.config,
            engine: engine.clone(),
            clock: self.clock.clone(),
            keys: keys.clone(),
            owner_uid: self.owner_uid,
            records_folder: folder.to_owned(),
        });
        let mut server = server.with_previews(self.previews.clone());
        let mut preview_address = None;
        if self.has_preview_listener {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            preview_address = Some(listener.local_addr().unwrap());
            server = server.on_preview_tcp(listener);
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.on_tcp(tcp).on_unix(unix).run(async {
            drop(stopped.await);
        }));
        let _folder = self.folder.clone();
        Running { address, preview_address, socket, engine, keys, stop, task, _folder }
    }
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) preview_address: Option<SocketAddr>,
    pub(crate) socket: PathBuf,
    pub(crate) engine: Arc<Engine>,
    pub(crate) keys: Arc<KeyStore>,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) task: JoinHandle<()>,
    /// It may outlive its world.
    _folder: Arc<TempDir>,
}

impl Running {
    /// A client of the unix socket.
    pub(crate) fn local(&self) -> Client {
        Client { target: Target::Unix(self.socket.clone()), key: None }
    }

    /// A client over TCP without a key.
    pub(crate) fn stranger(&self) -> Client {
        Client { target: Target::Tcp(self.address), key: None }
    }

    /// A client over TCP with a new key.
    pub(crate) fn with_key(&self, scope: Scope) -> Client {
        let made = self.keys.create(scope, "", Timestamp::UNIX_EPOCH).unwrap();
        self.stranger().with(made.secret)
    }

    /// Ends the server and the engine as a program would.
    pub(crate) async fn shut_down(self) {
        drop(self.stop);
        self.task.await.unwrap();
        let engine = Arc::into_inner(self.engine).expect("nothing of the server is left");
        engine.shutdown().await;
    }
}

#[derive(Clone)]
enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Clone)]
pub(crate) struct Client {
    target: Target,
    pub(crate) key: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self.json()
    }

    /// The code of the error that came back.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub(crate) fn with(self, key: String) -> Self {
        Self { key: Some(key), ..self }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str) -> Answer {
        self.send("POST", path, &[], "").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    pub(crate) async fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let kind = ("content-type", "application/json");
        self.send(method, path, &[kind], &body.to_string()).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let response = self.open(method, path, headers, body).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, headers, text: String::from_utf8(bytes.into()).unwrap() }
    }

    /// Sends a request and gives the answer before its body.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Incoming> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = &self.key {
            request = request.header("x-api-key", key);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        match &self.target {
            Target::Tcp(address) => send(TcpStream::connect(address).await.unwrap(), request).await,
            Target::Unix(path) => send(UnixStream::connect(path).await.unwrap(), request).await,
        }
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Response<Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

/// Runs a test on threads that run at once, for a limited time.
pub(crate) fn live(life: impl Future<Output = ()>) {
    live_within(DEADLINE, life);
}

/// The same for a test that has more to do.
pub(crate) fn live_within(deadline: Duration, life: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async { timeout(deadline, life).await });
    runtime.shutdown_background();
    outcome.unwrap_or_else(|_| panic!("still not over after {deadline:?}"));
}
