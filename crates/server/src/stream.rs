//! The body of an answer that goes on.

use hyper::body::{Body, Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
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
