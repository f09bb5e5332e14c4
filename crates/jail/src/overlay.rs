//! The overlay mount of a review workspace.
//!
//! Inside a user namespace the overlay keeps its marks in `user.overlay.*`
//! attributes and cannot rename a directory of the lower layer (`EXDEV`). Root
//! mounts it in the initial namespace, where it can, and hands it in.
//!
//! Older kernels take no layer that is not attached anywhere, as root's project is
//! whose owners are mapped. There a child attaches it in a mount namespace of its
//! own: the overlay keeps what it needs of it, and the host sees nothing.

use crate::tree::{self, TreeError};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

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

impl OverlayError {
    /// Whether the kernel takes a layer for none.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.source.raw_os_error() == Some(Errno::INVAL.raw_os_error())
    }
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

/// As [`mount`] by root, of layers at real paths, with the owners of `lower` seen through
/// the user namespace `owners` if one is given. `upper` and `work` are in one directory.
///
/// # Errors
///
/// As [`mount`], and those of the trees.
pub fn mount_by_root(
    lower: &Path,
    expect: Option<(u64, u64)>,
    [upper, work]: [&Path; 2],
    owners: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, ByRootError> {
    let lower = match owners {
        Some(_) => tree::clone(lower, expect, owners)?,
        None => tree::open(lower, expect)?,
    };
    let (upper_fd, work_fd) = (tree::open(upper, None)?, tree::open(work, None)?);
    let mounted = mount(lower.as_fd(), upper_fd.as_fd(), work_fd.as_fd(), Marks::Trusted);
    match (mounted, upper.parent(), upper.file_name(), work.file_name()) {
        (Err(error), Some(layers), Some(upper), Some(work))
            if owners.is_some() && error.is_invalid() =>
        {
            Ok(mount_apart(lower.as_fd(), tree::open(layers, None)?.as_fd(), [upper, work])?)
        }
        (mounted, ..) => Ok(mounted?),
    }
}

/// Why [`mount_by_root`] failed.
#[derive(Debug, thiserror::Error)]
pub enum ByRootError {
    #[error(transparent)]
    Layer(#[from] TreeError),
    #[error(transparent)]
    Mount(#[from] OverlayError),
}

impl ByRootError {
    /// The failed step, for whoever explains it, with the errno.
    #[must_use]
    pub fn step(&self) -> (&'static str, Option<i32>) {
        match self {
            Self::Layer(error) => error.step(),
            Self::Mount(error) => (error.call, error.source.raw_os_error()),
        }
    }
}

fn at(call: &'static str) -> impl Fn(Errno) -> OverlayError {
    move |error| OverlayError { call, source: error.into() }
}

/// As [`mount`] by root, for a `lower` that is not attached anywhere; `upper` and
/// `work` are names in the directory `layers`.
///
/// Source: mount_namespaces(7); before Linux 6.15 a private clone is made only of
/// mounts of the caller's own namespace.
///
/// # Errors
///
/// As [`mount`]; those of unshare(2) and move_mount(2).
pub fn mount_apart(
    lower: BorrowedFd<'_>,
    layers: BorrowedFd<'_>,
    [upper, work]: [&OsStr; 2],
) -> Result<OwnedFd, OverlayError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    // What an attempt leaves that failed (kernel documentation, "Volatile mount").
    let mark = Path::new(work).join("work/incompat/volatile");
    for (path, flags) in [(mark.join("dirty"), AtFlags::empty()), (mark, AtFlags::REMOVEDIR)] {
        match unlinkat(layers, &path, flags) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(at("unlinkat")(error)),
        }
    }
    let layers = open_tree(layers, "", flags).map_err(at("open_tree"))?;
    let mut made = None;
    let child = atoll_sys::clone::spawn_shared(|| {
        made = Some(attached(lower, layers.as_fd(), upper, work));
        0
    });
    let child = child.map_err(|source| OverlayError { call: "clone", source })?;
    // It has ended; an error means that nobody has to collect it.
    atoll_sys::process::wait_for(child).ok();
    made.unwrap_or_else(|| Err(at("clone")(Errno::CHILD)))
}

/// In the child, which shares our descriptors but not our mounts.
fn attached(
    lower: BorrowedFd<'_>,
    layers: BorrowedFd<'_>,
    upper: &OsStr,
    work: &OsStr,
) -> Result<OwnedFd, OverlayError> {
    atoll_sys::mount::unshare_mounts()
        .map_err(|source| OverlayError { call: "unshare", source })?;
    // Over the root, which every path goes on to mean.
    for tree in [lower, layers] {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(tree, "", rustix::fs::CWD, "/", flags).map_err(at("move_mount"))?;
    }
    let open = |name: &OsStr| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(layers, name, flags, Mode::empty()).map_err(at("openat"))
    };
    let (upper, work) = (open(upper)?, open(work)?);
    mount(lower, upper.as_fd(), work.as_fd(), Marks::Trusted)
}
