//! The overlay mount of a review workspace.
//!
//! Inside a user namespace the overlay keeps its marks in `user.overlay.*`
//! attributes and cannot rename a directory of the lower layer (`EXDEV`). Root
//! mounts it in the initial namespace, where it can, and hands it in.

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Where the overlay keeps its marks, and so what it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// `user.overlay.*`: for a mount inside a user namespace.
    User,
    /// `trusted.overlay.*`, with renames of directories: for a mount by root in
    /// the initial user namespace.
    Trusted,
}

/// A mount that failed, with the call.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed for the overlay")]
pub struct OverlayError {
    pub call: &'static str,
    pub source: io::Error,
}

/// Makes a detached overlay mount of `lower` with writes in `upper`. `work` is
/// an empty directory on the same file system as `upper`.
///
/// The mount is `volatile`: nothing is synced when it goes, which is what makes
/// the end of a run fast; whoever needs the upper on disk syncs it.
///
/// Source: kernel documentation, filesystems/overlayfs.
///
/// # Errors
///
/// `EINVAL` where a file system cannot serve as a layer, `EPERM`.
pub fn mount(
    lower: BorrowedFd<'_>,
    upper: BorrowedFd<'_>,
    work: BorrowedFd<'_>,
    marks: Marks,
) -> Result<OwnedFd, OverlayError> {
    let at = |call: &'static str| {
        move |error: rustix::io::Errno| OverlayError { call, source: error.into() }
    };
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(at("fsopen"))?;
    // A path by descriptor needs no quoting and cannot be exchanged.
    let path = |fd: BorrowedFd<'_>| format!("/proc/self/fd/{}", fd.as_raw_fd());
    for (key, fd) in [("lowerdir", lower), ("upperdir", upper), ("workdir", work)] {
        fsconfig_set_string(&context, key, path(fd)).map_err(at("fsconfig"))?;
    }
    match marks {
        Marks::User => fsconfig_set_flag(&context, "userxattr").map_err(at("fsconfig"))?,
        Marks::Trusted => {
            fsconfig_set_string(&context, "redirect_dir", "on").map_err(at("fsconfig"))?;
        }
    }
    fsconfig_set_flag(&context, "volatile").map_err(at("fsconfig"))?;
    fsconfig_create(&context).map_err(at("fsconfig(CREATE)"))?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags).map_err(at("fsmount"))
}
