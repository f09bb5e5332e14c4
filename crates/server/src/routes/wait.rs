//! Waiting for something in a sandbox.

use crate::access::Runner;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Target};
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::wait::{Wait, Waited};
use axum::extract::State;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(wait))
}

/// Wait for a port, a line of output, or an answer over HTTP
///
/// The sandbox is held awake meanwhile, and woken if it sleeps.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/wait", operation_id = "wait", tag = "ports",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Wait,
    responses(
        (status = 200, body = Waited, description = "It is there"),
        (
            status = "default", body = ErrorBody,
            description = "It is not: `timed_out` where the time was over",
        ),
    ),
    security(("key" = [])),
)]
async fn wait(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Wait>,
) -> Result<Json<Waited>, Failure> {
    // A slip wakes nobody.
    if let Some((field, reason)) = request.flaw() {
        return Err(Failure::field(field, format!("{field} {reason}")));
    }
    let inside = app.inside(id).await?;
    let mut closing = app.closing.subscribe();
    tokio::select! {
        waited = inside.wait(request) => Ok(Json(waited?)),
        _ = closing.wait_for(|&is_closing| is_closing) => {
            let next_step = "ask again when the server is back";
            Err(Failure::new(ErrorCode::NotReady, "the server shuts down", next_step))
        }
    }
}
