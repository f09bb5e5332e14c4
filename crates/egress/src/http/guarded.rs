//! A stream that gives hyper nothing that was not checked.

use super::head::{After, Checker, HEAD_BYTES_MAX, Malformed, Step};
use bytes::{Buf as _, BytesMut};
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// Most bytes that are read at once.
const PIECE: usize = 8 * 1024;

/// What a stream and those who answer its requests know of each other.
#[derive(Debug, Default)]
pub(super) struct Desk {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Requests that are not answered wholly.
    in_flight: usize,
    fault: Option<Malformed>,
    /// Heads that were given, and requests that came of them.
    heads: u64,
    requests: u64,
    /// The head after which HTTP may end, while it is not known whether it does.
    held: Option<u64>,
    waker: Option<Waker>,
}

/// A request that is not answered wholly, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight {
    desk: Arc<Desk>,
    number: u64,
    ends_http: bool,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        let mut inner = self.lock();
        inner.in_flight += 1;
        inner.requests += 1;
        InFlight { desk: Arc::clone(self), number: inner.requests, ends_http: false }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lock().in_flight == 0
    }

    /// What was wrong, if anything was.
    pub(super) fn fault(&self) -> Option<Malformed> {
        self.lock().fault
    }

    /// Whether HTTP ended with the last request.
    pub(super) fn is_ended(&self) -> bool {
        self.lock().held.is_some()
    }
}

impl InFlight {
    /// Whether what follows waits for the answer, as it may be no HTTP.
    pub(super) fn is_held(&self) -> bool {
        self.desk.lock().held == Some(self.number)
    }

    /// It is none. Otherwise HTTP goes on when this is dropped.
    pub(super) const fn end_http(&mut self) {
        self.ends_http = true;
    }
}

impl Inner {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut inner = self.desk.lock();
        inner.in_flight -= 1;
        if inner.held == Some(self.number) && !self.ends_http {
            inner.held = None;
        }
        inner.wake();
    }
}

/// A stream that gives nothing that was not checked.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    stream: S,
    checker: Checker,
    /// What was read and not given.
    read: BytesMut,
    /// How much of it is checked.
    checked: usize,
    is_ended: bool,
    desk: Arc<Desk>,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, desk: Arc<Desk>) -> Self {
        Self {
            stream,
            checker: Checker::default(),
            read: BytesMut::new(),
            checked: 0,
            is_ended: false,
            desk,
        }
    }

    /// What was read and not given, and the stream.
    pub(super) fn into_parts(self) -> (BytesMut, S) {
        (self.read, self.stream)
    }

    /// Checks what was read; whether more is needed.
    fn check(&mut self) -> Result<bool, Malformed> {
        if self.checked > 0 {
            return Ok(false);
        }
        match self.checker.step(&self.read)? {
            Step::Wait => return Ok(true),
            Step::Body { length } => self.checked = length,
            Step::Head { length, after } => {
                self.checked = length;
                let mut desk = self.desk.lock();
                desk.heads += 1;
                desk.held = (after == After::Perhaps).then_some(desk.heads);
            }
        }
        Ok(false)
    }

    fn give(&mut self, into: &mut ReadBuf<'_>) {
        let length = self.checked.min(into.remaining());
        into.put_slice(&self.read[..length]);
        self.read.advance(length);
        self.checked -= length;
    }
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    /// Reads more, as far as it is bounded; none at the end.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.is_ended {
            return Poll::Ready(Ok(0));
        }
        self.read.reserve(PIECE);
        let length = std::task::ready!(pin!(self.stream.read_buf(&mut self.read)).poll(context))?;
        self.is_ended = length == 0;
        Poll::Ready(Ok(length))
    }

    /// Gives bytes of a body of known length as they come.
    fn poll_unseen(
        &mut self,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = usize::try_from(self.checker.unseen()).unwrap_or(usize::MAX);
        let mut part = ReadBuf::new(into.initialize_unfilled_to(most.min(into.remaining())));
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        let length = part.filled().len();
        into.advance(length);
        self.checker.skip(length as u64);
        Poll::Ready(Ok(()))
    }

    /// Waits until those who answer say how it goes on; only that the client went is noticed.
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.read.len() < HEAD_BYTES_MAX {
            if std::task::ready!(self.poll_more(context))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.checked > 0 {
                this.give(into);
                return Poll::Ready(Ok(()));
            }
            let mut desk = this.desk.lock();
            desk.waker = Some(context.waker().clone());
            let (fault, is_held, in_flight) = (desk.fault, desk.held.is_some(), desk.in_flight);
            drop(desk);
            if fault.is_some() {
                // What was asked before is answered first.
                return match this.checker.is_in_body() {
                    true => Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                    false if in_flight > 0 => Poll::Pending,
                    false => Poll::Ready(Ok(())),
                };
            }
            if is_held {
                return this.poll_held(context);
            }
            if this.read.is_empty() && this.checker.unseen() > 0 {
                return this.poll_unseen(context, into);
            }
            match this.check() {
                Err(fault) => this.desk.lock().fault = Some(fault),
                Ok(false) => {}
                Ok(true) => {
                    if std::task::ready!(this.poll_more(context))? == 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
