//! Content that is sent to a sandbox: passed on as it comes, never collected.

use crate::app::App;
use crate::error::Failure;
use atoll_api::error::{ErrorCode, TookEffect};
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use hyper::body::{Body as _, Bytes};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// The body of a request, as a source of bytes.
pub(crate) struct Upload {
    body: Body,
    /// The rest of the last piece.
    piece: Bytes,
    received: u64,
    bytes_max: Option<u64>,
    patience: Duration,
    until: Pin<Box<Sleep>>,
    fault: Fault,
}

/// Why no more of an upload can be had, for whoever waits where it goes.
#[derive(Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<Failure>>>);

impl Fault {
    fn lock(&self) -> MutexGuard<'_, Option<Failure>> {
        // It is put in or taken out, and never half.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes why there is no more. Who knows of an effect says so later.
    pub(crate) fn set(&self, failure: Failure) -> io::Error {
        *self.lock() = Some(failure);
        io::Error::other("the upload failed")
    }

    /// What the caller is answered where the use of the upload failed: what went wrong on
    /// the way here, else what is given.
    pub(crate) fn or(&self, failure: impl Into<Failure>) -> Failure {
        self.lock().take().unwrap_or_else(|| failure.into())
    }
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
            fault: Fault::default(),
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
    /// What the caller is answered where its use failed.
    pub(crate) fn failed(self, failure: impl Into<Failure>) -> Failure {
        self.fault.or(failure)
    }

    /// The place where it is noted why there is no more.
    pub(crate) fn fault(&self) -> Fault {
        self.fault.clone()
    }

    /// Takes the first line, without its end. What comes behind it stays.
    ///
    /// # Errors
    /// Where it is longer than `bytes_max`, does not come in `time`, or there is none.
    pub(crate) async fn first_line(
        &mut self,
        bytes_max: usize,
        time: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        let read = async {
            loop {
                if let Some(end) = self.piece.iter().position(|&byte| byte == b'\n') {
                    line.extend_from_slice(&self.piece.split_to(end + 1)[..end]);
                    return Ok(());
                }
                line.append(&mut self.piece.to_vec());
                self.piece.clear();
                if line.len() > bytes_max || !poll_fn(|context| self.poll_piece(context)).await? {
                    return Ok(());
                }
            }
        };
        let read = timeout(time, read).await;
        let limit_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let read: io::Result<()> = read.map_err(|_| {
            let message = format!("the first line of the body did not arrive within {limit_ms} ms");
            let limit = ("body_timeout_ms", limit_ms);
            Failure::limit(ErrorCode::Invalid, limit, message, "send the whole line at once")
        })?;
        if let Err(error) = read {
            let broke_off = Failure::field("body", "the body broke off").caused_by(&error);
            return Err(self.fault.or(broke_off));
        }
        if line.len() > bytes_max {
            let limit = ("body_bytes_max", u64::try_from(bytes_max).unwrap_or(u64::MAX));
            let message = format!("the first line of the body is larger than {bytes_max} bytes");
            return Err(Failure::limit(ErrorCode::TooLarge, limit, message, "send less in it"));
        }
        Ok(line)
    }

    /// Whether what comes next is compressed by gzip (RFC 1952, section 2.3.1).
    pub(crate) async fn is_gzip(&mut self) -> Result<bool, Failure> {
        while self.piece.is_empty() {
            match poll_fn(|context| self.poll_piece(context)).await {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => {
                    let broke_off = Failure::field("body", "the body broke off").caused_by(&error);
                    return Err(self.fault.or(broke_off));
                }
            }
        }
        // No name in an archive begins with it.
        Ok(self.piece[0] == 0x1f)
    }

    /// Waits for the next piece; false at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(piece) = frame.into_data() else { continue };
                    self.received = self.received.saturating_add(piece.len() as u64);
                    if let Some(max) = self.bytes_max.filter(|&max| self.received > max) {
                        return Poll::Ready(Err(self.fault.set(too_large(max))));
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
                    return Poll::Ready(Err(self.fault.set(failure)));
                }
                Poll::Ready(None) => return Poll::Ready(Ok(false)),
                Poll::Pending => {
                    ready!(self.until.as_mut().poll(context));
                    let limit_ms = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
                    let message = format!("nothing of the body came for {limit_ms} ms");
                    let limit = ("upload_timeout_ms", limit_ms);
                    let next_step = "send it without pauses, or in parts";
                    let failure = Failure::limit(ErrorCode::Invalid, limit, message, next_step);
                    return Poll::Ready(Err(self.fault.set(failure)));
                }
            }
        }
    }

    /// Says what a failure on the way here means for what it was sent for.
    pub(crate) fn fault_took_effect(&mut self, took_effect: TookEffect) {
        let mut fault = self.fault.lock();
        *fault = fault.take().map(|fault| fault.took_effect(took_effect));
    }
}

impl AsyncRead for Upload {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.fault.lock().is_some() {
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
