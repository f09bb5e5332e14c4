//! Listening, and ending.

use crate::access::Peer;
use crate::app::App;
use crate::config::Config;
use crate::connection::{self, Doorway, Serves};
use crate::health::Watched;
use crate::idempotency::Remembered;
use crate::keys::KeyStore;
use crate::metrics::Metrics;
use crate::preview::{self, Previews};
use crate::rate::Rates;
use crate::routes;
use atoll_engine::Engine;
use atoll_engine::clock::Clock;
use atoll_engine::images::Images;
use axum::Router;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

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
    parts: Parts,
    previews: Previews,
    names: Vec<String>,
    images: Option<Images>,
    listeners: Vec<Listener>,
}

enum Listener {
    Tcp(TcpListener, Serves),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream, IpAddr),
    Unix(UnixStream),
}

impl Server {
    /// A server that does not listen anywhere yet.
    pub fn new(parts: Parts) -> Self {
        let previews = Previews::default();
        Self { parts, previews, names: Vec::new(), images: None, listeners: Vec::new() }
    }

    /// Sets how previews are served.
    #[must_use]
    pub fn with_previews(mut self, previews: Previews) -> Self {
        self.previews = previews;
        self
    }

    /// Answers to these names, over TCP, beside `localhost` and addresses. Whoever asks by
    /// another one was led here by somebody else's name, and is refused.
    #[must_use]
    pub fn with_names(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names.extend(names.into_iter().map(|name| name.to_ascii_lowercase()));
        self
    }

    /// Has images, which can be pulled, listed and removed.
    #[must_use]
    pub fn with_images(mut self, images: Images) -> Self {
        self.images = Some(images);
        self
    }

    /// Listens on a TCP socket, where every request to the API needs a key.
    #[must_use]
    pub fn on_tcp(mut self, listener: TcpListener) -> Self {
        self.listeners.push(Listener::Tcp(listener, Serves::Both));
        self
    }

    /// Listens on a TCP socket for previews, which are then served on no other one.
    #[must_use]
    pub fn on_preview_tcp(mut self, listener: TcpListener) -> Self {
        self.listeners.push(Listener::Tcp(listener, Serves::Previews));
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
        let (app, listeners) = self.build();
        let router = routes::router(&app);
        let mut accepting = JoinSet::new();
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        for listener in listeners {
            let door = Door {
                app: app.clone(),
                router: router.clone(),
                serves: listener.serves(),
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

impl Server {
    /// Says of each listener what it is for, and makes what all requests have in common.
    fn build(self) -> (Arc<App>, Vec<Listener>) {
        let Self { parts, previews, names, images, mut listeners } = self;
        let Parts { config, engine, clock, keys, owner_uid, records_folder } = parts;
        let is_apart =
            listeners.iter().any(|one| matches!(one, Listener::Tcp(_, Serves::Previews)));
        let mut previews_at = None;
        for listener in &mut listeners {
            let Listener::Tcp(listener, serves) = listener else { continue };
            if is_apart && *serves == Serves::Both {
                *serves = Serves::Api;
            } else if previews_at.is_none() {
                // One whose address cannot be told is one that cannot be named.
                previews_at = listener.local_addr().ok();
            }
        }
        let metrics = Metrics::new();
        let remembered = Remembered::new(config.idempotency_keys_max, engine.came_true());
        let app = App {
            previews: preview::Router::new(
                previews,
                previews_at,
                config.connections_max,
                metrics.previews_open.clone(),
            ),
            names,
            config,
            engine,
            images,
            clock,
            keys,
            owner_uid,
            rates: Rates::new(config.requests_per_second_max, config.requests_burst_max),
            remembered,
            metrics,
            watched: Watched::new(records_folder),
            streams: Arc::new(Semaphore::new(config.streams_max)),
            closing: watch::Sender::new(false),
            tasks: Mutex::default(),
        };
        (Arc::new(app), listeners)
    }
}

fn take(tasks: &Mutex<JoinSet<()>>) -> JoinSet<()> {
    std::mem::take(&mut *tasks.lock().unwrap_or_else(PoisonError::into_inner))
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
    serves: Serves,
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
    fn serves(&self) -> Serves {
        match self {
            Self::Tcp(_, serves) => *serves,
            Self::Unix(_) => Serves::Api,
        }
    }

    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, from) = listener.accept().await?;
                Ok(Stream::Tcp(stream, from.ip()))
            }
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

impl Door {
    fn open(&self, stream: Stream, slot: OwnedSemaphorePermit) {
        let (app, router, serves) = (self.app.clone(), self.router.clone(), self.serves);
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are let go of, so that their number does not grow.
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            app.metrics.connections.inc();
            match stream {
                Stream::Tcp(stream, from) => {
                    let from = Some(from);
                    let doorway =
                        Doorway { app: app.clone(), router, peer: Peer::Tcp, from, serves };
                    connection::serve_tcp(doorway, stream).await;
                }
                Stream::Unix(stream) => match stream.peer_cred() {
                    Ok(peer) => {
                        let peer = Peer::Unix { uid: peer.uid() };
                        let app = app.clone();
                        let doorway = Doorway { app, router, peer, from: None, serves };
                        connection::serve_http1(doorway, stream).await;
                    }
                    Err(error) => tracing::warn!(%error, "the kernel does not say who connected"),
                },
            }
            app.metrics.connections.dec();
            drop(slot);
        });
    }
}
