//! Connections to the host that one client's requests are for, kept for its next ones.

use super::body::Body;
use super::head::HEADERS_MAX;
use super::refusal::{self, Refused, Retry};
use super::session::{Session, Site};
use super::tasks::Tasks;
use crate::tls::Offer;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// Most bytes of the head of an answer.
const ANSWER_HEAD_MAX: usize = 256 * 1024;
/// Most bytes that wait on one stream of HTTP/2.
const STREAM_BYTES_MAX: u32 = 256 * 1024;
/// Most idle connections that are kept.
const IDLE_MAX: usize = 16;
/// For a connection to be ready again after an answer.
const READY_WITHIN: Duration = Duration::from_millis(100);

/// Connections to one site.
pub(super) struct Upstreams {
    site: Site,
    session: Arc<dyn Session>,
    tasks: Tasks,
    state: Mutex<State>,
    /// Held by who connects first, as HTTP/2 takes all others too.
    first: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    is_known: bool,
    http2: Option<http2::SendRequest<Body>>,
    idle: Vec<http1::SendRequest<Body>>,
}

/// A connection that one request can go by.
pub(super) enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

/// A connection, and whether other requests went by it.
pub(super) struct Connected {
    pub(super) sender: Sender,
    pub(super) is_used: bool,
}

/// A connection of HTTP/1.1 whose answer is under way.
pub(super) struct Lease {
    sender: http1::SendRequest<Body>,
    upstreams: Arc<Upstreams>,
}

impl Lease {
    /// The answer is at its end.
    pub(super) fn give_back(self) {
        let mut state = self.upstreams.lock();
        if state.idle.len() < IDLE_MAX {
            state.idle.push(self.sender);
        }
    }
}

impl Sender {
    pub(super) const fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Sends a request. A connection of HTTP/1.1 comes back with its answer.
    pub(super) async fn send(
        mut self,
        request: Request<Body>,
        upstreams: &Arc<Upstreams>,
    ) -> Result<(Response<Incoming>, Option<Lease>), TrySendError<Request<Body>>> {
        let response = match &mut self {
            Self::Http1(sender) => sender.try_send_request(request).await?,
            Self::Http2(sender) => sender.try_send_request(request).await?,
        };
        let lease = match self {
            Self::Http1(sender) => Some(Lease { sender, upstreams: Arc::clone(upstreams) }),
            Self::Http2(_) => None,
        };
        Ok((response, lease))
    }
}

impl Upstreams {
    pub(super) fn new(site: Site, session: Arc<dyn Session>) -> Arc<Self> {
        let (tasks, state) = (Tasks::default(), Mutex::default());
        Arc::new(Self { site, session, tasks, state, first: tokio::sync::Mutex::new(()) })
    }

    pub(super) const fn site(&self) -> &Site {
        &self.site
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection, which may be one that was used before.
    pub(super) async fn any(&self) -> Result<Connected, Refused> {
        if let Some(sender) = self.used().await {
            return Ok(Connected { sender, is_used: true });
        }
        let first = self.first.lock().await;
        if let Some(sender) = self.used().await {
            return Ok(Connected { sender, is_used: true });
        }
        let is_known = self.lock().is_known;
        if is_known {
            // It speaks HTTP/1.1, so that each needs a connection of its own.
            drop(first);
        }
        self.new_one(Offer::Any).await
    }

    /// A connection that nobody used.
    pub(super) async fn new_one(&self, offer: Offer) -> Result<Connected, Refused> {
        let sender = self.connect(offer).await?;
        let mut state = self.lock();
        match &sender {
            Sender::Http2(sender) => state.http2 = Some(sender.clone()),
            Sender::Http1(_) => state.is_known |= offer == Offer::Any,
        }
        Ok(Connected { sender, is_used: false })
    }

    async fn used(&self) -> Option<Sender> {
        loop {
            let mut idle = {
                let mut state = self.lock();
                if let Some(sender) = state.http2.take_if(|sender| sender.is_closed()) {
                    drop(sender);
                }
                if let Some(sender) = &state.http2 {
                    return Some(Sender::Http2(sender.clone()));
                }
                state.idle.pop()?
            };
            if let Ok(Ok(())) = timeout(READY_WITHIN, idle.ready()).await {
                return Some(Sender::Http1(idle));
            }
        }
    }

    async fn connect(&self, offer: Offer) -> Result<Sender, Refused> {
        let stream = self.session.dial().await?;
        // Requests are small; what waits for more would wait for nothing.
        drop(stream.set_nodelay(true));
        if !self.site.is_tls {
            return self.speak(stream, false).await;
        }
        let connected = self.session.tls().connect(stream, &self.site.host, offer).await;
        let (stream, is_http2) =
            connected.map_err(|error| refusal::upstream(error.to_string(), Retry::Safe))?;
        self.speak(stream, is_http2).await
    }

    async fn speak<S>(&self, stream: S, is_http2: bool) -> Result<Sender, Refused>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let failed = |error: hyper::Error| {
            refusal::upstream(format!("the host does not speak HTTP: {error}"), Retry::Safe)
        };
        let stream = TokioIo::new(stream);
        if is_http2 {
            let mut http = http2::Builder::new(self.tasks.spawner());
            // No pings: servers of gRPC end connections that ask more often than they like.
            http.initial_stream_window_size(STREAM_BYTES_MAX)
                .initial_connection_window_size(4 * STREAM_BYTES_MAX)
                .max_header_list_size(64 * 1024)
                .max_send_buf_size(64 * 1024);
            let (sender, connection) = http.handshake(stream).await.map_err(failed)?;
            self.tasks.spawn(async { drop(connection.await) });
            return Ok(Sender::Http2(sender));
        }
        let mut http = http1::Builder::new();
        http.max_headers(2 * HEADERS_MAX).max_buf_size(ANSWER_HEAD_MAX);
        let (sender, connection) = http.handshake(stream).await.map_err(failed)?;
        self.tasks.spawn(async { drop(connection.with_upgrades().await) });
        Ok(Sender::Http1(sender))
    }
}
