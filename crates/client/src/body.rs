//! Bodies that go on: what is sent, and what is received.

use crate::error::ClientError;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::upgrade::Upgraded;
use hyper::{HeaderMap, Response};
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Pieces that wait to be sent.
const PIECES: usize = 4;

/// What is sent, as it is made.
pub struct Upload {
    /// What is sent before everything else.
    before: Option<Bytes>,
    content: Content,
}

enum Content {
    Whole(Option<Bytes>),
    Pieces { pieces: mpsc::Receiver<io::Result<Bytes>>, bytes: Option<u64> },
}

impl Upload {
    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    /// All of it at once.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let content = Content::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()));
        Self { before: None, content }
    }

    /// The same behind something that is not empty.
    pub(crate) fn behind(self, before: Bytes) -> Self {
        Self { before: Some(before), ..self }
    }

    /// Piece after piece, from whoever has the other end: it ends when that is dropped,
    /// and an error breaks it off. `bytes` says how many there will be, if that is known.
    pub fn pieces(bytes: Option<u64>) -> (mpsc::Sender<io::Result<Bytes>>, Self) {
        let (sender, pieces) = mpsc::channel(PIECES);
        (sender, Self { before: None, content: Content::Pieces { pieces, bytes } })
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(before) = self.before.take() {
            return Poll::Ready(Some(Ok(Frame::data(before))));
        }
        match &mut self.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(Frame::data).map(Ok)),
            Content::Pieces { pieces, .. } => {
                pieces.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.before.is_none() && matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        let before = self.before.as_ref().map_or(0, |bytes| bytes.len() as u64);
        match &self.content {
            Content::Whole(bytes) => {
                let bytes = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
                SizeHint::with_exact(before + bytes)
            }
            Content::Pieces { bytes: Some(bytes), .. } => SizeHint::with_exact(before + *bytes),
            Content::Pieces { bytes: None, .. } => SizeHint::default(),
        }
    }
}

/// Drives a connection for as long as somebody wants something of it.
pub(crate) struct Driver(pub(crate) JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is received, as it comes.
pub struct Download {
    pub(crate) body: Incoming,
    pub(crate) driver: Driver,
    pub(crate) trailers: HeaderMap,
}

impl Download {
    /// What came behind the body, under this name; known at its end.
    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        self.trailers.get(name)?.to_str().ok()
    }

    /// How many names are not in an archive, at its end.
    pub fn left_out_count(&self) -> u64 {
        self.trailer("atoll-left-out").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The next piece; nothing at its end. Dropping this loses none.
    ///
    /// # Errors
    /// Where the connection breaks, or the server broke it off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            match frame.map_err(read_broken)?.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Ok(Some(data)),
                Err(frame) => self.trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
    }

    /// The connection itself, where the server has agreed to speak something else.
    pub(crate) async fn upgrade(self, head: Response<()>) -> Result<Upgraded, ClientError> {
        // It ends by itself, once it has handed the connection over.
        let Self { body, driver: _driver, .. } = self;
        let upgraded = hyper::upgrade::on(head.map(|()| body)).await;
        upgraded.map_err(|error| ClientError::broken("it was agreed on a WebSocket")(error.into()))
    }

    /// All of it, of which at most so many bytes are taken.
    pub(crate) async fn all(mut self, limit_bytes: usize) -> Result<Bytes, ClientError> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            if all.len() + piece.len() > limit_bytes {
                return Err(ClientError::TooLarge { limit_bytes });
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }
}

fn read_broken(error: hyper::Error) -> ClientError {
    ClientError::broken("the answer was read")(Box::<dyn Error + Send + Sync>::from(error))
}
