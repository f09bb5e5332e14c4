//! Connections that cannot come about, told for what they are.
//!
//! The workload's network namespace has no way out, so the kernel refuses by
//! itself, and at once; but "Network is unreachable" says neither whose doing it
//! is nor what was wanted. So connect(2) is handed over, its address is read for
//! the report, and then the kernel runs the call as if nobody had looked.
//! Another thread may change the address meanwhile: that changes what is told,
//! never what is allowed.

use crate::judge::{Class, Denial};
use crate::seccomp::Trap;
use atoll_sys::notify::Notification;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// The call that is told of; its answer is always to go on.
pub const CONNECT: Trap = Trap { number: CONNECT_NUMBER, when: None };

#[expect(clippy::cast_possible_truncation, reason = "a small number")]
const CONNECT_NUMBER: u32 = libc::SYS_connect as u32;

/// Targets that are told; a scan of a network is not told address by address.
const TOLD_MAX: usize = 256;

/// Where names are looked up: nothing can listen there, since nobody inside may
/// bind a port below 1024.
const LOOKUP_PORT: u16 = 53;

// sockaddr_in and sockaddr_in6, ip(7) and ipv6(7): family, port, then the address
// or the flow label and the address.
const INET_BYTES: usize = 16;
const INET6_BYTES: usize = 28;

/// What has been told.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    told: BTreeSet<SocketAddr>,
}

impl Connections {
    /// Says whether the call is one to look at and let go on.
    pub(crate) fn concerns(notification: &Notification) -> bool {
        u32::try_from(notification.number) == Ok(CONNECT_NUMBER)
    }

    /// What there is to tell of a connection, once for each target. `read` copies
    /// the caller's memory; where that fails there is nothing to tell.
    pub(crate) fn denial(
        &mut self,
        notification: &Notification,
        read: impl FnOnce(u64, &mut [u8]) -> bool,
    ) -> Option<Denial> {
        if self.told.len() >= TOLD_MAX {
            return None;
        }
        let [_, address, length, ..] = notification.args;
        let mut buffer = [0; INET6_BYTES];
        // The length is an int to the kernel.
        let length = usize::try_from(length & 0xffff_ffff).ok()?.min(INET6_BYTES);
        let bytes = buffer.get_mut(..length).filter(|bytes| bytes.len() >= INET_BYTES)?;
        if !read(address, bytes) {
            return None;
        }
        let target = target(bytes)?;
        let is_here = target.ip().is_loopback() || target.ip().is_unspecified();
        let (operation, detail) = match target.port() {
            LOOKUP_PORT if is_here => ("name lookup", None),
            _ if is_here => return None,
            _ => ("connect", Some(target.to_string())),
        };
        self.told.insert(target).then(|| Denial {
            rule: "network.none",
            class: Class::Network,
            operation,
            path: PathBuf::new(),
            pid: notification.pid,
            detail,
            suggestion: None,
        })
    }
}

/// The address that a `struct sockaddr` names, if it is of the internet.
fn target(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let ip = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => IpAddr::from(*rest.first_chunk::<4>()?),
        libc::AF_INET6 => Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(ip: [u8; 4], port: u16) -> Vec<u8> {
        let mut bytes = 2_u16.to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend(ip);
        bytes.resize(16, 0);
        bytes
    }

    fn inet6(ip: &str, port: u16) -> Vec<u8> {
        let mut bytes = 10_u16.to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(ip.parse::<Ipv6Addr>().unwrap().octets());
        bytes.resize(28, 0);
        bytes
    }

    fn told(connections: &mut Connections, memory: &[u8]) -> Option<String> {
        let length = memory.len() as u64;
        let number = i64::from(CONNECT_NUMBER);
        let args = [3, 0x1000, 0xffff_ffff_0000_0000 | length, 0, 0, 0];
        let call = Notification { id: 1, pid: 7, number, arch: 0, args };
        assert!(Connections::concerns(&call));
        let denial = connections.denial(&call, |_, buffer| {
            buffer.copy_from_slice(&memory[..buffer.len()]);
            true
        })?;
        Some([denial.operation, denial.detail.as_deref().unwrap_or("-")].join(" "))
    }

    #[test]
    fn what_leaves_the_machine_is_told_once_and_loopback_is_not() {
        let mut all = Connections::default();
        let mut told = |memory: &[u8]| told(&mut all, memory);
        let web = inet([93, 184, 216, 34], 443);
        assert_eq!(told(&web).as_deref(), Some("connect 93.184.216.34:443"));
        assert_eq!(told(&web), None);
        assert_eq!(told(&inet6("2001:db8::1", 80)).as_deref(), Some("connect [2001:db8::1]:80"));
        assert_eq!(told(&inet6("::ffff:10.0.0.1", 1)).as_deref(), Some("connect 10.0.0.1:1"));
        assert_eq!(told(&inet([127, 0, 0, 1], 8080)), None);
        assert_eq!(told(&inet([0, 0, 0, 0], 80)), None);
        assert_eq!(told(&inet6("::1", 80)), None);
        assert_eq!(told(&inet6("::ffff:127.0.0.1", 80)), None);
        assert_eq!(told(&inet([127, 0, 0, 1], 53)).as_deref(), Some("name lookup -"));
        assert_eq!(told(&inet([127, 0, 0, 1], 53)), None);
    }

    #[test]
    fn other_families_short_addresses_and_a_flood_are_not_told() {
        let mut all = Connections::default();
        assert_eq!(told(&mut all, &1_u16.to_ne_bytes().repeat(14)), None);
        assert_eq!(told(&mut all, &inet([1, 1, 1, 1], 1)[..8]), None);
        assert_eq!(told(&mut all, &inet6("2001:db8::1", 80)[..20]), None);
        for port in 0..=300 {
            told(&mut all, &inet([1, 1, 1, 1], port));
        }
        assert_eq!(told(&mut all, &inet([1, 1, 1, 1], 301)), None);
        assert_eq!(all.told.len(), TOLD_MAX);
    }
}
