//! Sandboxes: made, listed, changed and deleted.

use super::network::may_reach;
use crate::access::{Caller, Reader, Runner};
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Query, Target, is_of_type, parse, string_schema};
use crate::gzip::Gunzip;
use crate::idempotency::{self, IdempotencyKey};
use crate::upload::{Fault, Upload};
use atoll_api::error::ErrorBody;
use atoll_api::key::Scope;
use atoll_api::name::SandboxName;
use atoll_api::sandbox::{
    CREATE_WITH_ARCHIVE, CreateSandbox, Cursor, Lifecycle, ListSandboxes, Sandbox, SandboxHealth,
    SandboxPage, State as SandboxState, Timeline,
};
use atoll_engine::images::is_for_admins;
use atoll_engine::{Archive, Beside, Wake};
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// A request for a sandbox, alone or with the archive of its workspace behind it.
struct Wanted {
    request: CreateSandbox,
    beside: Beside,
    /// Why no more of the archive can be had.
    fault: Fault,
}

impl FromRequest<Arc<App>> for Wanted {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        if !is_of_type(request.headers(), CREATE_WITH_ARCHIVE) {
            let Body(request) = Body::from_request(request, app).await?;
            return Ok(Self { request, beside: Beside::default(), fault: Fault::default() });
        }
        let mut upload = Upload::from_request(request, app).await?;
        let (bytes_max, time) = (app.config.body_bytes_max, app.config.body_timeout);
        let request = parse(&upload.first_line(bytes_max, time).await?)?;
        let fault = upload.fault();
        let archive: Archive =
            if upload.is_gzip().await? { Box::new(Gunzip::new(upload)) } else { Box::new(upload) };
        Ok(Self { request, beside: Beside { archive: Some(archive), once: None }, fault })
    }
}

/// The header that says that a request was sent before.
pub(super) const REPLAYED: &str = "idempotency-replayed";

/// A label of a query, for its description only.
pub(super) struct LabelFilter;

string_schema!(
    LabelFilter,
    "LabelFilter",
    "A label as `key=value`.",
    r"^[A-Za-z0-9._/-]{1,63}=[^\x00-\x1f\x7f-\x9f]{0,64}$",
    "team=red"
);

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, get_or_create, delete))
        .routes(routes!(timeline))
        .routes(routes!(set_lifecycle))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(stop))
        .routes(routes!(kill))
        .routes(routes!(health))
}

