//! Git in a sandbox.

use crate::access::Runner;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Query, Target};
use atoll_api::error::ErrorBody;
use atoll_api::git::{Checkout, CloneRepository, Compare, Diff, GitStatus};
use axum::extract::State;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(clone_repository))
        .routes(routes!(status))
        .routes(routes!(diff))
        .routes(routes!(checkout))
}

/// Clone a repository
///
/// From a path inside, or from a bundle that was uploaded. What is elsewhere is refused, also where
/// the sandbox has a network: `git clone` as an exec reaches what its rules allow.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/git/clone", operation_id = "clone_repository",
    tag = "git",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = CloneRepository,
    responses(
        (status = 200, body = GitStatus, description = "It is cloned"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn clone_repository(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<CloneRepository>,
) -> Result<Json<GitStatus>, Failure> {
    Ok(Json(app.inside(id).await?.clone_repository(request).await?))
}

/// Tell the status of a work tree
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/git/status", operation_id = "get_git_status",
    tag = "git",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Of which; percent-encoded byte by byte"),
    ),
    responses(
        (status = 200, body = GitStatus, description = "The status"),
        (status = "default", body = ErrorBody, description = "There is none"),
    ),
    security(("key" = [])),
)]
async fn status(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
) -> Result<Json<GitStatus>, Failure> {
    let path = query.path("path")?;
    query.end()?;
    Ok(Json(app.inside(id).await?.git_status(path).await?))
}

/// Tell what differs
///
/// Between the work tree and what is staged; or with `staged` between that and the last commit;
/// or between `from` and the work tree, or `to`.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/git/diff", operation_id = "get_git_diff", tag = "git",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Of which; percent-encoded byte by byte"),
        ("staged" = Option<bool>, Query, description = "What is staged, and not what is not"),
        ("from" = Option<String>, Query, description = "A revision"),
        ("to" = Option<String>, Query, description = "Another one"),
    ),
    responses(
        (status = 200, body = Diff, description = "The differences"),
        (status = "default", body = ErrorBody, description = "They cannot be told"),
    ),
    security(("key" = [])),
)]
async fn diff(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
) -> Result<Json<Diff>, Failure> {
    let request = Compare {
        path: query.path("path")?,
        is_staged: query.one("staged")?.unwrap_or(false),
        from: query.one("from")?,
        to: query.one("to")?,
    };
    query.end()?;
    Ok(Json(app.inside(id).await?.git_diff(request).await?))
}

/// Bring a work tree to a branch or a revision
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/git/checkout", operation_id = "git_checkout",
    tag = "git",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Checkout,
    responses(
        (status = 200, body = GitStatus, description = "It is there"),
        (status = "default", body = ErrorBody, description = "It is as it was, if git says so"),
    ),
    security(("key" = [])),
)]
async fn checkout(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Checkout>,
) -> Result<Json<GitStatus>, Failure> {
    Ok(Json(app.inside(id).await?.git_checkout(request).await?))
}
