//! Approvals: listed, followed and decided.

use crate::access::{Admin, Runner};
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Query, parameter, wrong};
use crate::stream::{Over, Teller, event};
use atoll_api::approval::{
    APPROVALS_PAGE_COUNT, Approval, ApprovalPage, ApprovalStatus, Approve, Deny, GRANT_S_MAX,
    GRANTS_COUNT_MAX, REASON_CHARS_MAX,
};
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::id::ApprovalId;
use atoll_engine::approvals::{DecideError, DecideRefusal, Verdict};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(follow))
        .routes(routes!(get))
        .routes(routes!(approve))
        .routes(routes!(deny))
}

/// The approval that a path names.
struct Target(ApprovalId);

impl FromRequestParts<Arc<App>> for Target {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "approval").await?;
        text.parse().map(Self).map_err(|error| wrong("approval", &error))
    }
}

/// List approvals, the oldest first
#[utoipa::path(
    get, path = "/v1/approvals", operation_id = "list_approvals", tag = "approvals",
    params(
        ("status" = Option<ApprovalStatus>, Query, description = "Only those that stand so"),
        ("sandbox" = Option<Named>, Query, description = "Only of the sandbox of this id or name"),
        (
            "cursor" = Option<u64>, Query, maximum = 9_007_199_254_740_991u64,
            description = "The `next` of the page before",
        ),
    ),
    responses(
        (status = 200, body = ApprovalPage, description = "A page of them"),
        (status = "default", body = ErrorBody, description = "They are not shown"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Runner,
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<Json<ApprovalPage>, Failure> {
    let status = query.one("status")?;
    let sandbox = query.one::<String>("sandbox")?;
    let cursor: Option<u64> = query.one("cursor")?;
    query.end()?;
    if cursor.is_some_and(|cursor| cursor > atoll_api::sandbox::NUMBER_MAX) {
        return Err(Failure::field("cursor", "cursor: no page gave that"));
    }
    let sandbox = sandbox.map(|text| text.parse::<Named>()?.find(&app)).transpose()?;
    let approvals = app.engine.approvals();
    let (approvals, next) =
        approvals.list(status, sandbox, cursor.unwrap_or(0), APPROVALS_PAGE_COUNT);
    Ok(Json(ApprovalPage { approvals, next }))
}

/// Follow approvals
///
/// A stream of server-sent events: `event: approval` with an `Approval` as JSON in `data`, first
/// for each that is pending and then for each that changes; `event: end` says why it ends. A
/// client that was too slow is told again of all that is pending.
#[utoipa::path(
    get, path = "/v1/approvals/events", operation_id = "follow_approvals", tag = "approvals",
    responses(
        (
            status = 200, body = String, content_type = "text/event-stream",
            description = "The stream",
        ),
        (status = "default", body = ErrorBody, description = "There is no stream"),
    ),
    security(("key" = [])),
)]
async fn follow(_: Runner, State(app): State<Arc<App>>, query: Query) -> Result<Response, Failure> {
    query.end()?;
    // Before the first look, so that nothing falls in between.
    let changes = app.engine.approvals().subscribe();
    let (teller, response) = Teller::begin(&app)?;
    app.spawn(tell(app.clone(), teller, changes));
    Ok(response)
}

async fn tell(app: Arc<App>, mut teller: Teller, mut changes: broadcast::Receiver<Arc<Approval>>) {
    let last = tell_changes(&app, &mut teller, &mut changes).await;
    teller.finish(last).await;
}

async fn tell_changes(
    app: &App,
    teller: &mut Teller,
    changes: &mut broadcast::Receiver<Arc<Approval>>,
) -> Result<String, Over> {
    loop {
        let (mut behind, pending) = (0, Some(ApprovalStatus::Pending));
        loop {
            let approvals = app.engine.approvals();
            let (page, next) = approvals.list(pending, None, behind, APPROVALS_PAGE_COUNT);
            for approval in page {
                teller.say(event("approval", None, &approval)).await?;
            }
            match next {
                Some(next) => behind = next,
                None => break,
            }
        }
        loop {
            match teller.wait(changes.recv()).await? {
                Ok(approval) => teller.say(event("approval", None, &*approval)).await?,
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => {
                    return Ok(event("end", None, &json!({"reason": "shutdown"})));
                }
            }
        }
    }
}

