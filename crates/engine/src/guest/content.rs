//! Bytes that are carried: to the guest from a source, and from it as they come.

use super::connection::{Connection, send};
use super::error::{Cut, GuestError};
use super::flow::Flow;
use super::hearing::{Hearing, Said, out_of_place};
use atoll_protocol::files::Stat;
use atoll_protocol::frame::{HEADER_BYTES, Kind, header};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Event, Reply};
use bytes::Bytes;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// What is sent at once, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// For how long a guest may take nothing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Patience {
    /// Only so long: it has nothing to wait for.
    Bounded(Duration),
    /// As long as it likes: a command need not read what it is fed.
    Endless,
}

impl Connection {
    /// Sends everything that `source` has, and hears meanwhile whether the guest
    /// wants it.
    pub(super) async fn send_content<S: AsyncRead + Unpin>(
        &mut self,
        source: &mut S,
        patience: Patience,
    ) -> Result<(), GuestError> {
        let mut buffer = vec![0; HEADER_BYTES + PIECE_BYTES];
        loop {
            let Self { stream, hearing, .. } = &mut *self;
            let length = tokio::select! {
                biased;
                error = said_early(hearing, stream) => return Err(error),
                length = read(source, &mut buffer[HEADER_BYTES..]) => length.map_err(GuestError::Source)?,
            };
            let kind = if length == 0 { Kind::End } else { Kind::Body };
            buffer[..HEADER_BYTES].copy_from_slice(&header(kind, length));
            let piece = &buffer[..HEADER_BYTES + length];
            if length == 0 {
                return self.send_piece(piece, patience).await;
            }
            let sent = tokio::select! {
                biased;
                error = said_early(hearing, stream) => return Err(error),
                sent = bounded(send(stream, piece), patience) => sent,
            };
            self.judge_sent(sent).await?;
        }
    }

    async fn send_piece(&mut self, piece: &[u8], patience: Patience) -> Result<(), GuestError> {
        let sent = bounded(send(&self.stream, piece), patience).await;
        self.judge_sent(sent).await
    }

    async fn judge_sent(&mut self, sent: Option<io::Result<()>>) -> Result<(), GuestError> {
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => {
                let cut = self.hearing.lost(Cut::Ended);
                let after = Patience::Bounded(Duration::from_secs(5));
                Err(bounded(self.last_word(), after).await.unwrap_or(cut))
            }
            None => Err(self.hearing.lost(Cut::Silent)),
        }
    }
}

/// Waits for what a guest has to say before it was told everything: why it takes
/// no more.
async fn said_early(hearing: &mut Hearing, stream: &UnixStream) -> GuestError {
    match hearing.answer(stream).await {
        Ok(_) => GuestError::malformed("it answers before it was told everything"),
        Err(error) => error,
    }
}

async fn bounded<T>(future: impl Future<Output = T>, patience: Patience) -> Option<T> {
    match patience {
        Patience::Bounded(time) => timeout(time, future).await.ok(),
        Patience::Endless => Some(future.await),
    }
}

async fn read<S: AsyncRead + Unpin>(source: &mut S, buffer: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(buffer);
    poll_fn(|context| Pin::new(&mut *source).poll_read(context, &mut buffer)).await?;
    Ok(buffer.filled().len())
}

/// The bytes of a file or an archive, as they come; what is not asked for is not
/// received.
#[derive(Debug)]
pub struct Content {
    /// What is known of the file, or of the directory.
    pub stat: Stat,
    flow: Flow,
    /// How many bytes may still come.
    left: u64,
    is_archive: bool,
}

/// What comes of an archive that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The next bytes; never empty.
    Bytes(Bytes),
    /// A name is not in the archive, or not all of it.
    Left {
        /// Which, below the archive's directory.
        path: Octets,
        /// Why.
        code: Code,
    },
}

impl Content {
    pub(super) fn of_file(connection: Connection, stat: Stat, bytes_max: u64) -> Self {
        Self::new(connection, stat, bytes_max, false)
    }

    pub(super) fn of_archive(connection: Connection, stat: Stat) -> Self {
        Self::new(connection, stat, u64::MAX, true)
    }

    fn new(connection: Connection, stat: Stat, left: u64, is_archive: bool) -> Self {
        Self { stat, flow: Flow::new(connection), left, is_archive }
    }

    /// Waits for the next bytes, of a file: none after the last. May be dropped
    /// and called again, and loses nothing.
    ///
    /// # Errors
    ///
    /// [`GuestError::Lost`] where it ends without its end being told, also at every
    /// call after an error; [`GuestError::Refused`], [`GuestError::Malformed`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, GuestError> {
        loop {
            match self.next_piece().await? {
                Some(Piece::Bytes(bytes)) => return Ok(Some(bytes)),
                Some(Piece::Left { .. }) => {}
                None => return Ok(None),
            }
        }
    }

    /// Waits for what comes next, of an archive, as [`Content::next`].
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn next_piece(&mut self) -> Result<Option<Piece>, GuestError> {
        let said = loop {
            match self.flow.next().await? {
                Some(Said::Heartbeat) => {}
                Some(said) => break said,
                None => return Ok(None),
            }
        };
        match self.judge(said) {
            Ok(next) => {
                if next.is_none() {
                    self.flow.finish();
                }
                Ok(next)
            }
            Err(error) => self.flow.fail(error),
        }
    }

    fn judge(&mut self, said: Said) -> Result<Option<Piece>, GuestError> {
        match said {
            Said::Body(bytes) => {
                let left = self.left.checked_sub(bytes.len() as u64);
                self.left = left.ok_or_else(|| {
                    GuestError::malformed("it sends more of a file than it said, or was asked for")
                })?;
                Ok(Some(Piece::Bytes(bytes)))
            }
            Said::Event(Event::Left { path, code }) if self.is_archive => {
                Ok(Some(Piece::Left { path, code }))
            }
            Said::End => Ok(None),
            Said::Problem(problem) => Err(GuestError::Refused(problem)),
            said => Err(out_of_place(&said)),
        }
    }
}

/// What a reply to `what` has to be.
pub(super) fn expect<T>(
    reply: Reply,
    pick: impl FnOnce(Reply) -> Option<T>,
) -> Result<T, GuestError> {
    pick(reply).ok_or_else(|| GuestError::malformed("it answers something else"))
}
