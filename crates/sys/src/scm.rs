//! Messages with one descriptor beside them, over a unix socket.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Sends `bytes` as one message, with a descriptor if one is given.
///
/// Source: unix(7), `SCM_RIGHTS`.
///
/// # Errors
///
/// Those of sendmsg(2); `EPIPE` when the other side is gone.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
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
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(buffer)];
    let message =
        rustix::net::recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fd = None;
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            fd = rights.into_iter().last().or(fd);
        }
    }
    Ok((message.bytes, fd))
}
