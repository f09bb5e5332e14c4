//! Network namespaces that are there: kept, handed on, entered.

use super::{NetError, Preparing};
use crate::capture::Listeners;
use crate::scm;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// A network namespace that is whole, and that nobody is in.
#[derive(Debug)]
pub struct Ready {
    pub(super) user: Option<OwnedFd>,
    pub(super) net: OwnedFd,
    pub(super) listeners: Option<Listeners>,
}

impl Ready {
    /// Length of what [`Ready::send`] sends, without the descriptors.
    pub const MESSAGE_BYTES: usize = 4;

    /// Whether all TCP that leaves it arrives at its listeners.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.listeners.as_ref().is_some_and(|listeners| listeners.is_complete)
    }

    /// Sends it over a unix socket; whoever receives the message has it alone.
    ///
    /// # Errors
    ///
    /// Those of [`scm::send_all`]; `EINVAL` if it is not captured.
    pub fn send(self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let Some(listeners) = &self.listeners else { return Err(Errno::INVAL.into()) };
        let tcp = u8::try_from(listeners.tcp.len()).map_err(|_| Errno::INVAL)?;
        let flags = [self.user.is_some(), listeners.is_complete].map(u8::from);
        let message: [u8; Self::MESSAGE_BYTES] = [b'n', flags[0], flags[1], tcp];
        let namespaces = [Some(&self.net), self.user.as_ref()];
        let sockets = listeners.tcp.iter().chain(&listeners.udp);
        let fds: Vec<_> =
            namespaces.into_iter().flatten().chain(sockets).map(OwnedFd::as_fd).collect();
        scm::send_all(socket, &message, &fds)
    }

    /// Receives what [`Ready::send`] has sent.
    ///
    /// # Errors
    ///
    /// Those of [`scm::receive_all`]; `InvalidData` for anything else.
    pub fn receive(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut buffer = [0; Self::MESSAGE_BYTES + 1];
        let (length, fds) = scm::receive_all(socket, &mut buffer)?;
        let mut fds = fds.into_iter();
        let [b'n', has_user, is_complete, tcp] = buffer[..length] else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let net = fds.next().ok_or(io::ErrorKind::InvalidData)?;
        let user = (has_user == 1).then(|| fds.next()).flatten();
        let tcp = fds.by_ref().take(usize::from(tcp)).collect();
        let listeners = Listeners { tcp, udp: fds.collect(), is_complete: is_complete == 1 };
        Ok(Self { user, net, listeners: Some(listeners) })
    }
}

/// A network namespace to enter.
#[derive(Debug)]
pub enum Network {
    Preparing(Preparing),
    Ready(Ready),
}

impl From<Preparing> for Network {
    fn from(preparing: Preparing) -> Self {
        Self::Preparing(preparing)
    }
}

impl From<Ready> for Network {
    fn from(ready: Ready) -> Self {
        Self::Ready(ready)
    }
}

impl Network {
    /// Moves the calling process, which must have one thread, into it. See
    /// [`Preparing::enter`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn enter(&mut self) -> Result<(), NetError> {
        match self {
            Self::Preparing(preparing) => preparing.enter(),
            Self::Ready(ready) => enter(ready.user.as_ref(), &ready.net),
        }
    }

    /// Waits until all of it is there. See [`Preparing::listeners`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn listeners(&mut self) -> Result<Option<Listeners>, NetError> {
        match self {
            Self::Preparing(preparing) => preparing.listeners(),
            Self::Ready(ready) => Ok(ready.listeners.take()),
        }
    }
}

pub(super) fn enter(user: Option<&OwnedFd>, net: &OwnedFd) -> Result<(), NetError> {
    let enter = |fd: &OwnedFd, kind, step| {
        move_into_link_name_space(fd.as_fd(), Some(kind))
            .map_err(|error| NetError { step, source: error.into() })
    };
    if let Some(user) = user {
        enter(user, LinkNameSpaceType::User, "setns(user)")?;
    }
    enter(net, LinkNameSpaceType::Network, "setns(net)")
}
