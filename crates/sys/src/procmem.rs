//! Reading another process's memory, in small bounded pieces.
//!
//! Source: process_vm_readv(2). What is read can change right after, or while,
//! it is read: callers decide on the copy and act on the copy.

use std::ffi::CString;
use std::io;
use std::num::NonZeroU32;

/// The longest path with its NUL, as the kernel bounds it (path_resolution(7)).
pub const PATH_MAX: usize = 4096;

/// Nearly every path is shorter, and a short copy is a cheap one.
const FIRST_CHUNK: usize = 256;

/// Copies `buffer.len()` bytes or fewer from `address` of thread `pid`.
///
/// # Errors
///
/// `EFAULT` if the first byte is not mapped, `EPERM` if the caller may not trace
/// `pid`, `ESRCH` if it is gone.
pub fn read(pid: NonZeroU32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let start = usize::try_from(address).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
    let remote =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: buffer.len() };
    let pid = libc::pid_t::try_from(pid.get()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `local` describes `buffer`, which is valid for writes; `remote` is
    // an address of another process, which the kernel checks.
    let got = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Copies exactly `buffer.len()` bytes.
///
/// # Errors
///
/// As [`read`]; `EFAULT` also if only a part is mapped.
pub fn read_exact(pid: NonZeroU32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let got = read(pid, address.wrapping_add(done as u64), &mut buffer[done..])?;
        if got == 0 {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        done += got;
    }
    Ok(())
}

/// Copies the NUL-terminated string at `address`, at most [`PATH_MAX`] bytes
/// with its NUL, without ever touching the page after the one that ends it.
///
/// # Errors
///
/// As [`read`]; `ENAMETOOLONG` if there is no NUL within the bound.
pub fn read_path(pid: NonZeroU32, address: u64) -> io::Result<CString> {
    let page = rustix::param::page_size();
    let mut text = Vec::with_capacity(FIRST_CHUNK);
    while text.len() < PATH_MAX {
        let at = address.wrapping_add(text.len() as u64);
        let start = usize::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
        let to_page_end = page - start % page;
        let wanted = if text.is_empty() { FIRST_CHUNK } else { PATH_MAX - text.len() };
        let begin = text.len();
        text.resize(begin + wanted.min(to_page_end), 0);
        let got = read(pid, at, &mut text[begin..])?;
        text.truncate(begin + got);
        if let Some(end) = text[begin..].iter().position(|byte| *byte == 0) {
            text.truncate(begin + end);
            return CString::new(text).map_err(|_| io::ErrorKind::InvalidData.into());
        }
        if got == 0 {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
    }
    Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> NonZeroU32 {
        NonZeroU32::new(std::process::id()).unwrap()
    }

    fn address(bytes: &[u8]) -> u64 {
        bytes.as_ptr().addr() as u64
    }

    /// Two pages of which the second is not readable.
    fn page_before_a_hole() -> (&'static mut [u8], usize) {
        let page = rustix::param::page_size();
        // SAFETY: an anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the second page belongs to the mapping and nothing refers to it.
        let closed =
            unsafe { libc::mprotect(start.wrapping_byte_add(page), page, libc::PROT_NONE) };
        assert_eq!(closed, 0);
        // SAFETY: the first page is mapped, zeroed and leaked, so it lives on.
        (unsafe { std::slice::from_raw_parts_mut(start.cast(), page) }, page)
    }

    #[test]
    fn paths_of_every_length_up_to_the_bound() {
        for length in [0, 1, 255, 256, 257, 4000, 4095] {
            let mut text = vec![b'a'; length];
            text.push(0);
            let got = read_path(me(), address(&text)).unwrap();
            assert_eq!(got.as_bytes(), &text[..length]);
        }
    }

    #[test]
    fn a_path_without_an_end_is_too_long() {
        let text = vec![b'a'; 3 * PATH_MAX];
        let error = read_path(me(), address(&text)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
    }

    #[test]
    fn a_path_may_end_right_before_a_hole() {
        let (bytes, page) = page_before_a_hole();
        bytes[page - 5..].copy_from_slice(b"path\0");
        assert_eq!(read_path(me(), address(&bytes[page - 5..])).unwrap().as_bytes(), b"path");
        bytes[page - 1] = b'!';
        let error = read_path(me(), address(&bytes[page - 5..])).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        let mut eight = [0; 8];
        let error = read_exact(me(), address(&bytes[page - 5..]), &mut eight).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn an_address_that_is_nothing_faults() {
        for address in [0, 8, u64::MAX - 3] {
            let error = read_path(me(), address).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        }
    }
}
