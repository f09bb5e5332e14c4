//! Content that is sent to a sandbox: passed on as it comes, never collected.

use crate::app::App;
use crate::error::Failure;
use atoll_api::error::{ErrorCode, TookEffect};
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use hyper::body::{Body as _, Bytes};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// The body of a request, as a source of bytes.
pub(crate) struct Upload {
    body: Body,
    /// The rest of the last piece.
    piece: Bytes,
    received: u64,
    bytes_max: Option<u64>,
    patience: Duration,
    until: Pin<Box<Sleep>>,
    /// Why no more can be had.
    fault: Option<Failure>,
}

impl FromRequest<Arc<App>> for Upload {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        let bytes_max = app.config.upload_bytes_max;
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if let (Some(bytes), Some(max)) = (length, bytes_max)
            && bytes > max
        {
            return Err(too_large(max));
        }
        let patience = app.config.upload_timeout;
        Ok(Self {
            body: request.into_body(),
            piece: Bytes::new(),
            received: 0,
            bytes_max,
            patience,
            until: Box::pin(sleep_until(Instant::now() + patience)),
            fault: None,
        })
    }
}

fn too_large(max: u64) -> Failure {
    let message = format!("what is uploaded is larger than {max} bytes");
    Failure::limit(
        ErrorCode::TooLarge,
        ("upload_bytes_max", max),
        message,
        "send it in parts, or have the operator raise the limit",
    )
}

impl Upload {
    /// What the caller is answered where its use failed: what went wrong on the way here,
    /// else what is given.
    pub(crate) fn failed(self, failure: impl Into<Failure>) -> Failure {
        self.fault.unwrap_or_else(|| failure.into())
    }

    /// Waits for the next piece; false at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(piece) = frame.into_data() else { continue };
                    self.received = self.received.saturating_add(piece.len() as u64);
                    if let Some(max) = self.bytes_max.filter(|&max| self.received > max) {
                        return Poll::Ready(Err(self.fail(too_large(max))));
                    }
                    if !piece.is_empty() {
                        self.piece = piece;
                        let until = Instant::now() + self.patience;
                        self.until.as_mut().reset(until);
                        return Poll::Ready(Ok(true));
                    }
                }
                Poll::Ready(Some(Err(_))) => {
                    let failure = Failure::field("body", "the body broke off");
                    return Poll::Ready(Err(self.fail(failure)));
                }
                Poll::Ready(None) => return Poll::Ready(Ok(false)),
                Poll::Pending => {
                    ready!(self.until.as_mut().poll(context));
                    let limit_ms = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
                    let message = format!("nothing of the body came for {limit_ms} ms");
                    let limit = ("upload_timeout_ms", limit_ms);
                    let next_step = "send it without pauses, or in parts";
                    let failure = Failure::limit(ErrorCode::Invalid, limit, message, next_step);
                    return Poll::Ready(Err(self.fail(failure)));
                }
            }
        }
    }

    /// Notes why there is no more. Who knows of an effect says so later.
    pub(crate) fn fail(&mut self, failure: Failure) -> io::Error {
        self.fault = Some(failure);
        io::Error::other("the upload failed")
    }

    /// Says what a failure on the way here means for what it was sent for.
    pub(crate) fn fault_took_effect(&mut self, took_effect: TookEffect) {
        self.fault = self.fault.take().map(|fault| fault.took_effect(took_effect));
    }
}

impl AsyncRead for Upload {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.fault.is_some() {
            return Poll::Ready(Err(io::Error::other("the upload failed")));
        }
        if self.piece.is_empty() && !ready!(self.poll_piece(context))? {
            return Poll::Ready(Ok(()));
        }
        let length = self.piece.len().min(buffer.remaining());
        buffer.put_slice(&self.piece.split_to(length));
        Poll::Ready(Ok(()))
    }
}
