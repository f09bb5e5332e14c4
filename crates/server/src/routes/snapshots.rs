//! Snapshots: taken, listed and deleted; sandboxes made of them and put back to them.

use super::sandboxes::{LabelFilter, REPLAYED, labels, may_have_network};
use crate::access::{Reader, Runner};
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Query, Target, parameter, wrong};
use crate::idempotency::{self, IdempotencyKey};
use crate::upload::Fault;
use atoll_api::error::ErrorBody;
use atoll_api::id::SnapshotId;
use atoll_api::sandbox::{CreateSandbox, Sandbox};
use atoll_api::snapshot::{
    CreateSnapshot, DiffSnapshots, Fork, ForkSandbox, ForkSnapshot, Forks, ListSnapshots,
    RestoreSandbox, Snapshot, SnapshotDiff, SnapshotPage,
};
use atoll_engine::{Beside, FORKS_AT_ONCE};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, delete))
        .routes(routes!(diff))
        .routes(routes!(fork))
        .routes(routes!(create))
        .routes(routes!(fork_sandbox))
        .routes(routes!(restore))
}

/// The snapshot that a path names.
pub(super) struct Chosen(pub(super) SnapshotId);

impl FromRequestParts<Arc<App>> for Chosen {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "snapshot").await?;
        text.parse().map(Self).map_err(|error| wrong("snapshot", &error))
    }
}

/// Take a snapshot of a sandbox
///
/// It has the files of the sandbox's home, and of its root file system if that can be written.
/// Of a sandbox that is stopped it is taken at once, however large they are. One that runs stands
/// still meanwhile: for a moment on btrfs, elsewhere as long as it takes to copy what has changed
/// since the snapshot before. Its processes notice nothing but the time. `way` says how it was
/// done.
///
/// It is carried through also when the caller goes away.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/snapshots", operation_id = "create_snapshot",
    tag = "snapshots",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body(
        content = CreateSnapshot,
        example = json!({"labels": {"step": "tests pass"}, "delete_after_ms": 604_800_000}),
    ),
    responses(
        (status = 201, body = Snapshot, description = "It is taken, and on the disk"),
        (status = "default", body = ErrorBody, description = "There is none, and the sandbox goes on"),
    ),
    security(("key" = [])),
)]
async fn create(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<CreateSnapshot>,
) -> Result<Response, Failure> {
    let snapshot = app.engine.snapshot(id, request).await?;
    Ok(json(StatusCode::CREATED, &snapshot))
}

