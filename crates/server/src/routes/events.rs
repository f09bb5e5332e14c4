//! Events, as a stream of server-sent events.
//!
//! Every event comes from the records, in the order of its number; what the engine tells
//! as it happens only wakes the stream, which may be too slow to hear all of it. So nothing
//! is left out and nothing comes twice, whenever a client comes back.

use crate::access::Reader;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query};
use crate::stream::{Over, Teller, event, last_event_id, place};
use atoll_api::error::ErrorBody;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::Event;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::broadcast::{self, error::RecvError};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Events that are read at once.
const PAGE: usize = 100;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(stream))
}

/// Follow what happens
///
/// A stream of server-sent events. Each has its number as `id` and an `Event` as JSON in
/// `data`. `event: missed` says how many are not kept any more, as `{"count": 3}`, and
/// `event: end` why the stream ends. Without `after` and `Last-Event-ID` it begins with what
/// happens from now on; `after=0` gives all that is kept. It first says where it begins, as an
/// `id` alone.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "follow_events", tag = "events",
    params(
        (
            "after" = Option<u64>, Query,
            description = "Begin behind the event of this number",
        ),
        ("sandbox" = Option<Named>, Query, description = "Only of the sandbox of this id or name"),
        (
            "Last-Event-ID" = Option<u64>, Header,
            description = "As `after`, and before it; sent by clients that come back",
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
async fn stream(
    _: Reader,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, Failure> {
    let after = query.one("after")?;
    let sandbox = query.one::<String>("sandbox")?;
    query.end()?;
    let sandbox = sandbox.map(|text| text.parse::<Named>()?.find(&app)).transpose()?;
    let after = last_event_id(&headers)?.or(after);
    // Before the first look at the records, so that nothing falls in between.
    let wake = app.engine.subscribe();
    let latest = app.engine.last_event().await?;
    if after.is_some_and(|after| after > latest) {
        let message = format!("there is no event {}, the latest is {latest}", after.unwrap_or(0));
        return Err(
            Failure::field("after", message).next_step("leave `after` and `Last-Event-ID` away")
        );
    }
    let (teller, response) = Teller::begin(&app)?;
    let follower = Follower { app: app.clone(), last: after.unwrap_or(latest), sandbox, teller };
    app.spawn(follower.run(wake));
    Ok(response)
}

/// One stream.
struct Follower {
    app: Arc<App>,
    /// The last event that was read.
    last: u64,
    sandbox: Option<SandboxId>,
    teller: Teller,
}

impl Follower {
    async fn run(mut self, wake: broadcast::Receiver<Event>) {
        let last = self.follow(wake).await;
        self.teller.finish(last).await;
    }

    /// Tells events until there is a reason to end, which is the last word.
    async fn follow(&mut self, mut wake: broadcast::Receiver<Event>) -> Result<String, Over> {
        self.teller.say(place(self.last)).await?;
        loop {
            if !self.catch_up().await? {
                return Ok(event("end", None, &json!({"reason": "records"})));
            }
            match self.teller.wait(wake.recv()).await? {
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(Over::Closing),
            }
            // One look at the records is enough for all that was told meanwhile.
            while wake.try_recv().is_ok() {}
        }
    }

    /// Tells all that is in the records; false if they cannot be read.
    async fn catch_up(&mut self) -> Result<bool, Over> {
        loop {
            let events = match self.app.engine.events(self.last, PAGE).await {
                Ok(events) => events,
                Err(error) => {
                    tracing::error!(%error, "events cannot be read");
                    return Ok(false);
                }
            };
            let text = self.write(&events);
            if !text.is_empty() {
                self.teller.say(text).await?;
            }
            if events.len() < PAGE {
                return Ok(true);
            }
        }
    }

    fn write(&mut self, events: &[Event]) -> String {
        let mut text = String::new();
        // Numbers are given without gaps, so what is missing is not kept any more.
        let missed = events.first().map_or(0, |event| event.seq.saturating_sub(self.last + 1));
        if missed > 0 {
            text.push_str(&event("missed", None, &json!({"count": missed})));
        }
        for event in events {
            self.last = event.seq;
            if self.sandbox.is_none_or(|id| id == event.sandbox_id) {
                let data = serde_json::to_string(event).expect("an event has string keys only");
                // Writing to a string cannot fail; JSON has no line breaks.
                write!(text, "id: {}\ndata: {data}\n\n", event.seq).unwrap_or_default();
            }
        }
        text
    }
}
