//! How much sandboxes may use before they are stopped.

use crate::access::{Reader, Runner};
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Target};
use atoll_api::budget::{Budget, Budgets};
use atoll_api::error::ErrorBody;
use atoll_api::sandbox::Sandbox;
use axum::extract::State;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(set)).routes(routes!(list))
}

/// Give a sandbox another budget
///
/// In place of the one that it has; `{}` takes it away. What it has used counts on: one that has
/// used as much already is stopped.
#[utoipa::path(
    put, path = "/v1/sandboxes/{sandbox}/budget", operation_id = "set_budget", tag = "usage",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    request_body = Budget,
    responses(
        (status = 200, body = Sandbox, description = "It has it"),
        (status = "default", body = ErrorBody, description = "It has the one that it had"),
    ),
    security(("key" = [])),
)]
async fn set(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(budget): Body<Budget>,
) -> Result<Json<Sandbox>, Failure> {
    budget.validate("budget")?;
    Ok(Json(app.engine.set_budget(id, budget).await?))
}

/// List the budgets that sandboxes have together
///
/// The operator of the server gives them, to all sandboxes with certain labels. When one is used up
/// those sandboxes are stopped, and none starts until it is renewed.
#[utoipa::path(
    get, path = "/v1/budgets", operation_id = "list_budgets", tag = "usage",
    responses(
        (status = 200, body = Budgets, description = "All of them, with what was used"),
        (status = "default", body = ErrorBody, description = "There is no list"),
    ),
    security(("key" = [])),
)]
async fn list(_: Reader, State(app): State<Arc<App>>) -> Json<Budgets> {
    Json(app.engine.budgets())
}
