//! Accepting from a listener that somebody else holds too, who may wish us ill.
//!
//! Whether accept(2) waits is a property of the open file, which everybody shares who holds it:
//! somebody else can have it wait again at any moment, also between a look and the call, and
//! take the connection that was there. The call has no flag of its own against that.

use crate::signals::interrupts;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::null_mut;

/// How long accepting waits at most where it should not wait at all.
const PATIENCE_NS: libc::c_long = 20_000_000;

/// A timer that interrupts calls of the thread that has made it.
#[derive(Debug)]
pub struct Acceptor {
    timer: libc::timer_t,
    /// It is that thread's alone.
    not_send: PhantomData<*const ()>,
}

impl Acceptor {
    /// One for the calling thread. The process must have no other use for `SIGALRM`, and not
    /// block it.
    ///
    /// Source: `timer_create(2)`, `SIGEV_THREAD_ID`.
    ///
    /// # Errors
    ///
    /// Out of timers.
    pub fn new() -> io::Result<Self> {
        interrupts(libc::SIGALRM)?;
        // SAFETY: all bytes zero are a value of this plain C struct.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_pid();
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: the kernel reads the one and writes the other, which are values of ours.
        let result =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { timer, not_send: PhantomData })
    }

    /// Accepts a connection from a listener that was made not to wait. The connection does not
    /// wait either, and closing it does not, whatever the listener was set to.
    ///
    /// # Errors
    ///
    /// Those of accept(2). `EINTR` where the listener does wait, since somebody has changed it.
    pub fn accept(&self, listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        // Again and again: the first time may be before the call is reached.
        self.set(PATIENCE_NS)?;
        let accepted =
            rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        self.set(0)?;
        let accepted = accepted?;
        // It has the listener's, and close(2) waits for as long (socket(7), SO_LINGER).
        match rustix::net::sockopt::set_socket_linger(&accepted, None) {
            Ok(()) | Err(Errno::INVAL) => Ok(accepted),
            Err(error) => Err(error.into()),
        }
    }

    fn set(&self, nanoseconds: libc::c_long) -> io::Result<()> {
        let every = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let times = libc::itimerspec { it_interval: every, it_value: every };
        // SAFETY: the timer is there until this is dropped, and the kernel reads a value of ours.
        let result = unsafe { libc::timer_settime(self.timer, 0, &raw const times, null_mut()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // SAFETY: it is there, and nobody uses it any more.
        unsafe { libc::timer_delete(self.timer) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    fn listener() -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    #[test]
    fn a_listener_that_waits_does_not_hold_us() {
        let (acceptor, listener) = (Acceptor::new().unwrap(), listener());
        let none = acceptor.accept(listener.as_fd()).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::WouldBlock);
        // As whoever shares it can.
        listener.set_nonblocking(false).unwrap();
        for _ in 0..3 {
            let waits = acceptor.accept(listener.as_fd()).unwrap_err();
            assert_eq!(waits.kind(), ErrorKind::Interrupted);
        }
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = acceptor.accept(listener.as_fd()).unwrap();
        assert!(rustix::io::ioctl_fionread(&accepted).is_ok());
        let flags = rustix::fs::fcntl_getfl(&accepted).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    }

    #[test]
    fn closing_does_not_wait_though_the_listener_lingers() {
        let (acceptor, listener) = (Acceptor::new().unwrap(), listener());
        let hour = Some(Duration::from_secs(3600));
        rustix::net::sockopt::set_socket_linger(&listener, hour).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = acceptor.accept(listener.as_fd()).unwrap();
        assert_eq!(rustix::net::sockopt::socket_linger(&accepted).unwrap(), None);
        // More than the other side takes.
        let mut stream = TcpStream::from(accepted);
        while stream.write(&[0; 1 << 16]).is_ok() {}
        drop(stream);
    }
}