/// Give an approval
#[utoipa::path(
    get, path = "/v1/approvals/{approval}", operation_id = "get_approval", tag = "approvals",
    params(("approval" = ApprovalId, Path, description = "Its id")),
    responses(
        (status = 200, body = Approval, description = "As it is now"),
        (status = "default", body = ErrorBody, description = "It is not shown"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Approval>, Failure> {
    let found = app.engine.approvals().get(id);
    found.map(Json).ok_or_else(|| DecideError::Refused(DecideRefusal::NotFound { id }).into())
}

/// Approve what was asked for
#[utoipa::path(
    post, path = "/v1/approvals/{approval}/approve", operation_id = "approve", tag = "approvals",
    params(("approval" = ApprovalId, Path, description = "Its id")),
    request_body = Approve,
    responses(
        (status = 200, body = Approval, description = "It is approved"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn approve(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Approve>,
) -> Result<Json<Approval>, Failure> {
    let span = request.expires_in_s;
    if span.is_some_and(|seconds| seconds == 0 || seconds > GRANT_S_MAX) {
        let message = format!("expires_in_s is from 1 to {GRANT_S_MAX}");
        return Err(Failure::field("expires_in_s", message));
    }
    let verdict = Verdict::Approve(request.scope, span.map(Duration::from_secs));
    Ok(Json(app.engine.approvals().decide(id, verdict, caller.by()).await?))
}

/// Deny what was asked for, or take back that it was approved
#[utoipa::path(
    post, path = "/v1/approvals/{approval}/deny", operation_id = "deny", tag = "approvals",
    params(("approval" = ApprovalId, Path, description = "Its id")),
    request_body = Deny,
    responses(
        (status = 200, body = Approval, description = "It is denied"),
        (status = "default", body = ErrorBody, description = "It is as it was"),
    ),
    security(("key" = [])),
)]
async fn deny(
    Admin(caller): Admin,
    State(app): State<Arc<App>>,
    Target(id): Target,
    Body(request): Body<Deny>,
) -> Result<Json<Approval>, Failure> {
    if let Some(reason) = &request.reason {
        if reason.chars().count() > REASON_CHARS_MAX {
            let message = format!("reason is longer than {REASON_CHARS_MAX} characters");
            return Err(Failure::field("reason", message));
        }
        if reason.chars().any(char::is_control) {
            return Err(Failure::field("reason", "reason contains a control character"));
        }
    }
    let verdict = Verdict::Deny(request.reason);
    Ok(Json(app.engine.approvals().decide(id, verdict, caller.by()).await?))
}

impl From<DecideError> for Failure {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Refused(refusal) => {
                let message = refusal.to_string();
                match refusal {
                    DecideRefusal::NotFound { .. } => {
                        let next_step = "list the approvals that there are";
                        Self::new(ErrorCode::NotFound, message, next_step)
                    }
                    DecideRefusal::NotPending { .. } => {
                        let next_step = "look at it; it may be asked for again";
                        Self::new(ErrorCode::Conflict, message, next_step)
                    }
                    DecideRefusal::TooManyGrants => {
                        let limit = ("grants_count_max", GRANTS_COUNT_MAX as u64);
                        let next_step = "take grants back that are not needed, by denying them";
                        Self::limit(ErrorCode::Capacity, limit, message, next_step)
                    }
                }
            }
            DecideError::Records(error) => error.into(),
            DecideError::ShuttingDown => Self::new(
                ErrorCode::NotReady,
                "the server shuts down",
                "ask again when the server is back",
            ),
        }
    }
}
