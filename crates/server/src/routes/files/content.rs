//! What is in a file: read and written, streamed both ways.

use super::{STAT, stat_header};
use crate::access::Runner;
use crate::answer::{Json, json};
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use crate::stream::{Next, Pulled};
use crate::upload::Upload;
use atoll_api::error::ErrorBody;
use atoll_api::files::{Existing, FileStat, Mode, ReadFile, WriteFile};
use atoll_engine::inside::{Download, InsideError};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::body::{Bytes, Frame};
use std::collections::VecDeque;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// A whole file of at most this many bytes is looked at to its end before the answer
/// begins. Its length is true then, also of files whose stat says another one.
const SHORT_BYTES_MAX: u64 = 64 << 10;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(read, write))
}

/// Read a file
///
/// The file is sent as it is at the time, in memory that does not grow with it. Where it
/// cannot be sent to its end the body breaks off: it is whole if and only if it ends
/// properly.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/files/content", operation_id = "read_file", tag = "files",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Which; percent-encoded byte by byte"),
        ("offset" = Option<u64>, Query, description = "From this byte on, 0 if absent"),
        ("length" = Option<u64>, Query, description = "At most so many bytes"),
        (
            "Range" = Option<String>, Header,
            description = "One range as in `bytes=0-99`, if neither `offset` nor `length` is there",
        ),
    ),
    responses(
        (
            status = 200, body = Vec<u8>, content_type = "application/octet-stream",
            description = "Its bytes", headers(
                ("atoll-stat" = String, description = "A `FileStat` as JSON, if not too long"),
            ),
        ),
        (
            status = 206, body = Vec<u8>, content_type = "application/octet-stream",
            description = "The bytes of the range",
        ),
        (status = 416, body = ErrorBody, description = "The file ends before the range"),
        (status = "default", body = ErrorBody, description = "It is not read"),
    ),
    security(("key" = [])),
)]
async fn read(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, Failure> {
    let path = query.path("path")?;
    let (offset, length) = (query.one("offset")?, query.one("length")?);
    query.end()?;
    let range = match (offset, length) {
        (None, None) => headers.get(header::RANGE).and_then(range),
        _ => None,
    };
    let (offset, length) =
        range.map_or((offset.unwrap_or(0), length), |range| (range.first, range.length));
    let request = ReadFile { path, offset, length };
    let content = app.inside(id).await?.read_file(request).await?;
    let content = Ready::new(content, offset, length).await?;
    let bytes = content.download.stat.bytes;
    if range.is_some() && content.length.is_some_and(|length| length == 0) {
        return Ok(beyond_the_end(bytes));
    }
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // What comes out of a sandbox is never a page of this server.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(stat) = stat_header(&content.download.stat) {
        headers.insert(STAT, stat);
    }
    if let Some(length) = content.length {
        headers.insert(header::CONTENT_LENGTH, length.into());
        if range.is_some() {
            let last = offset.saturating_add(length) - 1;
            let text = format!("bytes {offset}-{last}/{}", bytes.max(last.saturating_add(1)));
            headers.insert(header::CONTENT_RANGE, text.parse().expect("it is ASCII"));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
    }
    *response.body_mut() = Body::new(Pulled::new(content, Ready::next));
    Ok(response)
}

/// A range of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u64,
    length: Option<u64>,
}

/// The one range of a header (RFC 9110, section 14.1.2). Any other is ignored, as a server
/// may.
fn range(value: &HeaderValue) -> Option<Range> {
    let (first, last) = value.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    let first = number(first)?;
    let length = match last {
        "" => None,
        last => Some(number(last)?.checked_sub(first)?.saturating_add(1)),
    };
    Some(Range { first, length })
}

fn beyond_the_end(bytes: u64) -> Response {
    let message = format!("the file ends before the range: it has {bytes} bytes");
    let failure = Failure::field("Range", message).next_step("ask for a range within the file");
    let mut response =
        json(StatusCode::RANGE_NOT_SATISFIABLE, &ErrorBody { error: *failure.error });
    let text = format!("bytes */{bytes}");
    response.headers_mut().insert(header::CONTENT_RANGE, text.parse().expect("it is ASCII"));
    response
}

