//! The thread that waits for an answer: its memory, descriptors and settings.

use std::ffi::CString;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use atoll_sys::notify::Listener;
use atoll_sys::process::shares_descriptors;
use atoll_sys::procmem;
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::call::PathArgument;
use super::footing::Footing;

/// `PIDFD_THREAD` of linux/pidfd.h.
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());

/// Where a path begins.
pub(super) enum Directory<'a> {
    Owned(OwnedFd),
    Borrowed(BorrowedFd<'a>),
}

impl Directory<'_> {
    pub(super) fn into_owned(self) -> Option<OwnedFd> {
        match self {
            Self::Owned(fd) => Some(fd),
            Self::Borrowed(_) => None,
        }
    }
}

impl AsFd for Directory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Owned(fd) => fd.as_fd(),
            Self::Borrowed(fd) => *fd,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) footing: &'a Footing,
    pub(super) listener: &'a Listener,
    pub(super) id: u64,
    pub(super) thread: NonZeroU32,
}

/// Signals as the status file shows them: one bit each, lowest is signal 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signals {
    pending: u64,
    blocked: u64,
}

impl Signals {
    pub(super) fn would_interrupt(self) -> bool {
        self.pending & !self.blocked != 0
    }
}

impl<'a> Caller<'a> {
    /// Copies a path argument. An empty one is the caller's affair to refuse.
    pub(super) fn path(&self, address: u64) -> Result<CString, Errno> {
        self.memory(|| procmem::read_path(self.thread, address))
    }

