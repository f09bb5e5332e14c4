//! Serves one connection of HTTP to its end.

use super::body::Body;
use super::check::Meant;
use super::exchange::{Exchange, Upgrade};
use super::guarded::{Desk, Guarded, InFlight};
use super::head::HEADERS_MAX;
use super::refusal::{self, Refused};
use super::relay::relay;
use super::session::{Asked, BoxFuture, Session, Site};
use super::tasks::Tasks;
use super::upstream::Upstreams;
use crate::name::Name;
use crate::tls::Replayed;
use bytes::BytesMut;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// How every connection of HTTP/2 begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Most bytes that hyper keeps of a client.
const READ_MAX: usize = 128 * 1024;
/// Most bytes of an answer that wait for a client of HTTP/2.
const SEND_MAX: usize = 64 * 1024;
/// Windows of HTTP/2: of one request, and of all. A client is near, so that more would only be more
/// memory where a host does not read.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// How often it is looked whether a connection of HTTP/2 is idle.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// For a client to read the last answer before its connection is gone.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_MAX: usize = 1024 * 1024;

/// How long is waited, and for how many.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For the head of the next request.
    pub head_within: Duration,
    /// For the next piece of a body that a client sends.
    pub body_stalls: Duration,
    /// Requests at once on a connection of HTTP/2.
    pub streams_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_within: Duration::from_secs(60),
            body_stalls: Duration::from_secs(300),
            streams_max: 100,
        }
    }
}

/// Which HTTP a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// 1.1 or 1.0.
    Http1,
    /// 2, as was agreed in TLS.
    Http2,
    /// Its first bytes say it, as without TLS.
    Either,
}

impl Speaks {
    /// As was agreed in TLS that was opened.
    #[must_use]
    pub const fn agreed(is_http2: bool) -> Self {
        if is_http2 { Self::Http2 } else { Self::Http1 }
    }
}

/// A connection on which nothing is sent on.
#[derive(Debug, Clone)]
pub struct Explained {
    /// For whom TLS was meant; none where there is none.
    pub server_name: Option<Name>,
    /// To which port the connection was made.
    pub port: u16,
    /// Whether it is TLS.
    pub is_tls: bool,
}

/// Why a request goes nowhere.
pub type Why = Arc<dyn Fn(&Asked) -> Refused + Send + Sync>;

/// Serves a connection whose requests are for one site.
///
/// It ends with the connection; dropping it ends both sides at once.
pub async fn serve<S>(
    stream: S,
    speaks: Speaks,
    site: Site,
    session: Arc<dyn Session>,
    limits: Limits,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let upstreams = Upstreams::new(site.clone(), Arc::clone(&session));
    let answers = Answers::Sent { meant: Meant::Site(site), upstreams, session };
    run(stream, speaks, answers, limits).await;
}

/// Answers each request of a connection with why it goes nowhere.
pub async fn explain<S>(stream: S, speaks: Speaks, explained: Explained, why: Why, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Explained { server_name, port, is_tls } = explained;
    let answers = Answers::Explained { meant: Meant::Anybody { server_name, port, is_tls }, why };
    run(stream, speaks, answers, limits).await;
}

/// Where the answers of a connection come from.
#[derive(Clone)]
pub(super) enum Answers {
    Sent { meant: Meant, upstreams: Arc<Upstreams>, session: Arc<dyn Session> },
    Explained { meant: Meant, why: Why },
    Proxied(Arc<super::proxy::Proxied>),
}

impl Answers {
    async fn answer(
        &self,
        exchange: &Exchange,
        request: Request<Incoming>,
        in_flight: InFlight,
    ) -> Response<Body> {
        match self {
            Self::Sent { meant, upstreams, session } => {
                exchange.answer(request, meant, upstreams, session, in_flight).await
            }
            Self::Explained { meant, why } => exchange.explain(request, meant, why).await,
            Self::Proxied(proxied) => proxied.answer(exchange, request, in_flight).await,
        }
    }
}

/// What hyper asks for answers.
#[derive(Clone)]
pub(super) struct Answering {
    exchange: Arc<Exchange>,
    answers: Answers,
}

impl Service<Request<Incoming>> for Answering {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let this = self.clone();
        // From now on, not from when the future is polled first: hyper reads on in between.
        let in_flight = this.exchange.desk.begin();
        Box::pin(async move { Ok(this.answers.answer(&this.exchange, request, in_flight).await) })
    }
}

