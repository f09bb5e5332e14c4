//! TCP ports on the sandbox's loopback.

use atoll_protocol::ports::Listening;
use atoll_protocol::problem::{Code, Problem};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// What listens, by proc_pid_net(5), but for sockets of our own, which have these inodes.
///
/// # Errors
///
/// A problem where `/proc` cannot be read.
pub(super) fn listening(own: &[u64]) -> Result<Vec<Listening>, Problem> {
    let mut found = Vec::new();
    for name in ["tcp", "tcp6"] {
        match fs::read_to_string(format!("/proc/self/net/{name}")) {
            Ok(text) => {
                let others = text.lines().skip(1).filter_map(parse);
                found.extend(
                    others.filter_map(|(one, inode)| (!own.contains(&inode)).then_some(one)),
                );
            }
            // IPv6 may be off.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && name == "tcp6" => {}
            Err(error) => {
                let text = format!("cannot read the sandbox's ports: {error}");
                return Err(Problem::new(Code::Failed, text).with_errno(error.raw_os_error()));
            }
        }
    }
    found.sort_by_key(|one: &Listening| (one.port, !one.is_any_address));
    found.dedup_by_key(|one| one.port);
    Ok(found)
}

/// A line of a socket that listens (state 0A), and its inode:
/// `sl: address:port remote state queues timer retransmitted uid timeout inode …`.
fn parse(line: &str) -> Option<(Listening, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (address, port) = fields.next()?.split_once(':')?;
    let _remote = fields.next()?;
    if fields.next()? != "0A" {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    let inode = fields.nth(5)?.parse().ok()?;
    let is_any_address = address.bytes().all(|digit| digit == b'0');
    Some((Listening { port, is_any_address }, inode))
}

/// How long a connection to a port may take where that may be waited for.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Connects to a port on 127.0.0.1, then on ::1, without waiting; none if that
/// takes a while.
///
/// # Errors
///
/// Nothing listens there, or there is no socket to be had.
pub(super) fn connect_at_once(port: u16) -> Result<Option<OwnedFd>, Problem> {
    on_loopback(port, |_| Ok(false))
}

/// The same, and waits for a while.
///
/// # Errors
///
/// The same, or nobody accepts.
pub(super) fn connect_and_wait(port: u16) -> Result<OwnedFd, Problem> {
    let wait = |socket: &OwnedFd| {
        let ready = poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&PATIENCE))?;
        if ready == 0 {
            return Err(Errno::TIMEDOUT);
        }
        rustix::net::sockopt::socket_error(socket)?.map(|()| true)
    };
    on_loopback(port, wait)?.ok_or_else(|| nobody(port, Errno::TIMEDOUT))
}

/// Tries each address; `wait` says whether a connection that takes a while is there.
fn on_loopback(
    port: u16,
    wait: impl Fn(&OwnedFd) -> rustix::io::Result<bool>,
) -> Result<Option<OwnedFd>, Problem> {
    let mut refused = Errno::CONNREFUSED;
    for address in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match rustix::net::socket_with(family, SocketType::STREAM, flags, None) {
            Ok(socket) => socket,
            Err(Errno::AFNOSUPPORT) => continue,
            Err(error) => {
                let text = format!("no socket to connect with: {error}");
                let errno = Some(error.raw_os_error());
                return Err(Problem::new(Code::Limit, text).with_errno(errno));
            }
        };
        let connected = match rustix::net::connect(&socket, &SocketAddr::new(address, port)) {
            Ok(()) => Ok(true),
            Err(Errno::INPROGRESS) => wait(&socket),
            Err(error) => Err(error),
        };
        match connected {
            Ok(is_there) => return Ok(is_there.then_some(socket)),
            Err(error) => refused = error,
        }
    }
    Err(nobody(port, refused))
}

/// Nothing accepts connections there.
fn nobody(port: u16, error: Errno) -> Problem {
    let code = if error == Errno::CONNREFUSED { Code::NotFound } else { Code::Failed };
    Problem::new(code, format!("cannot connect to port {port} inside the sandbox: {error}"))
        .with_errno(Some(error.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_are_ports() {
        let head = "   0: 0100007F:1F90 00000000:0000 ";
        let rest = "00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0";
        let port =
            |line: &str| parse(line).map(|(one, inode)| (one.port, one.is_any_address, inode));
        assert_eq!(port(&format!("{head}0A {rest}")), Some((8080, false, 4711)));
        assert_eq!(port(&format!("{head}01 {rest}")), None);
        assert_eq!(port(&format!("{head}0A 00000000:00000000")), None);
        let any =
            "1: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A";
        assert_eq!(port(&format!("{any} {rest}")), Some((80, true, 4711)));
        assert_eq!(port("garbage"), None);
        assert_eq!(port("0: 0100007F:FFFFF 0 0A"), None);
    }
}
