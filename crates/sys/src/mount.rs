//! The part of the new mount API that rustix lacks.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Mount is read-only.
pub const READ_ONLY: u64 = 0x1;
/// Set-user-id bits and file capabilities are ignored.
pub const NO_SUID: u64 = 0x2;
/// Device files cannot be opened.
pub const NO_DEV: u64 = 0x4;
/// Programs cannot be run.
pub const NO_EXEC: u64 = 0x8;

const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;
const AT_RECURSIVE: libc::c_uint = 0x8000;
const MS_PRIVATE: u64 = 1 << 18;
const MS_SHARED: u64 = 1 << 20;

#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

fn set(mount: BorrowedFd<'_>, recursive: bool, attr: &MountAttr) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH.cast_unsigned() | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string and `attr` is a whole `struct mount_attr`
    // of the size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Adds attributes to a mount and everything mounted beneath it.
///
/// Source: mount_setattr(2), Linux 5.12.
///
/// # Errors
///
/// `EPERM` where an attribute is locked, `EINVAL` for one the kernel lacks.
pub fn add_attributes(tree: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    set(tree, true, &MountAttr { attr_set: attributes, ..MountAttr::default() })
}

/// Adds attributes to a tree, as [`add_attributes`], and cuts it off from its peers: a
/// clone of a shared mount is one of them, so what is mounted on it would appear on
/// the original too.
///
/// Source: mount_setattr(2); mount_namespaces(7), "SHARED SUBTREES".
///
/// # Errors
///
/// As [`add_attributes`].
pub fn seclude(tree: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    let attr = MountAttr { attr_set: attributes, propagation: MS_PRIVATE, ..MountAttr::default() };
    set(tree, true, &attr)
}

/// Adds attributes to one mount and leaves those beneath it alone.
///
/// Source: mount_setattr(2).
///
/// # Errors
///
/// As [`add_attributes`].
pub fn add_attributes_here(mount: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    set(mount, false, &MountAttr { attr_set: attributes, ..MountAttr::default() })
}

/// Lets what is mounted later on a mount, and on those beneath it, appear in copies
/// of it too: in mount namespaces that are made from now on, though not the other
/// way if those belong to another user namespace.
///
/// Source: mount_setattr(2), mount_namespaces(7), "SHARED SUBTREES".
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN`, `EINVAL` where nothing is mounted.
pub fn share(tree: BorrowedFd<'_>) -> io::Result<()> {
    set(tree, true, &MountAttr { propagation: MS_SHARED, ..MountAttr::default() })
}

/// Maps the owners of the files of a detached mount, and of those beneath it,
/// through a user namespace. All of them are mapped or none.
///
/// Source: mount_setattr(2), "ID-mapped mounts".
///
/// # Errors
///
/// `EINVAL` where the file system does not support it, `EPERM` without
/// `CAP_SYS_ADMIN` in the user namespace of the file system.
pub fn map_owners(tree: BorrowedFd<'_>, userns: BorrowedFd<'_>) -> io::Result<()> {
    let userns_fd = u64::try_from(userns.as_raw_fd()).unwrap_or_default();
    set(tree, true, &MountAttr { attr_set: MOUNT_ATTR_IDMAP, userns_fd, ..MountAttr::default() })
}

/// Gives the calling process, which must have one thread, mounts of its own: what it
/// mounts from now on nobody else sees, and it goes with the process.
///
/// Source: unshare(2), `CLONE_NEWNS`; mount_namespaces(7), "SHARED SUBTREES".
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN`. The process may then have mounts of its own that
/// still reach others, and must end.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes one number, and changes nothing in memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    make_all_private()
}

/// Cuts the whole mount table of this namespace off from its peers.
///
/// Source: mount_namespaces(7), "SHARED SUBTREES".
///
/// # Errors
///
/// `EPERM` without `CAP_SYS_ADMIN` in the namespace's owner.
pub fn make_all_private() -> io::Result<()> {
    let attr = MountAttr { propagation: MS_PRIVATE, ..MountAttr::default() };
    // SAFETY: as in `set`, with a path of its own.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            AT_RECURSIVE,
            std::ptr::from_ref(&attr),
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Detaches the mount at `target` and all beneath it, now for names and later
/// for those who still use it.
///
/// Source: umount2(2), `MNT_DETACH`.
///
/// # Errors
///
/// `EINVAL` if nothing is mounted there.
pub fn detach(target: &CStr) -> io::Result<()> {
    // SAFETY: the target is a C string.
    let result = unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
