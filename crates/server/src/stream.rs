//! Answers that go on: their places, and server-sent events (WHATWG HTML, section 9.2).

use crate::app::App;
use crate::connection::begun;
use crate::error::Failure;
use crate::extract::wrong;
use atoll_api::error::ErrorCode;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Body, Bytes, Frame};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};

/// Pieces of text that wait for a client that reads slowly.
const PIECES: usize = 2;
/// How long a client has to take the last word of a stream when the server shuts down.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A place among the streams of the server, given back when this is dropped.
pub(crate) struct Place {
    app: Arc<App>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Takes a place, if there is one.
    pub(crate) fn take(app: &Arc<App>) -> Result<Self, Failure> {
        let permit = app.streams.clone().try_acquire_owned().map_err(|_| too_many(app))?;
        app.metrics.streams.inc();
        Ok(Self { app: app.clone(), _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.app.metrics.streams.dec();
    }
}

fn too_many(app: &App) -> Failure {
    let limit = ("streams_max", u64::try_from(app.config.streams_max).unwrap_or(u64::MAX));
    let message = "as many streams are open as there may be";
    Failure::limit(ErrorCode::Capacity, limit, message, "close a stream, or ask again later")
        .after_ms(1000)
}

/// Why nothing more can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// Nobody reads the stream any more.
    Gone,
    /// The server shuts down.
    Closing,
}

/// Tells events to a client. Nothing is told ahead of what it reads but two pieces.
pub(crate) struct Teller {
    pieces: mpsc::Sender<String>,
    closing: watch::Receiver<bool>,
    heartbeat: Interval,
    _place: Place,
}

impl Teller {
    /// Begins a stream: what tells it, and the answer that it is.
    pub(crate) fn begin(app: &Arc<App>) -> Result<(Self, Response), Failure> {
        let place = Place::take(app)?;
        let (pieces, received) = mpsc::channel(PIECES);
        let period = app.config.heartbeat;
        let mut heartbeat = interval_at(Instant::now() + period, period);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let closing = app.closing.subscribe();
        let kind = HeaderValue::from_static("text/event-stream");
        let uncached = HeaderValue::from_static("no-store");
        let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, uncached)];
        let body = axum::body::Body::new(EventBody { pieces: received });
        let teller = Self { pieces, closing, heartbeat, _place: place };
        Ok((teller, (headers, body).into_response()))
    }

    /// Waits for what comes next, and meanwhile shows that the stream lives.
    pub(crate) async fn wait<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Over> {
        let mut next = pin!(next);
        loop {
            tokio::select! {
                () = begun(&mut self.closing) => return Err(Over::Closing),
                () = self.pieces.closed() => return Err(Over::Gone),
                next = &mut next => return Ok(next),
                _ = self.heartbeat.tick() => {}
            }
            self.say(": \n\n".to_owned()).await?;
        }
    }

    /// Says something, once the client has room for it.
    pub(crate) async fn say(&mut self, text: String) -> Result<(), Over> {
        let said = tokio::select! {
            biased;
            () = begun(&mut self.closing) => Err(Over::Closing),
            said = self.pieces.send(text) => said.map_err(|_| Over::Gone),
        };
        self.heartbeat.reset();
        said
    }

    /// Says the last word, which is known, or that the server shuts down.
    pub(crate) async fn finish(self, last: Result<String, Over>) {
        let text = match last {
            Ok(text) => text,
            Err(Over::Gone) => return,
            Err(Over::Closing) => event("end", None, &serde_json::json!({"reason": "shutdown"})),
        };
        let mut closing = self.closing;
        tokio::select! {
            biased;
            // Whether it is heard makes no difference any more.
            said = self.pieces.send(text.clone()) => drop(said),
            () = begun(&mut closing) => {
                drop(timeout(LAST_WORD, self.pieces.send(text)).await);
            }
        }
    }
}

/// An event as it is written.
pub(crate) fn event(name: &str, id: Option<&str>, data: &impl Serialize) -> String {
    // JSON has no line breaks.
    let data = serde_json::to_string(data).expect("types of the API have string keys only");
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {name}\ndata: {data}\n\n")
}

/// Where a stream begins, as an id without an event: a client that loses its connection before the
/// first one comes back to there.
pub(crate) fn place(number: u64) -> String {
    format!("id: {number}\n\n")
}

/// What a client that comes back says it had.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().unwrap_or_default().parse();
    let wrong = |error| wrong("Last-Event-ID", &format_args!("Last-Event-ID: {error}"));
    number.map(Some).map_err(wrong)
}

/// Pieces of text, as they come. It ends when their sender is dropped; the sender learns
/// when the client is gone, because this is dropped then.
struct EventBody {
    pieces: mpsc::Receiver<String>,
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.poll_recv(context);
        piece.map(|piece| piece.map(|text| Ok(Frame::data(Bytes::from(text)))))
    }
}

/// The body of an answer that is made piece by piece, as its reader takes it: nothing is
/// made ahead. An error breaks it off, so that no reader takes it for whole.
pub(crate) struct Pulled<S, N, F> {
    /// None while a piece is made, and after the last.
    source: Option<S>,
    next: N,
    making: Option<Pin<Box<F>>>,
}

/// A piece, and what the next one is made of; or the end.
pub(crate) type Next<S, E> = Option<Result<(Frame<Bytes>, S), E>>;

impl<S, N, F, E> Pulled<S, N, F>
where
    N: FnMut(S) -> F,
    F: Future<Output = Next<S, E>>,
{
    pub(crate) fn new(source: S, next: N) -> Self {
        Self { source: Some(source), next, making: None }
    }
}

impl<S, N, F, E> Body for Pulled<S, N, F>
where
    S: Unpin,
    N: FnMut(S) -> F + Unpin,
    F: Future<Output = Next<S, E>>,
{
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        let this = self.get_mut();
        if let Some(source) = this.source.take() {
            this.making = Some(Box::pin((this.next)(source)));
        }
        let Some(making) = &mut this.making else { return Poll::Ready(None) };
        let next = ready!(making.as_mut().poll(context));
        this.making = None;
        Poll::Ready(next.map(|made| {
            made.map(|(frame, source)| {
                this.source = Some(source);
                frame
            })
        }))
    }
}
