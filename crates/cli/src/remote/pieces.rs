//! What a thread writes, as the pieces of an upload.

use bytes::Bytes;
use std::io::{self, Write};
use tokio::sync::mpsc::Sender;

/// Bytes that are sent at once.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// Sends what is written, piece by piece; the rest of it when it is flushed.
pub(crate) struct Pieces {
    sender: Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Pieces {
    pub(crate) fn new(sender: Sender<io::Result<Bytes>>) -> Self {
        Self { sender, buffer: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Ends the upload so that it does not look whole.
    pub(crate) fn break_off(&self, error: io::Error) {
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
