//! What a thread writes, as the pieces of something that is sent.

use bytes::Bytes;
use std::io::{self, Write};
use tokio::sync::mpsc::Sender;

/// Bytes that are sent at once.
pub const PIECE_BYTES: usize = 64 * 1024;

/// Sends what is written, piece by piece; the rest of it when it is flushed.
#[derive(Debug)]
pub struct Pieces {
    sender: Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Pieces {
    /// One that sends to whoever receives it.
    pub fn new(sender: Sender<io::Result<Bytes>>) -> Self {
        Self { sender, buffer: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Ends it so that it does not look whole.
    pub fn break_off(&self, error: io::Error) {
        // Nobody may wait for it any more.
        self.sender.blocking_send(Err(error)).unwrap_or_default();
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE_BYTES));
        self.sender.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
