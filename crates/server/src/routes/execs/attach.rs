//! A client that is attached to an exec: what it prints and what it is fed, over a
//! WebSocket.

use super::{TargetExec, hold};
use crate::access::Runner;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use crate::socket::{Socket, SocketRequest};
use crate::stream::Place as Slot;
use atoll_api::error::{ApiError, ErrorBody};
use atoll_api::exec::{AttachAction, AttachEvent, EndReason, ResizeExec, SignalExec, Stream};
use atoll_api::id::ExecId;
use atoll_engine::Inside;
use atoll_engine::inside::exec::{Following, Piece, Place};
use axum::extract::State;
use axum::response::Response;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Bytes;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Messages of input that wait for a command that takes none.
const WAITING: usize = 4;
/// Events that wait to be told beside output.
const ANSWERS: usize = 16;
/// How long a client has to take the last word.
const LAST_WORD: Duration = Duration::from_secs(5);
/// Periods of heartbeats after which a client that says nothing is gone: it answers pings.
const SILENT_PERIODS: u32 = 3;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(attach))
}

/// Attach to an exec
///
/// A WebSocket of protocol `atoll.v1`. To the client a binary message is output: one byte
/// for the stream (1 standard output, 2 standard error), eight for the offset of the first
/// byte, most significant first, then the bytes; a text message is an `AttachEvent`. From
/// the client a binary message is input, and a text message an `AttachAction`. Whoever
/// detaches leaves the exec running, and attaches again with the offsets where it was. It
/// holds the sandbox awake.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/execs/{exec}/attach", operation_id = "attach_exec",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
        ("stdout" = Option<u64>, Query, description = "From this offset of it, 0 if absent"),
        ("stderr" = Option<u64>, Query, description = "From this offset of it, 0 if absent"),
    ),
    responses(
        (status = 101, description = "It is attached"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn attach(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    mut query: Query,
    request: SocketRequest,
) -> Result<Response, Failure> {
    let place = Place {
        stdout: Some(query.one("stdout")?.unwrap_or(0)),
        stderr: Some(query.one("stderr")?.unwrap_or(0)),
        is_snapshot: false,
    };
    query.end()?;
    let slot = Slot::take(&app)?;
    let inside = app.inside(id).await?;
    let following = inside.follow_exec(exec, place).await?;
    let held = hold(&inside, exec).await?;
    let (closing, heartbeat) = (app.closing.subscribe(), app.config.heartbeat);
    Ok(request.open(&app, move |socket| async move {
        serve(socket, following, closing, heartbeat).await;
        drop((held, slot));
    }))
}

/// Why a client is served no longer.
enum Over {
    /// It is gone.
    Gone,
    /// This is the last that it is told.
    Said(Box<AttachEvent>),
}

async fn serve(
    socket: Socket,
    following: Following,
    mut closing: watch::Receiver<bool>,
    heartbeat: Duration,
) {
    let (mut to_client, mut from_client) = socket.split();
    let (answers, mut answered) = mpsc::channel(ANSWERS);
    let (inside, exec) = (following.inside().clone(), following.exec().id);
    let (heard, last_heard) = watch::channel(Some(Instant::now()));
    let over = {
        let down = pump(&mut to_client, following, &mut answered, heartbeat, last_heard);
        let up = act(&mut from_client, &inside, exec, &answers, &heard);
        tokio::select! {
            over = down => over,
            () = up => Over::Gone,
            _ = closing.wait_for(|&is_closing| is_closing) => {
                Over::Said(Box::new(AttachEvent::End { reason: EndReason::Shutdown }))
            }
        }
    };
    let Over::Said(event) = over else { return };
    let is_end = matches!(*event, AttachEvent::End { .. });
    let code = if is_end { CloseCode::Away } else { CloseCode::Normal };
    let farewell = async {
        to_client.send(text(&event)).await?;
        to_client.send(Message::Close(Some(CloseFrame { code, reason: "".into() }))).await?;
        // Until the client has said the same, or anything is wrong.
        while let Some(Ok(_)) = from_client.next().await {}
        Ok::<_, tokio_tungstenite::tungstenite::Error>(())
    };
    if !matches!(timeout(LAST_WORD, farewell).await, Ok(Ok(()))) {
        tracing::debug!("a client that was attached did not take the last word");
    }
}

fn text(event: &AttachEvent) -> Message {
    let json = serde_json::to_string(event).expect("types of the API have string keys only");
    Message::Text(json.into())
}

type ToClient = futures_util::stream::SplitSink<Socket, Message>;
type FromClient = futures_util::stream::SplitStream<Socket>;

/// Tells what comes of the exec, and what became of actions.
async fn pump(
    to_client: &mut ToClient,
    mut following: Following,
    answered: &mut mpsc::Receiver<ApiError>,
    period: Duration,
    last_heard: watch::Receiver<Option<Instant>>,
) -> Over {
    let started = AttachEvent::Started { exec: following.exec().clone() };
    let mut messages = vec![text(&started)];
    let mut heartbeat = interval_at(Instant::now() + period, period);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        for message in messages.drain(..) {
            if to_client.send(message).await.is_err() {
                return Over::Gone;
            }
        }
        tokio::select! {
            next = following.next() => match next {
                Ok(Some(Piece::Bytes { stream, offset, bytes })) => {
                    messages.push(output(stream, offset, &bytes));
                }
                Ok(Some(Piece::Dropped(dropped))) => {
                    messages.push(text(&AttachEvent::Dropped { dropped }));
                }
                Ok(Some(Piece::Heartbeat)) => {}
                Ok(Some(Piece::Ended(exec))) => return Over::Said(Box::new(AttachEvent::Ended { exec: *exec })),
                // It was followed to its end before.
                Ok(None) => return Over::Gone,
                Err(error) => {
                    tracing::warn!(%error, "an exec is lost that somebody was attached to");
                    return Over::Said(Box::new(AttachEvent::Lost { error: error.to_api() }));
                }
            },
            Some(error) = answered.recv() => messages.push(text(&AttachEvent::Refused { error })),
            _ = heartbeat.tick() => {
                let silent_for = last_heard.borrow().map_or(Duration::ZERO, |at| at.elapsed());
                if silent_for > period * SILENT_PERIODS {
                    return Over::Gone;
                }
                messages.push(text(&AttachEvent::Heartbeat {}));
                messages.push(Message::Ping(Bytes::new()));
            }
        }
    }
}

fn output(stream: Stream, offset: u64, bytes: &[u8]) -> Message {
    let kind = match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
    };
    Message::Binary([&[kind], &offset.to_be_bytes()[..], bytes].concat().into())
}

