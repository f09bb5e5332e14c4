//! Templates: listed, shown and deleted. How they are built is beside this.

use crate::access::{Reader, Runner};
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{parameter, wrong};
use atoll_api::error::ErrorBody;
use atoll_api::template::{Template, TemplateRef, Templates};
use atoll_engine::templates::TemplateError;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show, delete))
}

/// The template, or the version of one, that a path names.
struct Target(TemplateRef);

impl FromRequestParts<Arc<App>> for Target {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "template").await?;
        text.parse().map(Self).map_err(|error| wrong("template", &error))
    }
}

/// List the templates
#[utoipa::path(
    get, path = "/v1/templates", operation_id = "list_templates", tag = "templates",
    responses(
        (status = 200, body = Templates, description = "All that have a version, by their names"),
        (status = "default", body = ErrorBody, description = "They are not shown"),
    ),
    security(("key" = [])),
)]
async fn list(_: Reader, State(app): State<Arc<App>>) -> Result<Json<Templates>, Failure> {
    Ok(Json(app.engine.templates()))
}

/// Show a template with its versions, or with one of them
#[utoipa::path(
    get, path = "/v1/templates/{template}", operation_id = "get_template", tag = "templates",
    params(("template" = TemplateRef, Path, description = "Its name, with `@VERSION` for one version")),
    responses(
        (status = 200, body = Template, description = "The template"),
        (status = "default", body = ErrorBody, description = "It is not there"),
    ),
    security(("key" = [])),
)]
async fn show(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(wanted): Target,
) -> Result<Json<Template>, Failure> {
    Ok(Json(app.engine.get_template(&wanted)?))
}

/// Delete a template, or one version of it
///
/// Sandboxes that were made of it stay as they are, and so do templates that were built on it; files
/// that nothing needs any more are removed afterwards.
#[utoipa::path(
    delete, path = "/v1/templates/{template}", operation_id = "delete_template", tag = "templates",
    params(("template" = TemplateRef, Path, description = "Its name, with `@VERSION` for one version")),
    responses(
        (status = 204, description = "It is gone"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn delete(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Target(wanted): Target,
) -> Result<Response, Failure> {
    app.engine.delete_template(&wanted).await?;
    tracing::info!(template = %wanted, by = %caller.by(), "a template was deleted");
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        Self::of(error.to_api(), &error)
    }
}
