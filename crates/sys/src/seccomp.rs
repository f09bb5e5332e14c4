//! Loading a seccomp filter.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// One instruction of a filter program (`struct sock_filter`).
pub use libc::sock_filter as Instruction;

/// Whether the filter comes with a descriptor that answers notified calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    None,
    /// One is made, and a caller whose request has been received can only be
    /// killed, not interrupted (`WAIT_KILLABLE_RECV`, Linux 5.19).
    Killable,
}

/// Loads `filter` for the calling thread, for good.
///
/// Source: seccomp(2), `SECCOMP_SET_MODE_FILTER`.
///
/// # Errors
///
/// `EACCES` without no_new_privs, `EINVAL` for a program the kernel refuses,
/// `EBUSY` where a listener exists already.
pub fn install(filter: &[Instruction], listener: Listener) -> io::Result<Option<OwnedFd>> {
    const NEW_LISTENER: libc::c_ulong = 1 << 3;
    const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    let flags = match listener {
        Listener::None => 0,
        Listener::Killable => NEW_LISTENER | WAIT_KILLABLE_RECV,
    };
    // SAFETY: `program` describes `len` initialised instructions that outlive
    // this call; the kernel copies them and keeps no pointer.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            std::ptr::from_ref(&program),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    match listener {
        Listener::None => Ok(None),
        Listener::Killable => {
            let raw = i32::try_from(result).map_err(|_| io::ErrorKind::InvalidData)?;
            // SAFETY: with NEW_LISTENER the result is a descriptor made for us.
            Ok(Some(unsafe { OwnedFd::from_raw_fd(raw) }))
        }
    }
}
