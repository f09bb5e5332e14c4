//! An exec as a stream of server-sent events.

use super::{TargetExec, hold};
use crate::access::Runner;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use crate::stream::{Over, Teller, event};
use atoll_api::error::ErrorBody;
use atoll_api::exec::{Dropped, End, EndReason, Output, OutputEvent, Stream};
use atoll_api::id::ExecId;
use atoll_engine::Wake;
use atoll_engine::inside::Held;
use atoll_engine::inside::exec::{Following, Piece, Place, cut_at_end};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The header in which a client that comes back says what it had.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(follow))
}

/// Follow an exec
///
/// A stream of server-sent events: `started` with an `Exec` as JSON in `data`; `output` with
/// an `OutputEvent`; `dropped` with a `Dropped`, where bytes are not kept any more. It ends
/// with `ended` and an `Exec`; with `lost` and an `ApiError`, where what became of it is not
/// known; or with `end`, as `{"reason": "shutdown"}` or, where it was not to be followed,
/// `"snapshot"`. The `id` of each event says how far both streams are, as in `120-0`. It
/// holds the sandbox awake; who goes away leaves the exec running.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/execs/{exec}/events", operation_id = "follow_exec",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
        ("stdout" = Option<u64>, Query, description = "From this offset of it, 0 if absent"),
        ("stderr" = Option<u64>, Query, description = "From this offset of it, 0 if absent"),
        ("follow" = Option<bool>, Query, description = "Wait for more, true if absent"),
        (
            "Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]+-[0-9]+$",
            description = "As `stdout` and `stderr`, and before them; sent by clients that \
                           come back",
        ),
    ),
    responses(
        (
            status = 200, body = String, content_type = "text/event-stream",
            description = "The stream",
        ),
        (status = "default", body = ErrorBody, description = "There is no stream"),
    ),
    security(("key" = [])),
)]
async fn follow(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, Failure> {
    let asked = [query.one("stdout")?.unwrap_or(0), query.one("stderr")?.unwrap_or(0)];
    let is_snapshot = !query.one("follow")?.unwrap_or(true);
    query.end()?;
    let at = last_event_id(&headers)?.unwrap_or(asked);
    let (teller, response) = Teller::begin(&app)?;
    let inside = app.engine.inside(id, Wake::Never).await?;
    let place = Place { stdout: Some(at[0]), stderr: Some(at[1]), is_snapshot };
    let following = inside.follow_exec(exec, place).await?;
    let held = hold(&inside, exec).await?;
    app.spawn(tell(teller, following, at, held));
    Ok(response)
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<[u64; 2]>, Failure> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let offsets = value.to_str().ok().and_then(|text| {
        let (stdout, stderr) = text.split_once('-')?;
        Some([stdout.parse().ok()?, stderr.parse().ok()?])
    });
    let message = "Last-Event-ID is not the id of an event of this stream";
    offsets.map(Some).ok_or_else(|| Failure::field("Last-Event-ID", message))
}

/// Tells what comes of an exec, from these offsets on, until it is over.
pub(super) async fn tell(mut teller: Teller, mut following: Following, at: [u64; 2], held: Held) {
    let mut lines = Lines { at, cut: [Vec::new(), Vec::new()] };
    let last = pump(&mut teller, &mut following, &mut lines).await;
    // Whoever reads the last word may take time, and the sandbox need not wait for it.
    drop((following, held));
    teller.finish(last).await;
}

async fn pump(
    teller: &mut Teller,
    following: &mut Following,
    lines: &mut Lines,
) -> Result<String, Over> {
    teller.say(event("started", Some(&lines.id()), following.exec())).await?;
    loop {
        let (told, is_last) = match teller.wait(following.next()).await? {
            Ok(Some(Piece::Bytes { stream, bytes, .. })) => (lines.output(stream, &bytes), false),
            Ok(Some(Piece::Dropped(dropped))) => (lines.dropped(dropped), false),
            Ok(Some(Piece::Heartbeat)) => (lines.flush(), false),
            Ok(Some(Piece::Ended(exec))) => {
                (lines.flush() + &event("ended", Some(&lines.id()), &exec), true)
            }
            Ok(None) => {
                let end = End { reason: EndReason::Snapshot };
                (lines.flush() + &event("end", Some(&lines.id()), &end), true)
            }
            Err(error) => {
                tracing::warn!(%error, "a stream of an exec is lost");
                (lines.flush() + &event("lost", Some(&lines.id()), &error.to_api()), true)
            }
        };
        if is_last {
            return Ok(told);
        }
        if !told.is_empty() {
            teller.say(told).await?;
        }
    }
}

/// What is told of both streams, cut between characters.
struct Lines {
    /// Up to here they were told.
    at: [u64; 2],
    /// The beginning of a character that is not all there.
    cut: [Vec<u8>; 2],
}

impl Lines {
    fn id(&self) -> String {
        let [stdout, stderr] = self.at;
        format!("{stdout}-{stderr}")
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) -> String {
        let mut bytes = [&std::mem::take(&mut self.cut[index(stream)])[..], bytes].concat();
        self.cut[index(stream)] = bytes.split_off(bytes.len() - cut_at_end(&bytes));
        self.tell(stream, bytes)
    }

    fn tell(&mut self, stream: Stream, bytes: Vec<u8>) -> String {
        if bytes.is_empty() {
            return String::new();
        }
        let offset = self.at[index(stream)];
        self.at[index(stream)] += bytes.len() as u64;
        let told = OutputEvent { stream, offset, output: Output::new(bytes) };
        event("output", Some(&self.id()), &told)
    }

    fn dropped(&mut self, dropped: Dropped) -> String {
        let flushed = self.flush();
        self.at[index(dropped.stream)] = dropped.to;
        flushed + &event("dropped", Some(&self.id()), &dropped)
    }

    /// Tells what was held back.
    fn flush(&mut self) -> String {
        let mut told = String::new();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let bytes = std::mem::take(&mut self.cut[index(stream)]);
            told.push_str(&self.tell(stream, bytes));
        }
        told
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}
