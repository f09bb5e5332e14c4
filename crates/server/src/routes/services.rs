//! The services of a sandbox.

use crate::access::{Reader, Runner};
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Target, parameter};
use atoll_api::error::ErrorBody;
use atoll_api::service::Services;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(restart))
}

/// The service that a path names.
struct TargetService(String);

impl FromRequestParts<Arc<App>> for TargetService {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        parameter(parts, app, "service").await.map(Self)
    }
}

/// List the services of a sandbox, and how each is
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/services", operation_id = "list_services",
    tag = "services",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Services, description = "In the order of their declaration"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Services>, Failure> {
    Ok(Json(Services { services: app.engine.services(id)? }))
}

/// End a service, if it runs, and start it anew
///
/// Does not wait for that: the list says how it goes.
#[utoipa::path(
    post, path = "/v1/sandboxes/{sandbox}/services/{service}/restart",
    operation_id = "restart_service", tag = "services",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("service" = String, Path, description = "The service's name"),
    ),
    responses(
        (status = 200, body = Services, description = "It is being started"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn restart(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    TargetService(name): TargetService,
) -> Result<Json<Services>, Failure> {
    app.engine.restart_service(id, &name).await?;
    Ok(Json(Services { services: app.engine.services(id)? }))
}
