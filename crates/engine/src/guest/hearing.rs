//! What a guest says on one connection, taken apart and doubted.

use super::error::{Cut, GuestError, Known};
use super::shared::Shared;
use atoll_protocol::exec::Stream;
use atoll_protocol::frame::{Decoder, Frame, JSON_BYTES_MAX, Kind};
use atoll_protocol::hello::Hello;
use atoll_protocol::problem::{MESSAGE_BYTES_MAX, Problem};
use atoll_protocol::request::{Event, Reply};
use bytes::Bytes;
use rustix::net::RecvFlags;
use serde::de::DeserializeOwned;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

/// Longest JSON of an answer that has no lists in it, in bytes. What is decoded
/// may take some times more memory than its text.
const SHORT_BYTES_MAX: usize = 64 << 10;

/// Fewer bytes than this that complete no frame are no sign of life: a frame must
/// not last for ever.
const PROGRESS_BYTES: usize = 4 << 10;

/// Heartbeats that may come at any time: those of a while in which nobody read.
const HEARTBEATS_AT_ONCE: u64 = 4096;

/// One frame of a guest that has its place somewhere.
#[derive(Debug)]
pub(super) enum Said {
    Hello(Hello),
    Reply(Reply),
    Problem(Problem),
    Output { stream: Stream, offset: u64, bytes: Bytes },
    Body(Bytes),
    Event(Event),
    End,
    Heartbeat,
}

/// Which answers are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// Short ones.
    Short,
    /// Lists.
    Long,
    /// One with a descriptor beside it.
    WithDescriptor,
}

#[derive(Debug)]
pub(super) struct Hearing {
    shared: Arc<Shared>,
    decoder: Decoder,
    answers: Answers,
    descriptor: Option<OwnedFd>,
    /// For a frame that takes much memory, as long as it comes.
    room: Option<OwnedSemaphorePermit>,
    /// Silence for too long is a loss.
    pub(super) is_supervised: bool,
    /// Since when there is nothing to read.
    waiting: Option<Instant>,
    began: Instant,
    heartbeats: u64,
    is_greeted: bool,
    pub(super) known: Known,
}

impl Hearing {
    pub(super) fn new(shared: Arc<Shared>, answers: Answers) -> Self {
        Self {
            shared,
            decoder: Decoder::default(),
            answers,
            descriptor: None,
            room: None,
            is_supervised: false,
            waiting: None,
            began: Instant::now(),
            heartbeats: 0,
            is_greeted: false,
            known: Known::NotAsked,
        }
    }

    /// Waits for the answer to a request; heartbeats may come before. Nothing is
    /// lost where this is dropped and called again.
    pub(super) async fn answer(&mut self, stream: &UnixStream) -> Result<Reply, GuestError> {
        loop {
            match self.next(stream).await? {
                Said::Hello(hello) if !self.is_greeted => {
                    hello.agree().map_err(GuestError::Version)?;
                    self.is_greeted = true;
                }
                Said::Heartbeat if self.is_greeted => {}
                Said::Reply(reply) if self.is_greeted => {
                    self.known = Known::Answered;
                    return Ok(reply);
                }
                Said::Problem(problem) if self.is_greeted => {
                    return Err(GuestError::Refused(problem));
                }
                said => return Err(out_of_place(&said)),
            }
        }
    }

