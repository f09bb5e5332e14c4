//! What can be done to execs.

use super::TargetExec;
use crate::access::Runner;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Query, Target};
use crate::stream::Place;
use crate::upload::Upload;
use atoll_api::error::{ErrorBody, TookEffect};
use atoll_api::exec::{CancelExec, Exec, ResizeExec, SignalExec};
use atoll_api::id::ExecId;
use atoll_engine::Wake;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(feed))
        .routes(routes!(signal))
        .routes(routes!(cancel))
        .routes(routes!(resize))
        .routes(routes!(forget))
}

/// Feed an exec's standard input
///
/// The body is passed on as it comes, as fast as the command takes it. Where it breaks off
/// the input stays open; `fed_bytes` of the exec says how much there was, and what is sent
/// again from an earlier `offset` is not fed twice.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/execs/{exec}/stdin", operation_id = "feed_exec",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
        (
            "offset" = Option<u64>, Query,
            description = "How many bytes were fed before those of the body",
        ),
        (
            "keep_open" = Option<bool>, Query,
            description = "Leave a pipe open behind the body, false if absent",
        ),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, body = Exec, description = "It has taken all of it"),
        (status = "default", body = ErrorBody, description = "It has not"),
    ),
    security(("key" = [])),
)]
async fn feed(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    mut query: Query,
    mut upload: Upload,
) -> Result<Json<Exec>, Failure> {
    let offset = query.one("offset")?;
    let keep_open = query.one("keep_open")?.unwrap_or(false);
    query.end()?;
    let _place = Place::take(&app)?;
    let inside = app.inside(id).await?;
    if let Err(error) = inside.feed_exec(exec, offset, keep_open, &mut upload).await {
        // Some of it was passed on before the rest did not come.
        upload.fault_took_effect(TookEffect::Unknown);
        return Err(upload.failed(error));
    }
    Ok(Json(inside.exec(exec).await?))
}

/// Send an exec a signal
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/execs/{exec}/signal", operation_id = "signal_exec",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
    ),
    request_body = SignalExec,
    responses(
        (status = 200, body = Exec, description = "It was sent"),
        (status = "default", body = ErrorBody, description = "It was not"),
    ),
    security(("key" = [])),
)]
async fn signal(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    Body(request): Body<SignalExec>,
) -> Result<Json<Exec>, Failure> {
    let inside = app.inside(id).await?;
    inside.signal_exec(exec, &request).await?;
    Ok(Json(inside.exec(exec).await?))
}

/// Have an exec end, and wait for its end
///
/// It is asked by a signal, and after a grace killed with all that it started.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/execs/{exec}/cancel", operation_id = "cancel_exec",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
    ),
    request_body = CancelExec,
    responses(
        (status = 200, body = Exec, description = "It has ended"),
        (status = "default", body = ErrorBody, description = "It has not, as far as is known"),
    ),
    security(("key" = [])),
)]
async fn cancel(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    Body(request): Body<CancelExec>,
) -> Result<Json<Exec>, Failure> {
    request.validate()?;
    let inside = app.inside(id).await?;
    inside.cancel_exec(exec, &request).await?;
    Ok(Json(inside.exec(exec).await?))
}

/// Give an exec's terminal another size
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/execs/{exec}/resize", operation_id = "resize_exec",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
    ),
    request_body = ResizeExec,
    responses(
        (status = 200, body = Exec, description = "It has that size"),
        (status = "default", body = ErrorBody, description = "It has not"),
    ),
    security(("key" = [])),
)]
async fn resize(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
    Body(request): Body<ResizeExec>,
) -> Result<Json<Exec>, Failure> {
    let size = request.validate()?;
    let inside = app.inside(id).await?;
    inside.resize_exec(exec, size).await?;
    Ok(Json(inside.exec(exec).await?))
}

/// Have an exec forgotten that has ended, with what it printed
#[utoipa::path(
    delete, path = "/v1/sandboxes/{sandbox}/execs/{exec}", operation_id = "forget_exec",
    tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("exec" = ExecId, Path, description = "Its id"),
    ),
    responses(
        (status = 204, description = "It is forgotten"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn forget(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetExec(exec): TargetExec,
) -> Result<Response, Failure> {
    app.engine.inside(id, Wake::Never).await?.forget_exec(exec).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
