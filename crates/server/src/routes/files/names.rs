//! Names of files: listed, looked at, made, moved, removed.

use crate::access::Runner;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Query, Target};
use atoll_api::error::ErrorBody;
use atoll_api::files::{
    DEPTH_MAX, ENTRIES_COUNT_MAX, FileStat, List, Listing, MakeDirectory, Move, Remove, SetMode,
};
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(stat))
        .routes(routes!(make_directory))
        .routes(routes!(remove))
        .routes(routes!(rename))
        .routes(routes!(set_mode))
}

/// List a directory
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/files/list", operation_id = "list_files", tag = "files",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Which; percent-encoded byte by byte"),
        (
            "depth" = Option<u32>, Query, minimum = 1, maximum = 64,
            description = "How deep, 1 if absent; links are not entered",
        ),
        (
            "limit" = Option<u32>, Query, minimum = 1, maximum = 10000,
            description = "At most this many entries, 10000 if absent",
        ),
    ),
    responses(
        (status = 200, body = Listing, description = "What is in it"),
        (status = "default", body = ErrorBody, description = "There is no list"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
) -> Result<Json<Listing>, Failure> {
    let request = List {
        path: query.path("path")?,
        depth: query.one("depth")?.unwrap_or(1),
        limit: query.one("limit")?.unwrap_or(ENTRIES_COUNT_MAX),
    };
    query.end()?;
    within("depth", request.depth, DEPTH_MAX)?;
    within("limit", request.limit, ENTRIES_COUNT_MAX)?;
    Ok(Json(app.inside(id).await?.list(request).await?))
}

/// Checks a number that is at least 1.
pub(super) fn within(field: &str, found: u32, most: u32) -> Result<(), Failure> {
    if (1..=most).contains(&found) {
        return Ok(());
    }
    Err(Failure::field(field, format!("{field} is {found}, and it must be 1 to {most}")))
}

/// Look at a name
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/files/stat", operation_id = "stat_file", tag = "files",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Which; percent-encoded byte by byte"),
        (
            "follow" = Option<bool>, Query,
            description = "Look where a link leads instead of at the link",
        ),
    ),
    responses(
        (status = 200, body = FileStat, description = "What is known of it"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn stat(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
) -> Result<Json<FileStat>, Failure> {
    let (path, follow) = (query.path("path")?, query.one("follow")?.unwrap_or(false));
    query.end()?;
    Ok(Json(app.inside(id).await?.stat(path, follow).await?))
}

/// Make a directory
///
/// One that is there is not touched.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/files/make_directory", operation_id = "make_directory",
    tag = "files",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = MakeDirectory,
    responses(
        (status = 200, body = FileStat, description = "It is there"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn make_directory(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<MakeDirectory>,
) -> Result<Json<FileStat>, Failure> {
    Ok(Json(app.inside(id).await?.make_directory(request).await?))
}

/// Remove a name
///
/// A link is removed, not followed.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/files/remove", operation_id = "remove_file",
    tag = "files",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Remove,
    responses(
        (status = 204, description = "It is removed"),
        (status = "default", body = ErrorBody, description = "Not all of it is"),
    ),
    security(("key" = [])),
)]
async fn remove(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Remove>,
) -> Result<StatusCode, Failure> {
    app.inside(id).await?.remove(request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Move a name
///
/// Within a file system anything is moved, at once; a directory is not moved to another one.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/files/move", operation_id = "move_file", tag = "files",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Move,
    responses(
        (status = 200, body = FileStat, description = "It has its new name"),
        (status = "default", body = ErrorBody, description = "It has not"),
    ),
    security(("key" = [])),
)]
async fn rename(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Move>,
) -> Result<Json<FileStat>, Failure> {
    Ok(Json(app.inside(id).await?.rename(request).await?))
}

/// Set a mode
///
/// Set-user-id and set-group-id bits are refused.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/files/set_mode", operation_id = "set_file_mode",
    tag = "files",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = SetMode,
    responses(
        (status = 200, body = FileStat, description = "It is set"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn set_mode(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<SetMode>,
) -> Result<Json<FileStat>, Failure> {
    Ok(Json(app.inside(id).await?.set_mode(request).await?))
}
