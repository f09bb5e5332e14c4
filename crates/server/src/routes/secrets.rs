//! Secrets: set, listed and deleted; nobody is given a value.

use crate::access::{Admin, Reader};
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, parameter, wrong};
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::secret::{PutSecret, PutSecretError, SECRET_BYTES_MAX, Secret, SecretName, Secrets};
use atoll_engine::secrets::SecretsError;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(put, delete))
}

/// The secret that a path names.
struct Target(SecretName);

impl FromRequestParts<Arc<App>> for Target {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "secret").await?;
        text.parse().map(Self).map_err(|error| wrong("secret", &error))
    }
}

/// List the secrets, without their values
#[utoipa::path(
    get, path = "/v1/secrets", operation_id = "list_secrets", tag = "secrets",
    responses(
        (status = 200, body = Secrets, description = "All of them, by name"),
        (status = "default", body = ErrorBody, description = "They are not shown"),
    ),
    security(("key" = [])),
)]
async fn list(_: Reader, State(app): State<Arc<App>>) -> Result<Json<Secrets>, Failure> {
    Ok(Json(Secrets { secrets: app.engine.secrets().await? }))
}

/// Set a secret
///
/// It is kept encrypted, and its value is never given back.
#[utoipa::path(
    put, path = "/v1/secrets/{secret}", operation_id = "set_secret", tag = "secrets",
    params(("secret" = SecretName, Path, description = "Its name")),
    request_body = PutSecret,
    responses(
        (status = 200, body = Secret, description = "It has another value"),
        (status = 201, body = Secret, description = "It is new"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn put(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Target(name): Target,
    Body(request): Body<PutSecret>,
) -> Result<Response, Failure> {
    let value = request.into_bytes().map_err(refused)?;
    let (secret, is_new) = app.engine.set_secret(&name, value, caller.by()).await?;
    tracing::info!(secret = %name, is_new, "a secret was set");
    Ok(json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &secret))
}

fn refused(error: PutSecretError) -> Failure {
    match error {
        PutSecretError::TooLarge => {
            let limit = ("secret_bytes_max", SECRET_BYTES_MAX as u64);
            Failure::limit(ErrorCode::TooLarge, limit, error.to_string(), "set a smaller value")
        }
        PutSecretError::NotBase64 => wrong("value_base64", &error),
        PutSecretError::NotOne | PutSecretError::Empty => wrong("value", &error),
    }
}

/// Delete a secret
#[utoipa::path(
    delete, path = "/v1/secrets/{secret}", operation_id = "delete_secret", tag = "secrets",
    params(("secret" = SecretName, Path, description = "Its name")),
    responses(
        (status = 204, description = "There is none of that name any more"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn delete(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Target(name): Target,
) -> Result<Response, Failure> {
    app.engine.delete_secret(&name, caller.by()).await?;
    tracing::info!(secret = %name, "a secret was deleted");
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl From<SecretsError> for Failure {
    fn from(error: SecretsError) -> Self {
        Self::of(error.to_api(), &error).caused_by(&error)
    }
}
