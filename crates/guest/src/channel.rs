//! One operation's connection, as a worker has it: blocking, frames in and out.

use atoll_protocol::frame::{self, Decoder, Frame, FrameError, Kind};
use atoll_protocol::problem::Problem;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use serde::Serialize;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A connected socket and what has been received of it.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
    decoder: Decoder,
    has_ended: bool,
}

/// Why there is no next frame.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// What came is no frame.
    #[error("the host sent what is no frame")]
    Malformed(#[source] FrameError),
    /// The host is gone, and had begun to say something.
    #[error("the connection was cut off within a frame")]
    CutOff,
    /// The socket failed.
    #[error("could not receive from the host")]
    Socket(#[source] io::Error),
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Channel {
    /// Takes a socket that blocks, and a decoder with what came before.
    #[must_use]
    pub fn new(fd: OwnedFd, decoder: Decoder) -> Self {
        Self { fd, decoder, has_ended: false }
    }

    /// Waits for the next frame; none if the host is gone.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`].
    pub fn receive(&mut self) -> Result<Option<Frame<'_>>, ReceiveError> {
        while !self.decoder.is_ready().map_err(ReceiveError::Malformed)? {
            let length = match rustix::net::recv(
                &self.fd,
                self.decoder.space(),
                rustix::net::RecvFlags::empty(),
            ) {
                Ok((length, _)) => length,
                Err(Errno::INTR) => continue,
                // It closed without reading what we said.
                Err(Errno::CONNRESET) => 0,
                Err(errno) => return Err(ReceiveError::Socket(errno.into())),
            };
            if length == 0 && self.decoder.is_within_frame() {
                return Err(ReceiveError::CutOff);
            } else if length == 0 {
                return Ok(None);
            }
            self.decoder.filled(length);
        }
        let frame = self.decoder.next().map_err(ReceiveError::Malformed)?;
        self.has_ended |= frame.is_some_and(|frame| frame.kind == Kind::End);
        Ok(frame)
    }

    /// Reads and forgets what the host still sends, until its `End` or its own end.
    ///
    /// A host that sends a file sees why that failed only when it looks; if the
    /// socket were closed before, what was said might be lost.
    pub fn drain(&mut self) {
        while !self.has_ended && matches!(self.receive(), Ok(Some(_))) {}
    }

    /// Sends a frame that says `value`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it is too long, and then nothing was sent; else those of
    /// sendmsg(2), `BrokenPipe` if the host is gone.
    pub fn send(&mut self, kind: Kind, value: &impl Serialize) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::put_json(&mut bytes, kind, value)?;
        self.send_all(&bytes, &[])
    }

    /// Sends a frame with these bytes, which are not copied.
    ///
    /// # Errors
    ///
    /// As [`Channel::send`].
    ///
    /// # Panics
    ///
    /// If no frame of that kind has so many bytes.
    pub fn send_raw(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        self.send_all(&frame::header(kind, payload.len()), payload)
    }

    /// Sends a frame that says `value`, with a descriptor beside its first byte.
    ///
    /// # Errors
    ///
    /// As [`Channel::send`].
    pub fn send_with(
        &mut self,
        kind: Kind,
        value: &impl Serialize,
        fd: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::put_json(&mut bytes, kind, value)?;
        atoll_sys::scm::send(self.fd.as_fd(), &bytes, Some(fd))
    }

    /// Waits so long; says whether the host has gone meanwhile.
    ///
    /// # Errors
    ///
    /// Those of poll(2).
    pub fn waits_for_end(&mut self, timeout: &Timespec) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        // There is nothing that the host would say, so it is its end.
        Ok(poll(&mut fds, Some(timeout))? > 0)
    }

    /// Says why the operation failed.
    ///
    /// # Errors
    ///
    /// As [`Channel::send`].
    pub fn send_problem(&mut self, problem: &Problem) -> io::Result<()> {
        self.send(Kind::Problem, problem)
    }

    fn send_all(&self, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
        while !first.is_empty() || !second.is_empty() {
            let slices = [IoSlice::new(first), IoSlice::new(second)];
            let mut none = SendAncillaryBuffer::default();
            match rustix::net::sendmsg(&self.fd, &slices, &mut none, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    let of_first = sent.min(first.len());
                    first = &first[of_first..];
                    second = &second[sent - of_first..];
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, Channel) {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        (ours.into(), Channel::new(theirs, Decoder::default()))
    }

    #[test]
    fn an_end_between_frames_is_clean_and_one_within_is_told() {
        let whole = frame::header(Kind::End, 0);
        let (mut host, mut channel) = pair();
        host.write_all(&whole).unwrap();
        drop(host);
        assert_eq!(channel.receive().unwrap().map(|frame| frame.kind), Some(Kind::End));
        assert!(channel.receive().unwrap().is_none());

        let (mut host, mut channel) = pair();
        host.write_all(&whole[..3]).unwrap();
        drop(host);
        assert!(matches!(channel.receive(), Err(ReceiveError::CutOff)));

        let (mut host, mut channel) = pair();
        host.write_all(&[0, 0, 0, 0, 99]).unwrap();
        assert!(matches!(channel.receive(), Err(ReceiveError::Malformed(FrameError::Kind(99)))));
    }

    #[test]
    fn what_was_received_before_comes_first() {
        let (mut host, mut channel) = pair();
        let body = frame::header(Kind::Body, 2);
        channel.decoder.space()[..3].copy_from_slice(&body[..3]);
        channel.decoder.filled(3);
        host.write_all(&body[3..]).unwrap();
        host.write_all(b"ab").unwrap();
        assert_eq!(channel.receive().unwrap().unwrap().payload, b"ab");
    }

    #[test]
    fn long_frames_are_sent_whole_and_a_host_that_is_gone_is_an_error() {
        let (mut host, mut channel) = pair();
        let bytes = vec![7; frame::DATA_BYTES_MAX];
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                for _ in 0..8 {
                    channel.send_raw(Kind::Body, &bytes).unwrap();
                }
            });
            let mut got = vec![0; 8 * (frame::HEADER_BYTES + bytes.len())];
            host.read_exact(&mut got).unwrap();
            for frame in got.chunks(frame::HEADER_BYTES + bytes.len()) {
                assert_eq!(frame[..frame::HEADER_BYTES], frame::header(Kind::Body, bytes.len()));
                assert!(frame[frame::HEADER_BYTES..] == bytes);
            }
            sender.join().unwrap();
        });
        drop(host);
        let gone = channel.send_raw(Kind::Body, &bytes).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }
}
