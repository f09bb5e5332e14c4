//! Bytes from one connection to another, in both directions.
//!
//! Bytes are copied at first, which is fast for little; what turns out to be much is spliced
//! through pipes of the kernel, so that it never comes to this process. A connection that is idle
//! has neither a buffer nor a pipe.

mod pipes;
mod splice;

pub use pipes::Pipes;

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

/// Bytes that are copied at once.
const BUFFER_BYTES: usize = 64 << 10;

/// From how many bytes on a direction is spliced.
const SPLICE_FROM: u64 = 256 << 10;

/// How long both directions may be silent.
pub const IDLE: Duration = Duration::from_secs(2 * 60 * 60);

/// Who counts what goes through.
pub trait Meter {
    /// So many bytes more have left. False: it was the last that may.
    fn sent(&self, bytes: u64) -> bool;
    /// So many bytes more have come. False: it was the last that may.
    fn received(&self, bytes: u64) -> bool;
}

/// How a relay ended.
#[derive(Debug)]
pub enum End {
    /// Both sides have said all that they had to.
    Done,
    /// No more bytes may go through.
    Spent,
    /// Nobody said anything for [`IDLE`].
    Idle,
    /// One side broke off.
    Broken(io::Error),
}

/// Relays between a connection of the sandbox and one to a host, until both have ended. `first`
/// is what was read of the former already.
///
/// Where it does not end well, or is dropped before it has ended, both are reset, so that neither
/// side takes what it has for all.
pub fn relay<'a>(
    inside: TcpStream,
    outside: TcpStream,
    first: &'a [u8],
    meter: &'a dyn Meter,
    pipes: &'a Pipes,
) -> impl Future<Output = End> + 'a {
    // Here, and not where it is awaited: perhaps it never is.
    let (inside, outside) = (Unfinished::new(inside), Unfinished::new(outside));
    run(inside, outside, first, meter, pipes)
}

/// A connection that is broken off when this is dropped, unless all was said.
struct Unfinished {
    stream: TcpStream,
    is_done: bool,
}

impl Unfinished {
    const fn new(stream: TcpStream) -> Self {
        Self { stream, is_done: false }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_done {
            self.stream.set_zero_linger().ok();
        }
    }
}

async fn run(
    mut inside: Unfinished,
    mut outside: Unfinished,
    first: &[u8],
    meter: &dyn Meter,
    pipes: &Pipes,
) -> End {
    let moved = Cell::new(Instant::now());
    let sent = |bytes| {
        moved.set(Instant::now());
        meter.sent(bytes)
    };
    let received = |bytes| {
        moved.set(Instant::now());
        meter.received(bytes)
    };
    let both = async {
        let out = direction(&inside.stream, &outside.stream, first, &sent, pipes);
        let back = direction(&outside.stream, &inside.stream, &[], &received, pipes);
        match tokio::try_join!(out, back) {
            Ok(_) => End::Done,
            Err(Stopped::Spent) => End::Spent,
            Err(Stopped::Broken(error)) => End::Broken(error),
        }
    };
    let end = tokio::select! {
        end = both => end,
        () = silence(&moved) => End::Idle,
    };
    let is_done = matches!(end, End::Done);
    (inside.is_done, outside.is_done) = (is_done, is_done);
    end
}

/// Closes a connection so that the other side sees that it was broken off.
pub fn reset(stream: TcpStream) {
    // Without it the end looks like any other, and nothing is lost but that difference.
    stream.set_zero_linger().ok();
    drop(stream);
}

/// Returns when nothing has moved for as long as is allowed.
async fn silence(moved: &Cell<Instant>) {
    loop {
        let until = moved.get() + IDLE;
        if Instant::now() >= until {
            return;
        }
        sleep_until(until).await;
    }
}

enum Stopped {
    Spent,
    Broken(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// One direction, to its end, which is passed on.
async fn direction(
    from: &TcpStream,
    to: &TcpStream,
    first: &[u8],
    count: &dyn Fn(u64) -> bool,
    pipes: &Pipes,
) -> Result<(), Stopped> {
    let mut total = 0;
    let mut count = |bytes: usize| {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        total += bytes;
        if count(bytes) { Ok(total) } else { Err(Stopped::Spent) }
    };
    if !first.is_empty() {
        write_all(to, first).await?;
        count(first.len())?;
    }
    let mut copied = 0;
    while copied < SPLICE_FROM {
        from.ready(Interest::READABLE).await?;
        let mut buffer = vec![0; BUFFER_BYTES];
        // As long as there is more at once, the buffer stays.
        loop {
            match from.try_read(&mut buffer) {
                Ok(0) => return finish(to).await,
                Ok(length) => {
                    write_all(to, &buffer[..length]).await?;
                    copied = count(length)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            if copied >= SPLICE_FROM {
                break;
            }
        }
    }
    splice::splice(from, to, pipes, &mut |bytes| count(bytes).map(drop)).await?;
    finish(to).await
}

async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.ready(Interest::WRITABLE).await?;
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Says that nothing more comes.
async fn finish(to: &TcpStream) -> Result<(), Stopped> {
    match rustix::net::shutdown(to, rustix::net::Shutdown::Write) {
        // It is gone already.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

#[cfg(test)]
mod tests;
