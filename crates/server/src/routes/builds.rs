//! Builds of templates: begun, followed and cancelled; the files that they copy.
//!
//! A build goes on when its caller goes away: it is a task of the server, which ends with it.

use super::execs::wants_events;
use super::network::may_reach;
use super::sandboxes::may_name;
use crate::access::{Reader, Runner};
use crate::answer::{Json, json};
use crate::app::App;
use crate::connection::begun;
use crate::error::Failure;
use crate::extract::{Body, Query, parameter, wrong};
use crate::gzip::Gunzip;
use crate::stream::{Over, Teller, event, last_event_id};
use crate::upload::Upload;
use atoll_api::error::ErrorBody;
use atoll_api::id::BuildId;
use atoll_api::sandbox::NUMBER_MAX;
use atoll_api::template::{
    Build, BuildFiles, BuildLog, BuildTemplate, Builds, FilesDigest, TemplateName,
};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, build))
        .routes(routes!(show))
        .routes(routes!(log))
        .routes(routes!(cancel))
        .routes(routes!(has_files, send_files))
}

/// The build that a path names.
struct Target(BuildId);

impl FromRequestParts<Arc<App>> for Target {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "build").await?;
        text.parse().map(Self).map_err(|error| wrong("build", &error))
    }
}

/// The files that a path names.
struct Files(FilesDigest);

impl FromRequestParts<Arc<App>> for Files {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "files").await?;
        text.parse().map(Self).map_err(|error| wrong("files", &error))
    }
}

/// Build a template
///
/// Answers at once: the build goes on by itself, and its log can be followed. What it makes is the
/// template's next version, and the latest one from then on; until then, and if it fails, sandboxes
/// get the one before. Files that a step copies are sent first.
#[utoipa::path(
    post, path = "/v1/builds", operation_id = "build_template", tag = "templates",
    request_body(
        content = BuildTemplate,
        example = json!({
            "name": "python-tools", "image": "python:3.12-slim",
            "steps": [{"workdir": "/home/user/app"}, {"run": "python3 -m venv .venv"}],
        }),
    ),
    responses(
        (status = 202, body = Build, description = "It waits or is under way"),
        (status = "default", body = ErrorBody, description = "There is no build"),
    ),
    security(("key" = [])),
)]
async fn build(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Body(request): Body<BuildTemplate>,
) -> Result<Response, Failure> {
    may_name(caller, &request.image)?;
    request.network.as_ref().map_or(Ok(()), |network| may_reach(caller, network))?;
    let name = request.name.clone();
    let build = app.engine.begin_build(request).await?;
    tracing::info!(build = %build.id, template = %name, by = %caller.by(), "a template is built");
    let (id, engine) = (build.id, app.engine.clone());
    let mut closing = app.closing.subscribe();
    app.spawn(async move { engine.carry_out_build(id, begun(&mut closing)).await });
    Ok(json(StatusCode::ACCEPTED, &build))
}

