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
