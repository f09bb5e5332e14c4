//! Keys: made, listed and revoked.

use crate::access::Admin;
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, parameter, wrong};
use crate::keys::KeysError;
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::id::KeyId;
use atoll_api::key::{CreateKey, KEY_NOTE_CHARS_MAX, KEYS_COUNT_MAX, Keys, NewKey};
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

/// The key that a path names.
struct TargetKey(KeyId);

impl FromRequestParts<Arc<App>> for TargetKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "key").await?;
        text.parse().map(Self).map_err(|error| wrong("key", &error))
    }
}

/// Make a key
///
/// Its secret is in the answer and can never be shown again.
#[utoipa::path(
    post, path = "/v1/keys", operation_id = "create_key", tag = "keys",
    request_body = CreateKey,
    responses(
        (status = 201, body = NewKey, description = "The key, with its secret"),
        (status = "default", body = ErrorBody, description = "It was not made"),
    ),
    security(("key" = [])),
)]
async fn create(
    _: Admin,
    State(app): State<Arc<App>>,
    Body(request): Body<CreateKey>,
) -> Result<Response, Failure> {
    if request.note.chars().count() > KEY_NOTE_CHARS_MAX {
        let message = format!("note is longer than {KEY_NOTE_CHARS_MAX} characters");
        return Err(Failure::field("note", message));
    }
    if request.note.chars().any(char::is_control) {
        return Err(Failure::field("note", "note contains a control character"));
    }
    let (keys, now) = (app.keys.clone(), app.clock.now());
    let made = app.blocking(move || keys.create(request.scope, &request.note, now)).await??;
    Ok(json(StatusCode::CREATED, &made))
}

/// List the keys, without their secrets
#[utoipa::path(
    get, path = "/v1/keys", operation_id = "list_keys", tag = "keys",
    responses(
        (status = 200, body = Keys, description = "All of them"),
        (status = "default", body = ErrorBody, description = "They are not shown"),
    ),
    security(("key" = [])),
)]
async fn list(_: Admin, State(app): State<Arc<App>>) -> Json<Keys> {
    Json(Keys { keys: app.keys.list() })
}

/// Revoke a key: on return it opens nothing any more
#[utoipa::path(
    delete, path = "/v1/keys/{key}", operation_id = "revoke_key", tag = "keys",
    params(("key" = KeyId, Path, description = "Its id")),
    responses(
        (status = 204, description = "It is revoked"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn revoke(
    _: Admin,
    State(app): State<Arc<App>>,
    TargetKey(id): TargetKey,
) -> Result<Response, Failure> {
    let keys = app.keys.clone();
    app.blocking(move || keys.revoke(id)).await??;
    tracing::info!(key_id = %id, "a key was revoked");
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl From<KeysError> for Failure {
    fn from(error: KeysError) -> Self {
        match &error {
            KeysError::NotFound { .. } => {
                Self::new(ErrorCode::NotFound, error.to_string(), "list the keys that there are")
            }
            KeysError::TooMany => Self::limit(
                ErrorCode::Capacity,
                ("keys_count_max", KEYS_COUNT_MAX as u64),
                error.to_string(),
                "revoke a key that is not needed",
            ),
            KeysError::File { .. }
            | KeysError::Damaged { .. }
            | KeysError::TooNew { .. }
            | KeysError::Random(_) => {
                let message = "the keys could not be changed";
                Self::new(ErrorCode::Internal, message, "see the server's log").caused_by(&error)
            }
        }
    }
}
