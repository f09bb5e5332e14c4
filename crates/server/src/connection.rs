//! One connection: which HTTP it speaks, what its requests are meant for, and its end.
//!
//! Connections are served by hyper itself rather than by axum's loop, for its limits of
//! headers and its timeouts, and so that each knows who is on its other side.

use crate::access::Peer;
use crate::app::App;
use crate::error::Failure;
use crate::preview::{self, Meant, Refusal};
use atoll_api::error::ErrorCode;
use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{interval, timeout};
use tower::ServiceExt as _;

/// How every connection of HTTP/2 begins (RFC 9113, section 3.4). No method of HTTP/1 begins
/// so.
const HTTP2_BEGINS: &[u8] = b"PRI";
/// How often a connection is looked at of which one or two bytes are there.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Most requests at once on a connection of HTTP/2.
const REQUESTS_MAX: u32 = 100;
/// Most bytes of an answer that wait for a client.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// What a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    Api,
    Previews,
    Both,
}

/// What a connection came to.
#[derive(Clone)]
pub(crate) struct Doorway {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
    pub(crate) peer: Peer,
    /// Where it comes from, over TCP.
    pub(crate) from: Option<IpAddr>,
    pub(crate) serves: Serves,
}

/// Serves a connection over TCP, in the version of HTTP that it begins with.
pub(crate) async fn serve_tcp(doorway: Doorway, stream: TcpStream) {
    // Answers are small; a stream of events must not wait for more.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection is slower than it could be");
    }
    match timeout(doorway.app.config.header_timeout, is_http2(&stream)).await {
        Ok(Ok(true)) => serve_http2(doorway, stream).await,
        Ok(Ok(false)) => serve_http1(doorway, stream).await,
        Ok(Err(error)) => tracing::debug!(%error, "a connection broke off"),
        Err(_) => tracing::debug!("a connection said nothing"),
    }
}

/// Looks at how a connection begins, and takes nothing of it.
async fn is_http2(stream: &TcpStream) -> std::io::Result<bool> {
    let mut bytes = [0; HTTP2_BEGINS.len()];
    let mut again = interval(LOOK_AGAIN);
    loop {
        let length = stream.peek(&mut bytes).await?;
        if length == 0 || !HTTP2_BEGINS.starts_with(&bytes[..length]) {
            return Ok(false);
        }
        if length == HTTP2_BEGINS.len() {
            return Ok(true);
        }
        // What is there stays there, so that a wait for more of it would not wait.
        again.tick().await;
    }
}

/// Serves one connection to its end, or to the end of its request when the server shuts down.
pub(crate) async fn serve_http1(
    doorway: Doorway,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let (config, mut closing) = (doorway.app.config, doorway.app.closing.subscribe());
    let service = service_fn(move |request| answer(doorway.clone(), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_header_size(config.header_bytes_max);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection.with_upgrades());
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

/// The same for one on which many requests go on at once. One without any for as long as
/// the headers of one may take is ended, as one of HTTP/1 is.
async fn serve_http2(doorway: Doorway, stream: TcpStream) {
    let (config, mut closing) = (doorway.app.config, doorway.app.closing.subscribe());
    let open = watch::Sender::new(0_usize);
    let mut busy = open.subscribe();
    let tasks = Tasks(doorway.app.clone());
    let service = service_fn(move |request| {
        let (doorway, open) = (doorway.clone(), Open::new(&open));
        async move {
            let Ok(response) = answer(doorway, request).await;
            Ok::<_, Infallible>(response.map(|inner| Body::new(Counted { inner, _open: open })))
        }
    });
    let header_bytes_max = u32::try_from(config.header_bytes_max).unwrap_or(u32::MAX);
    let connection = http2::Builder::new(tasks)
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .keep_alive_interval(config.header_timeout)
        .keep_alive_timeout(config.header_timeout)
        .max_concurrent_streams(REQUESTS_MAX)
        .max_header_list_size(header_bytes_max)
        .max_send_buf_size(SEND_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = async {
            tokio::select! {
                () = begun(&mut closing) => {}
                () = idle(&mut busy, config.header_timeout) => {}
            }
        } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Waits until the server shuts down.
pub(crate) async fn begun(closing: &mut watch::Receiver<bool>) {
    // Without its sender there is no server either.
    drop(closing.wait_for(|&is_closing| is_closing).await);
}

/// Waits until no request has gone on for so long.
async fn idle(open: &mut watch::Receiver<usize>, limit: Duration) {
    loop {
        if open.wait_for(|&count| count == 0).await.is_err() {
            return std::future::pending().await;
        }
        if timeout(limit, open.wait_for(|&count| count > 0)).await.is_err() {
            return;
        }
    }
}

/// Runs what a connection of HTTP/2 does beside its own task, until the server ends.
#[derive(Clone)]
struct Tasks(Arc<App>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}

/// One request that goes on.
struct Open(watch::Sender<usize>);

impl Open {
    fn new(open: &watch::Sender<usize>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// The body of an answer, whose request goes on until it ends.
struct Counted {
    inner: Body,
    _open: Open,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Answers a request, by whom it is meant for.
async fn answer(
    doorway: Doorway,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    request.extensions_mut().insert(doorway.peer);
    // A unix socket has no name that anybody else could have given it.
    let Some(from) = doorway.from else { return doorway.router.oneshot(request).await };
    let Ok(host) = preview::host(&request) else {
        let message = "the request names two hosts";
        let failure = Failure::new(ErrorCode::Invalid, message, "name one, in `Host`");
        return Ok(failure.into_response());
    };
    let (app, path) = (&doorway.app, request.uri().path());
    let meant = app.previews.meant(host.as_deref(), path, &app.names);
    let (serves_api, serves_previews) =
        (doorway.serves != Serves::Previews, doorway.serves != Serves::Api);
    let answer = match meant {
        Meant::Api if serves_api => return doorway.router.oneshot(request).await,
        Meant::Host(address) if serves_previews => {
            preview::serve(doorway.app, address, false, from, request).await
        }
        Meant::Path(address) if serves_previews => {
            preview::serve(doorway.app, address, true, from, request).await
        }
        Meant::Api | Meant::Path(_) => Refusal::unknown().answer(request.headers()),
        Meant::Host(_) | Meant::Stranger => stranger().into_response(),
    };
    Ok(answer)
}

/// Whoever is led here by a name of somebody else's must not use the server as that site.
fn stranger() -> Failure {
    let message = "this server does not have the name by which it was asked";
    let next_step = "ask by its address or as localhost, or have it started with --server-name";
    Failure::new(ErrorCode::Forbidden, message, next_step)
}
