//! Connections: one for each request.

use crate::endpoint::Endpoint;
use crate::error::ClientError;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};

/// How long a connection may take to come about.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait where a server has more connections waiting than there is room for.
const AGAIN: Duration = Duration::from_millis(20);

/// A connection of either kind.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Connects.
pub(crate) async fn connect(endpoint: &Endpoint) -> Result<TokioIo<Stream>, ClientError> {
    let connected = timeout(CONNECT_WITHIN, async {
        match endpoint {
            Endpoint::Unix(path) => unix(path).await.map(Stream::Unix),
            Endpoint::Tcp { host, port } => tcp(host, *port).await.map(Stream::Tcp),
        }
    });
    let connected = connected.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    connected.map(TokioIo::new).map_err(|source| {
        let endpoint = endpoint.to_string();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NoServer { endpoint, source }
            }
            _ => ClientError::Connect { endpoint, source },
        }
    })
}

async fn unix(path: &std::path::Path) -> io::Result<UnixStream> {
    let begun = Instant::now();
    let mut again = tokio::time::interval(AGAIN);
    loop {
        match UnixStream::connect(path).await {
            // The queue of connections that wait is full.
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    && begun.elapsed() < CONNECT_WITHIN =>
            {
                again.tick().await;
            }
            connected => return connected,
        }
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = None;
    for address in addresses(host).await? {
        match TcpStream::connect(SocketAddr::new(address, port)).await {
            Ok(stream) => {
                // A terminal's keys are small; a server that is gone must be noticed.
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, Duration::from_secs(15))?;
                sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(5))?;
                sockopt::set_tcp_keepcnt(&stream, 4)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    let unknown = || io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    Err(last.unwrap_or_else(unknown))
}

/// The addresses of a host.
///
/// A static program cannot ask the machine's name service itself, whose modules belong to
/// the C library of the machine; getent(1) can.
async fn addresses(host: &str) -> io::Result<Vec<IpAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let mut getent = Command::new("getent");
    getent.args(["ahosts", host]).stdin(Stdio::null()).stderr(Stdio::null());
    let asked = tokio::task::spawn_blocking(move || getent.output()).await;
    let output = asked.map_err(io::Error::other)??.stdout;
    let mut found = Vec::new();
    for line in String::from_utf8_lossy(&output).lines() {
        let address = line.split_whitespace().next().and_then(|word| word.parse().ok());
        // Each is there once for every kind of socket.
        found.extend(address.filter(|address| !found.contains(address)));
    }
    if found.is_empty() {
        let text = format!("no address is known for {host}");
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
    }
    Ok(found)
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
