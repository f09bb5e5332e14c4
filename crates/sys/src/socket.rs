//! Addresses of sockets as plain bytes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Gives `socket` an address of any family, as it stands in memory.
///
/// Source: bind(2).
///
/// # Errors
///
/// Those of the socket's family; `EINVAL` if `address` is too long for any.
pub fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(address.len())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the kernel copies `length` bytes from `address`, which is as long,
    // and asks for no alignment.
    let result = unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn bytes_are_the_address() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, socket};
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let family = u16::try_from(libc::AF_UNIX).unwrap().to_ne_bytes();
        let too_long = bind(socket.as_fd(), &[0; 129]).unwrap_err();
        assert_eq!(too_long.raw_os_error(), Some(libc::EINVAL));
        let other = bind(socket.as_fd(), &[0xff; 16]).unwrap_err();
        assert_eq!(other.raw_os_error(), Some(libc::EINVAL));
        let name = format!("\0atoll-bind-{}", std::process::id());
        bind(socket.as_fd(), &[&family, name.as_bytes()].concat()).unwrap();
        let bound = SocketAddrUnix::try_from(getsockname(&socket).unwrap()).unwrap();
        assert_eq!(bound.abstract_name(), Some(&name.as_bytes()[1..]));
    }
}