/// Make a sandbox
///
/// Answers when it runs. If the caller goes away before, the sandbox is given up, unless
/// there is an idempotency key: then the same request gives the same sandbox later.
///
/// What is to be in its workspace may come with the request: the body is
/// `application/vnd.atoll.create` then, which is the request as JSON on one line, and behind
/// its newline a tar archive, plain or compressed by gzip. If that breaks off, there is no
/// sandbox.
#[utoipa::path(
    post, path = "/v1/sandboxes", operation_id = "create_sandbox", tag = "sandboxes",
    params((
        "Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
        pattern = "^[!-~]+$",
        description = "A request that is sent again under the same key makes no second sandbox",
    )),
    request_body(content(
        (CreateSandbox = "application/json"),
        (Vec<u8> = "application/vnd.atoll.create"),
    )),
    responses(
        (status = 201, body = Sandbox, description = "It runs", headers(
            ("Idempotency-Replayed" = String, description = "`true` if an earlier request made it"),
        )),
        (status = "default", body = ErrorBody, description = "It was not made"),
    ),
    security(("key" = [])),
)]
async fn create(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    wanted: Wanted,
) -> Result<Response, Failure> {
    let Wanted { request, beside, fault } = wanted;
    may_name(caller, &request.image)?;
    may_have_network(caller, &request)?;
    let Some(key) = IdempotencyKey::of(caller, &headers)? else {
        let made = app.create(request, beside).await;
        return Ok(json(StatusCode::CREATED, &made.map_err(|error| fault.or(error))?));
    };
    let created = idempotency::create(&app, key, request, (beside, fault)).await?;
    let mut response = json(StatusCode::CREATED, &created.sandbox);
    if created.is_replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// A path is read with the server's rights, so it is for those who may do everything.
pub(super) fn may_name(caller: Caller, image: &str) -> Result<(), Failure> {
    let is_host = image == "host";
    if !is_host && is_for_admins(image) && caller.scope() < Scope::Admin {
        return Err(Failure::scope(Scope::Admin));
    }
    Ok(())
}

pub(super) fn may_have_network(caller: Caller, request: &CreateSandbox) -> Result<(), Failure> {
    request.network.as_ref().map_or(Ok(()), |network| may_reach(caller, network))
}

/// Give the sandbox of a name, made if there is none
///
/// However many ask at once, one is made and all get it. One that is there is given as it is.
#[utoipa::path(
    put, path = "/v1/sandboxes/{sandbox}", operation_id = "get_or_create_sandbox", tag = "sandboxes",
    params(("sandbox" = SandboxName, Path, description = "The name")),
    request_body(content(
        (CreateSandbox = "application/json"),
        (Vec<u8> = "application/vnd.atoll.create"),
    )),
    responses(
        (status = 200, body = Sandbox, description = "It was there"),
        (status = 201, body = Sandbox, description = "It was made"),
        (status = "default", body = ErrorBody, description = "It was not there, and not made"),
    ),
    security(("key" = [])),
)]
async fn get_or_create(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    named: Named,
    wanted: Wanted,
) -> Result<Response, Failure> {
    let Wanted { mut request, beside, fault } = wanted;
    may_name(caller, &request.image)?;
    may_have_network(caller, &request)?;
    let Named::Name(name) = named else {
        return Err(Failure::field("sandbox", "a sandbox cannot be made with a given id")
            .next_step("write a name in the path"));
    };
    if request.name.as_ref().is_some_and(|other| *other != name) {
        return Err(Failure::field("name", "name is not the name in the path"));
    }
    request.name = Some(name);
    let got = app.get_or_create(request, beside).await;
    let got = got.map_err(|error| fault.or(error))?;
    let status = if got.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(json(status, &got.sandbox))
}

/// List sandboxes
///
/// Oldest first, page by page. A sandbox that is there the whole time is on exactly one
/// page, whatever comes and goes meanwhile.
#[utoipa::path(
    get, path = "/v1/sandboxes", operation_id = "list_sandboxes", tag = "sandboxes",
    params(
        ("state" = Option<Vec<SandboxState>>, Query, description = "Only in one of these states"),
        (
            "label" = Option<Vec<LabelFilter>>, Query, max_items = 32,
            description = "Only with all of these labels, each as `key=value`",
        ),
        (
            "page_count" = Option<u16>, Query, minimum = 1, maximum = 1000,
            description = "At most this many, 100 if absent",
        ),
        ("cursor" = Option<Cursor>, Query, description = "What the previous page gave as `next`"),
    ),
    responses(
        (status = 200, body = SandboxPage, description = "A page"),
        (status = "default", body = ErrorBody, description = "There is no page"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Reader,
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<Json<SandboxPage>, Failure> {
    let request = ListSandboxes {
        states: query.all("state")?,
        page_count: query.one("page_count")?,
        cursor: query.one("cursor")?,
        labels: labels(&mut query)?,
    };
    query.end()?;
    Ok(Json(app.engine.list(&request)?))
}

/// Labels that are asked for, each as `key=value`.
pub(super) fn labels(query: &mut Query) -> Result<BTreeMap<String, String>, Failure> {
    let mut labels = BTreeMap::new();
    for label in query.all::<String>("label")? {
        let (key, value) = label
            .split_once('=')
            .ok_or_else(|| Failure::field("label", "label is written as key=value"))?;
        // Nothing has two values of one label.
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(Failure::field("label", "a label is there more than once"));
        }
    }
    Ok(labels)
}

/// Give a sandbox
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}", operation_id = "get_sandbox", tag = "sandboxes",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Sandbox, description = "The sandbox"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Sandbox>, Failure> {
    Ok(Json(app.engine.get(id)?))
}

