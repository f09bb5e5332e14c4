//! One request, on its way to a port and back.
//!
//! Each has a connection of its own to the port: what a server inside does to one can
//! never be taken for the answer to another. Bodies are streamed both ways, and each
//! side waits for the other one. Who goes away ends the connection to the port.

use super::Router;
use super::address::Address;
use super::headers::{self, Came};
use super::pulse::{Pulse, Watched};
use super::refusal::Refusal;
use super::room::{Place, Way};
use super::tunnel::{self, Handshake};
use crate::app::App;
use atoll_engine::guest::PortStream;
use axum::body::Body;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, TE};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Largest line and headers of an answer, and the most that is read ahead.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A request to a preview that there is, and that it is opened for.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) address: Address,
    pub(crate) came: Came,
    /// What the sandbox is asked for.
    pub(crate) target: PathAndQuery,
    /// It was opened by a header, which no cache between looks at.
    pub(crate) is_by_header: bool,
}

type Upstream = TokioIo<Watched<PortStream>>;

/// Sends a request on, and gives the answer as soon as it begins.
pub(crate) async fn relay(
    app: &Arc<App>,
    visit: &Visit,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let router = &app.previews;
    let handshake = Handshake::of(&request)?;
    let place = router.rooms.enter(visit.address.id)?;
    let wake_max = router.settings.wake_max;
    let way = place.room.way(&app.engine, visit.address.port, wake_max).await?;
    let pulse = Pulse::new();
    let Way { stream, held } = way;
    let stream = TokioIo::new(Watched::new(stream, pulse.clone()));
    let client = handshake.is_some().then(|| hyper::upgrade::on(&mut request));
    let is_grpc = request.version() == Version::HTTP_2 && is_grpc(request.headers());
    let request = outgoing(request, visit, handshake.as_ref());
    let mut connection = JoinSet::new();
    let begun = async {
        if is_grpc {
            speak_http2(stream, request, &mut connection).await
        } else {
            speak_http1(stream, request, &mut connection).await
        }
    };
    let idle = router.settings.idle;
    let mut response = tokio::select! {
        response = begun => response?,
        () = pulse.silent_for(idle) => return Err(Refusal::silent(idle)),
    };
    pulse.answered();
    let guard = Going {
        _place: place,
        _held: held,
        _connection: connection,
        pulse,
        idle,
        _count: router.count(),
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(client), Some(handshake)) = (client, handshake) else {
            return Err(Refusal::broken("switches protocols though nobody asked", None));
        };
        return tunnel::open(app, visit, &handshake, client, response, guard);
    }
    headers::to_client(response.headers_mut(), &visit.came);
    if visit.is_by_header {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    *response.version_mut() = Version::HTTP_11;
    let closing = is_endless(response.headers()).then(|| app.closing.subscribe());
    Ok(response.map(|body| Body::new(PreviewBody::new(body, guard, closing))))
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.starts_with(b"application/grpc")
}

/// Server-sent events have no end that a server which shuts down could wait for.
fn is_endless(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.starts_with(b"text/event-stream")
}

/// The request as the sandbox gets it.
fn outgoing(
    request: Request<Incoming>,
    visit: &Visit,
    handshake: Option<&Handshake>,
) -> Request<Body> {
    let is_http2 = request.version() == Version::HTTP_2 && is_grpc(request.headers());
    let (mut head, body) = request.into_parts();
    headers::to_sandbox(&mut head.headers, &visit.came);
    head.uri = Uri::from(visit.target.clone());
    head.version = Version::HTTP_11;
    head.extensions.clear();
    let mut body = Body::new(body);
    match handshake {
        Some(handshake) => {
            head.method = Method::GET;
            handshake.ask(&mut head.headers);
            body = Body::empty();
        }
        None if is_http2 => {
            let host = head.headers.remove(hyper::header::HOST);
            let authority = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
            let uri = Uri::builder().scheme("http").authority(authority);
            let uri = uri.path_and_query(visit.target.clone()).build();
            head.uri = uri.expect("its parts were those of one that came");
            head.version = Version::HTTP_2;
            head.headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        None => {
            head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    Request::from_parts(head, body)
}

async fn speak_http1(
    stream: Upstream,
    request: Request<Body>,
    connections: &mut JoinSet<()>,
) -> Result<Response<Incoming>, Refusal> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX).max_header_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(stream).await.map_err(broken)?;
    connections.spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a port broke off");
        }
    });
    sender.send_request(request).await.map_err(broken)
}

async fn speak_http2(
    stream: Upstream,
    request: Request<Body>,
    connections: &mut JoinSet<()>,
) -> Result<Response<Incoming>, Refusal> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.max_header_list_size(64 * 1024).max_send_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(stream).await.map_err(broken)?;
    connections.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a port broke off");
        }
    });
    sender.send_request(request).await.map_err(broken)
}

fn broken(error: hyper::Error) -> Refusal {
    Refusal::broken("gave no answer that is HTTP", Some(&error))
}

/// What goes on while an answer does, and ends with it.
pub(crate) struct Going {
    _place: Place,
    _held: Option<Arc<atoll_engine::inside::Held>>,
    _connection: JoinSet<()>,
    pulse: Arc<Pulse>,
    idle: Duration,
    _count: super::Counted,
}

impl Going {
    pub(crate) fn pulse(&self) -> (Arc<Pulse>, Duration) {
        (self.pulse.clone(), self.idle)
    }
}

/// The body of an answer from a sandbox.
struct PreviewBody {
    inner: Incoming,
    /// Ends early when it is there: the sandbox was silent, or the server shuts down.
    cut: Pin<Box<dyn Future<Output = Cut> + Send>>,
    going: Option<Going>,
}

#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error("the server in the sandbox said nothing for {0:?}")]
    Silent(Duration),
    #[error("the server shuts down")]
    Closing,
}

impl PreviewBody {
    fn new(inner: Incoming, going: Going, closing: Option<watch::Receiver<bool>>) -> Self {
        let (pulse, idle) = going.pulse();
        let cut = async move {
            tokio::select! {
                () = pulse.silent_for(idle) => Cut::Silent(idle),
                () = closes(closing) => Cut::Closing,
            }
        };
        Self { inner, cut: Box::pin(cut), going: Some(going) }
    }
}

/// Waits until the server shuts down, or for ever where that does not matter.
pub(crate) async fn closes(closing: Option<watch::Receiver<bool>>) {
    match closing {
        // Without its sender there is no server either.
        Some(mut closing) => drop(closing.wait_for(|&is_closing| is_closing).await),
        None => std::future::pending().await,
    }
}

impl hyper::body::Body for PreviewBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
            Poll::Pending => self.cut.as_mut().poll(context).map(|cut| Some(Err(cut.into()))),
        };
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.going = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Router {
    fn count(&self) -> super::Counted {
        super::Counted::new(self.open.clone())
    }
}
