//! A connection to a port of the sandbox: a socket that was made inside.
//!
//! A guest that is hostile may keep a copy of the socket, and what a copy is told
//! holds for ours too. So it is never trusted not to block: every call says so
//! itself, and it is closed where nobody waits for it.

use super::error::{Cut, GuestError, Known};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_linger, socket_acceptconn, socket_domain, socket_protocol, socket_type,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketType, ipproto};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;

/// A connection to a port of the sandbox.
#[derive(Debug)]
pub struct PortStream {
    /// None once it is dropped.
    stream: Option<tokio::net::TcpStream>,
    place: Option<OwnedSemaphorePermit>,
    peer: SocketAddr,
}

impl PortStream {
    pub(super) fn new(
        socket: OwnedFd,
        port: u16,
        place: OwnedSemaphorePermit,
    ) -> Result<Self, GuestError> {
        let peer = match check(&socket, port) {
            Ok(peer) => peer,
            Err(error) => {
                close(socket, place);
                return Err(error);
            }
        };
        let stream = TcpStream::from(socket);
        let ours =
            |error: io::Error| GuestError::malformed(format!("its socket is refused: {error}"));
        stream.set_nonblocking(true).map_err(ours)?;
        let stream = tokio::net::TcpStream::from_std(stream).map_err(ours)?;
        Ok(Self { stream: Some(stream), place: Some(place), peer })
    }

    /// Where it leads, inside the sandbox: 127.0.0.1 or ::1.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn stream(&self) -> &tokio::net::TcpStream {
        self.stream.as_ref().expect("it is there until it is dropped")
    }
}

/// Where a socket leads that is a TCP connection to `port` on loopback.
fn check(socket: &OwnedFd, port: u16) -> Result<SocketAddr, GuestError> {
    let other = |what: &str| GuestError::malformed(format!("it handed {what} over"));
    let is_tcp = matches!(socket_domain(socket), Ok(AddressFamily::INET | AddressFamily::INET6))
        && socket_type(socket) == Ok(SocketType::STREAM)
        && socket_protocol(socket) == Ok(Some(ipproto::TCP));
    if !is_tcp {
        return Err(other("something that is no TCP socket"));
    }
    if socket_acceptconn(socket) != Ok(false) {
        return Err(other("a socket that listens"));
    }
    let peer = match rustix::net::getpeername(socket) {
        Ok(Some(peer)) => SocketAddr::try_from(peer).map_err(|_| other("a strange socket"))?,
        // Who accepted it may have reset it at once.
        Ok(None) | Err(Errno::NOTCONN) => {
            return Err(GuestError::Lost { known: Known::Answered, cut: Cut::Ended });
        }
        Err(_) => return Err(other("a strange socket")),
    };
    if peer.port() != port || !is_loopback(&peer) {
        return Err(other("a connection to elsewhere"));
    }
    set_socket_linger(socket, None).map_err(|_| other("a strange socket"))?;
    Ok(peer)
}

/// One of the two addresses that a guest tries.
fn is_loopback(address: &SocketAddr) -> bool {
    match address {
        SocketAddr::V4(address) => *address.ip() == std::net::Ipv4Addr::LOCALHOST,
        SocketAddr::V6(address) => *address.ip() == std::net::Ipv6Addr::LOCALHOST,
    }
}

/// Closes a socket where it may take its time; its place is free afterwards.
fn close(socket: OwnedFd, place: OwnedSemaphorePermit) {
    // For one that is no TCP socket this fails, and then it does not linger.
    set_socket_linger(&socket, None).ok();
    let close = move || {
        drop(socket);
        drop(place);
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(close)),
        Err(_) => close(),
    }
}

impl Drop for PortStream {
    fn drop(&mut self) {
        let (Some(stream), Some(place)) = (self.stream.take(), self.place.take()) else { return };
        if let Ok(stream) = stream.into_std() {
            close(stream.into(), place);
        }
    }
}

impl AsyncRead for PortStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.stream();
        loop {
            ready!(stream.poll_read_ready(context))?;
            let space = buffer.initialize_unfilled();
            let read = || Ok(rustix::net::recv(stream, space, RecvFlags::DONTWAIT)?.0);
            match stream.try_io(Interest::READABLE, read) {
                Ok(length) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if is_again(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.stream();
        loop {
            ready!(stream.poll_write_ready(context))?;
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let write = || Ok(rustix::net::send(stream, bytes, flags)?);
            match stream.try_io(Interest::WRITABLE, write) {
                Err(error) if is_again(&error) => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match rustix::net::shutdown(self.stream(), Shutdown::Write) {
            // The other side has ended it already.
            Ok(()) | Err(Errno::NOTCONN) => Poll::Ready(Ok(())),
            Err(errno) => Poll::Ready(Err(errno.into())),
        }
    }
}

fn is_again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
