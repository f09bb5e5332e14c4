//! What kind of place an address leads to.
//!
//! The address that is judged is the one that is dialled: names are looked up once, and an
//! answer that leads inside is refused unless a rule grants its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Somewhere on the internet.
    Public,
    /// A network of somebody's own: RFC 1918, RFC 4193, shared address space (RFC 6598).
    Private,
    /// The same link (RFC 3927, RFC 4291).
    LinkLocal,
    /// This machine.
    Loopback,
    /// Nothing that can be talked to over TCP: unspecified, multicast, documentation and other
    /// reserved blocks (RFC 6890).
    Reserved,
    /// The service that tells a cloud machine its own secrets.
    Metadata,
}

impl Reach {
    /// A stable word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Loopback => "loopback",
            Self::Reserved => "reserved",
            Self::Metadata => "metadata",
        }
    }
}

/// Metadata services of clouds, of which some lie in public or private networks: AWS, Azure,
/// GCP and most others; AWS for containers; Alibaba; Azure's agent; Oracle.
const METADATA: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same in IPv6: AWS, GCP, AWS for containers.
const METADATA_6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
];

/// Where `address` leads. One that carries another inside leads where that one does, or where
/// it says itself, whichever is worse.
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_4(address),
        IpAddr::V6(address) => {
            let own = reach_6(address);
            embedded(address).map_or(own, |inner| reach_4(inner).max(own))
        }
    }
}

/// The IPv4 address that is meant, where an IPv6 address carries one: mapped and compatible
/// (RFC 4291, section 2.5.5), translated (RFC 6052, with the well-known prefix), 6to4
/// (RFC 3056), ISATAP (RFC 5214).
#[must_use]
pub fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let groups = address.segments();
    let at = |group: usize| {
        let [a, b] = groups[group].to_be_bytes();
        let [c, d] = groups[group + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match groups {
        // `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => Some(at(6)),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(at(6)),
        [0x2002, ..] => Some(at(1)),
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(at(6)),
        _ => None,
    }
}

fn reach_4(address: Ipv4Addr) -> Reach {
    if METADATA.contains(&address) {
        return Reach::Metadata;
    }
    match address.octets() {
        [127, ..] => Reach::Loopback,
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => Reach::Private,
        [169, 254, ..] => Reach::LinkLocal,
        // "This network", protocol assignments, documentation, relays, benchmarks, multicast,
        // and what is kept for later.
        [0 | 224..=255, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Reach::Reserved,
        _ => Reach::Public,
    }
}

fn reach_6(address: Ipv6Addr) -> Reach {
    if METADATA_6.contains(&address) {
        return Reach::Metadata;
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Loopback,
        // What they carry is judged beside.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x2002, ..] => {
            Reach::Public
        }
        // Translation inside somebody's own network (RFC 8215).
        [0x64, 0xff9b, 1, ..] | [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Reach::Private,
        [0xfe80..=0xfebf, ..] => Reach::LinkLocal,
        // Protocol assignments with Teredo and ORCHID, and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Reserved,
        [0x2000..=0x3fff, ..] => Reach::Public,
        // Unspecified, compatible, discard, multicast, and what was never given out.
        _ => Reach::Reserved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Reach {
        reach(text.parse().unwrap())
    }

    #[test]
    fn every_spelling_of_what_is_inside() {
        for (text, expected) in [
            ("8.8.8.8", Reach::Public),
            ("172.32.0.1", Reach::Public),
            ("100.128.0.1", Reach::Public),
            ("2606:4700::1111", Reach::Public),
            ("127.0.0.1", Reach::Loopback),
            ("127.255.255.254", Reach::Loopback),
            ("::1", Reach::Loopback),
            ("::ffff:127.0.0.1", Reach::Loopback),
            ("64:ff9b::7f00:1", Reach::Loopback),
            ("2002:7f00:1::", Reach::Loopback),
            ("10.0.0.1", Reach::Private),
            ("172.16.0.1", Reach::Private),
            ("192.168.1.1", Reach::Private),
            ("100.64.0.1", Reach::Private),
            ("::ffff:10.0.0.1", Reach::Private),
            ("2002:c0a8:101::1", Reach::Private),
            ("fd12:3456::1", Reach::Private),
            ("fec0::1", Reach::Private),
            ("64:ff9b:1::a00:1", Reach::Private),
            ("2a00:1::5efe:a00:1", Reach::Private),
            ("169.254.1.1", Reach::LinkLocal),
            ("fe80::1", Reach::LinkLocal),
            ("169.254.169.254", Reach::Metadata),
            ("::ffff:169.254.169.254", Reach::Metadata),
            ("64:ff9b::a9fe:a9fe", Reach::Metadata),
            ("2002:a9fe:a9fe::", Reach::Metadata),
            ("fe80::5efe:a9fe:a9fe", Reach::Metadata),
            ("fd00:ec2::254", Reach::Metadata),
            ("168.63.129.16", Reach::Metadata),
            ("100.100.100.200", Reach::Metadata),
            ("0.0.0.0", Reach::Reserved),
            ("0.1.2.3", Reach::Reserved),
            ("::", Reach::Reserved),
            ("::ffff:0.0.0.0", Reach::Reserved),
            ("::127.0.0.1", Reach::Reserved),
            ("255.255.255.255", Reach::Reserved),
            ("224.0.0.251", Reach::Reserved),
            ("ff02::fb", Reach::Reserved),
            ("192.0.2.1", Reach::Reserved),
            ("198.18.0.1", Reach::Reserved),
            ("2001:db8::1", Reach::Reserved),
            ("2001:0:7f00:1::", Reach::Reserved),
            ("100::1", Reach::Reserved),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn who_carries_what_is_inside_is_never_public(inner: u32) {
            let inner = Ipv4Addr::from(inner);
            let [a, b, c, d] = inner.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for carrier in [
                inner.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            ] {
                prop_assert_eq!(embedded(carrier), Some(inner));
                prop_assert_eq!(reach(carrier.into()), reach(inner.into()));
            }
        }
    }
}
