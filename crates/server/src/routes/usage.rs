//! What sandboxes have used.

use super::sandboxes::{LabelFilter, labels};
use crate::access::Reader;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use atoll_api::error::ErrorBody;
use atoll_api::sandbox::{Cursor, PAGE_COUNT_MAX};
use atoll_api::usage::{ListUsage, Usage, UsagePage, csv};
use atoll_engine::usage::UsageError;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use std::str::FromStr;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(get)).routes(routes!(list))
}

/// Tell what a sandbox has used
///
/// In its whole life, until now. What is not measured on this host is not there. A sandbox that was
/// deleted is known by its id for as long as it is among the last 10,000.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/usage", operation_id = "get_usage", tag = "usage",
    params(("sandbox" = Named, Path, description = "Its id or name")),
    responses(
        (status = 200, body = Usage, description = "What it has used"),
        (status = "default", body = ErrorBody, description = "Nothing is known of it"),
    ),
    security(("key" = [])),
)]
async fn get(
    _: Reader,
    State(app): State<Arc<App>>,
    Target(id): Target,
) -> Result<Json<Usage>, Failure> {
    Ok(Json(app.engine.usage(id).await?))
}

/// How usage is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum UsageFormat {
    Json,
    Csv,
}

impl FromStr for UsageFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "csv" => Ok(Self::Csv),
            _ => Err("it is json or csv"),
        }
    }
}

/// Tell what sandboxes have used
///
/// Those that were deleted included, the oldest first, page by page, with what all have used that
/// were asked for. Of those deleted before the last 10,000 only the sum is known. As `csv` it is
/// one page with all of them, a line for each.
#[utoipa::path(
    get, path = "/v1/usage", operation_id = "list_usage", tag = "usage",
    params(
        (
            "label" = Option<Vec<LabelFilter>>, Query, max_items = 32,
            description = "Only with all of these labels, each as `key=value`",
        ),
        ("format" = Option<UsageFormat>, Query, description = "`json` if absent"),
        (
            "page_count" = Option<u16>, Query, minimum = 1, maximum = 1000,
            description = "At most this many, 100 if absent",
        ),
        ("cursor" = Option<Cursor>, Query, description = "What the previous page gave as `next`"),
    ),
    responses(
        (status = 200, description = "A page", content(
            (UsagePage = "application/json"),
            (String = "text/csv"),
        )),
        (status = "default", body = ErrorBody, description = "There is no page"),
    ),
    security(("key" = [])),
)]
async fn list(
    _: Reader,
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<Response, Failure> {
    let format = query.one("format")?.unwrap_or(UsageFormat::Json);
    let mut request = ListUsage {
        labels: labels(&mut query)?,
        page_count: query.one("page_count")?,
        cursor: query.one("cursor")?,
    };
    query.end()?;
    if format == UsageFormat::Json {
        return Ok(Json(app.engine.list_usage(&request).await?).into_response());
    }
    for (name, is_there) in
        [("page_count", request.page_count.is_some()), ("cursor", request.cursor.is_some())]
    {
        if is_there {
            return Err(Failure::field(name, format!("{name}: as csv there is one page")));
        }
    }
    request.page_count = Some(PAGE_COUNT_MAX);
    let mut sandboxes = Vec::new();
    let older = loop {
        let page = app.engine.list_usage(&request).await?;
        sandboxes.extend(page.sandboxes);
        request.cursor = page.next;
        if page.next.is_none() {
            break page.older;
        }
    };
    let mut response = csv(&sandboxes, older).into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/csv; charset=utf-8; header=present");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        match error {
            UsageError::Request(error) => error.into(),
            UsageError::Records(error) => error.into(),
        }
    }
}