/// List builds
///
/// The latest first; those that have ended are remembered for a while.
#[utoipa::path(
    get, path = "/v1/builds", operation_id = "list_builds", tag = "templates",
    params(("template" = Option<TemplateName>, Query, description = "Only of this template")),
    responses(
        (status = 200, body = Builds, description = "The builds"),
        (status = "default", body = ErrorBody, description = "They are not shown"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Reader,
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<Json<Builds>, Failure> {
    let name = query.one("template")?;
    query.end()?;
    Ok(Json(app.engine.builds(name.as_ref())))
}

/// Give a build
#[utoipa::path(
    get, path = "/v1/builds/{build}", operation_id = "get_build", tag = "templates",
    params(("build" = BuildId, Path, description = "Its id")),
    responses(
        (status = 200, body = Build, description = "The build"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn show(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Build>, Failure> {
    Ok(Json(app.engine.get_build(id)?))
}

/// Give the log of a build, or follow it
///
/// A part of the lines that there are; with `Accept: text/event-stream` a stream that goes on to the
/// end of the build: `event: log` with a line, its offset as `id`, at last `event: build` with the
/// build, or `event: end` where the server shuts down. The oldest lines of a long log make room.
#[utoipa::path(
    get, path = "/v1/builds/{build}/logs", operation_id = "get_build_logs", tag = "templates",
    params(
        ("build" = BuildId, Path, description = "Its id"),
        ("offset" = Option<u64>, Query, description = "Begin with the line of this number; 0 if absent"),
        (
            "Last-Event-ID" = Option<u64>, Header,
            description = "Begin behind this line; sent by clients that come back",
        ),
    ),
    responses(
        (
            status = 200, description = "The lines",
            content((BuildLog = "application/json"), (String = "text/event-stream")),
        ),
        (status = "default", body = ErrorBody, description = "There are none"),
    ),
    security(("key" = [])),
)]
async fn log(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, Failure> {
    let offset = query.one::<u64>("offset")?;
    query.end()?;
    let last = last_event_id(&headers)?;
    for (name, number) in [("offset", offset), ("Last-Event-ID", last)] {
        if number.is_some_and(|number| number > NUMBER_MAX) {
            return Err(Failure::field(name, format!("{name} is at most {NUMBER_MAX}")));
        }
    }
    let after = last.map(|last| last + 1);
    let offset = after.or(offset).unwrap_or_default();
    let first = app.engine.build_log(id, offset).await?;
    if !wants_events(&headers) {
        return Ok(json(StatusCode::OK, &first));
    }
    let (mut teller, response) = Teller::begin(&app)?;
    let follower = app.clone();
    app.spawn(async move {
        let last = follow(&follower, id, offset, &mut teller).await;
        teller.finish(last).await;
    });
    Ok(response)
}

/// Tells lines until the build has ended, which is the last word.
async fn follow(
    app: &Arc<App>,
    id: BuildId,
    mut offset: u64,
    teller: &mut Teller,
) -> Result<String, Over> {
    let gone = |failure: Failure| event("error", None, &ErrorBody { error: *failure.error });
    loop {
        // Before the look at the lines, so that none falls in between.
        let changes = app.engine.build_changes(id);
        let log = match app.engine.build_log(id, offset).await {
            Ok(log) => log,
            Err(error) => return Ok(gone(error.into())),
        };
        for line in &log.entries {
            teller.say(event("log", Some(&line.offset.to_string()), line)).await?;
        }
        offset = log.next;
        if !log.entries.is_empty() {
            continue;
        }
        if log.state.is_last() {
            return Ok(match app.engine.get_build(id) {
                Ok(build) => event("build", None, &build),
                Err(error) => gone(error.into()),
            });
        }
        if let Some(mut changes) = changes {
            // It ends when the build does.
            drop(teller.wait(changes.changed()).await?);
        }
    }
}

/// Cancel a build
///
/// It makes no version, and its sandbox is removed. What came of steps that were done is kept for a
/// later build.
#[utoipa::path(
    post, path = "/v1/builds/{build}/cancel", operation_id = "cancel_build", tag = "templates",
    params(("build" = BuildId, Path, description = "Its id")),
    responses(
        (status = 200, body = Build, description = "It is cancelled"),
        (status = "default", body = ErrorBody, description = "It has ended already"),
    ),
    security(("key" = [])),
)]
async fn cancel(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Build>, Failure> {
    let build = app.engine.cancel_build(id).await?;
    tracing::info!(build = %id, by = %caller.by(), "a build was cancelled");
    Ok(Json(build))
}

/// Tell whether files that a build copies are here
#[utoipa::path(
    get, path = "/v1/build-files/{files}", operation_id = "get_build_files", tag = "templates",
    params(("files" = FilesDigest, Path, description = "Their digest")),
    responses(
        (status = 200, body = BuildFiles, description = "Whether they are"),
        (status = "default", body = ErrorBody, description = "It cannot be told"),
    ),
    security(("key" = [])),
)]
async fn has_files(
    _: Reader,
    State(app): State<Arc<App>>,
    Files(files): Files,
) -> Result<Json<BuildFiles>, Failure> {
    Ok(Json(app.engine.build_files(files)))
}

/// Send files that a build copies
///
/// The body is a tar archive, plain or compressed by gzip. The digest is that of the archive when it
/// is not compressed. What is sent again replaces nothing.
#[utoipa::path(
    put, path = "/v1/build-files/{files}", operation_id = "send_build_files", tag = "templates",
    params(("files" = FilesDigest, Path, description = "Their digest")),
    request_body(
        content = Vec<u8>, content_type = "application/octet-stream",
        description = "The archive, whatever type the request says",
    ),
    responses(
        (status = 200, body = BuildFiles, description = "They are here"),
        (status = "default", body = ErrorBody, description = "They were not taken"),
    ),
    security(("key" = [])),
)]
async fn send_files(
    _: Runner,
    State(app): State<Arc<App>>,
    Files(files): Files,
    mut upload: Upload,
) -> Result<Response, Failure> {
    let fault = upload.fault();
    let is_gzip = upload.is_gzip().await?;
    let taken = match is_gzip {
        true => app.engine.take_build_files(files, &mut Gunzip::new(upload)).await,
        false => app.engine.take_build_files(files, &mut upload).await,
    };
    Ok(json(StatusCode::OK, &taken.map_err(|error| fault.or(error))?).into_response())
}
