//! Archives: made of snapshots and sandboxes, listed, deleted, and what is in them made again.

use super::snapshots::Chosen as ChosenSnapshot;
use crate::access::{Admin, Reader, Runner};
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target, parameter, wrong};
use atoll_api::archive::{Archive, ArchivePage, Archived, ListArchives, RestoredArchive};
use atoll_api::error::ErrorBody;
use atoll_api::id::{ArchiveId, SnapshotId};
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(archive))
        .routes(routes!(archive_sandbox))
        .routes(routes!(list))
        .routes(routes!(get, delete))
        .routes(routes!(restore))
}

/// The archive that a path names.
struct Chosen(ArchiveId);

impl FromRequestParts<Arc<App>> for Chosen {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "archive").await?;
        text.parse().map(Self).map_err(|error| wrong("archive", &error))
    }
}

/// Put a snapshot into object storage
///
/// Its layers are sent as far as they are not there, and then it is listed among the archives; until
/// then nothing is. The snapshot stays as it is. One that is archived already is not archived again:
/// that is the answer then. It is carried through also when the caller goes away.
#[utoipa::path(
    post, path = "/v1/snapshots/{snapshot}/archive", operation_id = "archive_snapshot",
    tag = "archives",
    params(("snapshot" = SnapshotId, Path, description = "Its id")),
    responses(
        (status = 201, body = Archived, description = "It is archived"),
        (status = "default", body = ErrorBody, description = "There is no archive of it"),
    ),
    security(("key" = [])),
)]
async fn archive(
    _: Runner,
    State(app): State<Arc<App>>,
    ChosenSnapshot(id): ChosenSnapshot,
) -> Result<Response, Failure> {
    let archived = app.engine.archive_snapshot(id).await?;
    Ok(json(StatusCode::CREATED, &archived))
}

/// Put a sandbox into object storage
///
/// Its files, above its image, go into an archive as those of a snapshot do, are read back, and then go
/// from the server. It is `archived` then, with its name, its labels and all that was said of it;
/// resuming it, and whatever else wakes one that is stopped, brings its files back. One that runs is
/// refused, or stopped first if that is asked for. Where it fails it is stopped, with all its files. It
/// is carried through also when the caller goes away, but given up for who resumes or deletes it.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/archive", operation_id = "archive_sandbox",
    tag = "archives",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("stop" = Option<bool>, Query, description = "Stop it first, if it runs; false if absent"),
    ),
    responses(
        (status = 201, body = Archived, description = "It is archived"),
        (status = "default", body = ErrorBody, description = "It is not"),
    ),
    security(("key" = [])),
)]
async fn archive_sandbox(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
) -> Result<Response, Failure> {
    let stops = query.one("stop")?.unwrap_or(false);
    query.end()?;
    let archived = app.engine.archive_sandbox(id, stops).await?;
    Ok(json(StatusCode::CREATED, &archived))
}

/// List archives
///
/// All that the object store has, whichever server made them, in the order of their ids, page by
/// page. Those that cannot be read here, as they were made with another key, are listed as such.
#[utoipa::path(
    get, path = "/v1/archives", operation_id = "list_archives", tag = "archives",
    params(
        (
            "page_count" = Option<u16>, Query, minimum = 1, maximum = 1000,
            description = "At most this many, 100 if absent",
        ),
        ("after" = Option<ArchiveId>, Query, description = "What the previous page gave as `next`"),
    ),
    responses(
        (status = 200, body = ArchivePage, description = "A page"),
        (status = "default", body = ErrorBody, description = "There is no page"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Reader,
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<Json<ArchivePage>, Failure> {
    let request = ListArchives { page_count: query.one("page_count")?, after: query.one("after")? };
    query.end()?;
    Ok(Json(app.engine.list_archives(&request).await?))
}

/// Give an archive
#[utoipa::path(
    get, path = "/v1/archives/{archive}", operation_id = "get_archive", tag = "archives",
    params(("archive" = ArchiveId, Path, description = "Its id")),
    responses(
        (status = 200, body = Archive, description = "The archive"),
        (status = "default", body = ErrorBody, description = "It is not there, or cannot be read"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Reader,
    State(app): State<Arc<App>>,
    Chosen(id): Chosen,
) -> Result<Json<Archive>, Failure> {
    Ok(Json(app.engine.get_archive(id).await?))
}

/// Delete an archive
///
/// Whatever was restored of it stays. One that has the files of a sandbox of this server is refused:
/// deleting that deletes it. Layers that no other archive has are removed some hours later,
/// as other servers may be about to use them. It needs the scope `admin`: the archive may be another
/// server's.
#[utoipa::path(
    delete, path = "/v1/archives/{archive}", operation_id = "delete_archive", tag = "archives",
    params(("archive" = ArchiveId, Path, description = "Its id")),
    responses(
        (status = 204, description = "It is gone"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn delete(
    _: Admin,
    State(app): State<Arc<App>>,
    Chosen(id): Chosen,
) -> Result<Response, Failure> {
    app.engine.delete_archive(id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Make what is in an archive
///
/// A snapshot has an id of its own, and is as any other: sandboxes are made of it, here and on
/// other servers at once. Of a sandbox's archive comes a sandbox that runs, with an id of its own, its
/// labels, and its name if nobody has it; the archive stays. What the archive is over, its `image`, is pulled if it is not here. It needs
/// the scope `admin`, since whoever made the archive decided which image that is, and what sandboxes
/// of it may reach. It is carried through also when the caller goes away.
#[utoipa::path(
    post, path = "/v1/archives/{archive}/restore", operation_id = "restore_archive",
    tag = "archives",
    params(("archive" = ArchiveId, Path, description = "Its id")),
    responses(
        (status = 201, body = RestoredArchive, description = "What came of it"),
        (status = "default", body = ErrorBody, description = "Nothing is left of it here"),
    ),
    security(("key" = [])),
)]
async fn restore(
    _: Admin,
    State(app): State<Arc<App>>,
    Chosen(id): Chosen,
) -> Result<Response, Failure> {
    let restored = app.engine.restore_archive(id).await?;
    Ok(json(StatusCode::CREATED, &restored))
}