/// Does what the client asks for, in its order, until it goes.
async fn act(
    from_client: &mut FromClient,
    inside: &Inside,
    exec: ExecId,
    answers: &mpsc::Sender<ApiError>,
    heard: &watch::Sender<Option<Instant>>,
) {
    let (input, received) = mpsc::channel(WAITING);
    let feeding = feed(inside, exec, received, answers);
    let hearing = async {
        let mut input = Some(input);
        while let Some(Ok(message)) = from_client.next().await {
            heard.send_replace(Some(Instant::now()));
            let done = match message {
                Message::Binary(bytes) => match &input {
                    Some(input) => {
                        // A client cannot answer while nobody listens to it.
                        heard.send_replace(None);
                        let sent = input.send(bytes).await;
                        heard.send_replace(Some(Instant::now()));
                        // Why it is not taken was told.
                        drop(sent);
                        Ok(())
                    }
                    None => Err(Failure::field("stdin", "its end was said before")),
                },
                Message::Text(text) => match serde_json::from_str(&text) {
                    Ok(AttachAction::EndStdin {}) => {
                        drop(input.take());
                        Ok(())
                    }
                    Ok(action) => one(inside, exec, &action).await,
                    Err(error) => {
                        Err(Failure::field("action", format!("it cannot be read: {error}")))
                    }
                },
                // Pings are answered by the library.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
                Message::Close(_) => break,
            };
            if let Err(failure) = done
                && answers.send(*failure.error).await.is_err()
            {
                break;
            }
        }
    };
    tokio::select! {
        // Whoever goes without a word on it leaves the input open: nothing more is fed then.
        biased;
        () = hearing => {}
        () = async { feeding.await; std::future::pending().await } => {}
    }
}

async fn one(inside: &Inside, exec: ExecId, action: &AttachAction) -> Result<(), Failure> {
    match *action {
        AttachAction::EndStdin {} => {}
        AttachAction::Resize { rows, columns } => {
            let size = ResizeExec { rows, columns }.validate()?;
            inside.resize_exec(exec, size).await?;
        }
        AttachAction::Signal { signal, target } => {
            inside.signal_exec(exec, &SignalExec { signal, target }).await?;
        }
    }
    Ok(())
}

/// Feeds what is received, once something is.
async fn feed(
    inside: &Inside,
    exec: ExecId,
    mut received: mpsc::Receiver<Bytes>,
    answers: &mpsc::Sender<ApiError>,
) {
    let first = received.recv().await;
    let mut input = Input { piece: first.unwrap_or_default(), received };
    if let Err(error) = inside.feed_exec(exec, None, false, &mut input).await {
        // Who reads nothing any more need not know.
        answers.send(error.to_api()).await.unwrap_or_default();
    }
}

/// Input as it is received; its end is the end of input.
struct Input {
    piece: Bytes,
    received: mpsc::Receiver<Bytes>,
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.piece.is_empty() {
            match ready!(self.received.poll_recv(context)) {
                Some(piece) => self.piece = piece,
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.piece.len().min(buffer.remaining());
        buffer.put_slice(&self.piece.split_to(length));
        Poll::Ready(Ok(()))
    }
}
