//! One connection to a guest: one operation.

use super::error::{Cut, GuestError, Known};
use super::hearing::{Answers, Hearing, Said};
use super::shared::Shared;
use atoll_protocol::frame::{Kind, put_json};
use atoll_protocol::hello::Hello;
use atoll_protocol::request::{Reply, Request};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// How long to wait for room in the guest's queue of connections.
const LOOK: Duration = Duration::from_millis(5);

/// A connection, which has a place among those of its sandbox.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: UnixStream,
    pub(super) hearing: Hearing,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Connects, asks and has the answer, in `patience`.
    pub(super) async fn ask(
        shared: &Arc<Shared>,
        request: &Request,
        answers: Answers,
        patience: Duration,
    ) -> Result<(Self, Reply), GuestError> {
        let mut known = Known::NotAsked;
        let asked = async {
            let mut connection = Self::open(shared, answers).await?;
            connection.say(request).await?;
            known = Known::Asked;
            let reply = connection.answer().await?;
            Ok((connection, reply))
        };
        match timeout(patience, asked).await {
            Ok(answered) => answered,
            Err(_) => Err(GuestError::TimedOut { known, after: patience }),
        }
    }

    /// Connects and asks, in the time for an answer, which comes later.
    pub(super) async fn begin(shared: &Arc<Shared>, request: &Request) -> Result<Self, GuestError> {
        let after = shared.settings.answer;
        let begun = async {
            let mut connection = Self::open(shared, Answers::Short).await?;
            connection.say(request).await?;
            Ok(connection)
        };
        let late = GuestError::TimedOut { known: Known::NotAsked, after };
        timeout(after, begun).await.unwrap_or(Err(late))
    }

    /// Waits for the next frame; may be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Said, GuestError> {
        self.hearing.next(&self.stream).await
    }

    /// Waits for the answer; may be dropped and called again.
    pub(super) async fn answer(&mut self) -> Result<Reply, GuestError> {
        self.hearing.answer(&self.stream).await
    }

    async fn open(shared: &Arc<Shared>, answers: Answers) -> Result<Self, GuestError> {
        let place = Arc::clone(&shared.connections)
            .try_acquire_owned()
            .map_err(|_| GuestError::Busy { connections_max: shared.settings.connections_max })?;
        let stream = loop {
            match connect(&shared.path, answers) {
                Ok(stream) => break stream,
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        return Err(GuestError::NotThere { path: shared.path.clone() });
                    }
                    // Its queue is full, and the kernel tells nobody when it is not.
                    io::ErrorKind::WouldBlock => pause().await,
                    _ => {
                        let path = shared.path.clone();
                        return Err(GuestError::Connect { path, source: error });
                    }
                },
            }
        };
        let hearing = Hearing::new(Arc::clone(shared), answers);
        Ok(Self { stream, hearing, _place: place })
    }

    async fn say(&mut self, request: &Request) -> Result<(), GuestError> {
        let mut bytes = Vec::new();
        put_json(&mut bytes, Kind::Hello, &Hello::OURS).map_err(GuestError::TooLong)?;
        put_json(&mut bytes, Kind::Request, request).map_err(GuestError::TooLong)?;
        if send(&self.stream, &bytes).await.is_err() {
            return Err(self.last_word().await);
        }
        self.hearing.known = Known::Asked;
        Ok(())
    }

    /// Why the guest takes nothing more: it may have said so.
    pub(super) async fn last_word(&mut self) -> GuestError {
        match self.answer().await {
            Ok(_) => self.hearing.lost(Cut::Ended),
            Err(error) => error,
        }
    }
}

/// A unix socket is connected at once or not at all, so that there is nothing to wait for.
fn connect(path: &Path, answers: Answers) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    if answers != Answers::WithDescriptor {
        // A kernel that cannot do that closes those that come while we read.
        atoll_sys::socket::refuse_descriptors(socket.as_fd())?;
    }
    rustix::net::connect(&socket, &address)?;
    UnixStream::from_std(socket.into())
}

#[expect(clippy::disallowed_methods, reason = "there is nothing that tells of room in the queue")]
async fn pause() {
    tokio::time::sleep(LOOK).await;
}

/// Sends all of it. Where this is dropped, nobody knows how much was sent.
pub(super) async fn send(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    let once = |bytes: &[u8]| -> io::Result<usize> {
        Ok(rustix::net::send(stream, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    };
    while !bytes.is_empty() {
        // What sends much must not keep others from this thread.
        tokio::task::coop::consume_budget().await;
        // There is room, as a rule, and then nobody need be asked.
        let mut sent = once(bytes);
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            stream.writable().await?;
            sent = stream.try_io(Interest::WRITABLE, || once(bytes));
        }
        match sent {
            Ok(length) => bytes = &bytes[length..],
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(())
}
