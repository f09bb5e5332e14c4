//! Terminals: what needs code between fork and exec.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has `command` lead a new session whose controlling terminal is its standard
/// input, which must be a terminal.
///
/// Source: setsid(2), `TIOCSCTTY` of ioctl_tty(2).
pub fn lead_session(command: &mut Command) {
    let lead = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: the closure makes two system calls and nothing else: it allocates
    // nothing and takes no lock, as code after a fork must.
    unsafe { command.pre_exec(lead) };
}

/// The device number of the terminal that `fd` is, also where `fd` is
/// `/dev/tty`, `/dev/console` or the master side of a pair.
///
/// Source: ioctl_tty(2), `TIOCGDEV`.
///
/// # Errors
///
/// `ENOTTY` if it is none, `EIO` if it has been hung up.
pub fn device(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut device: u32 = 0;
    // SAFETY: this request writes one unsigned int.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGDEV, &raw mut device) };
    if result == 0 { Ok(device) } else { Err(io::Error::last_os_error()) }
}

/// Says whether the terminal that `fd` is belongs to our session.
///
/// Numbers are compared, not [`rustix::process::Pid`]s: in a pid namespace that
/// the leader of our session is not part of, both are 0. Then a master that was
/// handed in counts as ours too when its terminal is of a session out there.
///
/// Source: getsid(2), `TIOCGSID` of ioctl_tty(2).
#[must_use]
pub fn is_controlling(fd: BorrowedFd<'_>) -> bool {
    let mut session: libc::pid_t = -1;
    // SAFETY: this request writes one pid_t.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGSID, &raw mut session) };
    // SAFETY: getsid touches no memory.
    result == 0 && session == unsafe { libc::getsid(0) }
}

/// Says whether our process group is the foreground group of the terminal that
/// `fd` is, which must be our controlling one.
///
/// In a pid namespace that neither group is part of, both numbers are 0 and
/// nobody can tell them apart: then the answer is yes, and the kernel stops a
/// background group when it changes the terminal, as any other program's.
///
/// Source: getpgrp(2), `TIOCGPGRP` of ioctl_tty(2).
#[must_use]
pub fn is_foreground(fd: BorrowedFd<'_>) -> bool {
    let mut group: libc::pid_t = -1;
    // SAFETY: this request writes one pid_t.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGPGRP, &raw mut group) };
    // SAFETY: getpgrp touches no memory.
    result == 0 && group == unsafe { libc::getpgrp() }
}