/// Tell how long the stages of its creation took
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/timeline", operation_id = "get_timeline", tag = "sandboxes",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Timeline, description = "The stages that are over"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn timeline(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Timeline>, Failure> {
    Ok(Json(app.engine.timeline(id).await?))
}

/// Tell how it is, as its guest says
///
/// It takes no more than two seconds, whatever the sandbox does: a guest that does not answer
/// in that time is `silent`. A sandbox that does not run is not woken.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/health", operation_id = "get_sandbox_health",
    tag = "sandboxes",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = SandboxHealth, description = "How it is"),
        (status = "default", body = ErrorBody, description = "It is not there, or does not run"),
    ),
    security(("key" = [])),
)]
async fn health(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<SandboxHealth>, Failure> {
    Ok(Json(app.engine.inside(id, Wake::Never).await?.health().await))
}

/// Set the times of its lifecycle, and begin its lease anew
#[utoipa::path(
    put, path = "/v1/sandboxes/{sandbox}/lifecycle", operation_id = "set_lifecycle",
    tag = "sandboxes",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Lifecycle,
    responses(
        (status = 200, body = Sandbox, description = "They are set"),
        (status = "default", body = ErrorBody, description = "They are as they were"),
    ),
    security(("key" = [])),
)]
async fn set_lifecycle(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(lifecycle): Body<Lifecycle>,
) -> Result<Json<Sandbox>, Failure> {
    // The rules of the times are those of a creation.
    CreateSandbox { lifecycle, ..CreateSandbox::default() }.validate()?;
    Ok(Json(app.engine.set_lifecycle(id, lifecycle).await?))
}

/// Freeze its processes; they keep their memory
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/pause", operation_id = "pause_sandbox", tag = "sandboxes",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Sandbox, description = "It is paused"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn pause(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Sandbox>, Failure> {
    Ok(Json(app.engine.pause(id).await?))
}

/// Let it run again, whether it was paused or stopped
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/resume", operation_id = "resume_sandbox",
    tag = "sandboxes",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Sandbox, description = "It runs"),
        (status = "default", body = ErrorBody, description = "It does not"),
    ),
    security(("key" = [])),
)]
async fn resume(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Sandbox>, Failure> {
    Ok(Json(app.engine.resume(id).await?))
}

/// Ask its processes to end, and kill those that have not after a grace
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/stop", operation_id = "stop_sandbox", tag = "sandboxes",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Sandbox, description = "It is stopped"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn stop(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Sandbox>, Failure> {
    Ok(Json(app.engine.stop(id).await?))
}

/// Kill its processes
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/kill", operation_id = "kill_sandbox", tag = "sandboxes",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Sandbox, description = "It is stopped"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn kill(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Sandbox>, Failure> {
    Ok(Json(app.engine.kill(id).await?))
}

/// Delete it
///
/// On return its name is free; its files are removed afterwards, and with one that is archived its
/// archive, unless that is to stay.
#[utoipa::path(
    delete, path = "/v1/sandboxes/{sandbox}", operation_id = "delete_sandbox", tag = "sandboxes",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        (
            "keep_archive" = Option<bool>, Query,
            description = "Leave its archive, if it is archived; false if absent",
        ),
    ),
    responses(
        (status = 200, body = Sandbox, description = "It is deleted"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn delete(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
) -> Result<Json<Sandbox>, Failure> {
    let keeps_archive = query.one("keep_archive")?.unwrap_or(false);
    query.end()?;
    let deleted = match keeps_archive {
        true => app.engine.delete_but_archive(id).await?,
        false => app.engine.delete(id).await?,
    };
    Ok(Json(deleted))
}
