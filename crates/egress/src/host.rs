//! Whom a connection is meant for: a name, or an address that no name led to.

use crate::name::Name;
use crate::policy;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Whom a connection is meant for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// The host of a name.
    Name(Name),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// As the policy asks for it.
    #[must_use]
    pub const fn as_policy(&self) -> policy::Host<'_> {
        match self {
            Self::Name(name) => policy::Host::Name(name),
            Self::Address(address) => policy::Host::Address(*address),
        }
    }

    /// Reads what stands in front of the port in an authority: IPv6 is in brackets there.
    #[must_use]
    pub fn from_authority(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address)));
        }
        if let Ok(address) = text.parse() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        text.parse().ok().map(Self::Name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => fmt::Display::fmt(name, f),
            Self::Address(IpAddr::V4(address)) => fmt::Display::fmt(address, f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl From<Name> for Host {
    fn from(name: Name) -> Self {
        Self::Name(name)
    }
}
