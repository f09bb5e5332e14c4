//! What changes in a directory, as a stream of server-sent events.

use crate::access::Runner;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use crate::stream::{Over, Teller, event};
use atoll_api::error::ErrorBody;
use atoll_engine::inside::{Sight, Watch};
use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

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
    let (teller, response) = Teller::begin(&app)?;
    let watch = app.inside(id).await?.watch(path, recursive).await?;
    app.spawn(tell(teller, watch));
    Ok(response)
}

async fn tell(mut teller: Teller, watch: Watch) {
    let last = follow(&mut teller, watch).await;
    teller.finish(last).await;
}

/// Tells what is seen until there is a reason to end, which is the last word.
async fn follow(teller: &mut Teller, mut watch: Watch) -> Result<String, Over> {
    teller.say(event("ready", None, &json!({}))).await?;
    loop {
        let told = match teller.wait(watch.next()).await? {
            Ok(Some(Sight::Changed(changed))) => event("changed", None, &changed),
            Ok(Some(Sight::Overflowed)) => event("overflowed", None, &json!({})),
            Ok(Some(Sight::Unwatched(unwatched))) => event("unwatched", None, &unwatched),
            Ok(None) => return Ok(event("end", None, &json!({"reason": "removed"}))),
            Err(error) => return Ok(event("lost", None, &error.to_api())),
        };
        teller.say(told).await?;
    }
}
