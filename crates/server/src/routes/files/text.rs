//! Text in files: found and replaced.

use super::names::within;
use crate::access::Runner;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Target};
use atoll_api::error::ErrorBody;
use atoll_api::files::{ENTRIES_COUNT_MAX, Edit, Edited, Found, Glob, Grep, Listing};
use axum::extract::State;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(edit)).routes(routes!(glob)).routes(routes!(grep))
}

/// Replace text in a file
///
/// All of it or nothing, and at once.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/files/edit", operation_id = "edit_file", tag = "files",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Edit,
    responses(
        (status = 200, body = Edited, description = "It is replaced"),
        (status = "default", body = ErrorBody, description = "The file is as it was"),
    ),
    security(("key" = [])),
)]
async fn edit(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Edit>,
) -> Result<Json<Edited>, Failure> {
    Ok(Json(app.inside(id).await?.edit(request).await?))
}

/// Find names below a directory
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/files/glob", operation_id = "glob_files", tag = "files",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Glob,
    responses(
        (status = 200, body = Listing, description = "The names"),
        (status = "default", body = ErrorBody, description = "It was not searched"),
    ),
    security(("key" = [])),
)]
async fn glob(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Glob>,
) -> Result<Json<Listing>, Failure> {
    within("limit", request.limit, ENTRIES_COUNT_MAX)?;
    Ok(Json(app.inside(id).await?.glob(request).await?))
}

/// Find lines in files
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/files/grep", operation_id = "grep_files", tag = "files",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Grep,
    responses(
        (status = 200, body = Found, description = "The lines"),
        (status = "default", body = ErrorBody, description = "Nothing was searched"),
    ),
    security(("key" = [])),
)]
async fn grep(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Grep>,
) -> Result<Json<Found>, Failure> {
    within("limit", request.limit, ENTRIES_COUNT_MAX)?;
    Ok(Json(app.inside(id).await?.grep(request).await?))
}