async fn run<S>(stream: S, speaks: Speaks, answers: Answers, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, is_http2) = match speaks {
        Speaks::Http1 => (Replayed::new(bytes::Bytes::new(), stream), false),
        Speaks::Http2 => (Replayed::new(bytes::Bytes::new(), stream), true),
        Speaks::Either => match timeout(limits.head_within, preface(stream)).await {
            Ok(Some(told)) => told,
            Ok(None) | Err(_) => return,
        },
    };
    match is_http2 {
        true => serve_http2(stream, answers, limits).await,
        false => match serve_http1(stream, answers, limits).await {
            Ended::Http(stream) => linger(stream).await,
            Ended::Upgraded { upgrade, read, stream } => {
                relay(Replayed::new(read.freeze(), stream), *upgrade).await;
            }
            Ended::Tunnel { .. } | Ended::Broken => {}
        },
    }
}

/// Reads as much as tells which HTTP is spoken.
async fn preface<S: AsyncRead + Unpin>(mut stream: S) -> Option<(Replayed<S>, bool)> {
    let mut read = BytesMut::new();
    let is_http2 = loop {
        let length = read.len().min(PREFACE.len());
        if read[..length] != PREFACE[..length] {
            break false;
        }
        if length == PREFACE.len() {
            break true;
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    Some((Replayed::new(read.freeze(), stream), is_http2))
}

/// What a connection of HTTP/1.1 came to.
pub(super) enum Ended<S> {
    /// All is answered.
    Http(S),
    /// A WebSocket goes on.
    Upgraded { upgrade: Box<Upgrade>, read: BytesMut, stream: S },
    /// A tunnel was asked for, and granted.
    Tunnel { read: BytesMut, stream: S },
    /// There is nobody any more.
    Broken,
}

pub(super) async fn serve_http1<S>(stream: S, answers: Answers, limits: Limits) -> Ended<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let desk = Arc::new(Desk::default());
    let exchange = Arc::new(Exchange::new(limits, Arc::clone(&desk)));
    let answering = Answering { exchange: Arc::clone(&exchange), answers };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .max_headers(HEADERS_MAX)
        .max_buf_size(READ_MAX);
    let stream = TokioIo::new(Guarded::new(stream, Arc::clone(&desk)));
    let connection = http.serve_connection(stream, answering);
    let Ok(parts) = connection.without_shutdown().await else { return Ended::Broken };
    let (rest, mut stream) = parts.io.into_inner().into_parts();
    // Both are of what follows a head after which HTTP ends.
    let mut read = BytesMut::from(&*parts.read_buf);
    read.unsplit(rest);
    if let Some(fault) = desk.fault() {
        let refused = refusal::malformed(fault.to_string());
        if stream.write_all(&refused.http1(None)).await.is_err() {
            return Ended::Broken;
        }
        return Ended::Http(stream);
    }
    let upgrade = exchange.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
    match upgrade {
        Some(upgrade) => Ended::Upgraded { upgrade: Box::new(upgrade), read, stream },
        None if desk.is_ended() => Ended::Tunnel { read, stream },
        None => Ended::Http(stream),
    }
}

/// Says that nothing more comes, and lets the client read what came.
pub(super) async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let drain = async {
        stream.shutdown().await.ok()?;
        let (mut piece, mut left) = ([0; 4096], LINGER_MAX);
        loop {
            let length = stream.read(&mut piece).await.ok().filter(|length| *length > 0)?;
            left = left.checked_sub(length)?;
        }
    };
    let _: Option<()> = timeout(LINGER, drain).await.ok().flatten();
}

async fn serve_http2<S>(stream: S, answers: Answers, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let desk = Arc::new(Desk::default());
    let exchange = Arc::new(Exchange::new(limits, Arc::clone(&desk)));
    let answering = Answering { exchange, answers };
    let tasks = Tasks::default();
    let mut http = http2::Builder::new(tasks.spawner());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(64 * 1024)
        .max_send_buf_size(SEND_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(Duration::from_secs(60))
        .keep_alive_timeout(Duration::from_secs(20));
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answering));
    let mut idle = pin!(idle(&desk, limits.head_within));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = idle.as_mut() => connection.as_mut().graceful_shutdown(),
    }
    drop(timeout(LINGER, connection).await);
}

/// Ends when nothing was asked for so long.
async fn idle(desk: &Desk, within: Duration) {
    let mut look: Interval = interval(LOOK_EVERY.min(within));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut since = None;
    loop {
        let now = look.tick().await;
        since = if desk.is_idle() { since.or(Some(now)) } else { None };
        if since.is_some_and(|since| now - since >= within) {
            return;
        }
    }
}