    pub(super) fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        self.memory(|| {
            let mut buffer = vec![0; length];
            procmem::read_exact(self.thread, address, &mut buffer)?;
            Ok(buffer)
        })
    }

    fn memory<T>(&self, read: impl Fn() -> io::Result<T>) -> Result<T, Errno> {
        self.footing.read_memory(|| read().map_err(errno))
    }

    /// Opens where `path` begins. Whether the thread was still the same is to be
    /// asked afterwards, by [`Self::is_waiting`].
    pub(super) fn base(&self, path: &[u8], argument: PathArgument) -> Result<Directory<'a>, Errno> {
        if path.first() == Some(&b'/') {
            return Ok(Directory::Borrowed(self.footing.root.as_fd()));
        }
        if argument.directory == libc::AT_FDCWD {
            let name = format!("{}/cwd", self.thread);
            return self.own_link(&name, OFlags::DIRECTORY).map(Directory::Owned);
        }
        self.descriptor(argument.directory).map(Directory::Owned)
    }

    /// Opens, without any right, what the caller's descriptor `number` refers to.
    pub(super) fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        let name = format!("{}/fd/{number}", self.thread);
        match self.own_link(&name, OFlags::empty()) {
            Err(Errno::NOENT) => Err(Errno::BADF),
            // The directory of a process that is not dumpable belongs to root.
            Err(Errno::ACCESS) => self.copy_of(number),
            other => other,
        }
    }

    /// Takes a copy of a descriptor itself, which only needs the right to trace:
    /// what it refers to stays, whatever the caller opens under its number.
    pub(super) fn copy_of(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::BADF);
        }
        let holder = self.holder()?;
        self.footing.as_tracer(|| pidfd_getfd(&holder, number, PidfdGetfdFlags::empty()))
    }

    /// A descriptor of a task whose table of descriptors is the thread's.
    fn holder(&self) -> Result<OwnedFd, Errno> {
        let thread = pid(self.thread.get())?;
        match pidfd_open(thread, THREAD) {
            // Linux before 6.9.
            Err(Errno::INVAL) => self.holding_process(thread),
            opened => opened,
        }
    }

    /// The process, unless the thread has left the table that it shared with it.
    fn holding_process(&self, thread: Pid) -> Result<OwnedFd, Errno> {
        let process = pid(self.process()?)?;
        let shares = || shares_descriptors(thread, process).map_err(errno);
        if thread != process && !self.footing.as_tracer(shares)? {
            return Err(Errno::PERM);
        }
        pidfd_open(process, PidfdFlags::empty())
    }

    fn own_link(&self, name: &str, more: OFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | more;
        self.footing.as_tracer(|| openat(&self.footing.proc, name, flags, Mode::empty()))
    }

    /// Device and inode of the namespace that the thread is in.
    pub(super) fn namespace(&self, kind: &str) -> Result<(u64, u64), Errno> {
        let name = format!("{}/ns/{kind}", self.thread);
        let found =
            self.footing.as_tracer(|| statat(&self.footing.proc, &name, AtFlags::empty()))?;
        Ok((found.st_dev, found.st_ino))
    }

    /// Takes hold of the thread; before Linux 6.9 of its process, whose user namespace
    /// is that of all its threads.
    pub(super) fn pidfd(&self) -> Result<OwnedFd, Errno> {
        match pidfd_open(pid(self.thread.get())?, THREAD) {
            Err(Errno::INVAL) => pidfd_open(pid(self.process()?)?, PidfdFlags::empty()),
            opened => opened,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.listener.is_waiting(self.id)
    }

    fn status(&self) -> Result<Vec<u8>, Errno> {
        self.read_proc("status")
    }

    fn read_proc(&self, name: &str) -> Result<Vec<u8>, Errno> {
        let path = format!("{}/{name}", self.thread);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file =
            self.footing.as_tracer(|| openat(&self.footing.proc, &path, flags, Mode::empty()))?;
        let mut text = vec![0; 4096];
        let mut length = 0;
        while length < text.len() {
            match rustix::io::read(&file, &mut text[length..])? {
                0 => break,
                got => length += got,
            }
        }
        text.truncate(length);
        Ok(text)
    }

    /// The file mode creation mask. Formatting the file costs the kernel 17 us.
    pub(super) fn umask(&self) -> Result<u32, Errno> {
        field(&self.status()?, b"Umask:", 8)
            .and_then(|mask| u32::try_from(mask).ok())
            .ok_or(Errno::SRCH)
    }

    /// The process that the thread belongs to.
    pub(super) fn process(&self) -> Result<u32, Errno> {
        field(&self.status()?, b"Tgid:", 10)
            .and_then(|pid| u32::try_from(pid).ok())
            .ok_or(Errno::SRCH)
    }

    /// The effective capabilities, in the thread's own user namespace.
    pub(super) fn capabilities(&self) -> Result<u64, Errno> {
        field(&self.status()?, b"CapEff:", 16).ok_or(Errno::SRCH)
    }

    pub(super) fn signals(&self) -> Result<Signals, Errno> {
        let status = self.status()?;
        let mask = |key| field(&status, key, 16).ok_or(Errno::SRCH);
        Ok(Signals { pending: mask(b"SigPnd:")? | mask(b"ShdPnd:")?, blocked: mask(b"SigBlk:")? })
    }

    /// The controlling terminal's device number, 0 without one: field 7 of
    /// proc_pid_stat(5), counted after the name, which may hold anything.
    pub(super) fn terminal(&self) -> Result<u32, Errno> {
        let stat = self.read_proc("stat")?;
        let after_name = stat.iter().rposition(|byte| *byte == b')').ok_or(Errno::SRCH)?;
        let text = str::from_utf8(&stat[after_name + 1..]).map_err(|_| Errno::SRCH)?;
        let device: i32 =
            text.split_ascii_whitespace().nth(4).and_then(|n| n.parse().ok()).ok_or(Errno::SRCH)?;
        Ok(device.cast_unsigned())
    }
}

fn pid(number: u32) -> Result<Pid, Errno> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

fn field(status: &[u8], key: &[u8], radix: u32) -> Option<u64> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(key))?;
    u64::from_str_radix(str::from_utf8(line).ok()?.trim(), radix).ok()
}

pub(super) fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_status_file() {
        let status = b"Name:\tumask: 7\nUmask:\t0022\nTgid:\t812\nSigPnd:\t0000000000000002\n";
        assert_eq!(field(status, b"Umask:", 8), Some(0o22));
        assert_eq!(field(status, b"Tgid:", 10), Some(812));
        assert_eq!(field(status, b"SigPnd:", 16), Some(2));
        assert_eq!(field(status, b"SigBlk:", 16), None);
    }

    #[test]
    fn only_signals_that_are_not_blocked_interrupt() {
        let check = |pending, blocked| Signals { pending, blocked }.would_interrupt();
        assert!(check(0b10, 0));
        assert!(check(0b11, 0b10));
        assert!(!check(0b10, 0b10));
        assert!(!check(0, 0));
    }
}
