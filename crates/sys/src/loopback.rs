//! The loopback interface of a new network namespace.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `IFF_UP | IFF_RUNNING`, which netdevice(7) has as a 16-bit field.
const UP_AND_RUNNING: libc::c_short = 0x41;

/// Brings `lo` up, which gives it 127.0.0.1 and ::1.
///
/// Source: netdevice(7), `SIOCSIFFLAGS`.
///
/// # Errors
///
/// `EPERM` without `CAP_NET_ADMIN` over the network namespace.
pub fn up() -> io::Result<()> {
    // SAFETY: socket takes integers; the result is checked below.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: an all-zero ifreq is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = UP_AND_RUNNING;
    // SAFETY: the request is a whole ifreq that outlives the call.
    let result = unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, std::ptr::from_ref(&request))
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
