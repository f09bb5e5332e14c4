//! Addresses that mean something inside a sandbox.

use ipnet::Ipv4Net;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The sandbox's own.
pub const OWN: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// The sandbox's own.
pub const OWN_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xa701, 0, 0, 0, 0, 0, 2);

/// The DNS server that programs are told of; questions to any other address are answered as well.
pub const DNS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Where names that are refused lead to, to be told why.
pub const EXPLAIN: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);

/// Of [`DNS`]: a proxy for programs that want one.
pub const PROXY_PORT: u16 = 3128;

/// Where connections to every address end up.
pub const LISTENER_PORT: u16 = 15_001;

/// Addresses that stand for names unless a policy says otherwise: ordinary ones, since programs
/// that fetch pages for agents refuse private ones, of a range that is announced by nobody.
pub const STAND_INS: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(11, 0, 0, 0), 15);

/// What an address is to who connects to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The sandbox itself: such connections do not come here, unless somebody tries something.
    Own,
    /// The gateway's own services.
    Gateway,
    /// Where it is told why a name was refused.
    Explain,
    /// Another one.
    Host(IpAddr),
}

/// What an address means.
pub(super) fn meaning(address: IpAddr) -> Meaning {
    match address {
        IpAddr::V4(OWN) | IpAddr::V6(OWN_6) => Meaning::Own,
        IpAddr::V4(DNS) => Meaning::Gateway,
        IpAddr::V4(EXPLAIN) => Meaning::Explain,
        address if address.is_loopback() || address.is_unspecified() => Meaning::Own,
        address => Meaning::Host(address),
    }
}
