//! Compressing and decompressing what passes through, piece by piece.
//!
//! Either takes milliseconds for a piece, so it is done on threads that may block. A piece
//! that is decompressed is bounded, however much its source unfolds to.

use crate::error::Failure;
use crate::upload::Upload;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use std::io::{self, Read, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// How much is read at once, packed or not, in bytes.
const PIECE_BYTES: usize = 64 << 10;

fn broke_off(error: JoinError) -> io::Error {
    io::Error::other(error)
}

/// Compresses.
pub(crate) struct Gzip {
    /// None while it is at work, and at the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    pub(crate) fn new() -> Self {
        Self { encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }

    /// Takes a piece and gives what has come of all until now, which may be nothing.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> io::Result<Bytes> {
        let mut encoder = self.take()?;
        let (encoder, packed) = spawn_blocking(move || {
            encoder.write_all(&bytes)?;
            let packed = std::mem::take(encoder.get_mut());
            io::Result::Ok((encoder, packed))
        })
        .await
        .map_err(broke_off)??;
        self.encoder = Some(encoder);
        Ok(packed.into())
    }

    /// Gives the rest.
    pub(crate) async fn finish(&mut self) -> io::Result<Bytes> {
        let encoder = self.take()?;
        Ok(spawn_blocking(move || encoder.finish()).await.map_err(broke_off)??.into())
    }

    fn take(&mut self) -> io::Result<GzEncoder<Vec<u8>>> {
        self.encoder.take().ok_or_else(|| io::Error::other("a piece before was broken off"))
    }
}

/// What is there of a compressed source until now.
#[derive(Default)]
struct Arrived {
    bytes: Bytes,
    is_all: bool,
}

impl Read for Arrived {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && !self.is_all {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let length = self.bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.bytes.split_to(length));
        Ok(length)
    }
}

/// Decompresses an upload.
pub(crate) struct Gunzip {
    upload: Upload,
    state: State,
    /// What was decompressed and not given out.
    piece: Bytes,
}

type Decoder = MultiGzDecoder<Arrived>;

enum State {
    /// Waits for more of the source.
    Hungry(Box<Decoder>),
    /// At work.
    Busy(JoinHandle<(Box<Decoder>, io::Result<Vec<u8>>)>),
    Over,
}

impl Gunzip {
    pub(crate) fn new(upload: Upload) -> Self {
        let decoder = Box::new(MultiGzDecoder::new(Arrived::default()));
        Self { upload, state: State::Hungry(decoder), piece: Bytes::new() }
    }

    pub(crate) fn into_inner(self) -> Upload {
        self.upload
    }

    /// Waits for more that is decompressed; false at the end.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            match &mut self.state {
                State::Over => return Poll::Ready(Ok(false)),
                State::Hungry(decoder) => {
                    let mut room = vec![0; PIECE_BYTES];
                    let mut buffer = ReadBuf::new(&mut room);
                    ready!(Pin::new(&mut self.upload).poll_read(context, &mut buffer))?;
                    let length = buffer.filled().len();
                    room.truncate(length);
                    let arrived = decoder.get_mut();
                    arrived.is_all = length == 0;
                    arrived.bytes = room.into();
                    self.work();
                }
                State::Busy(step) => {
                    let (decoder, made) =
                        ready!(Pin::new(step).poll(context)).map_err(broke_off)?;
                    self.state = State::Hungry(decoder);
                    match made {
                        Ok(piece) if piece.is_empty() => self.state = State::Over,
                        Ok(piece) => {
                            self.piece = piece.into();
                            // There may be more of what has arrived.
                            self.work();
                            return Poll::Ready(Ok(true));
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => {
                            self.state = State::Over;
                            let message = format!("the body is not gzip, or is damaged: {error}");
                            let fault = Failure::field("body", message);
                            return Poll::Ready(Err(self.upload.fault().set(fault)));
                        }
                    }
                }
            }
        }
    }

    /// Has the next piece decompressed, ahead of who wants it.
    fn work(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Hungry(mut decoder) => State::Busy(spawn_blocking(move || {
                let mut piece = vec![0; PIECE_BYTES];
                let made = decoder.read(&mut piece).map(|length| {
                    piece.truncate(length);
                    piece
                });
                (decoder, made)
            })),
            state => state,
        };
    }
}

impl AsyncRead for Gunzip {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.piece.is_empty() && !ready!(self.poll_piece(context))? {
            return Poll::Ready(Ok(()));
        }
        let length = self.piece.len().min(buffer.remaining());
        buffer.put_slice(&self.piece.split_to(length));
        Poll::Ready(Ok(()))
    }
}
