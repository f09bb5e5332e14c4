//! A network that leads nowhere but to listeners of ours.
//!
//! In a new network namespace every address is routed to loopback, and rules of nf_tables
//! give all TCP that comes back in there to one listener: the address and port that were
//! meant are what getsockname(2) says of the accepted socket. A UDP socket bound to every address on
//! port 53 gets queries to any address. Everything else fails at once.
//!
//! Who holds a listener is told two things by it. Which sandbox it is: nothing that comes in says
//! so, since a client may bind any source. And when there is no more: `EINVAL` or `EBADF` of
//! accept(2) means that the listener is dead, and is for ever; asking again would spin.
//! A destination in 127.0.0.0/8, `::1` or the namespace's own address is somebody who found the
//! listener's own port.
//!
//! Nothing in here allocates or touches errno until it is in the caller's own process: see
//! [`netns`](crate::netns).

mod bytes;
mod netlink;
mod rules;
mod sockets;

use crate::scm;
use netlink::{Outcome, Outcomes, exchange};
use rustix::io::Errno;
use rustix::net::netlink::NETFILTER;
use sockets::Sockets;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// The namespace's own addresses, beside loopback.
pub const OWN_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// See [`OWN_V4`].
pub const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xa701, 0, 0, 0, 0, 0, 2);

/// Where all TCP arrives.
pub const PORT: u16 = 15_001;

const DNS_PORT: u16 = 53;

/// Most ports that can be named for kernels without nf_tables.
pub const PORTS_MAX: usize = 28;

/// Ports that have listeners there, beside those that are named.
const FALLBACK_PORTS: [u16; 3] = [DNS_PORT, 80, 443];

/// What becomes of packets in a new network namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Capture {
    /// Nothing: there is loopback.
    #[default]
    None,
    /// All TCP and DNS arrive at listeners. Where the kernel has no nf_tables: as [`Capture::Ports`].
    All(Ports),
    /// DNS arrives, and TCP to ports 53, 80, 443 and these; other TCP is refused.
    Ports(Ports),
}

/// Ports of TCP; 0 where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ports(pub(crate) [u16; PORTS_MAX]);

impl Ports {
    /// These, as far as there is room for them.
    #[must_use]
    pub fn new(ports: &[u16]) -> Self {
        let mut all = Self::default();
        for (to, from) in all.0.iter_mut().zip(ports) {
            *to = *from;
        }
        all
    }
}

/// The sockets of a captured network. They do not block.
#[derive(Debug)]
pub struct Listeners {
    /// They listen; one for IPv4, and one for IPv6 if the kernel has it. As many for each
    /// port where the capture is not complete.
    pub tcp: Vec<OwnedFd>,
    /// Port 53 of every address, with `IP_PKTINFO` or `IPV6_RECVPKTINFO`.
    pub udp: Vec<OwnedFd>,
    /// All TCP arrives, whatever the port.
    pub is_complete: bool,
}

impl Listeners {
    /// Sends them over a unix socket.
    ///
    /// # Errors
    ///
    /// Those of [`scm::send_all`].
    pub fn send(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let fds: Vec<_> = self.tcp.iter().chain(&self.udp).map(OwnedFd::as_fd).collect();
        scm::send_all(socket, &head(self.is_complete, self.tcp.len()), &fds)
    }

