//! Input for a command: read here, and fed so that no byte is lost or there twice.

use super::follow::is_of_the_way;
use super::output::wait_for;
use atoll_api::error::{ErrorCode, Retry};
use atoll_api::id::ExecId;
use atoll_client::{Client, ClientError, Upload};
use bytes::{Bytes, BytesMut};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Pieces that wait to be fed.
const PIECES: usize = 16;

/// How long to wait before input is sent again, and how long at most this goes on.
const AGAIN: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads our standard input, piece by piece, to its end.
pub(super) fn standard() -> mpsc::Receiver<Bytes> {
    read_from(None)
}

/// Reads keys, until the terminal is gone.
pub(super) fn keys(terminal: OwnedFd) -> mpsc::Receiver<Bytes> {
    read_from(Some(terminal))
}

fn read_from(terminal: Option<OwnedFd>) -> mpsc::Receiver<Bytes> {
    let (pieces, read) = mpsc::channel(PIECES);
    // It may wait for somebody to type when the program ends, which is no harm.
    std::thread::spawn(move || {
        let fd = terminal.as_ref().map_or(rustix::stdio::stdin(), |fd| fd.as_fd());
        let mut buffer = vec![0; READ_BYTES];
        while let Some(length) = read_some(fd, &mut buffer, terminal.is_some()) {
            if pieces.blocking_send(Bytes::copy_from_slice(&buffer[..length])).is_err() {
                break;
            }
        }
    });
    read
}

/// Reads what comes next; nothing at the end.
fn read_some(fd: BorrowedFd<'_>, buffer: &mut [u8], is_terminal: bool) -> Option<usize> {
    loop {
        wait_for(fd, PollFlags::IN).ok()?;
        match rustix::io::read(fd, &mut *buffer) {
            // The modes of a terminal may say that a read does not wait.
            Ok(0) if is_terminal && !is_hung_up(fd) => {}
            Ok(0) => return None,
            Ok(length) => return Some(length),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn is_hung_up(fd: BorrowedFd<'_>) -> bool {
    rustix::termios::tcgetattr(fd).is_err()
}

/// Feeds all that is read, and then ends the command's input.
pub(super) async fn feed(
    client: Client,
    sandbox: String,
    exec: ExecId,
    mut read: mpsc::Receiver<Bytes>,
) -> Result<(), ClientError> {
    let mut offset = 0;
    loop {
        let piece = match read.recv().await {
            Some(piece) => more(piece, &mut read),
            None => Bytes::new(),
        };
        let is_end = piece.is_empty();
        let began = Instant::now();
        loop {
            let content = Upload::whole(piece.clone());
            let fed = client.feed_exec(&sandbox, &exec, offset, !is_end, content).await;
            let pause = match fed {
                Ok(_) => break,
                // It is known by its offset whether it was fed.
                Err(error) if is_of_the_way(&error) && began.elapsed() < PATIENCE => AGAIN,
                Err(error) => match again_after(&error) {
                    Some(pause) => pause,
                    None if is_over(&error) => return Ok(()),
                    None => return Err(error),
                },
            };
            sleep_until(Instant::now() + pause).await;
        }
        if is_end {
            return Ok(());
        }
        offset += piece.len() as u64;
    }
}

/// What is there already goes along.
fn more(first: Bytes, read: &mut mpsc::Receiver<Bytes>) -> Bytes {
    let Ok(second) = read.try_recv() else { return first };
    let mut all = BytesMut::from(&first[..]);
    all.extend_from_slice(&second);
    while let Ok(next) = read.try_recv() {
        all.extend_from_slice(&next);
    }
    all.freeze()
}

fn again_after(error: &ClientError) -> Option<Duration> {
    match error {
        ClientError::Api(error) => match error.retry {
            Retry::After { after_ms } => Some(Duration::from_millis(after_ms)),
            Retry::Safe | Retry::Unsafe => None,
        },
        _ => None,
    }
}

/// Whether the command takes no input any more, which is its own affair.
fn is_over(error: &ClientError) -> bool {
    use ErrorCode::{Conflict, Lost, NotFound, WrongState};
    error.code().is_some_and(|code| [Conflict, Lost, NotFound, WrongState].contains(&code))
}
