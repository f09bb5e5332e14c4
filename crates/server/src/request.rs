//! What is done around every request: an id, a span, a line in the log, the counters.

use crate::app::App;
use atoll_api::id::{ID_BYTES, RequestId};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument as _;

/// The header of every answer that carries the request's id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(crate) async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut random = [0; ID_BYTES];
    // An id that is not unique makes a log harder to read, and nothing else.
    let id =
        RequestId::from_random(getrandom::fill(&mut random).map_or([0; ID_BYTES], |()| random));
    let method = known(request.method().as_str());
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let route = route.to_owned();
    // The path as it was written is not logged: whoever asks could put a secret into it.
    let span = tracing::info_span!("request", request_id = %id, method, route);
    let began_at = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let took = began_at.elapsed();
    let status = response.status().as_u16();
    app.metrics.answered(method, &route, status, took);
    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    span.in_scope(|| tracing::info!(status, took_us, "answered"));
    let value = HeaderValue::from_str(&id.to_string()).expect("an id is ASCII");
    response.headers_mut().insert(REQUEST_ID, value);
    response
}

/// Anybody may send any method, and each would be a series of its own.
pub(crate) fn known(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    METHODS.into_iter().find(|known| *known == method).unwrap_or("other")
}
