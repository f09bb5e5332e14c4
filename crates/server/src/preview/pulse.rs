//! A connection to a port whose life can be seen: when bytes last went, and how many
//! before its answer began.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// Most bytes that may come before an answer has begun: interim answers without end
/// would otherwise be read for ever.
const BEFORE_HEAD_BYTES_MAX: usize = 1024 * 1024;

/// What was seen of a connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    began_at: Instant,
    /// When bytes last went either way, in milliseconds since then.
    beat_ms: AtomicU64,
    read_bytes: AtomicUsize,
    has_answered: AtomicBool,
}

impl Pulse {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began_at: Instant::now(),
            beat_ms: AtomicU64::new(0),
            read_bytes: AtomicUsize::new(0),
            has_answered: AtomicBool::new(false),
        })
    }

    fn beat(&self) {
        let since_ms = u64::try_from(self.began_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.beat_ms.store(since_ms, Ordering::Relaxed);
    }

    /// Notes that the answer has begun.
    pub(crate) fn answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Waits until nothing has gone either way for so long.
    pub(crate) async fn silent_for(&self, limit: Duration) {
        loop {
            let beat = Duration::from_millis(self.beat_ms.load(Ordering::Relaxed));
            let until = self.began_at + beat + limit;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    pulse: Arc<Pulse>,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, pulse: Arc<Pulse>) -> Self {
        Self { stream, pulse }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read_bytes = self.pulse.read_bytes.load(Ordering::Relaxed);
        if read_bytes > BEFORE_HEAD_BYTES_MAX && !self.pulse.has_answered.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::Error::other("too much came before an answer")));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let length = buffer.filled().len() - before;
        if length > 0 {
            self.pulse.beat();
            self.pulse.read_bytes.store(read_bytes.saturating_add(length), Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.pulse.beat();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
