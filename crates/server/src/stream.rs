//! The body of an answer that goes on.

use hyper::body::{Body, Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// Pieces of text, as they come. It ends when their sender is dropped; the sender learns
/// when the client is gone, because this is dropped then.
pub(crate) struct EventBody {
    pieces: mpsc::Receiver<String>,
}

impl EventBody {
    pub(crate) fn new(pieces: mpsc::Receiver<String>) -> Self {
        Self { pieces }
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.poll_recv(context);
        piece.map(|piece| piece.map(|text| Ok(Frame::data(Bytes::from(text)))))
    }
}

/// The body of an answer that is made piece by piece, as its reader takes it: nothing is
/// made ahead. An error breaks it off, so that no reader takes it for whole.
pub(crate) struct Pulled<S, N, F> {
    /// None while a piece is made, and after the last.
    source: Option<S>,
    next: N,
    making: Option<Pin<Box<F>>>,
}

/// A piece, and what the next one is made of; or the end.
pub(crate) type Next<S, E> = Option<Result<(Frame<Bytes>, S), E>>;

impl<S, N, F, E> Pulled<S, N, F>
where
    N: FnMut(S) -> F,
    F: Future<Output = Next<S, E>>,
{
    pub(crate) fn new(source: S, next: N) -> Self {
        Self { source: Some(source), next, making: None }
    }
}

impl<S, N, F, E> Body for Pulled<S, N, F>
where
    S: Unpin,
    N: FnMut(S) -> F + Unpin,
    F: Future<Output = Next<S, E>>,
{
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        let this = self.get_mut();
        if let Some(source) = this.source.take() {
            this.making = Some(Box::pin((this.next)(source)));
        }
        let Some(making) = &mut this.making else { return Poll::Ready(None) };
        let next = ready!(making.as_mut().poll(context));
        this.making = None;
        Poll::Ready(next.map(|made| {
            made.map(|(frame, source)| {
                this.source = Some(source);
                frame
            })
        }))
    }
}
