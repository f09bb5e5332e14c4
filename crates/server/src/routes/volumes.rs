//! Volumes: made, listed and deleted. Sandboxes are shown them when they are made.

use super::sandboxes::{LabelFilter, labels};
use crate::access::{Reader, Runner};
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Query, parameter, wrong};
use crate::stream::{Next, Pulled};
use atoll_api::error::ErrorBody;
use atoll_api::key::Scope;
use atoll_api::volume::{
    CreateVolume, ListVolumes, SetVolumeLimit, Volume, VolumeName, VolumePage, VolumeRef,
};
use atoll_engine::volumes::Export;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use std::io;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, delete))
        .routes(routes!(limit))
        .routes(routes!(export))
}

/// The volume that a path names.
struct Chosen(VolumeRef);

impl FromRequestParts<Arc<App>> for Chosen {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "volume").await?;
        text.parse().map(Self).map_err(|error| wrong("volume", &error))
    }
}

/// Make a volume
///
/// It is empty, a copy of another one, or a folder of the server's machine. Sandboxes are shown it that
/// name it in `volumes` when they are made. It is carried through also when the caller goes away; who
/// asks again is told that the name is taken.
#[utoipa::path(
    post, path = "/v1/volumes", operation_id = "create_volume", tag = "volumes",
    request_body(content = CreateVolume, example = json!({"name": "models"})),
    responses(
        (status = 201, body = Volume, description = "It is there"),
        (status = "default", body = ErrorBody, description = "It was not made"),
    ),
    security(("key" = [])),
)]
async fn create(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Body(request): Body<CreateVolume>,
) -> Result<Response, Failure> {
    if request.host_path.is_some() && caller.scope() < Scope::Admin {
        return Err(Failure::scope(Scope::Admin));
    }
    let volume = app.engine.create_volume(request, caller.by()).await?;
    Ok(json(StatusCode::CREATED, &volume))
}

/// List volumes
///
/// By name, page by page.
#[utoipa::path(
    get, path = "/v1/volumes", operation_id = "list_volumes", tag = "volumes",
    params(
        (
            "label" = Option<Vec<LabelFilter>>, Query, max_items = 32,
            description = "Only with all of these labels, each as `key=value`",
        ),
        (
            "page_count" = Option<u16>, Query, minimum = 1, maximum = 1000,
            description = "At most this many, 100 if absent",
        ),
        ("after" = Option<VolumeName>, Query, description = "What the previous page gave as `next`"),
    ),
    responses(
        (status = 200, body = VolumePage, description = "A page"),
        (status = "default", body = ErrorBody, description = "There is no page"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Reader,
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<Json<VolumePage>, Failure> {
    let (page_count, after) = (query.one("page_count")?, query.one("after")?);
    let labels = labels(&mut query)?;
    query.end()?;
    let request = ListVolumes { labels, page_count, after };
    Ok(Json(app.engine.list_volumes(&request)?))
}

/// Give a volume
#[utoipa::path(
    get, path = "/v1/volumes/{volume}", operation_id = "get_volume", tag = "volumes",
    params(("volume" = VolumeRef, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Volume, description = "The volume"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Reader,
    State(app): State<Arc<App>>,
    Chosen(volume): Chosen,
) -> Result<Json<Volume>, Failure> {
    Ok(Json(app.engine.get_volume(&volume)?))
}

/// Limit a volume
///
/// In place of the limit that it has. What lies on it is measured first: a limit that is less is refused.
#[utoipa::path(
    put, path = "/v1/volumes/{volume}/limit", operation_id = "set_volume_limit", tag = "volumes",
    params(("volume" = VolumeRef, Path, description = "Its id or name")),
    request_body(content = SetVolumeLimit, example = json!({"bytes": 1_073_741_824})),
    responses(
        (status = 200, body = Volume, description = "It has that limit"),
        (status = "default", body = ErrorBody, description = "It has the limit that it had"),
    ),
    security(("key" = [])),
)]
async fn limit(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Chosen(volume): Chosen,
    Body(request): Body<SetVolumeLimit>,
) -> Result<Json<Volume>, Failure> {
    Ok(Json(app.engine.set_volume_limit(volume, request, caller.by()).await?))
}

/// Delete a volume
///
/// With all that it holds; a folder of the server's machine stays as it is. One that a sandbox has, be that stopped, is not deleted: `used_by` lists
/// these.
#[utoipa::path(
    delete, path = "/v1/volumes/{volume}", operation_id = "delete_volume", tag = "volumes",
    params(("volume" = VolumeRef, Path, description = "Its id or name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn delete(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Chosen(volume): Chosen,
) -> Result<Response, Failure> {
    app.engine.delete_volume(volume, caller.by()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Export a volume as a tar archive
///
/// It holds regular files, directories and links, with their modes and times and without owners; pipes,
/// sockets, devices and what cannot be read are left out. Nobody may write to the volume meanwhile:
/// where a sandbox does, take a snapshot (`is_read_only`) and export that. The archive is whole if and
/// only if the body ends properly.
#[utoipa::path(
    get, path = "/v1/volumes/{volume}/export", operation_id = "export_volume", tag = "volumes",
    params(("volume" = VolumeRef, Path, description = "Its id or name")),
    responses(
        (
            status = 200, body = Vec<u8>, content_type = "application/x-tar",
            description = "The archive",
        ),
        (status = "default", body = ErrorBody, description = "There is no archive"),
    ),
    security(("key" = [])),
)]
async fn export(
    _: Runner,
    State(app): State<Arc<App>>,
    Chosen(volume): Chosen,
) -> Result<Response, Failure> {
    let export = app.engine.export_volume(&volume)?;
    let body = axum::body::Body::new(Pulled::new(export, next));
    let kind = HeaderValue::from_static("application/x-tar");
    let uncached = HeaderValue::from_static("no-store");
    Ok(([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, uncached)], body).into_response())
}

async fn next(mut export: Export) -> Next<Export, io::Error> {
    match export.next().await {
        Ok(piece) => piece.map(|bytes| Ok((Frame::data(bytes), export))),
        Err(error) => Some(Err(error)),
    }
}
