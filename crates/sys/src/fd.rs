//! Closing descriptors by range, and taking the standard ones.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

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

/// Gives the calling process a descriptor table of its own without the ones
/// from `first` up, where it shared one with another process before.
///
/// Source: close_range(2), `CLOSE_RANGE_UNSHARE`.
///
/// # Errors
///
/// `ENOSYS` before Linux 5.9, `EMFILE`, `ENOMEM`.
pub fn unshare_and_close_from(first: u32) -> io::Result<()> {
    // SAFETY: as above; the table that loses descriptors is only our copy.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `descriptor` the standard descriptor `number` (0, 1 or 2), open across
/// execve(2).
///
/// Source: dup2(2).
///
/// # Errors
///
/// `EMFILE` does not occur; `EINTR` may.
///
/// # Panics
///
/// If `number` is above 2: a higher one may belong to an owned value.
pub fn make_standard(descriptor: BorrowedFd<'_>, number: u8) -> io::Result<()> {
    assert!(number < 3, "only standard descriptors can be replaced");
    // SAFETY: the standard descriptors belong to nobody's owned value.
    let result = unsafe { libc::dup2(descriptor.as_raw_fd(), i32::from(number)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes the standard descriptor `number`.
///
/// Source: close(2). One that is closed already stays so.
///
/// # Panics
///
/// If `number` is above 2.
pub fn close_standard(number: u8) {
    assert!(number < 3, "only standard descriptors can be closed by number");
    // SAFETY: as above.
    unsafe { libc::close(i32::from(number)) };
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

/// Closes every descriptor above 2 but these. As [`close_from`].
///
/// # Errors
///
/// `ENOSYS` before Linux 5.9.
pub fn close_all_but(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<u32> =
        keep.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept.into_iter().filter(|number| *number >= 3) {
        if number > first {
            close_between(first, number - 1)?;
        }
        first = number + 1;
    }
    close_from(first)
}