/// List snapshots
///
/// Oldest first, page by page, those of sandboxes that are gone included.
#[utoipa::path(
    get, path = "/v1/snapshots", operation_id = "list_snapshots", tag = "snapshots",
    params(
        ("sandbox" = Option<Named>, Query, description = "Only those of this sandbox, by its id or name"),
        (
            "label" = Option<Vec<LabelFilter>>, Query, max_items = 32,
            description = "Only with all of these labels, each as `key=value`",
        ),
        (
            "page_count" = Option<u16>, Query, minimum = 1, maximum = 1000,
            description = "At most this many, 100 if absent",
        ),
        ("after" = Option<SnapshotId>, Query, description = "What the previous page gave as `next`"),
    ),
    responses(
        (status = 200, body = SnapshotPage, description = "A page"),
        (status = "default", body = ErrorBody, description = "There is no page"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Reader,
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<Json<SnapshotPage>, Failure> {
    let sandbox = query.one::<String>("sandbox")?;
    let (page_count, after) = (query.one("page_count")?, query.one("after")?);
    let labels = labels(&mut query)?;
    query.end()?;
    let sandbox_id = sandbox.map(|text| text.parse::<Named>()?.find(&app)).transpose()?;
    let request = ListSnapshots { sandbox_id, labels, page_count, after };
    Ok(Json(app.engine.list_snapshots(&request)?))
}

/// Give a snapshot
#[utoipa::path(
    get, path = "/v1/snapshots/{snapshot}", operation_id = "get_snapshot", tag = "snapshots",
    params(("snapshot" = SnapshotId, Path, description = "Its id")),
    responses(
        (status = 200, body = Snapshot, description = "The snapshot"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Reader,
    State(app): State<Arc<App>>,
    Chosen(id): Chosen,
) -> Result<Json<Snapshot>, Failure> {
    Ok(Json(app.engine.get_snapshot(id)?))
}

/// Tell what differs between two snapshots
///
/// `before` is what the snapshot `with` has, `after` what this one has: files of the home and of the
/// root file system, as sandboxes of them see them, with the first ones by path if there are too
/// many. Without `with` it is compared with its `parent_id`; if it has none, with an empty home and
/// the image alone, over which each sandbox has its own accounts and names in `/etc`.
///
/// Nothing is compared by its times. If the caller goes away, it is given up.
#[utoipa::path(
    get, path = "/v1/snapshots/{snapshot}/diff", operation_id = "diff_snapshots", tag = "snapshots",
    params(
        ("snapshot" = SnapshotId, Path, description = "Its id"),
        ("with" = Option<SnapshotId>, Query, description = "The id of another one of the same image"),
        (
            "limit" = Option<u32>, Query, minimum = 1, maximum = 10000,
            description = "At most this many entries, 10000 if absent",
        ),
    ),
    responses(
        (status = 200, body = SnapshotDiff, description = "What differs"),
        (
            status = "default", body = ErrorBody,
            description = "One of both is not there, or they are of different images",
        ),
    ),
    security(("key" = [])),
)]
async fn diff(
    _: Runner,
    State(app): State<Arc<App>>,
    Chosen(id): Chosen,
    mut query: Query,
) -> Result<Json<SnapshotDiff>, Failure> {
    let request = DiffSnapshots { with: query.one("with")?, limit: query.one("limit")? };
    query.end()?;
    Ok(Json(app.engine.diff_snapshots(id, request).await?))
}

/// Delete a snapshot
///
/// Sandboxes and snapshots that came of it stay as they are; files that nobody has any more are
/// removed afterwards.
#[utoipa::path(
    delete, path = "/v1/snapshots/{snapshot}", operation_id = "delete_snapshot", tag = "snapshots",
    params(("snapshot" = SnapshotId, Path, description = "Its id")),
    responses(
        (status = 204, description = "It is gone"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn delete(
    _: Runner,
    State(app): State<Arc<App>>,
    Chosen(id): Chosen,
) -> Result<Response, Failure> {
    app.engine.delete_snapshot(id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Make sandboxes of a snapshot
///
/// Each of them is made or not by itself: `forks` has one entry for each, in order, with the
/// sandbox or the error. If none can be made, the answer is the error of the first one. If the
/// caller goes away before the answer, those that do not run yet are given up, unless there is
/// an idempotency key: then the same request gives those that were made, and makes the others.
#[utoipa::path(
    post, path = "/v1/snapshots/{snapshot}/fork", operation_id = "fork_snapshot", tag = "snapshots",
    params(
        ("snapshot" = SnapshotId, Path, description = "Its id"),
        (
            "Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
            pattern = "^[!-~]+$",
            description = "A request that is sent again under the same key makes no sandbox twice",
        ),
    ),
    request_body(
        content = ForkSnapshot,
        example = json!({"count": 3, "sandbox": {"name": "attempt", "env": {"SEED": "7"}}}),
    ),
    responses(
        (status = 201, body = Forks, description = "All run", headers(
            ("Idempotency-Replayed" = String, description = "`true` if earlier requests made all of them"),
        )),
        (status = 207, body = Forks, description = "Some run, and some were not made"),
        (status = "default", body = ErrorBody, description = "None was made"),
    ),
    security(("key" = [])),
)]
async fn fork(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Chosen(id): Chosen,
    headers: HeaderMap,
    Body(request): Body<ForkSnapshot>,
) -> Result<Response, Failure> {
    may_have_network(caller, &request.sandbox)?;
    let key = IdempotencyKey::of(caller, &headers)?;
    let made = make(&app, id, &request, key).await?;
    let mut response = made.response()?;
    if made.is_replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Take a snapshot of a sandbox, and make sandboxes of it
///
/// The snapshot is as one that is asked for by itself, and stays. If no sandbox can be made of
/// it, it is deleted, and the answer is the error of the first one. Whoever wants to repeat a
/// request that may have come true takes the snapshot first and forks that, under an
/// idempotency key.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/fork", operation_id = "fork_sandbox", tag = "snapshots",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body(
        content = ForkSandbox,
        example = json!({"count": 2, "snapshot": {"delete_after_ms": 3_600_000}}),
    ),
    responses(
        (status = 201, body = Forks, description = "All run"),
        (status = 207, body = Forks, description = "Some run, and some were not made"),
        (status = "default", body = ErrorBody, description = "None was made"),
    ),
    security(("key" = [])),
)]
async fn fork_sandbox(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<ForkSandbox>,
) -> Result<Response, Failure> {
    request.validate()?;
    may_have_network(caller, &request.sandbox)?;
    let ForkSandbox { count, sandbox, snapshot } = request;
    let snapshot = app.engine.snapshot(id, snapshot).await?;
    let forked = make(&app, snapshot.id, &ForkSnapshot { count, sandbox }, None).await;
    match forked.and_then(|made| made.response()) {
        Ok(response) => Ok(response),
        Err(failure) => {
            // It may be gone already; and one that stays is in the list.
            app.engine.delete_snapshot(snapshot.id).await.unwrap_or_default();
            Err(failure)
        }
    }
}

/// Sandboxes that were made together, as far as they were.
struct Made {
    snapshot: SnapshotId,
    forks: Vec<Result<Sandbox, Failure>>,
    is_replayed: bool,
}

async fn make(
    app: &Arc<App>,
    snapshot: SnapshotId,
    request: &ForkSnapshot,
    key: Option<IdempotencyKey>,
) -> Result<Made, Failure> {
    let wanted = app.engine.forks(snapshot, request)?;
    let made = wanted.into_iter().enumerate().map(|(number, wanted)| {
        let key = key.as_ref().map(|key| key.numbered(number));
        make_one(app, wanted, key)
    });
    let made: Vec<_> = futures_util::stream::iter(made).buffered(FORKS_AT_ONCE).collect().await;
    let is_replayed = made.iter().all(|one| matches!(one, Ok((_, true))));
    let forks = made.into_iter().map(|one| one.map(|(sandbox, _)| sandbox)).collect();
    Ok(Made { snapshot, forks, is_replayed })
}

/// Makes one, and tells whether it was there already.
async fn make_one(
    app: &Arc<App>,
    wanted: CreateSandbox,
    key: Option<IdempotencyKey>,
) -> Result<(Sandbox, bool), Failure> {
    let Some(key) = key else {
        return Ok((app.create(wanted, Beside::default()).await?, false));
    };
    let created = idempotency::create(app, key, wanted, (Beside::default(), Fault::default()));
    created.await.map(|created| (created.sandbox, created.is_replayed))
}

impl Made {
    fn response(&self) -> Result<Response, Failure> {
        if let Some(Err(first)) = self.forks.first()
            && self.forks.iter().all(Result::is_err)
        {
            return Err(first.clone());
        }
        let status = match self.forks.iter().all(Result::is_ok) {
            true => StatusCode::CREATED,
            false => StatusCode::MULTI_STATUS,
        };
        let forks = self.forks.iter().map(|fork| match fork {
            Ok(sandbox) => Fork::Sandbox(Box::new(sandbox.clone())),
            Err(failure) => {
                failure.log();
                Fork::Error(failure.error.clone())
            }
        });
        Ok(json(status, &Forks { snapshot_id: self.snapshot, forks: forks.collect() }))
    }
}

/// Put a sandbox back to a snapshot
///
/// What it has kept since is gone, unless there is a snapshot of that. One that runs is stopped
/// for it and started anew, with its services. The snapshot may be one of another sandbox that
/// was made of the same image.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/restore", operation_id = "restore_sandbox",
    tag = "snapshots",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body(
        content = RestoreSandbox,
        example = json!({"snapshot": "snp_0123456789abcdef0123"}),
    ),
    responses(
        (status = 200, body = Sandbox, description = "It is as the snapshot has it"),
        (status = "default", body = ErrorBody, description = "It keeps what it kept, and may be stopped"),
    ),
    security(("key" = [])),
)]
async fn restore(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<RestoreSandbox>,
) -> Result<Json<Sandbox>, Failure> {
    Ok(Json(app.engine.restore(id, request.snapshot).await?))
}
