//! Looking at execs, and at what they printed. Nothing is woken for a look.

use super::{TargetExec, result, wait_ms};
use crate::access::Runner;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use atoll_api::error::ErrorBody;
use atoll_api::exec::{Exec, ExecResult, Execs};
use atoll_api::id::ExecId;
use atoll_engine::Wake;
use atoll_engine::inside::exec::Place;
use axum::extract::State;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get)).routes(routes!(get_result))
}

/// List the execs that the sandbox remembers, in the order of their start
///
/// Of those that have ended the oldest are forgotten when room is needed.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/execs", operation_id = "list_execs", tag = "execs",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Execs, description = "All of them"),
        (status = "default", body = ErrorBody, description = "They cannot be told"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Execs>, Failure> {
    let inside = app.engine.inside(id, Wake::Never).await?;
    Ok(Json(Execs { execs: inside.execs().await? }))
}

/// Give an exec
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/execs/{exec}", operation_id = "get_exec", tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
    ),
    responses(
        (status = 200, body = Exec, description = "The exec"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
) -> Result<Json<Exec>, Failure> {
    Ok(Json(app.engine.inside(id, Wake::Never).await?.exec(exec).await?))
}

/// Give an exec and what it printed
///
/// Its state says whether it has ended. Of output that is longer than an answer can be,
/// head and tail are given; the raw streams have what is between, as far as it is kept.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/execs/{exec}/result", operation_id = "get_exec_result",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
        (
            "wait_ms" = Option<u64>, Query, maximum = 3_600_000,
            description = "Wait for its end, so long at most",
        ),
    ),
    responses(
        (status = 200, body = ExecResult, description = "What there is"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn get_result(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    mut query: Query,
) -> Result<Json<ExecResult>, Failure> {
    let wait = wait_ms(&mut query)?;
    query.end()?;
    let inside = app.engine.inside(id, Wake::Never).await?;
    let place = Place { is_snapshot: wait.is_none(), ..Place::START };
    let following = inside.follow_exec(exec, place).await?;
    // What is there already comes within the time that an end may take.
    let wait = wait.unwrap_or(super::END_WITHIN);
    Ok(Json(result(&app, following, wait, false).await?))
}
