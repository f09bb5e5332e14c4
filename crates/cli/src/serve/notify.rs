//! Tells systemd how far the server is.

use crate::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Requests are answered from now on.
pub(super) const READY: &str = "READY=1";

/// They soon are not any more.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Tells whoever asked to be told.
///
/// Source: sd_notify(3).
pub(super) fn tell(state: &str) {
    let Some(name) = env::NOTIFY_SOCKET.get() else { return };
    let sent = address(name.as_bytes()).and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        // Whoever does not read must not stop the server.
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = sent {
        tracing::warn!(%error, "could not tell the service manager");
    }
}

fn address(name: &[u8]) -> io::Result<SocketAddr> {
    match name {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)),
    }
}
