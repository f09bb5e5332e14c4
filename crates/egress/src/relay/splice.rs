//! One direction of a relay that never comes to this process.

use super::pipes::{Pipe, Pipes};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice as call};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use tokio::io::Interest;
use tokio::net::TcpStream;

const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

/// Moves everything that comes on `from` to `to`, until its end. `count` may stop it.
pub(super) async fn splice<E: From<io::Error>>(
    from: &TcpStream,
    to: &TcpStream,
    pipes: &Pipes,
    count: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut held: Option<Pipe> = None;
    loop {
        let pipe = match held.take() {
            Some(pipe) => pipe,
            None => {
                from.ready(Interest::READABLE).await?;
                pipes.take()?
            }
        };
        let filled = from.try_io(Interest::READABLE, || part(from, &pipe.write, pipe.bytes));
        let length = match filled {
            Ok(0) => {
                pipes.give_back(pipe);
                return Ok(());
            }
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // Whoever waits needs none.
                pipes.give_back(pipe);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut left = length;
        while left > 0 {
            to.ready(Interest::WRITABLE).await?;
            match to.try_io(Interest::WRITABLE, || part(&pipe.read, to, left)) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(moved) => left -= moved,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        count(length)?;
        held = Some(pipe);
    }
}

fn part(from: impl AsFd, to: impl AsFd, length: usize) -> io::Result<usize> {
    loop {
        match call(&from, None, &to, None, length, FLAGS) {
            Err(Errno::INTR) => {}
            moved => return moved.map_err(Into::into),
        }
    }
}
