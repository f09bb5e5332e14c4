//! The side of who starts the gateway.

use super::{BYTES_MAX, Order, Told};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{Child, Command, Stdio};
use zeroize::Zeroizing;

/// The other end of a gateway's socket.
#[derive(Debug)]
pub struct Starter {
    socket: OwnedFd,
}

/// Why the gateway could not be asked or heard.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It has ended.
    #[error("the gateway has ended")]
    Gone,
    /// The order is longer than a datagram can be.
    #[error(
        "rules and secrets of {bytes} bytes are more than the {BYTES_MAX} that the gateway takes"
    )]
    TooLong {
        /// How long it would be.
        bytes: usize,
    },
    /// The socket failed.
    #[error("the gateway's socket failed")]
    Io(#[source] io::Error),
    /// What it said is nothing that it says.
    #[error("the gateway said what is not understood")]
    Garbled(#[source] serde_json::Error),
}

impl Starter {
    /// Both ends of a new socket: ours, and the one that the gateway gets.
    ///
    /// # Errors
    ///
    /// Out of descriptors.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self { socket: ours }, theirs))
    }

    /// Starts the gateway's process, which gets the other end as its standard input, and says
    /// nothing anywhere else. Whoever has it ends it.
    ///
    /// # Errors
    ///
    /// Out of descriptors, or the program could not be run.
    pub fn spawn(mut command: Command) -> io::Result<(Self, Child)> {
        let (starter, theirs) = Self::pair()?;
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        Ok((starter, command.spawn()?))
    }

    /// Has neither orders nor what it tells be waited for from now on.
    ///
    /// # Errors
    ///
    /// Those of ioctl(2).
    pub fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, true)?)
    }

    /// Gives an order, with listeners beside it.
    ///
    /// # Errors
    ///
    /// See [`AskError`]. `WouldBlock` if the socket was made so and there is no room.
    pub fn order(&self, order: &Order, listeners: &[BorrowedFd<'_>]) -> Result<(), AskError> {
        let bytes = Zeroizing::new(serde_json::to_vec(order).map_err(AskError::Garbled)?);
        if bytes.len() > BYTES_MAX {
            return Err(AskError::TooLong { bytes: bytes.len() });
        }
        atoll_sys::scm::send_all(self.socket.as_fd(), &bytes, listeners).map_err(|error| {
            match Errno::from_io_error(&error) {
                Some(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => AskError::Gone,
                _ => AskError::Io(error),
            }
        })
    }

    /// Waits for what it tells next.
    ///
    /// # Errors
    ///
    /// See [`AskError`]. `WouldBlock` if the socket was made so and there is nothing.
    pub fn hear(&self) -> Result<Told, AskError> {
        let mut buffer = vec![0; BYTES_MAX];
        let received = atoll_sys::scm::receive_all(self.socket.as_fd(), &mut buffer);
        match received {
            Ok((0, _)) => Err(AskError::Gone),
            Ok((length, _)) => serde_json::from_slice(&buffer[..length]).map_err(AskError::Garbled),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::CONNRESET) => {
                Err(AskError::Gone)
            }
            Err(error) => Err(AskError::Io(error)),
        }
    }
}

impl AsFd for Starter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Starter {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