    /// Receives what [`Self::send`] has sent.
    ///
    /// # Errors
    ///
    /// Those of [`scm::receive_all`]; `UnexpectedEof` where the other side is gone;
    /// `InvalidData` for anything else than listeners.
    pub fn receive(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut buffer = [0; 16];
        let (length, mut tcp) = scm::receive_all(socket, &mut buffer)?;
        match (&buffer[..length], tcp.len()) {
            ([], _) => Err(io::ErrorKind::UnexpectedEof.into()),
            ([is_complete @ (0 | 1), count], found) if usize::from(*count) <= found => {
                let udp = tcp.split_off(usize::from(*count));
                Ok(Self { tcp, udp, is_complete: *is_complete == 1 })
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn head(is_complete: bool, tcp: usize) -> [u8; 2] {
    [u8::from(is_complete), u8::try_from(tcp).unwrap_or(u8::MAX)]
}

/// Has the network namespace of the caller, which is new, lead to listeners, and sends them
/// over `socket`. The caller has `CAP_NET_ADMIN` over it.
pub(crate) fn set_up(capture: Capture, socket: BorrowedFd<'_>) -> Result<(), (Step, Errno)> {
    let (wants_rules, ports) = match capture {
        Capture::None => return Ok(()),
        Capture::All(ports) => (true, ports),
        Capture::Ports(ports) => (false, ports),
    };
    let has_ipv6 = route().map_err(|errno| (Step::Route, errno))?;
    let is_complete = wants_rules && rule().map_err(|errno| (Step::Rules, errno))?;
    let sockets =
        Sockets::make(is_complete, has_ipv6, &ports.0).map_err(|errno| (Step::Sockets, errno))?;
    let_everybody_serve();
    let head = head(is_complete, sockets.tcp());
    let sent = sockets.with(|fds| scm::send_all(socket, &head, fds));
    match sent {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            Err((Step::Sockets, Errno::from_raw_os_error(errno)))
        }
        None => Err((Step::Sockets, Errno::BADF)),
    }
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Route,
    Rules,
    Sockets,
}

/// Says whether there is IPv6, too.
fn route() -> Result<bool, Errno> {
    routed(&exchange(None, &rules::ROUTES)?)
}

fn routed(outcomes: &Outcomes) -> Result<bool, Errno> {
    let mut has_ipv6 = true;
    for number in 1..=rules::ROUTES.messages() {
        match outcomes.of(number) {
            Outcome::Done => {}
            Outcome::Failed(
                Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::ACCESS | Errno::NODEV,
            ) if rules::OF_IPV6.contains(&number) => has_ipv6 = false,
            // Where an address is missing, so is its route.
            Outcome::Failed(_) if !has_ipv6 => {}
            Outcome::Failed(errno) => return Err(errno),
            Outcome::Silence => return Err(Errno::PROTO),
        }
    }
    Ok(has_ipv6)
}

/// Says whether the kernel has what the rules need.
fn rule() -> Result<bool, Errno> {
    let outcomes = match exchange(Some(NETFILTER), &rules::RULES) {
        Ok(outcomes) => outcomes,
        Err(errno) if is_missing(errno) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    ruled(&outcomes)
}

fn ruled(outcomes: &Outcomes) -> Result<bool, Errno> {
    match (outcomes.failure(), outcomes.of(rules::LAST_RULE)) {
        (None, Outcome::Done) => Ok(true),
        (Some(errno), _) if is_missing(errno) => Ok(false),
        (Some(errno), _) => Err(errno),
        (None, Outcome::Silence | Outcome::Failed(_)) => Err(Errno::PROTO),
    }
}

/// No netfilter, no nf_tables, or none of an expression's modules.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::OPNOTSUPP | Errno::NOENT)
}

/// Low ports need no capability: root inside has none over this network. Where `/proc` does not
/// let us say so, servers inside need a port from 1024 up.
fn let_everybody_serve() {
    let path = c"/proc/sys/net/ipv4/ip_unprivileged_port_start";
    crate::netns::write(path, b"0").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(said: &[(u8, i32)]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (number, errno) in said {
            outcomes.take(&netlink::said(u32::from(*number), *errno));
        }
        outcomes
    }

    #[test]
    fn a_kernel_without_ipv6_is_told_from_one_that_fails() {
        let of = |v4: i32, v6: i32| {
            let said = [(1, 0), (2, v4), (3, v4), (4, v6), (5, v6)];
            routed(&outcomes(&said))
        };
        assert_eq!(of(0, 0), Ok(true));
        for absent in [libc::EOPNOTSUPP, libc::EAFNOSUPPORT, libc::EACCES] {
            assert_eq!(of(0, -absent), Ok(false));
            assert!(of(-absent, 0).is_err());
        }
        assert_eq!(of(0, -libc::ENOMEM), Err(Errno::NOMEM));
        assert_eq!(routed(&outcomes(&[(1, 0), (2, 0), (3, 0), (4, 0)])), Err(Errno::PROTO));
        let without_route = [(1, 0), (2, 0), (3, 0), (4, -libc::EACCES), (5, -libc::EINVAL)];
        assert_eq!(routed(&outcomes(&without_route)), Ok(false));
    }

    #[test]
    fn a_kernel_without_nf_tables_is_told_from_one_that_fails() {
        let last = rules::LAST_RULE;
        assert_eq!(ruled(&outcomes(&[(last, 0)])), Ok(true));
        // No subsystem at all, or no module for an expression.
        assert_eq!(ruled(&outcomes(&[(1, -libc::EOPNOTSUPP)])), Ok(false));
        assert_eq!(ruled(&outcomes(&[(8, -libc::ENOENT), (last, 0)])), Ok(false));
        assert_eq!(ruled(&outcomes(&[(3, -libc::EPERM)])), Err(Errno::PERM));
        assert_eq!(ruled(&outcomes(&[])), Err(Errno::PROTO));
    }
}
