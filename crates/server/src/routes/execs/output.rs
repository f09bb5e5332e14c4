//! What an exec printed, as it is.

use super::{TargetExec, hold};
use crate::access::Runner;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use crate::stream::{Next, Place as Slot, Pulled};
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::exec::Stream;
use atoll_api::id::{ExecId, SandboxId};
use atoll_engine::Wake;
use atoll_engine::inside::Held;
use atoll_engine::inside::exec::{Following, Piece, Place};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::{Bytes, Frame};
use std::sync::Arc;
use tokio::sync::watch;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(stdout)).routes(routes!(stderr))
}

/// Read what an exec printed to standard output, as it is
///
/// In memory that does not grow with it. The body ends properly where the exec has ended and
/// all was sent, or where no more was asked for; it breaks off where bytes are not kept any
/// more, and where what became of the exec is not known. Where the first bytes that are asked
/// for are not kept, the answer is `lost`, and `details.offset` says from where on they are.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/execs/{exec}/stdout", operation_id = "read_exec_stdout",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
        ("offset" = Option<u64>, Query, description = "From this byte on, 0 if absent"),
        ("follow" = Option<bool>, Query, description = "Wait for more, true if absent"),
    ),
    responses(
        (
            status = 200, body = Vec<u8>, content_type = "application/octet-stream",
            description = "The bytes",
        ),
        (status = "default", body = ErrorBody, description = "They are not there"),
    ),
    security(("key" = [])),
)]
async fn stdout(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    query: Query,
) -> Result<Response, Failure> {
    raw(&app, id, exec, Stream::Stdout, query).await
}

/// Read what an exec printed to standard error, as it is
///
/// As for standard output.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/execs/{exec}/stderr", operation_id = "read_exec_stderr",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
        ("offset" = Option<u64>, Query, description = "From this byte on, 0 if absent"),
        ("follow" = Option<bool>, Query, description = "Wait for more, true if absent"),
    ),
    responses(
        (
            status = 200, body = Vec<u8>, content_type = "application/octet-stream",
            description = "The bytes",
        ),
        (status = "default", body = ErrorBody, description = "They are not there"),
    ),
    security(("key" = [])),
)]
async fn stderr(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    query: Query,
) -> Result<Response, Failure> {
    raw(&app, id, exec, Stream::Stderr, query).await
}

async fn raw(
    app: &Arc<App>,
    id: SandboxId,
    exec: ExecId,
    stream: Stream,
    mut query: Query,
) -> Result<Response, Failure> {
    let offset = query.one("offset")?.unwrap_or(0);
    let is_snapshot = !query.one("follow")?.unwrap_or(true);
    query.end()?;
    let slot = Slot::take(app)?;
    let inside = app.engine.inside(id, Wake::Never).await?;
    let place = Place::of(stream, offset, is_snapshot);
    let following = inside.follow_exec(exec, place).await?;
    let held = hold(&inside, exec).await?;
    let closing = app.closing.subscribe();
    let mut raw = Raw { following, first: None, closing, _held: held, _slot: slot };
    // A gap right at the beginning can still be told.
    if following_begins_late(&raw.following, stream, offset) {
        match raw.following.next().await? {
            Some(Piece::Dropped(dropped)) => return Err(not_kept(exec, offset, dropped.to)),
            first => raw.first = first,
        }
    }
    let mut response = Response::new(Body::new(Pulled::new(raw, Raw::next)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // What comes out of a sandbox is never a page of this server.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// Whether bytes of the stream are gone, perhaps the first that are wanted.
fn following_begins_late(following: &Following, stream: Stream, offset: u64) -> bool {
    let printed = match stream {
        Stream::Stdout => following.exec().stdout,
        Stream::Stderr => following.exec().stderr,
    };
    printed.dropped_bytes > 0 && offset < printed.bytes
}

fn not_kept(exec: ExecId, offset: u64, to: u64) -> Failure {
    let message = format!("bytes {offset} to {to} of exec {exec} are not kept any more");
    let next_step = format!("read on from offset {to}");
    let mut failure = Failure::new(ErrorCode::Lost, message, next_step);
    failure.error.details.exec_id = Some(exec);
    failure.error.details.offset = Some(to);
    failure
}

/// Why a body breaks off.
#[derive(Debug, thiserror::Error)]
#[error("the output breaks off")]
struct BrokenOff;

/// One stream of an exec, as it comes.
struct Raw {
    following: Following,
    first: Option<Piece>,
    closing: watch::Receiver<bool>,
    _held: Held,
    _slot: Slot,
}

impl Raw {
    async fn next(mut self) -> Next<Self, BrokenOff> {
        loop {
            let piece = match self.first.take() {
                Some(piece) => Some(Ok(Some(piece))),
                None => tokio::select! {
                    piece = self.following.next() => Some(piece),
                    _ = self.closing.wait_for(|&is_closing| is_closing) => None,
                },
            };
            let Some(piece) = piece else { return broken_off().await };
            match piece {
                Ok(Some(Piece::Bytes { bytes, .. })) => return Some(Ok((frame(bytes), self))),
                Ok(Some(Piece::Heartbeat)) => {}
                Ok(Some(Piece::Dropped(_))) => return broken_off().await,
                Ok(Some(Piece::Ended(_)) | None) => return None,
                Err(error) => {
                    tracing::warn!(%error, "the output of an exec breaks off");
                    return broken_off().await;
                }
            }
        }
    }
}

/// Breaks a body off when what came before is sent: hyper does that where a body has to be
/// waited for, and forgets it where the body fails at once.
async fn broken_off() -> Next<Raw, BrokenOff> {
    tokio::task::yield_now().await;
    Some(Err(BrokenOff))
}

fn frame(bytes: Bytes) -> Frame<Bytes> {
    Frame::data(bytes)
}
