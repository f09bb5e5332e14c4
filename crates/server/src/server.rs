//! Listening, serving connections, and ending.
//!
//! Connections are served by hyper itself rather than by axum's loop, for its limits of
//! headers and its timeouts, and so that each knows who is on its other side.

use crate::access::Peer;
use crate::app::App;
use crate::config::Config;
use crate::health::Watched;
use crate::idempotency::Remembered;
use crate::keys::KeyStore;
use crate::metrics::Metrics;
use crate::rate::Rates;
use crate::routes;
use atoll_engine::Engine;
use atoll_engine::clock::Clock;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tower::{Layer as _, util::MapRequestLayer};

/// How long to wait where the process has no descriptor left for a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What a server is made of.
pub struct Parts {
    /// Its limits.
    pub config: Config,
    /// The sandboxes.
    pub engine: Arc<Engine>,
    /// The engine's clock.
    pub clock: Arc<dyn Clock>,
    /// The keys of the API.
    pub keys: Arc<KeyStore>,
    /// The user who may use the unix socket, beside root.
    pub owner_uid: u32,
    /// The folder of the records, whose disk must not be full.
    pub records_folder: PathBuf,
}

/// The HTTP API of an engine.
pub struct Server {
    app: Arc<App>,
    listeners: Vec<Listener>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Server {
    /// A server that does not listen anywhere yet.
    pub fn new(parts: Parts) -> Self {
        let Parts { config, engine, clock, keys, owner_uid, records_folder } = parts;
        let app = App {
            config,
            engine,
            clock,
            keys,
            owner_uid,
            rates: Rates::new(config.requests_per_second_max, config.requests_burst_max),
            remembered: Remembered::new(config.idempotency_keys_max),
            metrics: Metrics::new(),
            watched: Watched::new(records_folder),
            streams: Arc::new(Semaphore::new(config.streams_max)),
            closing: watch::Sender::new(false),
            tasks: Mutex::default(),
        };
        Self { app: Arc::new(app), listeners: Vec::new() }
    }

    /// Listens on a TCP socket, where every request needs a key.
    #[must_use]
    pub fn on_tcp(mut self, listener: TcpListener) -> Self {
        self.listeners.push(Listener::Tcp(listener));
        self
    }

    /// Listens on a unix socket, where the kernel says who asks.
    #[must_use]
    pub fn on_unix(mut self, listener: UnixListener) -> Self {
        self.listeners.push(Listener::Unix(listener));
        self
    }

    /// Serves until `shutdown` is there. Then nothing is accepted any more, streams are
    /// ended with an event, and requests that run have the grace of the settings to finish.
    ///
    /// On return nothing of the server runs, and the engine is the caller's to shut down.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { app, listeners } = self;
        let router = routes::router(&app);
        let mut accepting = JoinSet::new();
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        for listener in listeners {
            let door = Door {
                app: app.clone(),
                router: router.clone(),
                slots: Arc::new(Semaphore::new(app.config.connections_max)),
                connections: connections.clone(),
            };
            accepting.spawn(accept(listener, door));
        }
        shutdown.await;
        tracing::info!("shutting down");
        let deadline = Instant::now() + app.config.shutdown_grace;
        accepting.shutdown().await;
        app.closing.send_replace(true);
        let connections = take(&connections);
        if finish(connections, deadline).await.is_err() {
            tracing::warn!("requests that did not finish were broken off");
        }
        let tasks = take(&app.tasks);
        if finish(tasks, deadline).await.is_err() {
            tracing::warn!("creations that did not finish were broken off");
        }
    }
}

fn take(tasks: &Mutex<JoinSet<()>>) -> JoinSet<()> {
    std::mem::take(&mut *tasks.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until the server shuts down.
async fn begun(closing: &mut watch::Receiver<bool>) {
    // Without its sender there is no server either.
    drop(closing.wait_for(|&is_closing| is_closing).await);
}

/// Waits for tasks, and ends those that are not over in time.
async fn finish(mut tasks: JoinSet<()>, deadline: Instant) -> Result<(), ()> {
    let all = timeout_at(deadline, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    all.map_err(drop)
}

/// What an accepted connection needs.
struct Door {
    app: Arc<App>,
    router: Router,
    /// Its own, so that whoever fills one socket does not close the other.
    slots: Arc<Semaphore>,
    connections: Arc<Mutex<JoinSet<()>>>,
}

/// Accepts connections for as long as there is room for them.
async fn accept(listener: Listener, door: Door) {
    let mut again = tokio::time::interval(ACCEPT_AGAIN);
    loop {
        let slot = door.slots.clone().acquire_owned().await.expect("slots are never closed");
        match listener.accept().await {
            Ok(stream) => door.open(stream, slot),
            Err(error) => {
                // No descriptor is left, or the other side went away at once.
                tracing::warn!(%error, "a connection could not be accepted");
                again.reset();
                again.tick().await;
            }
        }
    }
}

impl Listener {
    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

impl Door {
    fn open(&self, stream: Stream, slot: OwnedSemaphorePermit) {
        let (app, router) = (self.app.clone(), self.router.clone());
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are let go of, so that their number does not grow.
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            app.metrics.connections.inc();
            match stream {
                Stream::Tcp(stream) => {
                    // Answers are small; a stream of events must not wait for more.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "a connection is slower than it could be");
                    }
                    serve(&app, router, stream, Peer::Tcp).await;
                }
                Stream::Unix(stream) => match stream.peer_cred() {
                    Ok(peer) => serve(&app, router, stream, Peer::Unix { uid: peer.uid() }).await,
                    Err(error) => tracing::warn!(%error, "the kernel does not say who connected"),
                },
            }
            app.metrics.connections.dec();
            drop(slot);
        });
    }
}

/// Serves one connection to its end, or to the end of its request when the server shuts down.
async fn serve(
    app: &App,
    router: Router,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
) {
    let service =
        MapRequestLayer::new(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer);
            request
        })
        .layer(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(app.config.header_timeout)
        .max_header_size(app.config.header_bytes_max);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = pin!(connection.with_upgrades());
    let mut closing = app.closing.subscribe();
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = begun(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection broke off");
    }
}
