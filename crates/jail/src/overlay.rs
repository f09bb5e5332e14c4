//! Overlay mounts: of a review workspace, of a root file system and of a home.
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

/// Makes a detached overlay mount of `lowers`, the lowest first, with writes in `upper`. `work`
/// is an empty directory on the same file system as `upper`.
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
    lowers: &[BorrowedFd<'_>],
    upper: BorrowedFd<'_>,
    work: BorrowedFd<'_>,
    marks: Marks,
) -> Result<OwnedFd, OverlayError> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(at("fsopen"))?;
    let from = set_lowers(&context, lowers)?;
    for (key, fd) in [("upperdir", upper), ("workdir", work)] {
        fsconfig_set_string(&context, key, path(fd)).map_err(at("fsconfig"))?;
    }
    match marks {
        Marks::User => fsconfig_set_flag(&context, "userxattr").map_err(at("fsconfig"))?,
        Marks::Trusted => {
            fsconfig_set_string(&context, "redirect_dir", "on").map_err(at("fsconfig"))?;
        }
    }
    fsconfig_set_flag(&context, "volatile").map_err(at("fsconfig"))?;
    let created = fsconfig_create(&context).map_err(at("fsconfig(CREATE)"));
    if let Some(from) = from {
        rustix::process::fchdir(from).map_err(at("fchdir"))?;
    }
    created?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags).map_err(at("fsmount"))
}

/// A path by descriptor needs no quoting and cannot be exchanged.
fn path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Tells the layers below. Before Linux 6.7 they are one text, which is read from the working
/// directory when the mount is made and may have 256 bytes: there this gives the directory to
/// go back to then.
fn set_lowers(
    context: &OwnedFd,
    lowers: &[BorrowedFd<'_>],
) -> Result<Option<OwnedFd>, OverlayError> {
    let set = |key, text: String| fsconfig_set_string(context, key, text);
    if let [lower] = lowers {
        return set("lowerdir", path(*lower)).map(|()| None).map_err(at("fsconfig"));
    }
    // From the top.
    let mut rest = lowers.iter().rev().copied();
    let Some(first) = rest.next() else { return Err(at("fsconfig")(Errno::INVAL)) };
    match set("lowerdir+", path(first)) {
        Err(Errno::INVAL) => {}
        told => {
            told.map_err(at("fsconfig"))?;
            rest.try_for_each(|lower| set("lowerdir+", path(lower))).map_err(at("fsconfig"))?;
            return Ok(None);
        }
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from = rustix::fs::open(".", flags, Mode::empty()).map_err(at("open"))?;
    rustix::process::chdir("/proc/self/fd").map_err(at("chdir"))?;
    let names: Vec<String> =
        lowers.iter().rev().map(|lower| lower.as_raw_fd().to_string()).collect();
    set("lowerdir", names.join(":")).map_err(at("fsconfig"))?;
    Ok(Some(from))
}

/// A directory that an overlay of root's shows.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// A real path.
    pub path: &'a Path,
    /// Its (device, inode), if it must be that one.
    pub expect: Option<(u64, u64)>,
    /// The user namespace through which its owners are seen, if they are not as they are.
    pub owners: Option<BorrowedFd<'a>>,
}

/// As [`mount`] by root. `upper` and `work` are real paths in one directory.
///
/// # Errors
///
/// As [`mount`], and those of the trees.
pub fn mount_by_root(
    lowers: &[Layer<'_>],
    [upper, work]: [&Path; 2],
) -> Result<OwnedFd, ByRootError> {
    let open = |lower: &Layer<'_>| match lower.owners {
        Some(_) => tree::clone(lower.path, lower.expect, lower.owners),
        None => tree::open(lower.path, lower.expect),
    };
    let trees: Vec<OwnedFd> = lowers.iter().map(open).collect::<Result<_, _>>()?;
    let trees: Vec<BorrowedFd<'_>> = trees.iter().map(OwnedFd::as_fd).collect();
    let (upper_fd, work_fd) = (tree::open(upper, None)?, tree::open(work, None)?);
    let mounted = mount(&trees, upper_fd.as_fd(), work_fd.as_fd(), Marks::Trusted);
    let has_detached = lowers.iter().any(|lower| lower.owners.is_some());
    match (mounted, upper.parent(), upper.file_name(), work.file_name()) {
        (Err(error), Some(layers), Some(upper), Some(work))
            if has_detached && error.is_invalid() =>
        {
            Ok(mount_apart(&trees, tree::open(layers, None)?.as_fd(), [upper, work])?)
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

/// As [`mount`] by root, for `lowers` of which some are not attached anywhere; `upper` and
/// `work` are names in the directory `layers`.
///
/// Source: mount_namespaces(7); before Linux 6.15 a private clone is made only of
/// mounts of the caller's own namespace.
///
/// # Errors
///
/// As [`mount`]; those of unshare(2) and move_mount(2).
pub fn mount_apart(
    lowers: &[BorrowedFd<'_>],
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
    let clone = |tree: BorrowedFd<'_>| open_tree(tree, "", flags);
    // Those that are attached are cloned, so that all can be moved. Before Linux 6.15 the others
    // can not be cloned, and need not be.
    let detached = |lower: BorrowedFd<'_>| match clone(lower) {
        Err(Errno::INVAL) => rustix::io::fcntl_dupfd_cloexec(lower, 0).map_err(at("fcntl")),
        cloned => cloned.map_err(at("open_tree")),
    };
    let trees: Vec<OwnedFd> =
        lowers.iter().map(|lower| detached(*lower)).collect::<Result<_, _>>()?;
    let layers = clone(layers).map_err(at("open_tree"))?;
    let mut made = None;
    let child = atoll_sys::clone::spawn_shared(|| {
        made = Some(attached(&trees, layers.as_fd(), upper, work));
        0
    });
    let child = child.map_err(|source| OverlayError { call: "clone", source })?;
    // It has ended; an error means that nobody has to collect it.
    atoll_sys::process::wait_for(child).ok();
    made.unwrap_or_else(|| Err(at("clone")(Errno::CHILD)))
}

/// In the child, which shares our descriptors but not our mounts.
fn attached(
    trees: &[OwnedFd],
    layers: BorrowedFd<'_>,
    upper: &OsStr,
    work: &OsStr,
) -> Result<OwnedFd, OverlayError> {
    atoll_sys::mount::unshare_mounts()
        .map_err(|source| OverlayError { call: "unshare", source })?;
    let lowers: Vec<BorrowedFd<'_>> = trees.iter().map(OwnedFd::as_fd).collect();
    // Over the root, which every path goes on to mean.
    for tree in lowers.iter().copied().chain([layers]) {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(tree, "", rustix::fs::CWD, "/", flags).map_err(at("move_mount"))?;
    }
    let open = |name: &OsStr| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(layers, name, flags, Mode::empty()).map_err(at("openat"))
    };
    let (upper, work) = (open(upper)?, open(work)?);
    mount(&lowers, upper.as_fd(), work.as_fd(), Marks::Trusted)
}
