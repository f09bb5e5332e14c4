//! `atoll serve`: puts a server together, and ends it.
//!
//! | to know | read |
//! |---|---|
//! | where things are | [`places`] |
//! | how the unix socket is taken and given back | [`socket`] |
//! | which images there are | [`images`] |
//! | where snapshots are archived | [`archives`] |
//! | what the operator decides about all of them | [`config`] |
//! | how many sandboxes and connections there may be | [`capacity`] |
//! | what is logged | [`log`] |
//! | by which names it is asked | [`name`] |
//! | what ends it | [`end`] |
//! | who makes sandboxes | [`spawner`] |
//!
//! Only what is below [`run`] knows an async runtime, and it is made after everything
//! that a process with one thread has to do.

pub(crate) mod archives;
mod capacity;
mod config;
mod end;
mod first_key;
pub(crate) mod images;
mod log;
mod name;
mod notify;
pub(crate) mod places;
mod socket;
pub(crate) mod spawner;

use crate::error::CliError;
use crate::status::Status;
use atoll_api::policy::UpstreamProxy;
use atoll_engine::archives::Archives;
use atoll_engine::backend::Container;
use atoll_engine::clock::SystemClock;
use atoll_engine::images::Images;
use atoll_engine::{Config, Engine, Outward};
use atoll_server::{KeyStore, Parts, Previews, Server};
use capacity::Capacity;
use end::Signals;
pub(crate) use log::{Format, Level};
pub(crate) use name::DnsName;
use places::Places;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net;
use tokio::sync::oneshot;

/// How long the processes of a server that was killed may take to end what it had begun.
const PREDECESSOR_WITHIN: Duration = Duration::from_secs(10);

/// Exit status of a server that a signal cut short, less the signal.
const EXIT_SIGNAL: u8 = 128;

/// What was asked for.
pub(crate) struct Wanted {
    pub(crate) state: Option<PathBuf>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) names: Vec<DnsName>,
    pub(crate) previews: Previewing,
    pub(crate) first_key: FirstKey,
    pub(crate) sandboxes_max: Option<usize>,
    /// What the gateway goes through.
    pub(crate) proxy: Option<UpstreamProxy>,
    pub(crate) images: images::Wanted,
    pub(crate) archives: archives::Wanted,
    /// A file with what the operator decides about all sandboxes.
    pub(crate) config: Option<PathBuf>,
    pub(crate) log_format: Format,
    pub(crate) log_level: Level,
}

/// How previews are served.
pub(crate) struct Previewing {
    /// Where they are and nothing else is; none where they are on every TCP socket.
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) domain: DnsName,
    pub(crate) port: Option<u16>,
    pub(crate) is_https: bool,
}

/// What becomes of the first key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstKey {
    /// It is written to a file.
    Keep,
    /// It is printed.
    Print,
}

/// Serves until a signal says that it is enough.
pub(crate) fn run(wanted: Wanted) -> Result<Status, CliError> {
    tell_apart(&wanted.names, &wanted.previews.domain)?;
    let settings = config::read(wanted.config.as_deref())?;
    let places = Places::choose(wanted.state, wanted.socket)?;
    log::begin(wanted.log_format, wanted.log_level);
    places.make()?;
    let _lock = places.lock()?;
    // Clients that come early wait.
    let unix = socket::Taken::take(&places.socket)?;
    let tcp = bind(&wanted.listen)?;
    let previews_tcp = bind(&wanted.previews.listen)?;
    // The resident process and every sandbox have the limits that we were given.
    let backend = Container::open(&places.sandboxes(), spawner::command(), PREDECESSOR_WITHIN)
        .map_err(|error| {
            CliError::new(format!("cannot use the state directory {}", places.state.display()))
                .because(error)
        })?
        .trusting(crate::env::SSL_CERT_FILE.path());
    let archives = archives::open(&places, wanted.archives)?;
    settings.needs_archives(archives.is_some())?;
    let images = images::open(&places, wanted.images)?;
    let backend = backend.with_images(images.clone());
    capacity::without_core();
    let sockets = tcp.len() + previews_tcp.len() + 1;
    let capacity = Capacity::of(capacity::raise(), sockets, wanted.sandboxes_max)?;
    let keys = KeyStore::open(places.keys())
        .map_err(|error| CliError::new("cannot use the keys of the API").because(error))?;
    if !tcp.is_empty() {
        first_key::make(&keys, &places, wanted.first_key)?;
    }
    // Until here they end it as they end every program.
    let signals = Signals::take()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new("cannot start threads").because(error))?;
    let served = runtime.block_on(serve(Prepared {
        backend,
        images,
        archives,
        capacity,
        settings,
        keys,
        places: &places,
        unix: &unix,
        tcp,
        previews_tcp,
        previews: Previews {
            domain: wanted.previews.domain.to_string(),
            port: wanted.previews.port,
            is_https: wanted.previews.is_https,
            ..Previews::default()
        },
        names: wanted.names.iter().map(ToString::to_string).collect(),
        proxy: wanted.proxy,
        signals,
    }));
    // After a graceful end nothing runs on it; else what does is not waited for.
    runtime.shutdown_background();
    served
}

