//! What changes in a directory, as a stream of server-sent events.

use super::inside;
use crate::access::Runner;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use crate::stream::EventBody;
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_engine::inside::{Sight, Watch};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Pieces of text that wait for a client that reads slowly.
const PIECES: usize = 2;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(watch))
}

/// Follow what changes in a directory
///
/// A stream of server-sent events: `ready` once changes are seen, `changed` with a `Changed`
/// as JSON in `data`, `overflowed` where more changed than could be told, `unwatched` with an
/// `Unwatched`. It ends with `end`, as `{"reason": "removed"}` or `"shutdown"`, or with `lost`
/// and an `ApiError`, as when the sandbox ends. It holds the sandbox awake.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/files/watch", operation_id = "watch_files", tag = "files",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Which; percent-encoded byte by byte"),
        ("recursive" = Option<bool>, Query, description = "And the directories below it"),
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
async fn watch(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
) -> Result<Response, Failure> {
    let (path, recursive) = (query.path("path")?, query.one("recursive")?.unwrap_or(false));
    query.end()?;
    let slot = app.streams.clone().try_acquire_owned().map_err(|_| too_many(&app))?;
    let watch = inside(&app, id).await?.watch(path, recursive).await?;
    let (pieces, received) = mpsc::channel(PIECES);
    app.spawn(Teller { app: app.clone(), pieces }.run(watch, slot));
    let kind = HeaderValue::from_static("text/event-stream");
    let uncached = HeaderValue::from_static("no-store");
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, uncached)];
    Ok((headers, Body::new(EventBody::new(received))).into_response())
}

fn too_many(app: &App) -> Failure {
    let limit = ("streams_max", u64::try_from(app.config.streams_max).unwrap_or(u64::MAX));
    let message = "as many streams are open as there may be";
    Failure::limit(ErrorCode::Capacity, limit, message, "close a stream, or ask again later")
        .after_ms(1000)
}

/// One stream.
struct Teller {
    app: Arc<App>,
    pieces: mpsc::Sender<String>,
}

/// Nobody reads the stream any more.
struct Over;

impl Teller {
    async fn run(self, watch: Watch, slot: OwnedSemaphorePermit) {
        self.app.metrics.streams.inc();
        // The end of a stream is no fault.
        drop(self.tell(watch).await);
        self.app.metrics.streams.dec();
        drop(slot);
    }

    async fn tell(&self, mut watch: Watch) -> Result<(), Over> {
        let mut closing = self.app.closing.subscribe();
        let mut heartbeat = interval(self.app.config.heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.say(event("ready", &Empty {})).await?;
        loop {
            if *closing.borrow() {
                return self.say(end("shutdown")).await;
            }
            let told = tokio::select! {
                // All of these can be dropped without a loss.
                seen = watch.next() => match seen {
                    Ok(Some(Sight::Changed(changed))) => event("changed", &changed),
                    Ok(Some(Sight::Overflowed)) => event("overflowed", &Empty {}),
                    Ok(Some(Sight::Unwatched(unwatched))) => event("unwatched", &unwatched),
                    Ok(None) => return self.say(end("removed")).await,
                    Err(error) => return self.say(event("lost", &error.to_api())).await,
                },
                _ = closing.changed() => continue,
                () = self.pieces.closed() => return Err(Over),
                _ = heartbeat.tick() => ": \n\n".to_owned(),
            };
            self.say(told).await?;
        }
    }

    async fn say(&self, text: String) -> Result<(), Over> {
        self.pieces.send(text).await.map_err(|_| Over)
    }
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct End {
    reason: &'static str,
}

fn end(reason: &'static str) -> String {
    event("end", &End { reason })
}

/// An event as it is written; JSON has no line breaks.
fn event(name: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).expect("types of the API have string keys only");
    let mut text = String::with_capacity(data.len() + name.len() + 16);
    // Writing to a string cannot fail.
    write!(text, "event: {name}\ndata: {data}\n\n").unwrap_or_default();
    text
}
