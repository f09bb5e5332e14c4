//! The audit log: a page of it, or as it goes on.

use crate::access::Admin;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query};
use crate::stream::{Over, Teller, event, last_event_id, place};
use atoll_api::audit::{AUDIT_PAGE_COUNT_MAX, AuditPage, AuditRecord};
use atoll_api::error::{ErrorBody, ErrorCode};
use atoll_engine::audit::{AuditError, Filter};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Records of one page where nothing is said, and that are read at once for a stream.
const PAGE_COUNT_DEFAULT: usize = 100;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(audit))
}

/// Read the audit log, or follow it
///
/// With `Accept: text/event-stream` it goes on: each event has the number of its record as `id`
/// and an `AuditRecord` as JSON in `data`; `event: end` says why it ends. Without `after` and
/// `Last-Event-ID` a stream begins with what is recorded from now on, and a page without `after`
/// with the oldest record that is kept. A stream first says where it begins, as an `id` alone.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "get_audit", tag = "audit",
    params(
        ("after" = Option<u64>, Query, description = "Begin behind the record of this number"),
        (
            "sandbox" = Option<Named>, Query,
            description = "Only of the sandbox of this id or name; an id may be of one that is gone",
        ),
        (
            "kind" = Option<Vec<String>>, Query,
            description = "Only records of this kind, as in `exec_started`; may be repeated",
        ),
        (
            "page_count" = Option<u64>, Query, minimum = 1, maximum = 1000,
            description = "Most records of a page; 100 where nothing is said",
        ),
        (
            "Last-Event-ID" = Option<u64>, Header,
            description = "As `after`, and before it; sent by clients that come back to a stream",
        ),
    ),
    responses(
        (
            status = 200, description = "A page, or the stream",
            content((AuditPage = "application/json"), (String = "text/event-stream")),
        ),
        (status = "default", body = ErrorBody, description = "It is not shown"),
    ),
    security(("key" = [])),
)]
async fn audit(
    _: Admin,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, Failure> {
    let (came_back, asked) = (last_event_id(&headers)?, query.one::<u64>("after")?);
    let sandbox = query.one::<String>("sandbox")?;
    let kinds = query.all::<String>("kind")?;
    let count: Option<usize> = query.one("page_count")?;
    query.end()?;
    let sandbox = sandbox.map(|text| text.parse::<Named>()?.find(&app)).transpose()?;
    let filter = Filter { sandbox, kinds };
    let last = *app.engine.audit().last().borrow();
    if let Some(beyond) = [came_back, asked].into_iter().flatten().find(|number| *number > last) {
        let message = format!("there is no record {beyond}, the latest is {last}");
        let next_step = "leave `after` and `Last-Event-ID` away";
        return Err(Failure::field("after", message).next_step(next_step));
    }
    let after = came_back.or(asked);
    let most = AUDIT_PAGE_COUNT_MAX;
    if count.is_some_and(|count| count == 0 || count > most) {
        return Err(Failure::field("page_count", format!("page_count is from 1 to {most}")));
    }
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|kinds| kinds.contains("text/event-stream")) {
        let (teller, response) = Teller::begin(&app)?;
        let after = after.unwrap_or(last);
        app.spawn(follow(app.clone(), teller, after, filter));
        return Ok(response);
    }
    let count = count.unwrap_or(PAGE_COUNT_DEFAULT);
    let page = app.engine.audit_page(after.unwrap_or(0), count, filter).await?;
    let next = page.has_more.then_some(page.looked_through);
    Ok(Json(AuditPage { records: page.records, next }).into_response())
}

async fn follow(app: Arc<App>, mut teller: Teller, after: u64, filter: Filter) {
    let last = tell(&app, &mut teller, after, filter).await;
    teller.finish(last).await;
}

/// Tells records until there is a reason to end, which is the last word.
async fn tell(
    app: &App,
    teller: &mut Teller,
    mut after: u64,
    filter: Filter,
) -> Result<String, Over> {
    let mut last = app.engine.audit().last();
    teller.say(place(after)).await?;
    loop {
        last.mark_unchanged();
        loop {
            let page = app.engine.audit_page(after, PAGE_COUNT_DEFAULT, filter.clone()).await;
            let Ok(page) = page else {
                return Ok(event("end", None, &json!({"reason": "audit"})));
            };
            after = page.looked_through;
            let text = lines(&page.records);
            if !text.is_empty() {
                teller.say(text).await?;
            }
            if !page.has_more {
                break;
            }
        }
        if teller.wait(last.changed()).await?.is_err() {
            return Err(Over::Closing);
        }
    }
}

fn lines(records: &[AuditRecord]) -> String {
    let mut text = String::new();
    for record in records {
        let data = serde_json::to_string(record).expect("a record has string keys only");
        // Writing to a string cannot fail; JSON has no line breaks.
        write!(text, "id: {}\ndata: {data}\n\n", record.seq).unwrap_or_default();
    }
    text
}

impl From<AuditError> for Failure {
    fn from(error: AuditError) -> Self {
        let message = "the audit log could not be read";
        Self::new(ErrorCode::Internal, message, "see the server's log").caused_by(&error)
    }
}