/// What is read, with what was looked at already.
struct Ready {
    download: Download,
    first: VecDeque<Bytes>,
    is_over: bool,
    /// How many bytes there are, where that is known.
    length: Option<u64>,
}

impl Ready {
    async fn new(
        mut download: Download,
        offset: u64,
        asked: Option<u64>,
    ) -> Result<Self, InsideError> {
        let (mut first, mut length, mut is_over) = (VecDeque::new(), 0, false);
        let told = download.stat.bytes;
        while length <= SHORT_BYTES_MAX && !is_over {
            match download.next().await? {
                Some(bytes) => {
                    length += bytes.len() as u64;
                    first.push_back(bytes);
                }
                None => is_over = true,
            }
        }
        let length = match told {
            _ if is_over => Some(length),
            // It has no length, and bytes all the same.
            0 => None,
            told => Some(told.saturating_sub(offset).min(asked.unwrap_or(u64::MAX))),
        };
        Ok(Self { download, first, is_over, length })
    }

    async fn next(mut self) -> Next<Self, InsideError> {
        if let Some(bytes) = self.first.pop_front() {
            return Some(Ok((Frame::data(bytes), self)));
        }
        if self.is_over {
            return None;
        }
        match self.download.next().await.transpose()? {
            Ok(bytes) => Some(Ok((Frame::data(bytes), self))),
            Err(error) => {
                tracing::warn!(%error, "a download breaks off");
                Some(Err(error))
            }
        }
    }
}

/// Write a file
///
/// It is in its place when all of it has come, and at once: a client that goes away before
/// leaves what was there. What comes is passed on, in memory that does not grow with it.
#[utoipa::path(
    put, path = "/v1/sandboxes/{sandbox}/files/content", operation_id = "write_file", tag = "files",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Where; percent-encoded byte by byte"),
        (
            "existing" = Option<Existing>, Query,
            description = "What if there is a file already; it is replaced if this is absent",
        ),
        ("mode" = Option<Mode>, Query, description = "The mode of a new file, 0644 if absent"),
        ("make_parents" = Option<bool>, Query, description = "Make directories that are missing"),
    ),
    request_body(
        content = Vec<u8>, content_type = "application/octet-stream", description = "All of it",
    ),
    responses(
        (status = 200, body = FileStat, description = "It is written"),
        (status = "default", body = ErrorBody, description = "It is not written"),
    ),
    security(("key" = [])),
)]
async fn write(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
    headers: HeaderMap,
    mut upload: Upload,
) -> Result<Json<FileStat>, Failure> {
    let request = WriteFile {
        path: query.path("path")?,
        existing: query.one("existing")?.unwrap_or_default(),
        mode: query.one("mode")?,
        make_parents: query.one("make_parents")?.unwrap_or(false),
    };
    query.end()?;
    not_encoded(&headers)?;
    let inside = app.inside(id).await?;
    match inside.write_file(request, &mut upload).await {
        Ok(stat) => Ok(Json(stat)),
        Err(error) => Err(upload.failed(error)),
    }
}

/// What is written is what comes; a client that means something else is told.
fn not_encoded(headers: &HeaderMap) -> Result<(), Failure> {
    const ENCODING: HeaderName = header::CONTENT_ENCODING;
    match headers.get(ENCODING) {
        Some(value) if !value.as_bytes().eq_ignore_ascii_case(b"identity") => {
            Err(Failure::field("Content-Encoding", "a file is written as it comes")
                .next_step("send the content itself, without Content-Encoding"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_taken_and_others_ignored() {
        let read = |text: &'static str| range(&HeaderValue::from_static(text));
        assert_eq!(read("bytes=0-0"), Some(Range { first: 0, length: Some(1) }));
        assert_eq!(read("bytes=5-"), Some(Range { first: 5, length: None }));
        assert_eq!(read("bytes=5-9"), Some(Range { first: 5, length: Some(5) }));
        let most = "bytes=0-18446744073709551615";
        assert_eq!(read(most), Some(Range { first: 0, length: Some(u64::MAX) }));
        for text in ["", "bytes=", "bytes=-5", "bytes=5-4", "bytes=0-1,3-4", "lines=0-1"] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in ["bytes=+0-1", "bytes=0- 1", "bytes=0x0-1", "bytes=99999999999999999999-"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