    /// Waits for the next frame. Nothing is lost where this is dropped and called
    /// again.
    pub(super) async fn next(&mut self, stream: &UnixStream) -> Result<Said, GuestError> {
        loop {
            // A guest that sends ever more must not keep others from this thread.
            tokio::task::coop::consume_budget().await;
            if let Some(said) = self.take()? {
                self.waiting = None;
                if self.room.take().is_some() {
                    self.decoder.shrink();
                }
                return Ok(said);
            }
            self.make_room().await?;
            match stream.try_io(Interest::READABLE, || self.read(stream)) {
                Ok(0) => return Err(self.lost(Cut::Ended)),
                Ok(length) => {
                    if length >= PROGRESS_BYTES {
                        self.waiting = None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(stream).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(GuestError::malformed(error.to_string()));
                }
                Err(_) => return Err(self.lost(Cut::Ended)),
            }
        }
    }

    /// Judges a frame by its header, before there is memory for the rest; a long one that
    /// is due waits until few others of this sandbox are on their way.
    async fn make_room(&mut self) -> Result<(), GuestError> {
        let announced = self.decoder.announced().map_err(|error| GuestError::frame(&error))?;
        let Some((kind, length)) = announced else { return Ok(()) };
        let is_text = matches!(kind, Kind::Reply | Kind::Problem | Kind::Event | Kind::Request);
        if !is_text || length <= SHORT_BYTES_MAX {
            return Ok(());
        }
        if kind != Kind::Reply || self.answers != Answers::Long {
            return Err(too_long(kind, length));
        }
        if self.room.is_none() {
            let room = Arc::clone(&self.shared.long).acquire_owned().await;
            self.room = room.ok();
        }
        Ok(())
    }

    /// The descriptor that came along.
    pub(super) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    pub(super) fn lost(&self, cut: Cut) -> GuestError {
        GuestError::Lost { known: self.known, cut }
    }

    async fn wait(&mut self, stream: &UnixStream) -> Result<(), GuestError> {
        let since = *self.waiting.get_or_insert_with(Instant::now);
        if !self.is_supervised {
            return stream.readable().await.map_err(|_| self.lost(Cut::Ended));
        }
        loop {
            let again = Instant::now() + self.shared.settings.silence();
            let until = self.shared.silent_until(since).unwrap_or(again);
            match timeout_at(until, stream.readable()).await {
                Ok(ready) => return ready.map_err(|_| self.lost(Cut::Ended)),
                // It may have been frozen meanwhile.
                Err(_) => match self.shared.silent_until(since) {
                    Some(until) if until <= Instant::now() => return Err(self.lost(Cut::Silent)),
                    _ => {}
                },
            }
        }
    }

    /// Receives once, without waiting.
    fn read(&mut self, stream: &UnixStream) -> io::Result<usize> {
        let space = self.decoder.space();
        let length = if self.answers == Answers::WithDescriptor {
            let (length, descriptor) = atoll_sys::scm::receive(stream.as_fd(), space)?;
            if let Some(descriptor) = descriptor
                && self.descriptor.replace(descriptor).is_some()
            {
                let text = "it sent more than one descriptor";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            length
        } else {
            // Descriptors do not come along, or are closed by the kernel.
            rustix::net::recv(stream, space, RecvFlags::DONTWAIT)?.0
        };
        self.decoder.filled(length);
        Ok(length)
    }

    /// The next frame, if all of it is there.
    fn take(&mut self) -> Result<Option<Said>, GuestError> {
        let frame = match self.decoder.next() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(None),
            Err(error) => return Err(GuestError::frame(&error)),
        };
        let is_long = self.answers == Answers::Long;
        let said = match frame.kind {
            Kind::Hello => Said::Hello(read(&frame, SHORT_BYTES_MAX)?),
            Kind::Reply if is_long => Said::Reply(read(&frame, JSON_BYTES_MAX)?),
            Kind::Reply => Said::Reply(read(&frame, SHORT_BYTES_MAX)?),
            Kind::Problem => Said::Problem(problem(&frame)?),
            Kind::Stdout => output(Stream::Stdout, &frame)?,
            Kind::Stderr => output(Stream::Stderr, &frame)?,
            Kind::Body if frame.payload.is_empty() => {
                return Err(GuestError::malformed("it sent a Body frame of no bytes"));
            }
            Kind::Body => Said::Body(Bytes::copy_from_slice(frame.payload)),
            Kind::Event => Said::Event(read(&frame, SHORT_BYTES_MAX)?),
            Kind::End => Said::End,
            Kind::Heartbeat => {
                self.count_heartbeat()?;
                Said::Heartbeat
            }
            Kind::Request => return Err(GuestError::malformed("it sent a request")),
        };
        Ok(Some(said))
    }

    /// Heartbeats cost the guest nothing, so there may only be so many.
    fn count_heartbeat(&mut self) -> Result<(), GuestError> {
        self.heartbeats += 1;
        let beats =
            self.began.elapsed().as_micros() / self.shared.settings.heartbeat.as_micros().max(1);
        // Twice as fast as they should come.
        if u128::from(self.heartbeats) > u128::from(HEARTBEATS_AT_ONCE) + 2 * beats {
            return Err(GuestError::malformed("it sent heartbeats without end"));
        }
        Ok(())
    }
}

/// A frame that has its place, but not here.
pub(super) fn out_of_place(said: &Said) -> GuestError {
    GuestError::malformed(match said {
        Said::Hello(_) => "a greeting out of place",
        Said::Reply(_) => "an answer out of place",
        Said::Problem(_) => "a problem out of place",
        Said::Output { .. } => "output out of place",
        Said::Body(_) => "content out of place",
        Said::Event(_) => "an event out of place",
        Said::End => "an end out of place",
        Said::Heartbeat => "a heartbeat out of place",
    })
}

fn read<T: DeserializeOwned>(frame: &Frame<'_>, bytes_max: usize) -> Result<T, GuestError> {
    let (kind, length) = (frame.kind, frame.payload.len());
    if length > bytes_max {
        return Err(too_long(kind, length));
    }
    frame.json().map_err(|error| GuestError::frame(&error))
}

fn too_long(kind: Kind, length: usize) -> GuestError {
    GuestError::malformed(format!("a {kind:?} frame of {length} bytes here"))
}

fn problem(frame: &Frame<'_>) -> Result<Problem, GuestError> {
    let problem: Problem = read(frame, SHORT_BYTES_MAX)?;
    if problem.message.len() > MESSAGE_BYTES_MAX {
        return Err(GuestError::malformed("a problem with a message that is too long"));
    }
    Ok(problem)
}

fn output(stream: Stream, frame: &Frame<'_>) -> Result<Said, GuestError> {
    let (offset, bytes) = frame.output();
    if bytes.is_empty() {
        return Err(GuestError::malformed("it sent output of no bytes"));
    }
    Ok(Said::Output { stream, offset, bytes: Bytes::copy_from_slice(bytes) })
}