/// Refuses a name of the server's that would be one of a preview.
fn tell_apart(names: &[DnsName], domain: &DnsName) -> Result<(), CliError> {
    let Some(name) = names.iter().find(|name| name.is_below(domain)) else { return Ok(()) };
    let message = format!("{name} is below {domain}, where every name is one of a preview");
    Err(CliError::new(message).hint("give the API, or the previews, another domain"))
}

fn bind(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, CliError> {
    let bound = addresses.iter().map(|address| {
        let failed = |error| CliError::new(format!("cannot listen on {address}")).because(error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(listener)
    });
    bound.collect()
}

/// Everything that a server is made of.
struct Prepared<'a> {
    backend: Container,
    images: Images,
    archives: Option<Archives>,
    capacity: Capacity,
    keys: KeyStore,
    places: &'a Places,
    unix: &'a socket::Taken,
    tcp: Vec<TcpListener>,
    previews_tcp: Vec<TcpListener>,
    previews: Previews,
    names: Vec<String>,
    proxy: Option<UpstreamProxy>,
    settings: config::File,
    signals: Signals,
}

async fn serve(prepared: Prepared<'_>) -> Result<Status, CliError> {
    let Prepared { backend, capacity, keys, places, unix, tcp, .. } = prepared;
    let Prepared {
        previews_tcp, previews, names, proxy, signals, images, archives, settings, ..
    } = prepared;
    let clock = Arc::new(SystemClock);
    if let Some(proxy) = &proxy {
        // Without its login.
        tracing::info!(%proxy, "sandboxes reach the network through a proxy");
    }
    let gateway = crate::gateway::program(proxy)?;
    let config = Config { sandboxes_max: capacity.sandboxes_max, ..Config::default() };
    let config = settings.apply(config);
    config::check(&config, &atoll_engine::backend::Backend::capabilities(&backend))?;
    let engine = Engine::start_with(
        config,
        Arc::new(backend),
        clock.clone(),
        places.records(),
        Outward { gateway: Some(gateway), archives },
    )
    .await
    .map_err(|error| {
        let state = places.state.display();
        CliError::new(format!("cannot start on the state directory {state}")).because(error)
    })?;
    let engine = Arc::new(engine);
    let failed = |error| CliError::new("cannot watch a socket").because(error);
    let mut server = Server::new(Parts {
        config: capacity.of_server(),
        engine: engine.clone(),
        clock,
        keys: Arc::new(keys),
        owner_uid: rustix::process::geteuid().as_raw(),
        records_folder: places.state.clone(),
    })
    .with_previews(previews)
    .with_names(names)
    .with_images(images)
    .on_unix(net::UnixListener::from_std(unix.listener().map_err(failed)?).map_err(failed)?);
    tracing::info!(socket = %places.socket.display(), "listening");
    for listener in tcp {
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "listening");
        }
        server = server.on_tcp(net::TcpListener::from_std(listener).map_err(failed)?);
    }
    for listener in previews_tcp {
        if let Ok(previews) = listener.local_addr() {
            tracing::info!(%previews, "listening");
        }
        server = server.on_preview_tcp(net::TcpListener::from_std(listener).map_err(failed)?);
    }
    notify::tell(notify::READY);
    let signals = signals.watch()?;
    let (asked, was_asked) = oneshot::channel();
    let shutdown = async {
        let signal = signals.next().await;
        tracing::info!(signal, "asked to end");
        notify::tell(notify::STOPPING);
        // Whoever waits for it does so until the end.
        asked.send(()).ok();
    };
    let whole = async {
        server.run(shutdown).await;
        if let Some(engine) = Arc::into_inner(engine) {
            engine.shutdown().await;
        }
    };
    let asked_again = async {
        match was_asked.await {
            Ok(()) => signals.next().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = whole => {
            tracing::info!("ended");
            Ok(Status::SUCCESS)
        }
        signal = asked_again => {
            tracing::warn!(signal, "asked again, and ended at once");
            Ok(Status::from(EXIT_SIGNAL + signal))
        }
    }
}

/// A path in a message.
fn shown(path: &Path) -> String {
    atoll_store::escape::escape(path)
}
