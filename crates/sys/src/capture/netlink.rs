//! A conversation with the kernel over netlink: messages, and what became of each.

use super::bytes::Bytes;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Most messages whose outcome is told apart.
const MESSAGES_MAX: usize = 64;

/// What the kernel said to messages, by their numbers.
pub(super) struct Outcomes([Outcome; MESSAGES_MAX]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing was said: it was not asked to, or has not come so far.
    Silence,
    Done,
    Failed(Errno),
}

impl Default for Outcomes {
    fn default() -> Self {
        Self([Outcome::Silence; MESSAGES_MAX])
    }
}

impl Outcomes {
    pub(super) fn of(&self, number: u8) -> Outcome {
        self.0.get(usize::from(number)).copied().unwrap_or(Outcome::Silence)
    }

    /// What failed first.
    pub(super) fn failure(&self) -> Option<Errno> {
        self.0.iter().find_map(|outcome| match outcome {
            Outcome::Failed(errno) => Some(*errno),
            Outcome::Silence | Outcome::Done => None,
        })
    }

    /// Takes up one message of the kernel's (`struct nlmsghdr` and `struct nlmsgerr`).
    pub(super) fn take(&mut self, bytes: &[u8]) {
        const NLMSG_ERROR: u16 = 2;
        let Some((head, rest)) = bytes.split_first_chunk::<16>() else { return };
        let Some(errno) = rest.first_chunk::<4>() else { return };
        if u16::from_ne_bytes([head[4], head[5]]) != NLMSG_ERROR {
            return;
        }
        let number = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
        let errno = i32::from_ne_bytes(*errno);
        let outcome = usize::try_from(number).ok().and_then(|number| self.0.get_mut(number));
        if let Some(outcome @ (Outcome::Silence | Outcome::Done)) = outcome {
            *outcome = match errno {
                0 => Outcome::Done,
                errno => Outcome::Failed(Errno::from_raw_os_error(errno.wrapping_neg())),
            };
        }
    }
}

/// Sends all messages at once and hears what the kernel says, which it does before the send
/// returns. Touches neither the heap nor errno.
///
/// Source: netlink(7).
///
/// # Errors
///
/// `EPROTONOSUPPORT` where the kernel has no such protocol.
pub(super) fn exchange<const N: usize>(
    protocol: Option<Protocol>,
    messages: &Bytes<N>,
) -> Result<Outcomes, Errno> {
    let kind = SocketType::RAW;
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, protocol)?;
    let bytes = messages.as_slice();
    if rustix::net::send(&socket, bytes, SendFlags::empty())? != bytes.len() {
        return Err(Errno::MSGSIZE);
    }
    let mut outcomes = Outcomes::default();
    loop {
        let mut answer = [0; 2048];
        match rustix::net::recv(&socket, &mut answer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => outcomes.take(answer.get(..length).unwrap_or_default()),
            Err(Errno::AGAIN) => return Ok(outcomes),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// What the kernel says to a message.
#[cfg(test)]
pub(super) fn said(number: u32, errno: i32) -> Vec<u8> {
    let head = [36_u32.to_ne_bytes(), [2, 0, 0, 0], number.to_ne_bytes(), [0; 4]];
    [&head.concat()[..], &errno.to_ne_bytes(), &[0; 16]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_told_by_number_and_a_failure_stays_one() {
        let mut outcomes = Outcomes::default();
        outcomes.take(&said(2, 0));
        outcomes.take(&said(5, -libc::EOPNOTSUPP));
        outcomes.take(&said(5, 0));
        outcomes.take(&said(u32::MAX, -1));
        outcomes.take(&said(3, -1)[..18]);
        outcomes.take(&[]);
        assert_eq!(outcomes.of(2), Outcome::Done);
        assert_eq!(outcomes.of(3), Outcome::Silence);
        assert_eq!(outcomes.of(5), Outcome::Failed(Errno::OPNOTSUPP));
        assert_eq!(outcomes.failure(), Some(Errno::OPNOTSUPP));
    }
}
