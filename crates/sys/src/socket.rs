//! Sockets: addresses as plain bytes, and who is at the other end.

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

/// The process at the other end of a connected unix socket, as it was when it
/// connected or listened, in the numbers of our pid namespace: 0 if it is in none that
/// we see, or nobody is there.
///
/// Source: unix(7), `SO_PEERCRED`.
///
/// # Errors
///
/// `ENOTSOCK`.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<i32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: both results are written to values of ours, and the second says how
    // long the first is.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(peer.pid) } else { Err(io::Error::last_os_error()) }
}

/// The cookie of the network namespace that a socket was made in: no other one has it, until
/// the machine starts anew.
///
/// Source: `SO_NETNS_COOKIE` of the kernel's `net/core/sock.c` (Linux 5.14).
///
/// # Errors
///
/// It is no socket, `ENOPROTOOPT` before Linux 5.14.
pub fn network(socket: BorrowedFd<'_>) -> io::Result<u64> {
    /// Of `asm-generic/socket.h`.
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let mut cookie: u64 = 0;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).unwrap_or(0);
    // SAFETY: both results are written to values of ours, and the second says how
    // long the first is.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

/// Has nobody send descriptors to a unix socket: who tries is refused. Says whether
/// this kernel can do that (Linux 6.16).
///
/// A descriptor that nobody takes is closed by who reads beside it, and that may take
/// as long as its sender likes, where it is a socket that lingers.
///
/// Source: `SO_PASSRIGHTS` of the kernel's `net/core/sock.c`.
///
/// # Errors
///
/// It is no unix socket.
pub fn refuse_descriptors(socket: BorrowedFd<'_>) -> io::Result<bool> {
    /// Of `asm-generic/socket.h`.
    const SO_PASSRIGHTS: libc::c_int = 83;
    let no: libc::c_int = 0;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the kernel copies `length` bytes of `no`, which has as many.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            length,
        )
    };
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOPROTOOPT) { Ok(false) } else { Err(error) }
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

    #[test]
    fn who_made_a_pair_is_at_its_other_end() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(peer(one.as_fd()).unwrap(), i32::try_from(std::process::id()).unwrap());
        // Who is at the end of another socket cannot be told.
        let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(peer(other.as_fd()).unwrap(), 0);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(peer(file.as_fd()).is_err());
    }

    #[test]
    fn descriptors_can_be_refused_and_bytes_still_come() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let send = || crate::scm::send(theirs.as_fd(), b"x", Some(theirs.as_fd()));
        send().unwrap();
        let refuses = refuse_descriptors(ours.as_fd()).unwrap();
        assert_eq!(send().is_err(), refuses);
        crate::scm::send(theirs.as_fd(), b"x", None).unwrap();
        let alone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(refuse_descriptors(alone.as_fd()).is_err() || !refuses);
    }
}
