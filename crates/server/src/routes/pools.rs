//! Pools: made, listed, sized and deleted. Requests for sandboxes name the one whose member they want.

use crate::access::{Admin, Reader};
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, parameter, wrong};
use atoll_api::error::ErrorBody;
use atoll_api::name::SandboxName;
use atoll_api::pool::{CreatePool, Pool, Pools, SetPool};
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, set, delete))
}

/// The pool that a path names.
struct Chosen(SandboxName);

impl FromRequestParts<Arc<App>> for Chosen {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "pool").await?;
        text.parse().map(Self).map_err(|error| wrong("pool", &error))
    }
}

/// Make a pool
///
/// Its members are made afterwards, and again whenever one is given away. They take places of the
/// server's sandboxes. What a pool may reach, and the secrets of that, everybody has who is given a member.
#[utoipa::path(
    post, path = "/v1/pools", operation_id = "create_pool", tag = "pools",
    request_body(
        content = CreatePool,
        example = json!({"name": "web", "size": 4, "sandbox": {"template": "web"}}),
    ),
    responses(
        (status = 201, body = Pool, description = "It is there"),
        (status = "default", body = ErrorBody, description = "It was not made"),
    ),
    security(("key" = [])),
)]
async fn create(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Body(request): Body<CreatePool>,
) -> Result<Response, Failure> {
    let pool = app.engine.create_pool(request, caller.by()).await?;
    Ok(json(StatusCode::CREATED, &pool))
}

/// List pools
///
/// By name.
#[utoipa::path(
    get, path = "/v1/pools", operation_id = "list_pools", tag = "pools",
    responses(
        (status = 200, body = Pools, description = "All of them"),
        (status = "default", body = ErrorBody, description = "There is no list"),
    ),
    security(("key" = [])),
)]
async fn list(_: Reader, State(app): State<Arc<App>>) -> Json<Pools> {
    Json(Pools { pools: app.engine.pools() })
}

/// Give a pool
#[utoipa::path(
    get, path = "/v1/pools/{pool}", operation_id = "get_pool", tag = "pools",
    params(("pool" = SandboxName, Path, description = "Its name")),
    responses(
        (status = 200, body = Pool, description = "The pool"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Reader,
    State(app): State<Arc<App>>,
    Chosen(name): Chosen,
) -> Result<Json<Pool>, Failure> {
    Ok(Json(app.engine.get_pool(&name)?))
}

/// Size a pool
///
/// Members beyond the size go at once, those that are missing are made.
#[utoipa::path(
    put, path = "/v1/pools/{pool}", operation_id = "set_pool", tag = "pools",
    params(("pool" = SandboxName, Path, description = "Its name")),
    request_body(content = SetPool, example = json!({"size": 8})),
    responses(
        (status = 200, body = Pool, description = "It has that size"),
        (status = "default", body = ErrorBody, description = "It has the size that it had"),
    ),
    security(("key" = [])),
)]
async fn set(
    _: Admin,
    State(app): State<Arc<App>>,
    Chosen(name): Chosen,
    Body(request): Body<SetPool>,
) -> Result<Json<Pool>, Failure> {
    Ok(Json(app.engine.set_pool(&name, request).await?))
}

/// Delete a pool
///
/// With its members. Sandboxes that came of it stay.
#[utoipa::path(
    delete, path = "/v1/pools/{pool}", operation_id = "delete_pool", tag = "pools",
    params(("pool" = SandboxName, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn delete(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Chosen(name): Chosen,
) -> Result<Response, Failure> {
    app.engine.delete_pool(&name, caller.by()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
