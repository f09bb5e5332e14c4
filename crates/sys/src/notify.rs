//! The supervisor's half of seccomp user notification.
//!
//! A filtered task whose filter answers `SECCOMP_RET_USER_NOTIF` sleeps until
//! somebody that holds the listener replies. Sources: `seccomp_unotify(2)`,
//! seccomp(2).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// One system call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub struct Notification {
    /// Names the wait; it is never reused by the kernel while the listener lives.
    pub id: u64,
    /// The calling thread, in the pid namespace of the reader; 0 if it is not visible there.
    pub pid: u32,
    /// The call's number in the table of `arch`.
    pub number: i64,
    /// An `AUDIT_ARCH_*` value.
    pub arch: u32,
    /// The six argument registers.
    pub args: [u64; 6],
}

/// What a sleeping call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The call returns this value.
    Value(i64),
    /// The call fails with this positive error number.
    Error(i32),
    /// The kernel runs the call as if there were no filter. Never for a decision
    /// about memory that another thread can change.
    Continue,
}

/// The supervisor's end of a filter.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Both buffers are as large as the running kernel's structures, which may
    /// have grown since this was written; `u64` gives them their alignment.
    incoming: Vec<u64>,
    outgoing: Vec<u64>,
}

impl Listener {
    /// Takes a descriptor that [`install`] gave.
    ///
    /// # Errors
    ///
    /// `ENOSYS` before Linux 5.0; `InvalidData` if the kernel's structures are
    /// smaller than ours.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let mut sizes =
            libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
        // SAFETY: the call fills `sizes`, which is valid for writes of its size.
        let result = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let (incoming, outgoing) =
            (usize::from(sizes.seccomp_notif), usize::from(sizes.seccomp_notif_resp));
        if incoming < size_of::<libc::seccomp_notif>()
            || outgoing < size_of::<libc::seccomp_notif_resp>()
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            fd,
            incoming: vec![0; incoming.div_ceil(8)],
            outgoing: vec![0; outgoing.div_ceil(8)],
        })
    }

    /// Asks the scheduler to run each side where the other one just was: a caller
    /// sleeps while it is served, so moving to another processor only costs.
    ///
    /// # Errors
    ///
    /// `EINVAL` or `ENOTTY` before Linux 6.6, where nothing changes.
    pub fn wake_in_place(&self) -> io::Result<()> {
        /// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` of linux/seccomp.h.
        const SYNC_WAKE_UP: libc::c_ulong = 1;
        // SAFETY: this request takes its flags as the argument and touches no memory.
        let result = unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as _, SYNC_WAKE_UP)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes the next waiting call; blocks if there is none.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the caller died in between, `EINTR` on a signal: ask again.
    pub fn receive(&mut self) -> io::Result<Notification> {
        self.incoming.fill(0);
        let buffer = self.incoming.as_mut_ptr();
        // SAFETY: `buffer` is aligned, zeroed and as large as the kernel's
        // `struct seccomp_notif`, which is what this request writes.
        let result = unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, buffer)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the buffer holds at least this structure (checked in `new`),
        // is aligned for it, and every bit pattern of it is a value.
        let got = unsafe { buffer.cast::<libc::seccomp_notif>().read() };
        Ok(Notification {
            id: got.id,
            pid: got.pid,
            number: i64::from(got.data.nr),
            arch: got.data.arch,
            args: got.data.args,
        })
    }

    /// Whether the caller of `id` still waits: if so, its thread id was its own
    /// all the time since the notification came.
    pub fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the request reads one u64.
        let result = unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _, &raw const id)
        };
        result == 0
    }

    /// Wakes the caller of `id`.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the caller is gone.
    pub fn reply(&mut self, id: u64, reply: Reply) -> io::Result<()> {
        let (val, error, flags) = match reply {
            Reply::Value(value) => (value, 0, 0),
            Reply::Error(number) => (0, -number, 0),
            Reply::Continue => (0, 0, narrow(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE)),
        };
        self.outgoing.fill(0);
        let buffer = self.outgoing.as_mut_ptr();
        let answer = libc::seccomp_notif_resp { id, val, error, flags };
        // SAFETY: the buffer is aligned and at least as large (checked in `new`).
        unsafe { buffer.cast::<libc::seccomp_notif_resp>().write(answer) };
        // SAFETY: `buffer` is as large as the kernel's `struct seccomp_notif_resp`.
        let result = unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, buffer)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Puts a copy of `file` into the caller's table and lets its call return
    /// the number, in one step (Linux 5.14).
    ///
    /// # Errors
    ///
    /// `EMFILE` by the caller's own limit, and then it still waits; `ENOENT` if it is gone.
    pub fn reply_with_fd(&self, id: u64, file: BorrowedFd<'_>, cloexec: bool) -> io::Result<RawFd> {
        self.add(id, file, narrow(libc::SECCOMP_ADDFD_FLAG_SEND), 0, cloexec)
    }

    /// As [`Self::reply_with_fd`], but `file` is closed here before the caller goes
    /// on, for another wake-up of it: what anybody still has open for writing
    /// cannot be run (`ETXTBSY` of execve(2)).
    ///
    /// # Errors
    ///
    /// As [`Self::reply_with_fd`].
    pub fn hand_over(&mut self, id: u64, file: OwnedFd, cloexec: bool) -> io::Result<()> {
        let number = self.add(id, file.as_fd(), 0, 0, cloexec)?;
        drop(file);
        self.reply(id, Reply::Value(number.into()))
    }

    /// Puts a copy of `file` at `number` of the caller's table, closing what is
    /// there. The caller waits on.
    ///
    /// # Errors
    ///
    /// `EBADF` if the number is above the caller's limit; `ENOENT` if it is gone.
    pub fn set_fd(
        &self,
        id: u64,
        file: BorrowedFd<'_>,
        number: u32,
        cloexec: bool,
    ) -> io::Result<RawFd> {
        self.add(id, file, narrow(libc::SECCOMP_ADDFD_FLAG_SETFD), number, cloexec)
    }

    fn add(
        &self,
        id: u64,
        file: BorrowedFd<'_>,
        flags: u32,
        newfd: u32,
        cloexec: bool,
    ) -> io::Result<RawFd> {
        let srcfd = u32::try_from(file.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let newfd_flags = if cloexec { libc::O_CLOEXEC.cast_unsigned() } else { 0 };
        let request = libc::seccomp_notif_addfd { id, flags, srcfd, newfd, newfd_flags };
        // SAFETY: the request reads one `struct seccomp_notif_addfd`, whose size
        // is part of the request's number.
        let result = unsafe {
            libc::ioctl(
                self.fd.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ADDFD as _,
                &raw const request,
            )
        };
        if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The header has these flags as `unsigned long`; all of them are tiny.
const fn narrow(flag: libc::c_ulong) -> u32 {
    assert!(flag <= 0xff);
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    {
        flag as u32
    }
}

/// Loads `filter` for the calling thread, for good, and gives its listener.
///
/// A caller whose notification was received can then only be killed, not
/// interrupted (`WAIT_KILLABLE_RECV`): without it a signal would restart a call
/// that the supervisor already performed, and `O_EXCL` would report its own file.
///
/// Source: seccomp(2), `SECCOMP_SET_MODE_FILTER`.
///
/// # Errors
///
/// `EINVAL` before Linux 5.19; `EBUSY` if a filter of this thread has a listener
/// already; `EACCES` without `no_new_privs`.
pub fn install(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: `program` describes `len` initialised instructions that outlive
    // this call; the kernel copies them and keeps no pointer.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    let fd =
        RawFd::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: libc::sock_filter =
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };

    /// Runs on a thread of its own, which dies with its filter.
    fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn a_listener_comes_with_a_filter_and_only_one() {
        let (first, second) = on_thread(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            (install(&[ALLOW]), install(&[ALLOW]))
        });
        let listener = Listener::new(first.unwrap()).unwrap();
        assert_eq!(second.unwrap_err().raw_os_error(), Some(libc::EBUSY));
        assert!(!listener.is_waiting(1));
    }

    #[test]
    fn a_call_is_answered_with_a_value_an_error_and_the_real_thing() {
        let number = u32::try_from(libc::SYS_getppid).unwrap();
        let filter = vec![
            libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
            libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: number },
            libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_USER_NOTIF },
            ALLOW,
        ];
        let (send, receive) = std::sync::mpsc::channel();
        let caller = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            send.send(install(&filter).unwrap()).unwrap();
            // SAFETY: getppid takes nothing and touches no memory.
            let call = || unsafe { libc::syscall(libc::SYS_getppid) };
            let first = call();
            let failed = call();
            let failure = io::Error::last_os_error().raw_os_error();
            (first, failed, failure, call(), call())
        });
        let mut listener = Listener::new(receive.recv().unwrap()).unwrap();
        for reply in [Reply::Value(77), Reply::Error(libc::EXDEV), Reply::Continue] {
            let notification = listener.receive().unwrap();
            assert_eq!(notification.number, i64::from(number));
            assert!(listener.is_waiting(notification.id));
            listener.reply(notification.id, reply).unwrap();
            assert!(!listener.is_waiting(notification.id));
        }
        let notification = listener.receive().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = listener.reply_with_fd(notification.id, file.as_fd(), true).unwrap();
        let parent = i64::from(std::os::unix::process::parent_id());
        let expected = (77, -1, Some(libc::EXDEV), parent, i64::from(number));
        assert_eq!(caller.join().unwrap(), expected);
    }
}
