//! Running a command.

use super::{events, hold, result, wait_ms};
use crate::access::Runner;
use crate::answer::json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Query, Target};
use crate::socket::tokens;
use crate::stream::Teller;
use atoll_api::error::ErrorBody;
use atoll_api::exec::{Exec, ExecResult, OnDisconnect, StartExec};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(start))
}

/// Run a command
///
/// Answers as soon as it has started; with `wait_ms` when it has ended, or that time is
/// over; with `Accept: text/event-stream` by the stream of `follow_exec`, from its start.
/// A command goes on when whoever started it goes away, unless `on_disconnect` says
/// otherwise. A sandbox that sleeps is woken.
///
/// Where the program cannot be run `details.reason` is `program_not_found`,
/// `program_not_executable` or `directory_not_usable`.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/execs", operation_id = "start_exec", tag = "execs",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        (
            "wait_ms" = Option<u64>, Query, maximum = 3_600_000,
            description = "Wait for its end, so long at most",
        ),
    ),
    request_body = StartExec,
    responses(
        (status = 201, body = Exec, description = "It was started"),
        (
            status = 200,
            description = "It was there under that id; with `wait_ms`, what came of it; or the stream",
            content((Answer = "application/json"), (String = "text/event-stream")),
        ),
        (status = "default", body = ErrorBody, description = "It was not started"),
    ),
    security(("key" = [])),
)]
async fn start(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    headers: HeaderMap,
    mut query: Query,
    Body(request): Body<StartExec>,
) -> Result<Response, Failure> {
    let wait = wait_ms(&mut query)?;
    query.end()?;
    request.validate()?;
    let is_followed = wants_events(&headers);
    let is_killed = request.on_disconnect == OnDisconnect::Kill;
    if is_followed && wait.is_some() {
        return Err(Failure::field("wait_ms", "wait_ms is of no use where events are followed"));
    }
    if is_killed && wait.is_none() && !is_followed {
        let message = "on_disconnect is kill, and this request ends at once";
        let next_step = "wait with `wait_ms`, or follow with `Accept: text/event-stream`";
        return Err(Failure::field("on_disconnect", message).next_step(next_step));
    }
    if is_followed {
        // Before anything runs, so that nothing does where there is no place.
        let (teller, response) = Teller::begin(&app)?;
        let inside = app.inside(id).await?;
        let started = inside.start_exec(request).await;
        app.metrics.exec_asked_for(&started);
        let started = started?;
        let held = hold(&inside, started.following.exec().id).await?;
        app.spawn(events::tell(teller, started.following, [0, 0], held));
        return Ok(response);
    }
    let inside = app.inside(id).await?;
    let started = inside.start_exec(request).await;
    app.metrics.exec_asked_for(&started);
    let started = started?;
    if let Some(wait) = wait {
        let result = result(&app, started.following, wait, is_killed).await?;
        if let Some(ended) = result.exec.ended.as_ref().filter(|_| started.is_new) {
            app.metrics.exec_ended(ended);
        }
        return Ok(json(StatusCode::OK, &Answer::Result(result)));
    }
    let exec = started.following.exec().clone();
    if started.is_new {
        return Ok(json(StatusCode::CREATED, &exec));
    }
    Ok(json(StatusCode::OK, &Answer::Exec(exec)))
}

/// What is answered with the status 200.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[schema(as = StartExecAnswer)]
#[serde(untagged)]
enum Answer {
    /// It was there.
    Exec(Exec),
    /// What came of it in the time that was to be waited.
    Result(ExecResult),
}

/// Whether an answer is to be a stream of events.
pub(in crate::routes) fn wants_events(headers: &HeaderMap) -> bool {
    let kinds =
        || tokens(headers, &header::ACCEPT).map(|kind| kind.split(';').next().unwrap_or(""));
    let names = |name: &str| kinds().any(|kind| kind.trim().eq_ignore_ascii_case(name));
    names("text/event-stream") && !names("application/json")
}
