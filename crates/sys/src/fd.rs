//! Closing descriptors by range.

use std::io;

/// Closes every descriptor from `first` up to the largest there can be.
///
/// The caller must not use a descriptor in that range afterwards: owned values
/// that refer to one would close a stranger's descriptor when dropped.
///
/// Source: close_range(2).
///
/// # Errors
///
/// `ENOSYS` before Linux 5.9.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: close_range takes plain integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every descriptor from `first` to `last`. As [`close_from`].
///
/// # Errors
///
/// `ENOSYS` before Linux 5.9, `EINVAL` if `last` is below `first`.
pub fn close_between(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: close_range takes plain integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
