//! Network namespaces that are captured ahead, since that takes half as long as a start.
//!
//! They wait as messages in a socket, so each of them goes to one maker and to nobody
//! else, and all are gone when the resident process is. None is made before somebody asked for one.

use atoll_sys::capture::{Capture, Ports};
use atoll_sys::netns::{self, Preparing, Ready};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// Most namespaces that wait, with the one that is being made.
const WAITING_MAX: u64 = 2;

/// The resident process's side.
#[derive(Debug)]
pub(crate) struct Pool {
    put: OwnedFd,
    taken: Waiting,
    making: Option<Preparing>,
    is_wanted: bool,
}

/// Where makers take them from.
#[derive(Debug)]
pub(crate) struct Waiting(OwnedFd);

impl Pool {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (put, taken) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok(Self { put, taken: Waiting(taken), making: None, is_wanted: false })
    }

    /// What a maker has of it, in its copy of the process: not what is being made, which would
    /// live as long as the maker waits.
    pub(crate) fn in_maker(&mut self) -> &Waiting {
        drop(self.making.take());
        &self.taken
    }

    /// Somebody has asked for one.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// A child was collected: the one that made a namespace, perhaps.
    pub(crate) fn collected(&mut self, pid: i32) {
        if !self.making.as_mut().is_some_and(|making| making.collected(pid)) {
            return;
        }
        // Where it failed, who needs one makes it and tells why.
        if let Some(Ok(ready)) = self.making.take().map(Preparing::ready) {
            ready.send(self.put.as_fd()).ok();
        }
    }

    /// Begins to make one, if there are too few and nobody else needs the processor.
    pub(crate) fn fill(&mut self) {
        if self.is_wanted && self.making.is_none() && self.taken.count() < WAITING_MAX {
            self.making = netns::prepare(Capture::All(Ports::default())).ok();
        }
    }
}

impl Waiting {
    /// One that is to be the caller's alone, if one is there.
    pub(crate) fn take(&self) -> Option<Ready> {
        Ready::receive(self.0.as_fd()).ok()
    }

    fn count(&self) -> u64 {
        // All messages together, and each is as long as the others.
        let bytes = rustix::io::ioctl_fionread(&self.0).unwrap_or(u64::MAX);
        bytes / Ready::MESSAGE_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_sys::netns::Network;
    use atoll_sys::process::wait_for;

    /// Has the pool make as many as it likes.
    fn made(pool: &mut Pool) -> u64 {
        for _ in 0..5 {
            pool.fill();
            let Some(pid) = pool.making.as_ref().map(Preparing::pid) else { continue };
            // Only one is made at a time.
            pool.fill();
            assert_eq!(pool.making.as_ref().map(Preparing::pid), Some(pid));
            wait_for(pid).unwrap();
            pool.collected(pid + 1);
            assert!(pool.making.is_some());
            pool.collected(pid);
        }
        pool.taken.count()
    }

    #[test]
    fn there_are_none_before_one_is_wanted_and_few_then_and_each_is_given_once() {
        let mut pool = Pool::new().unwrap();
        assert_eq!(made(&mut pool), 0);
        assert!(pool.taken.take().is_none());
        pool.want();
        assert_eq!(made(&mut pool), WAITING_MAX);
        let taken: Vec<_> = std::iter::from_fn(|| pool.taken.take()).collect();
        assert_eq!(taken.len(), 2);
        assert!(taken.iter().all(Ready::is_complete));
        assert_eq!(made(&mut pool), WAITING_MAX);
        let again = pool.taken.take().unwrap();
        let networks: Vec<_> = taken
            .into_iter()
            .chain([again])
            .map(|ready| {
                let listeners = Network::from(ready).listeners().unwrap().unwrap();
                atoll_sys::socket::network(listeners.tcp[0].as_fd()).unwrap()
            })
            .collect();
        assert!(networks[0] != networks[1] && networks[1] != networks[2], "{networks:?}");
    }
}
