//! Datagrams that were sent to whatever address: to which one, and answers that come from there.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A datagram's bytes are in the caller's buffer; this is the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// How many bytes it has. What did not fit the buffer is lost.
    pub length: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// The address that it was sent to.
    pub to: IpAddr,
}

/// Room for one `in6_pktinfo` with its header, aligned as headers are.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Takes one datagram from a socket that has `IP_PKTINFO` or `IPV6_RECVPKTINFO` set, and
/// never waits for one: whether a socket waits is up to everybody who holds it.
///
/// Source: ip(7), ipv6(7), cmsg(3).
///
/// # Errors
///
/// Those of recvmsg(2), `EAGAIN` where there is none; `InvalidData` where the kernel does not say whose it is.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    // SAFETY: all bytes zero are a value of this plain C struct.
    let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut control = Control([0; 64]);
    let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: as above.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = length_of::<libc::sockaddr_storage>();
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: every pointer in `message` leads to a value of ours that is as long as is said.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let Ok(length) = usize::try_from(length) else { return Err(io::Error::last_os_error()) };
    let unsaid = || io::Error::new(io::ErrorKind::InvalidData, "the kernel says no address");
    let from = address(&name).ok_or_else(unsaid)?;
    let control = control.0.get(..message.msg_controllen).unwrap_or_default();
    let to = asked(control).ok_or_else(unsaid)?;
    Ok(Received { length, from, to })
}

/// Sends one datagram as if from `from`, which the network namespace must have as its own.
///
/// # Errors
///
/// Those of sendmsg(2); `EAGAIN` where there is no room, which is not waited for.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<()> {
    // SAFETY: all bytes zero are a value of this plain C struct.
    let mut name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let name_length = put(&mut name, to);
    let mut control = Control([0; 64]);
    let mut slice =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: as above.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = name_length;
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_controllen = match from {
        IpAddr::V4(from) => {
            let info = [&[0; 4][..], &from.octets(), &[0; 4]].concat();
            put_control(&mut control, libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
        }
        IpAddr::V6(from) => {
            let info = [&from.octets()[..], &[0; 4]].concat();
            put_control(&mut control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
        }
    };
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: every pointer in `message` leads to a value of ours that is as long as is said, and
    // the kernel only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

// A control message: its length, level and kind, then its data, each where a pointer could be
// (cmsg(3), on machines of 64 bits).
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
const ALIGNED_TO: usize = size_of::<usize>();

/// Puts one control message into `control`; how long it is.
fn put_control(control: &mut Control, level: i32, kind: i32, data: &[u8]) -> usize {
    let length = HEADER_BYTES + data.len();
    let parts = [&length.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), data];
    let bytes = parts.concat();
    control.0[..bytes.len()].copy_from_slice(&bytes);
    length.next_multiple_of(ALIGNED_TO)
}

/// The address that a datagram was sent to, in the control messages that came with it.
fn asked(mut control: &[u8]) -> Option<IpAddr> {
    loop {
        let (head, _) = control.split_at_checked(HEADER_BYTES)?;
        let (length, rest) = head.split_first_chunk()?;
        let length = usize::from_ne_bytes(*length);
        let (level, rest) = rest.split_first_chunk()?;
        let (kind, _) = rest.split_first_chunk()?;
        let data = control.get(HEADER_BYTES..length)?;
        match (i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind)) {
            // struct in_pktinfo: the interface, the address of the route, the one in the packet.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let octets: [u8; 4] = data.get(8..12)?.try_into().ok()?;
                return Some(Ipv4Addr::from(octets).into());
            }
            // struct in6_pktinfo: the address, the interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let octets: [u8; 16] = data.get(..16)?.try_into().ok()?;
                return Some(Ipv6Addr::from(octets).into());
            }
            _ => control = control.get(length.next_multiple_of(ALIGNED_TO)..)?,
        }
    }
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of these, and the storage is aligned for and
            // as long as all of them.
            let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from_bits(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddrV4::new(address, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(address, port, 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Writes an address; how long it is.
fn put(name: &mut libc::sockaddr_storage, address: SocketAddr) -> libc::socklen_t {
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: the storage is aligned for and as long as addresses of all families.
            let name = unsafe { &mut *std::ptr::from_mut(name).cast::<libc::sockaddr_in>() };
            name.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0);
            name.sin_port = address.port().to_be();
            name.sin_addr.s_addr = address.ip().to_bits().to_be();
            length_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            // SAFETY: as above.
            let name = unsafe { &mut *std::ptr::from_mut(name).cast::<libc::sockaddr_in6>() };
            name.sin6_family = libc::sa_family_t::try_from(libc::AF_INET6).unwrap_or(0);
            name.sin6_port = address.port().to_be();
            name.sin6_addr.s6_addr = address.ip().octets();
            name.sin6_scope_id = address.scope_id();
            length_of::<libc::sockaddr_in6>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt;
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    #[test]
    fn the_address_asked_is_told_and_answers() {
        // All of 127/8 is ours; of IPv6 one address is.
        for (bound, asked) in [("0.0.0.0:0", "127.3.2.1"), ("[::]:0", "::1")] {
            let server = match UdpSocket::bind(bound) {
                Ok(server) => server,
                Err(error) => panic!("{bound}: {error}"),
            };
            let on: libc::c_int = 1;
            let (level, option) = match bound.starts_with('[') {
                true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
                false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            };
            // SAFETY: the value is an int that lives, as both options take one.
            let set = unsafe {
                libc::setsockopt(
                    server.as_raw_fd(),
                    level,
                    option,
                    (&raw const on).cast(),
                    length_of::<libc::c_int>(),
                )
            };
            assert_eq!(set, 0);
            assert!(sockopt::socket_type(&server).is_ok());
            let asked: IpAddr = asked.parse().unwrap();
            let to = SocketAddr::new(asked, server.local_addr().unwrap().port());
            let client = UdpSocket::bind(SocketAddr::new(
                if asked.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { asked },
                0,
            ))
            .unwrap();
            client.connect(to).unwrap();
            client.send(b"who").unwrap();
            let mut buffer = [0; 16];
            let got = receive(server.as_fd(), &mut buffer).unwrap();
            assert_eq!((got.length, got.to), (3, asked));
            assert_eq!(got.from, client.local_addr().unwrap());
            // A connected socket hears nobody else.
            send(server.as_fd(), b"me", got.to, got.from).unwrap();
            assert_eq!(client.recv(&mut buffer).unwrap(), 2);
        }
    }
}
