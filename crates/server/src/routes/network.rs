//! What a sandbox may reach.

use crate::access::{Caller, Reader, Runner};
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Target};
use atoll_api::error::ErrorBody;
use atoll_api::network::NetworkPolicy;
use axum::extract::State;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(get, set))
}

/// Refuses what only an operator may ask for: who says where a secret goes can have it, and
/// networks that are not public are the server's own.
pub(super) fn may_reach(caller: Caller, policy: &NetworkPolicy) -> Result<(), Failure> {
    // What is not understood is refused by who is asked for it, with its field.
    let scope = atoll_engine::network::policy(policy).map(|understood| understood.scope());
    match scope {
        Ok(scope) if caller.scope() < scope => Err(Failure::scope(scope)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What a sandbox may reach
///
/// `null` where it has no network but its own loopback.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/network", operation_id = "get_network", tag = "network",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Option<NetworkPolicy>, description = "Its policy"),
        (status = "default", body = ErrorBody, description = "There is no such sandbox"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Option<NetworkPolicy>>, Failure> {
    Ok(Json(app.engine.network(id).await?))
}

/// Have a sandbox reach something else
///
/// The whole policy is replaced at once. Connections that it does not allow are broken off; requests
/// that are made from then on obey it. Only a sandbox that was made with a network has one.
#[utoipa::path(
    put, path = "/v1/sandboxes/{sandbox}/network", operation_id = "set_network", tag = "network",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = NetworkPolicy,
    responses(
        (status = 200, body = NetworkPolicy, description = "It is in force"),
        (status = "default", body = ErrorBody, description = "What was in force is, or nothing is reached"),
    ),
    security(("key" = [])),
)]
async fn set(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(policy): Body<NetworkPolicy>,
) -> Result<Json<NetworkPolicy>, Failure> {
    policy.validate()?;
    may_reach(caller, &policy)?;
    // What an operator gave is not taken away by others.
    if let Some(known) = app.engine.network(id).await? {
        may_reach(caller, &known)?;
    }
    Ok(Json(app.engine.set_network(id, policy, caller.by()).await?))
}
