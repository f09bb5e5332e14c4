//! Subvolumes of btrfs, by ioctl.
//!
//! Source: the kernel's `include/uapi/linux/btrfs.h`; btrfs-ioctl(2).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

const NAME_MOST: usize = 4087;
const NAME_V2_MOST: usize = 4039;

#[repr(C)]
struct VolArgs {
    fd: i64,
    name: [u8; NAME_MOST + 1],
}

#[repr(C)]
struct VolArgsV2 {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; NAME_V2_MOST + 1],
}

#[repr(C)]
struct RootRefs {
    min_treeid: u64,
    /// (tree, directory) of each.
    refs: [[u64; 2]; 255],
    count: u8,
    align: [u8; 7],
}

/// `struct btrfs_ioctl_qgroup_limit_args`.
#[repr(C)]
struct QgroupLimit {
    qgroupid: u64,
    flags: u64,
    max_rfer: u64,
    max_excl: u64,
    rsv_rfer: u64,
    rsv_excl: u64,
}

const _: () = assert!(size_of::<QgroupLimit>() == 48);
const _: () = assert!(size_of::<VolArgs>() == 4096);
const _: () = assert!(size_of::<VolArgsV2>() == 4096);
const _: () = assert!(size_of::<RootRefs>() == 4096);

const SUBVOL_CREATE: libc::Ioctl = write_4096(14);
const SNAP_DESTROY: libc::Ioctl = write_4096(15);
const SNAP_CREATE_V2: libc::Ioctl = write_4096(23);
const GET_SUBVOL_ROOTREF: libc::Ioctl = write_4096(61) | (2 << 30);

/// `_IOR(BTRFS_IOCTL_MAGIC, 43, …)`.
const QGROUP_LIMIT: libc::Ioctl = (2 << 30) | (48 << 16) | (0x94 << 8) | 43;
/// What `flags` limits: everything that the subvolume refers to, shared with others or not.
const MAX_RFER: u64 = 1;

/// `_IOW(BTRFS_IOCTL_MAGIC, number, …)` of a structure of 4096 bytes.
const fn write_4096(number: libc::Ioctl) -> libc::Ioctl {
    (1 << 30) | (4096 << 16) | (0x94 << 8) | number
}

/// Makes an empty subvolume `name` in `dir`.
///
/// Source: btrfs-ioctl(2), `BTRFS_IOC_SUBVOL_CREATE`. Ordinary users may do it where
/// they may make a directory.
///
/// # Errors
///
/// `ENOTTY` on other file systems, `EEXIST`, `EINVAL` for what is not a single name.
pub fn create_subvolume(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    call(dir, SUBVOL_CREATE, &mut VolArgs { fd: 0, name: padded(name)? })
}

/// Makes `name` in `dir` a writable snapshot of a subvolume, whose root `source` is.
///
/// What is in its page cache is written first. A subvolume within it is an empty
/// directory in the snapshot.
///
/// Source: btrfs-ioctl(2), `BTRFS_IOC_SNAP_CREATE_V2`. Ordinary users may do it with
/// subvolumes of their own.
///
/// # Errors
///
/// `ENOTTY` and `EXDEV` on other file systems, `EINVAL` where `source` is no subvolume.
pub fn snapshot(source: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let name = padded(name)?;
    let fd = i64::from(source.as_raw_fd());
    call(dir, SNAP_CREATE_V2, &mut VolArgsV2 { fd, transid: 0, flags: 0, unused: [0; 4], name })
}

/// Deletes the subvolume `name` in `dir` with everything in it. Its space is freed
/// later, by the kernel.
///
/// Source: btrfs-ioctl(2), `BTRFS_IOC_SNAP_DESTROY`.
///
/// # Errors
///
/// `EPERM` for ordinary users, unless mounted with `user_subvol_rm_allowed`;
/// `ENOTEMPTY` where another subvolume is in it; `ENOTTY`, `EINVAL` for what is none.
pub fn destroy_subvolume(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    call(dir, SNAP_DESTROY, &mut VolArgs { fd: 0, name: padded(name)? })
}

/// Whether there are subvolumes within the one that `inside` is in.
///
/// Source: btrfs-ioctl(2), `BTRFS_IOC_GET_SUBVOL_ROOTREF`, Linux 4.18.
///
/// # Errors
///
/// `ENOTTY` on other file systems.
pub fn has_subvolumes(inside: BorrowedFd<'_>) -> io::Result<bool> {
    let mut refs = RootRefs { min_treeid: 0, refs: [[0; 2]; 255], count: 0, align: [0; 7] };
    match call(inside, GET_SUBVOL_ROOTREF, &mut refs) {
        Ok(()) => Ok(refs.count > 0),
        // More of them than one answer holds.
        Err(error) if error.raw_os_error() == Some(libc::EOVERFLOW) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Lets the subvolume that `inside` is in refer to at most so many bytes, or to any number.
/// Writing beyond that fails with `EDQUOT`.
///
/// Source: btrfs-quota(8), `BTRFS_IOC_QGROUP_LIMIT`.
///
/// # Errors
///
/// `ENOTCONN` where the file system has quotas switched off, `ENOENT` for a subvolume that is older
/// than they are, `EPERM` for all but root, `ENOTTY` on other file systems.
pub fn limit_subvolume(inside: BorrowedFd<'_>, bytes: Option<u64>) -> io::Result<()> {
    // This number takes a limit away.
    let max_rfer = bytes.unwrap_or(u64::MAX);
    let mut limit = QgroupLimit {
        qgroupid: 0,
        flags: MAX_RFER,
        max_rfer,
        max_excl: 0,
        rsv_rfer: 0,
        rsv_excl: 0,
    };
    let argument = std::ptr::from_mut(&mut limit);
    // SAFETY: it has the 48 bytes that the request names as its size, all of them initialised.
    let result = unsafe { libc::ioctl(inside.as_raw_fd(), QGROUP_LIMIT, argument) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Structures that the calls above read, or read and write, 4096 bytes of.
trait Argument {}
impl Argument for VolArgs {}
impl Argument for VolArgsV2 {}
impl Argument for RootRefs {}

fn call(fd: BorrowedFd<'_>, request: libc::Ioctl, argument: &mut impl Argument) -> io::Result<()> {
    // SAFETY: each `Argument` has the 4096 bytes that every request here names as its
    // size, all of them initialised and valid with any content.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A name with zeros up to the size of the field.
fn padded<const SIZE: usize>(name: &OsStr) -> io::Result<[u8; SIZE]> {
    let bytes = name.as_bytes();
    let is_name = !bytes.is_empty() && !bytes.contains(&b'/') && !bytes.contains(&0);
    let mut field = [0; SIZE];
    match field.get_mut(..bytes.len()).filter(|_| is_name && bytes.len() < SIZE) {
        Some(start) => start.copy_from_slice(bytes),
        None => return Err(io::ErrorKind::InvalidInput.into()),
    }
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_header() {
        assert_eq!(SUBVOL_CREATE, 0x5000_940e);
        assert_eq!(SNAP_DESTROY, 0x5000_940f);
        assert_eq!(SNAP_CREATE_V2, 0x5000_9417);
        assert_eq!(GET_SUBVOL_ROOTREF, 0xd000_943d);
        assert_eq!(QGROUP_LIMIT, 0x8030_942b);
    }

    #[test]
    fn only_single_names_are_taken() {
        for name in ["", "a/b", "/", "a\0b", "abcd"] {
            assert!(padded::<4>(OsStr::new(name)).is_err(), "{name:?}");
        }
        assert_eq!(padded::<4>(OsStr::new("abc")).unwrap(), *b"abc\0");
    }
}
