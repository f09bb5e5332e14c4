//! What a sandbox was refused on its way out.

use crate::access::Runner;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use atoll_api::denial::DenialPage;
use atoll_api::error::ErrorBody;
use axum::extract::State;
use std::sync::Arc;
use std::time::Duration;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list))
}

/// List what a sandbox was refused on its way out
///
/// The last 1000 since the server started, the oldest first. The same is told once a minute, with
/// how often it happened.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/denials", operation_id = "list_denials",
    tag = "sandboxes",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        (
            "cursor" = Option<u64>, Query, maximum = 9_007_199_254_740_991u64,
            description = "The `next` of the page before, or the `seq` of a denial",
        ),
        (
            "within_ms" = Option<u64>, Query, maximum = 9_007_199_254_740_991u64,
            description = "Only the last 50 of so many milliseconds until now, in place of pages",
        ),
    ),
    responses(
        (status = 200, body = DenialPage, description = "A page of them"),
        (status = "default", body = ErrorBody, description = "They are not shown"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
) -> Result<Json<DenialPage>, Failure> {
    let cursor: Option<u64> = query.one("cursor")?;
    let within_ms: Option<u64> = query.one("within_ms")?;
    query.end()?;
    if let Some(within_ms) = within_ms {
        if cursor.is_some() || within_ms > atoll_api::sandbox::NUMBER_MAX {
            let wrong = "within_ms: it is too long, or beside a cursor";
            return Err(Failure::field("within_ms", wrong));
        }
        let time = Duration::from_millis(within_ms);
        return Ok(Json(app.engine.denials_within(id, time).await?));
    }
    if cursor.is_some_and(|cursor| cursor > atoll_api::sandbox::NUMBER_MAX) {
        return Err(Failure::field("cursor", "cursor: no page gave that"));
    }
    Ok(Json(app.engine.denials(id, cursor.unwrap_or(0))?))
}
