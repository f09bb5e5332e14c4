//! bind(2), by which a unix socket gets a name in a directory.
//!
//! What a call binds cannot be seen without looking at memory and at a
//! descriptor, and both can be other ones when the kernel looks again. So none
//! continues: the judge takes the socket and binds it, whatever its family is.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};

use atoll_sys::socket;
use rustix::io::Errno;
use rustix::net::{AddressFamily, getsockname, netlink::SocketAddrNetlink, sockopt::socket_domain};

use super::call::PathArgument;
use super::caller::{Directory, errno};
use super::decide::Kind;
use super::state::{Answer, Case, State};
use super::walk::Walk;

/// The size of `struct sockaddr_storage`, the longest address of any family.
const MAX_ADDRESS: usize = 128;
/// The size of `struct sockaddr_un` (unix(7)).
const MAX_UNIX_ADDRESS: usize = 110;
/// The family comes first.
const FAMILY: usize = size_of::<libc::sa_family_t>();
/// Where `struct sockaddr_nl` has its port (netlink(7)), and its size.
const NETLINK_PORT: std::ops::Range<usize> = 4..8;
const NETLINK_ADDRESS: usize = size_of::<libc::sockaddr_nl>();

impl State {
    pub(super) fn bind(
        &mut self,
        case: &mut Case<'_>,
        socket: i32,
        address: u64,
        length: u32,
    ) -> Result<Answer, Errno> {
        let socket = case.caller.copy_of(socket)?;
        let family = socket_domain(&socket)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_ADDRESS {
            return Err(Errno::INVAL);
        }
        let mut address = case.caller.bytes(address, length)?;
        if !case.caller.is_waiting() {
            return Err(Errno::SRCH);
        }
        match path_in(&address) {
            Some(path) if family == AddressFamily::UNIX => {
                self.bind_to_path(case, socket.as_fd(), &address, path)?;
            }
            _ if asks_for_port(family, &address) => {
                bind_to_port(socket.as_fd(), &mut address, case.caller.process()?)?;
            }
            _ => bind(socket.as_fd(), &address)?,
        }
        Ok(Answer::Done)
    }

    fn bind_to_path(
        &mut self,
        case: &mut Case<'_>,
        socket: BorrowedFd<'_>,
        address: &[u8],
        path: CString,
    ) -> Result<(), Errno> {
        let here = PathArgument { directory: libc::AT_FDCWD, address: 0 };
        let base = case.caller.base(path.to_bytes(), here)?;
        if !case.caller.is_waiting() {
            return Err(Errno::SRCH);
        }
        let mut walk = Walk::new(case.caller);
        let spot = walk.start(Directory::Borrowed(base.as_fd()), &path)?;
        self.creation(case, &spot, Kind::Other).map_err(|error| match error {
            Errno::EXIST => Errno::ADDRINUSE,
            other => other,
        })?;
        self.become_creator(case)?;
        // The kernel keeps the path's text as the socket's name: for getsockname(2),
        // by which programs remove it, and for peers, which answer to it. So the
        // text is the caller's, though it leads to the directory a second time.
        // Only the host can make that another one: in here names change by calls
        // that wait until this one is done. Links of procfs are the exception.
        let footing = case.caller.footing;
        if walk.led_through_proc {
            let family = &address[..FAMILY];
            let address = [family, spot.with_slash().to_bytes()].concat();
            return footing.work_in(spot.parent.as_fd(), || bind(socket, &address));
        }
        footing.work_in(base.as_fd(), || bind(socket, address))
    }
}

fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> Result<(), Errno> {
    socket::bind(socket, address).map_err(errno)
}

/// The path in an address of a unix socket, if it is one that the kernel takes
/// for a path.
fn path_in(address: &[u8]) -> Option<CString> {
    if address.len() > MAX_UNIX_ADDRESS {
        return None;
    }
    let (family, path) = address.split_at_checked(FAMILY)?;
    let is_unix = *family == AddressFamily::UNIX.as_raw().to_ne_bytes();
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    (is_unix && end > 0).then(|| CString::new(&path[..end]).ok())?
}

/// Whether the kernel is to choose a netlink port, which is the process's id then.
fn asks_for_port(family: AddressFamily, address: &[u8]) -> bool {
    family == AddressFamily::NETLINK
        && address.len() >= NETLINK_ADDRESS
        && address[NETLINK_PORT] == [0; 4]
}

/// Binds to the port that the kernel would choose for the caller.
fn bind_to_port(socket: BorrowedFd<'_>, address: &mut [u8], process: u32) -> Result<(), Errno> {
    let is_bound = getsockname(socket)
        .and_then(SocketAddrNetlink::try_from)
        .is_ok_and(|address| address.pid() != 0);
    if !is_bound {
        address[NETLINK_PORT].copy_from_slice(&process.to_ne_bytes());
        match bind(socket, address) {
            Err(Errno::ADDRINUSE) => address[NETLINK_PORT].fill(0),
            done => return done,
        }
    }
    bind(socket, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(family: AddressFamily, rest: &[u8]) -> Vec<u8> {
        [&family.as_raw().to_ne_bytes(), rest].concat()
    }

    #[test]
    fn only_addresses_of_unix_sockets_hold_paths() {
        let unix = |rest: &[u8]| path_in(&address(AddressFamily::UNIX, rest));
        assert_eq!(unix(b"a/b").as_deref(), Some(c"a/b"));
        assert_eq!(unix(b"a\0b").as_deref(), Some(c"a"));
        assert_eq!(unix(&[b'a'; 108]).map(|path| path.count_bytes()), Some(108));
        assert_eq!(unix(&[b'a'; 109]), None);
        assert_eq!(unix(b"\0abstract"), None);
        assert_eq!(unix(b""), None);
        assert_eq!(path_in(b"\x01"), None);
        assert_eq!(path_in(&address(AddressFamily::INET, b"a/b")), None);
    }

    #[test]
    fn a_port_is_asked_for_by_zero() {
        let netlink = |port: u32| {
            let rest = [&[0; 2][..], &port.to_ne_bytes(), &[0; 4]].concat();
            address(AddressFamily::NETLINK, &rest)
        };
        assert!(asks_for_port(AddressFamily::NETLINK, &netlink(0)));
        assert!(!asks_for_port(AddressFamily::NETLINK, &netlink(7)));
        assert!(!asks_for_port(AddressFamily::NETLINK, &netlink(0)[..11]));
        assert!(!asks_for_port(AddressFamily::INET, &netlink(0)));
    }
}
