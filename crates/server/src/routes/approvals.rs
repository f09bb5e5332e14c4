//! Approvals: listed, followed and decided.

use crate::access::{Admin, Runner};
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Body, Named, Query, parameter, wrong};
use crate::stream::{Over, Teller, event};
use atoll_api::approval::{
    APPROVALS_PAGE_COUNT, APPROVALS_PENDING_MAX, ASK_ITEMS_MAX, ASK_PATH_CHARS_MAX, Applying,
    Approval, ApprovalPage, ApprovalStatus, ApprovalWhat, Approve, AskApproval, Deny, GRANT_S_MAX,
    GRANTS_COUNT_MAX, REASON_CHARS_MAX, RiskyChange,
};
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_api::id::ApprovalId;
use atoll_api::sandbox::NUMBER_MAX;
use atoll_engine::approvals::{AskError, DecideError, DecideRefusal, Question, Verdict};
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
        .routes(routes!(list, ask))
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
    if cursor.is_some_and(|cursor| cursor > NUMBER_MAX) {
        return Err(Failure::field("cursor", "cursor: no page gave that"));
    }
    let sandbox = sandbox.map(|text| text.parse::<Named>()?.find(&app)).transpose()?;
    let approvals = app.engine.approvals();
    let (approvals, next) =
        approvals.list(status, sandbox, cursor.unwrap_or(0), APPROVALS_PAGE_COUNT);
    Ok(Json(ApprovalPage { approvals, next }))
}

/// Ask for an approval
///
/// For what is not a sandbox's: that the changes of a review session are applied. The same question
/// is one approval, however often it is asked, and its `status` is the answer. `approved` is so once:
/// it was given, and with this answer it is used. Ask again when it is decided.
#[utoipa::path(
    post, path = "/v1/approvals", operation_id = "ask_approval", tag = "approvals",
    request_body = AskApproval,
    responses(
        (status = 200, body = Approval, description = "How it stands"),
        (status = "default", body = ErrorBody, description = "Nobody is asked"),
    ),
    security(("key" = [])),
)]
async fn ask(
    Runner(caller): Runner,
    State(app): State<Arc<App>>,
    Body(request): Body<AskApproval>,
) -> Result<Json<Approval>, Failure> {
    let applying = applying(request)?;
    let question = Question {
        sandbox: None,
        asked_by: Some(caller.by()),
        rule: "workspace.apply".to_owned(),
        name: format!("{} {}", applying.session, applying.digest),
        what: ApprovalWhat::Apply(Box::new(applying)),
    };
    let approvals = app.engine.approvals();
    let asked = approvals.ask(question).await?;
    let found = approvals.get(asked.id);
    found
        .map(Json)
        .ok_or_else(|| DecideError::Refused(DecideRefusal::NotFound { id: asked.id }).into())
}

/// What is asked for, if a person can be shown it.
fn applying(request: AskApproval) -> Result<Applying, Failure> {
    let AskApproval::Apply {
        session,
        project,
        digest,
        paths,
        added,
        modified,
        deleted,
        risky,
        risks,
        said_in,
    } = request;
    let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_of = |text: &str, prefix: &str, digits: usize| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.len() == digits && is_hex(rest))
    };
    if !is_of(&session, "ses_", 16) {
        return Err(Failure::field("session", "session is ses_ and 16 digits"));
    }
    if !is_of(&digest, "sha256:", 64) {
        return Err(Failure::field("digest", "digest is sha256: and 64 digits"));
    }
    for (field, count) in
        [("added", added), ("modified", modified), ("deleted", deleted), ("risky", risky)]
    {
        if count > NUMBER_MAX {
            return Err(Failure::field(field, format!("{field} is at most {NUMBER_MAX}")));
        }
    }
    for (field, count) in [("paths", paths.len()), ("risks", risks.len())] {
        if count > ASK_ITEMS_MAX {
            return Err(Failure::field(
                field,
                format!("{field} has more than {ASK_ITEMS_MAX} items"),
            ));
        }
    }
    let of_risks = risks.iter().flat_map(|risk| {
        let RiskyChange { path, change, why } = risk;
        [(path, ASK_PATH_CHARS_MAX), (change, REASON_CHARS_MAX), (why, REASON_CHARS_MAX)]
    });
    let texts =
        [("project", &project, ASK_PATH_CHARS_MAX), ("said_in", &said_in, ASK_PATH_CHARS_MAX)]
            .into_iter()
            .chain(paths.iter().map(|path| ("paths", path, ASK_PATH_CHARS_MAX)))
            .chain(of_risks.map(|(text, most)| ("risks", text, most)));
    for (field, text, most) in texts {
        if text.chars().count() > most {
            return Err(Failure::field(
                field,
                format!("{field} holds more than {most} characters"),
            ));
        }
        if text.chars().any(char::is_control) {
            return Err(Failure::field(field, format!("{field} contains a control character")));
        }
    }
    Ok(Applying {
        session,
        project,
        digest,
        paths,
        added,
        modified,
        deleted,
        risky,
        risks,
        said_in,
    })
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

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(refusal) => {
                let limit = ("approvals_pending_max", APPROVALS_PENDING_MAX as u64);
                let next_step = "decide what is pending: `atoll approvals list`";
                Self::limit(ErrorCode::Capacity, limit, refusal.to_string(), next_step)
            }
            AskError::Records(error) => error.into(),
            AskError::Random(error) => {
                Self::new(ErrorCode::Internal, error.to_string(), "see the server's log")
            }
            AskError::ShuttingDown => Self::new(
                ErrorCode::NotReady,
                "the server shuts down",
                "ask again when the server is back",
            ),
        }
    }
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
                    DecideRefusal::OnlyOnce => Self::field("scope", message),
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
