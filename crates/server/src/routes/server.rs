//! The server itself: what it can do, how it is, what it is.

use crate::access::Reader;
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::health;
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::server::{Capabilities, CapabilityFlags, Health, HealthStatus, MissingCapability};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What Prometheus wants to be told of the text that it reads.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(capabilities))
        .routes(routes!(healthz))
        .routes(routes!(metrics))
        .routes(routes!(description))
}

/// Tell what can be asked of this server
#[utoipa::path(
    get, path = "/v1/capabilities", operation_id = "get_capabilities", tag = "server",
    responses(
        (status = 200, body = Capabilities, description = "What it can do, and its caps"),
        (status = "default", body = ErrorBody, description = "It is not told"),
    ),
    security(("key" = [])),
)]
async fn capabilities(_: Reader, State(app): State<Arc<App>>) -> Json<Capabilities> {
    let (tier, can) = app.engine.tier();
    let config = app.engine.config();
    Json(Capabilities {
        tier,
        flags: CapabilityFlags {
            pause: can.pause,
            limit_memory: can.limit_memory,
            limit_cpus: can.limit_cpus,
            limit_pids: can.limit_pids,
            measure_cpu: can.measure_cpu,
            limit_disk: can.limit_disk,
            user_root: can.user_root,
            writable_root: can.writable_root,
            snapshot: can.snapshot,
            volumes: can.volumes,
        },
        missing: app
            .engine
            .missing()
            .into_iter()
            .map(|(flag, reason)| MissingCapability { flag: flag.to_owned(), reason })
            .collect(),
        sandboxes_max: u64::try_from(config.sandboxes_max).unwrap_or(u64::MAX),
        limits_max: config.caps.limits,
        lifecycle_max: config.caps.lifecycle,
    })
}

/// Tell how the server is
///
/// Needs no key. It says nothing of the sandboxes.
#[utoipa::path(
    get, path = "/healthz", operation_id = "get_health", tag = "server",
    responses(
        (status = 200, body = Health, description = "It works, though maybe not for long"),
        (status = 503, body = Health, description = "Requests fail"),
        (status = "default", body = ErrorBody, description = "It is not told"),
    ),
)]
async fn healthz(State(app): State<Arc<App>>) -> Response {
    let health = health::look(&app).await;
    let status = match health.status {
        HealthStatus::Ok | HealthStatus::Degraded => StatusCode::OK,
        HealthStatus::Failing => StatusCode::SERVICE_UNAVAILABLE,
    };
    json(status, &health)
}

/// Give counters for Prometheus
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "server",
    responses(
        (
            status = 200, body = String, description = "OpenMetrics",
            content_type = "application/openmetrics-text",
        ),
        (status = "default", body = ErrorBody, description = "They are not given"),
    ),
    security(("key" = [])),
)]
async fn metrics(_: Reader, State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let text = app.metrics.text(&app.engine.states(), &app.engine.pools()).map_err(|error| {
        Failure::new(ErrorCode::Internal, "the counters could not be written", "ask again")
            .caused_by(&error)
    })?;
    let kind = HeaderValue::from_static(METRICS_TYPE);
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Give this description
#[utoipa::path(
    get, path = "/v1/openapi.json", operation_id = "get_openapi", tag = "server",
    responses(
        (status = 200, body = serde_json::Value, description = "OpenAPI"),
        (status = "default", body = ErrorBody, description = "It is not given"),
    ),
    security(("key" = [])),
)]
async fn description(_: Reader) -> Response {
    json(StatusCode::OK, &super::openapi())
}
