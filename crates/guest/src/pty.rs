//! Pairs of pseudo-terminals.

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use std::os::fd::OwnedFd;

/// Opens a pty of the sandbox's own devpts: its master side and its slave side,
/// which is nobody's controlling terminal yet.
///
/// Source: pty(7), `TIOCGPTPEER` of ioctl_tty(2).
///
/// # Errors
///
/// `ENOENT` where no devpts is mounted, `ENOSPC` when it has no pty left.
pub fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open("/dev/pts/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&master)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    Ok((master, slave))
}
