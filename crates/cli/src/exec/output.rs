//! What a command prints, on our own streams: in its order, byte by byte.
//!
//! A thread writes, so that a reader who takes his time keeps nobody from a signal.

use atoll_api::exec::Stream;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use tokio::sync::{mpsc, oneshot};

/// Pieces that wait to be written.
const PIECES: usize = 8;

/// Our streams.
pub(super) struct Output {
    pieces: Option<mpsc::Sender<(Stream, Bytes)>>,
    done: oneshot::Receiver<Result<(), Unwritten>>,
}

/// One of our streams takes nothing any more.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) stream: Stream,
    pub(super) error: io::Error,
}

impl Output {
    pub(super) fn begin() -> Self {
        let (pieces, mut waiting) = mpsc::channel::<(Stream, Bytes)>(PIECES);
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            let mut written = Ok(());
            while let Some((stream, bytes)) = waiting.blocking_recv() {
                written = write(stream, &bytes).map_err(|error| Unwritten { stream, error });
                if written.is_err() {
                    break;
                }
            }
            // Nobody waits any more if the program ends anyhow.
            tell.send(written).ok();
        });
        Self { pieces: Some(pieces), done }
    }

    /// Waits for room for one more piece; says whether they are taken at all. Dropping it
    /// loses none.
    pub(super) async fn has_room(&self) -> bool {
        match &self.pieces {
            Some(pieces) => pieces.reserve().await.is_ok(),
            None => false,
        }
    }

    /// Prints a piece, for which there is room.
    pub(super) fn print(&self, stream: Stream, bytes: Bytes) {
        if let Some(pieces) = &self.pieces {
            // One that is not taken is not taken later either, and asking for room tells.
            pieces.try_send((stream, bytes)).ok();
        }
    }

    /// Waits until everything is written. May be called again if it was dropped.
    pub(super) async fn finish(&mut self) -> Result<(), Unwritten> {
        self.pieces = None;
        (&mut self.done).await.unwrap_or(Ok(()))
    }
}

fn write(stream: Stream, mut bytes: &[u8]) -> io::Result<()> {
    let fd = match stream {
        Stream::Stdout => rustix::stdio::stdout(),
        Stream::Stderr => rustix::stdio::stderr(),
    };
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            // Whoever shares the open file has made it so.
            Err(Errno::AGAIN) => wait_for(fd, PollFlags::OUT)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn wait_for(fd: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
