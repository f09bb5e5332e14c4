//! Requests that are answered with an error before all of their body has come.
//!
//! Many clients send to the end before they read, and one whose connection is closed while
//! it sends never sees why. So the rest is taken for a while, and thrown away.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// How much is taken, in bytes, and for how long.
const BYTES: u64 = 16 << 20;
const TIME: Duration = Duration::from_secs(2);

/// Takes the rest of a body that nobody wants.
pub(crate) async fn drain(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let left = Arc::new(Mutex::new(None));
    let is_asked = request.headers().contains_key(header::EXPECT);
    let request = request.map(|body| {
        Body::new(Kept { body: Some(body), was_begun: false, left: Arc::clone(&left) })
    });
    let response = next.run(request).await;
    if response.status().is_client_error() || response.status().is_server_error() {
        let left = left.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Who asked first, and was not told to go on, does not send.
        if let Some((body, was_begun)) = left
            && (was_begun || !is_asked)
        {
            // Whether all of it came makes no difference to the answer.
            timeout(TIME, throw_away(body)).await.unwrap_or_default();
        }
    }
    response
}

async fn throw_away(mut body: Body) {
    let mut bytes = 0_u64;
    while bytes < BYTES
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes += frame.data_ref().map_or(0, |piece| piece.len() as u64);
    }
}

type Left = Arc<Mutex<Option<(Body, bool)>>>;

/// A body that is left behind where it is dropped before its end.
struct Kept {
    body: Option<Body>,
    was_begun: bool,
    left: Left,
}

impl Kept {
    fn body(&self) -> &Body {
        self.body.as_ref().expect("it is there until it is dropped")
    }
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.was_begun = true;
        let body = self.body.as_mut().expect("it is there until it is dropped");
        Pin::new(body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body().size_hint()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            let left = (body, self.was_begun);
            *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        }
    }
}
