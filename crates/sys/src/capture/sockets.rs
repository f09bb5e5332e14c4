//! The sockets at which everything arrives.

use super::{DNS_PORT, FALLBACK_PORTS, PORT, PORTS_MAX};
use crate::scm::DESCRIPTORS_MAX;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Connections that wait to be accepted, at each listener.
const BACKLOG: i32 = 1024;

/// Sockets on the stack, the listening ones first.
pub(super) struct Sockets {
    all: [Option<OwnedFd>; DESCRIPTORS_MAX],
    tcp: usize,
    count: usize,
}

impl Sockets {
    /// Makes those for a captured network, or one listener for each port where packets go
    /// nowhere but to the port that they are for.
    ///
    /// # Errors
    ///
    /// `EACCES` without `CAP_NET_BIND_SERVICE`, `EPERM` without `CAP_NET_ADMIN`.
    pub(super) fn make(
        is_complete: bool,
        has_ipv6: bool,
        ports: &[u16; PORTS_MAX],
    ) -> Result<Self, Errno> {
        let mut sockets = Self { all: [const { None }; DESCRIPTORS_MAX], tcp: 0, count: 0 };
        let v4 = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let v6 = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let has_ipv6 = has_ipv6
            && match socket(v6, SocketType::STREAM) {
                Err(Errno::AFNOSUPPORT) => false,
                socket => socket.map(|_| true)?,
            };
        let addresses = || [v4, v6].into_iter().take(1 + usize::from(has_ipv6));
        if is_complete {
            for address in addresses() {
                let socket = listener(SocketAddr::new(address, PORT))?;
                transparent(socket.as_fd(), address)?;
                sockets.push(socket)?;
            }
        } else {
            for (index, port) in FALLBACK_PORTS.iter().chain(ports).enumerate() {
                let earlier = FALLBACK_PORTS.iter().chain(ports).take(index);
                if *port == 0 || earlier.into_iter().any(|earlier| earlier == port) {
                    continue;
                }
                for address in addresses() {
                    sockets.push(listener(SocketAddr::new(address, *port))?)?;
                }
            }
        }
        sockets.tcp = sockets.count;
        for address in addresses() {
            sockets.push(for_dns(address)?)?;
        }
        Ok(sockets)
    }

    fn push(&mut self, socket: OwnedFd) -> Result<(), Errno> {
        *self.all.get_mut(self.count).ok_or(Errno::MFILE)? = Some(socket);
        self.count += 1;
        Ok(())
    }

    /// How many listen.
    pub(super) fn tcp(&self) -> usize {
        self.tcp
    }

    /// Calls `with` with all of them.
    pub(super) fn with<T>(&self, with: impl FnOnce(&[BorrowedFd<'_>]) -> T) -> Option<T> {
        let first = self.all.first()?.as_ref()?.as_fd();
        let mut borrowed = [first; DESCRIPTORS_MAX];
        for (to, from) in borrowed.iter_mut().zip(self.all.iter().flatten()) {
            *to = from.as_fd();
        }
        borrowed.get(..self.count).map(with)
    }
}

fn socket(address: IpAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

/// What is accepted here occupies the port that it was for: with this option, which it takes
/// over, a server inside can bind that port nevertheless, if it sets it too.
fn listener(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = socket(address.ip(), SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Receives queries to any address, and is told which. Without the option above nobody else
/// can bind the port, at whatever address.
fn for_dns(address: IpAddr) -> Result<OwnedFd, Errno> {
    let socket = socket(address, SocketType::DGRAM)?;
    let (level, option) = match address {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    crate::raw::set_option(socket.as_fd(), level, option)?;
    if address.is_ipv6() {
        // An answer may come from any address, though none of them is ours.
        sockopt::set_ipv6_freebind(&socket, true)?;
    }
    rustix::net::bind(&socket, &SocketAddr::new(address, DNS_PORT))?;
    Ok(socket)
}

/// Takes what is for other addresses and ports, where a rule gives it.
fn transparent(socket: BorrowedFd<'_>, address: IpAddr) -> Result<(), Errno> {
    /// Of `linux/in6.h`.
    const IPV6_TRANSPARENT: libc::c_int = 75;
    let (level, option) = match address {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, IPV6_TRANSPARENT),
    };
    crate::raw::set_option(socket, level, option)
}
