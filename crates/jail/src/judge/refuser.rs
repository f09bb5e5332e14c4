//! Calls that no rule about names is for: refused by the filter's own table, or
//! told and left to the kernel.

use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use atoll_sys::notify::{Listener, Notification, Reply};
use atoll_sys::procmem;
use rustix::io::Errno;

use super::caller::Caller;
use super::denial::{Class, Denial, Sink};
use super::wait::{ANSWERED_AT_ONCE, Wake, wait};
use crate::seccomp;
use crate::tell::Connections;

/// Answers the calls that the filter's own table refuses, where no workspace is
/// judged, and tells of connections. Never blocks, so PID 1 can hold it.
pub struct Refuser {
    listener: Listener,
    connections: Connections,
}

impl Refuser {
    /// # Errors
    ///
    /// If the descriptor is not a listener.
    pub fn new(listener: OwnedFd) -> std::io::Result<Self> {
        Ok(Self { listener: Listener::new(listener)?, connections: Connections::default() })
    }

    /// Answers what is waiting, some of it at a time: a flood of calls must not
    /// keep whoever waits from its other business. Says whether anybody is left to ask.
    pub fn attend(&mut self, sink: &mut dyn Sink) -> bool {
        let now = Some(Duration::ZERO);
        for _ in 0..ANSWERED_AT_ONCE {
            match wait(&self.listener, None, now) {
                Ok(Wake::Call) => {}
                Ok(Wake::Time) => return true,
                Ok(Wake::HungUp | Wake::Control) | Err(_) => return false,
            }
            // The caller may be gone by now.
            let Ok(notification) = self.listener.receive() else { continue };
            let reply = if Connections::concerns(&notification) {
                self.tell_connection(&notification, sink);
                Reply::Continue
            } else {
                Reply::Error(refuse(&notification, sink).raw_os_error())
            };
            let _gone = self.listener.reply(notification.id, reply);
        }
        true
    }

    fn tell_connection(&mut self, notification: &Notification, sink: &mut dyn Sink) {
        let Some(thread) = NonZeroU32::new(notification.pid) else { return };
        let listener = &self.listener;
        let read = |address: u64, buffer: &mut [u8]| {
            procmem::read_exact(thread, address, buffer).is_ok()
                && listener.is_waiting(notification.id)
        };
        if let Some(denial) = self.connections.denial(notification, read) {
            sink.denied(denial);
        }
    }
}

impl AsFd for Refuser {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Tells of a connection that cannot come about; the kernel refuses it.
pub(super) fn tell_connection(
    connections: &mut Connections,
    caller: Caller<'_>,
    notification: &Notification,
    sink: &mut dyn Sink,
) {
    let read = |address: u64, buffer: &mut [u8]| {
        caller.bytes(address, buffer.len()).is_ok_and(|bytes| {
            buffer.copy_from_slice(&bytes);
            caller.is_waiting()
        })
    };
    if let Some(denial) = connections.denial(notification, read) {
        sink.denied(denial);
    }
}

/// A call that no rule about names is for: one that the filter's own table
/// refuses, told here first.
pub(super) fn refuse(notification: &Notification, sink: &mut dyn Sink) -> Errno {
    let number = u32::try_from(notification.number).ok();
    let Some((errno, line)) = number.and_then(seccomp::refusal) else { return Errno::NOSYS };
    sink.denied(Denial {
        rule: line.why.code(),
        class: Class::Kernel,
        operation: line.name,
        path: PathBuf::new(),
        pid: notification.pid,
        detail: None,
        suggestion: None,
    });
    Errno::from_raw_os_error(errno)
}
