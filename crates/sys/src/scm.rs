//! Messages with descriptors beside them, over a unix socket.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most descriptors beside one message.
pub const DESCRIPTORS_MAX: usize = 64;

/// Sends `bytes` as one message, with a descriptor if one is given.
///
/// Source: unix(7), `SCM_RIGHTS`.
///
/// # Errors
///
/// Those of sendmsg(2); `EPIPE` when the other side is gone.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    send_all(socket, bytes, fd.as_slice())
}

/// Sends `bytes` as one message with all of `fds`, of which there may be none. Touches
/// neither the heap nor errno.
///
/// Source: unix(7), `SCM_RIGHTS`.
///
/// # Errors
///
/// Those of sendmsg(2); `EPIPE` when the other side is gone; `EINVAL` for more than
/// [`DESCRIPTORS_MAX`].
pub fn send_all(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if fds.len() > DESCRIPTORS_MAX
        || (!fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)))
    {
        return Err(rustix::io::Errno::INVAL.into());
    }
    let slices = [IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message into `buffer`: its length (0 means the other side is
/// gone) and a descriptor if one came.
///
/// # Errors
///
/// Those of recvmsg(2).
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut last = None;
    let keep = |fd| last = Some(fd);
    let (length, _) = receive_into(socket, buffer, &mut space, keep)?;
    Ok((length, last))
}

/// Receives one message into `buffer` with the descriptors that came, in their order.
///
/// # Errors
///
/// Those of recvmsg(2); `InvalidData` where the message is longer than `buffer` or has more
/// than [`DESCRIPTORS_MAX`] descriptors: then it is gone, and they are closed.
pub fn receive_all(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut fds = Vec::new();
    let keep = |fd| fds.push(fd);
    let (length, flags) = receive_into(socket, buffer, &mut space, keep)?;
    if flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) || fds.len() > DESCRIPTORS_MAX {
        let text = "a message that is too long, or has too many descriptors";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok((length, fds))
}

fn receive_into(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    space: &mut [MaybeUninit<u8>],
    keep: impl FnMut(OwnedFd),
) -> io::Result<(usize, ReturnFlags)> {
    let mut ancillary = RecvAncillaryBuffer::new(space);
    let mut slices = [IoSliceMut::new(buffer)];
    let message =
        rustix::net::recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    ancillary
        .drain()
        .filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        })
        .flatten()
        .for_each(keep);
    Ok((message.bytes, message.flags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsFd as _, AsRawFd as _};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn descriptors_come_in_their_order_and_close_on_exec() {
        let (ours, theirs) = pair();
        let pipes: Vec<_> = (0..DESCRIPTORS_MAX).map(|_| std::io::pipe().unwrap()).collect();
        let ends: Vec<_> = pipes.iter().map(|(_, end)| end.as_fd()).collect();
        send_all(ours.as_fd(), b"here", &ends).unwrap();
        send_all(ours.as_fd(), b"none", &[]).unwrap();
        let mut buffer = [0; 16];
        let (length, fds) = receive_all(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..length], fds.len()), (&b"here"[..], DESCRIPTORS_MAX));
        for fd in &fds {
            let flags = rustix::io::fcntl_getfd(fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        for (number, fd) in fds.into_iter().enumerate() {
            std::fs::File::from(fd).write_all(&[u8::try_from(number).unwrap()]).unwrap();
        }
        for (number, (mut reader, _)) in pipes.into_iter().enumerate() {
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            assert_eq!(usize::from(byte[0]), number);
        }
        let (length, fds) = receive_all(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..length], fds.len()), (&b"none"[..], 0));
        drop(ours);
        assert_eq!(receive_all(theirs.as_fd(), &mut buffer).unwrap().0, 0);
    }

    #[test]
    fn what_is_too_long_is_refused_and_leaves_no_descriptor() {
        let (ours, theirs) = pair();
        let (_, end) = std::io::pipe().unwrap();
        let many = [end.as_fd(); DESCRIPTORS_MAX + 1];
        let refused = send_all(ours.as_fd(), b"x", &many).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        let mut buffer = [0; 4];
        send_all(ours.as_fd(), b"longer", &many[..1]).unwrap();
        let before = next_number();
        let refused = receive_all(theirs.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert_eq!(next_number(), before);
        send_all(ours.as_fd(), b"fits", &many[..1]).unwrap();
        assert_eq!(receive_all(theirs.as_fd(), &mut buffer).unwrap().1.len(), 1);
    }

    #[test]
    fn one_descriptor_is_the_same_with_either_form() {
        let (ours, theirs) = pair();
        let (mut reader, end) = std::io::pipe().unwrap();
        let mut buffer = [0; 4];
        send(ours.as_fd(), b"a", Some(end.as_fd())).unwrap();
        assert_eq!(receive_all(theirs.as_fd(), &mut buffer).unwrap().1.len(), 1);
        send_all(ours.as_fd(), b"b", &[end.as_fd()]).unwrap();
        let (length, fd) = receive(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..length], fd.is_some()), (&b"b"[..], true));
        drop((end, fd));
        // Nothing holds the pipe any more.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }

    /// The number that the next descriptor gets: tests run in processes of their own.
    fn next_number() -> i32 {
        std::fs::File::open("/dev/null").unwrap().as_raw_fd()
    }
}
