//! Telling the kernel to write a file's pages to the disk.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Starts to write whatever of a file is only in memory, and does not wait for it.
///
/// When it returns, the pages that were to be written are read-only in every process
/// that has mapped them, so that the next store into one moves the file's times.
///
/// Source: sync_file_range(2); `clear_page_dirty_for_io` in the kernel's
/// `mm/page-writeback.c` for the mappings.
///
/// # Errors
///
/// `ENOSPC`, `EIO` of this or an earlier write; `ESPIPE` for what is no file.
pub fn start(file: BorrowedFd<'_>) -> io::Result<()> {
    // Pages on their way to the disk that were written to again would be passed over.
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: takes plain integers and touches no memory of ours.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
