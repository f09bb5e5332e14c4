//! Bodies on their way through, a piece at a time.

use super::guarded::InFlight;
use super::refusal::{self, Refused};
use super::session::{Asked, Session, Told};
use super::upstream::Lease;
use crate::secret::{Patterns, Redactor, Secret, Secrets, without_header};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::HeaderMap;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::header::{HeaderName, HeaderValue};
use std::error::Error;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

pub(super) type BoxError = Box<dyn Error + Send + Sync>;
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there already.
pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("it was cut off: {0}")]
    CutOff(&'static str),
}

/// What a program sends.
pub(super) struct Upload {
    pub(super) inner: Incoming,
    pub(super) session: Arc<dyn Session>,
    /// Headers that are ours and so cannot come behind the body either.
    pub(super) ours: Vec<HeaderName>,
    pub(super) patience: Patience,
    pub(super) cut: Cut,
}

/// Why a body was cut off here, for who waits for an answer.
#[derive(Debug, Default, Clone)]
pub(super) struct Cut(Arc<Mutex<Option<Refused>>>);

impl Cut {
    pub(super) fn take(&self) -> Option<Refused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends a body with the reason.
    fn off(&self, refused: Refused) -> BoxError {
        let error = BodyError::CutOff(refused.code);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
        error.into()
    }
}

/// How long is waited for the next piece.
pub(super) struct Patience {
    within: Duration,
    ends: Pin<Box<Sleep>>,
}

impl Patience {
    pub(super) fn new(within: Duration) -> Self {
        Self { within, ends: Box::pin(sleep_until(Instant::now() + within)) }
    }

    fn renew(&mut self) {
        self.ends.as_mut().reset(Instant::now() + self.within);
    }
}

impl hyper::body::Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                std::task::ready!(this.patience.ends.as_mut().poll(context));
                return Poll::Ready(Some(Err(this.cut.off(refusal::too_slow()))));
            }
        };
        this.patience.renew();
        let frame = match frame.into_trailers() {
            Ok(trailers) => {
                Frame::trailers(of_request(trailers, &this.ours, &this.session.secrets()))
            }
            Err(frame) => frame,
        };
        if let Some(data) = frame.data_ref()
            && let Err(refused) = this.session.count(data.len() as u64, 0)
        {
            return Poll::Ready(Some(Err(this.cut.off(refused))));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// What follows the body of a request: nothing that says how or for whom it is, and no secret.
fn of_request(mut trailers: HeaderMap, ours: &[HeaderName], secrets: &Secrets) -> HeaderMap {
    super::headers::to_host(&mut trailers, false, false);
    for name in ours {
        without_header(&mut trailers, name.as_str());
    }
    let has_placeholder = |value: &HeaderValue| secrets.found_in(value.as_bytes()).next().is_some();
    let named: Vec<HeaderName> = trailers
        .iter()
        .filter(|(_, value)| has_placeholder(value))
        .map(|(name, _)| name.clone())
        .collect();
    for name in named {
        trailers.remove(name);
    }
    trailers
}

/// What a host answers.
pub(super) struct Download {
    pub(super) inner: Incoming,
    pub(super) cover: Cover,
    pub(super) session: Arc<dyn Session>,
    /// The connection, which can be used again after the end.
    pub(super) lease: Option<Lease>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) is_ended: bool,
    /// Until it is dropped.
    pub(super) _in_flight: InFlight,
}

/// Covers secrets in one answer, and tells of it.
pub(super) struct Cover {
    redactor: Option<Redactor>,
    asked: Arc<Asked>,
    /// Secrets that were found and told of.
    told: Vec<Arc<Secret>>,
}

impl Cover {
    /// For an answer to `asked`.
    pub(super) fn new(patterns: &Arc<Patterns>, asked: &Arc<Asked>) -> Self {
        let redactor = (!patterns.is_empty()).then(|| Redactor::new(Arc::clone(patterns)));
        Self { redactor, asked: Arc::clone(asked), told: Vec::new() }
    }

    /// Covers secrets in headers.
    pub(super) fn headers(&mut self, headers: &mut HeaderMap, session: &dyn Session) {
        let Some(redactor) = &mut self.redactor else { return };
        for value in headers.values_mut() {
            if let Some(covered) = redactor.whole(value.as_bytes()) {
                *value = HeaderValue::from_bytes(&covered)
                    .unwrap_or_else(|_| HeaderValue::from_static(""));
            }
        }
        self.tell(session);
    }

    pub(super) fn push(&mut self, piece: Bytes, session: &dyn Session) -> Bytes {
        let Some(redactor) = &mut self.redactor else { return piece };
        let given = redactor.push(piece);
        self.tell(session);
        given
    }

    pub(super) fn flush(&mut self) -> Bytes {
        self.redactor.as_mut().map(Redactor::flush).unwrap_or_default()
    }

    pub(super) fn finish(&mut self) -> Bytes {
        self.redactor.as_mut().map(Redactor::finish).unwrap_or_default()
    }

    fn tell(&mut self, session: &dyn Session) {
        let found = self.redactor.as_mut().map(Redactor::found).unwrap_or_default();
        for secret in found {
            if self.told.iter().any(|other| Arc::ptr_eq(other, &secret)) {
                continue;
            }
            let (name, asked) = (secret.name().to_owned(), (*self.asked).clone());
            session.tell(Told::Redacted { secret: name, asked });
            self.told.push(secret);
        }
    }
}

impl Download {
    fn end(&mut self) {
        self.is_ended = true;
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

impl hyper::body::Body for Download {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        loop {
            if this.is_ended {
                return Poll::Ready(
                    this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
                );
            }
            let frame = match Pin::new(&mut this.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Ready(None) => {
                    this.end();
                    match this.cover.finish() {
                        rest if rest.is_empty() => continue,
                        rest => return Poll::Ready(Some(Ok(Frame::data(rest)))),
                    }
                }
                Poll::Pending => match this.cover.flush() {
                    rest if rest.is_empty() => return Poll::Pending,
                    rest => return Poll::Ready(Some(Ok(Frame::data(rest)))),
                },
            };
            match frame.into_data() {
                Ok(data) => {
                    if let Err(refused) = this.session.count(0, data.len() as u64) {
                        return Poll::Ready(Some(Err(BodyError::CutOff(refused.code).into())));
                    }
                    let data = this.cover.push(data, &*this.session);
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                Err(frame) => {
                    if let Ok(mut trailers) = frame.into_trailers() {
                        super::headers::from_host(&mut trailers);
                        this.cover.headers(&mut trailers, &*this.session);
                        this.trailers = Some(trailers);
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let nothing_waits = self.trailers.is_none() && self.cover.redactor.is_none();
        nothing_waits && (self.is_ended || self.inner.is_end_stream())
            || self.is_ended && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        // What is covered keeps its length.
        self.inner.size_hint()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // Nobody reads a body that is empty.
        if !self.is_ended && self.inner.is_end_stream() {
            self.end();
        }
    }
}
