//! Carries out a plan, inside the new namespaces.

use crate::overlay;
use crate::plan::Step;
use crate::spec::{Access, Kind, Lower, Source, Watches};
use atoll_sys::mount as attributes;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// A step that failed: which, at what call, and why.
#[derive(Debug, thiserror::Error)]
#[error("step {index} of the jail failed: {step}: {call}")]
pub struct ApplyError {
    pub index: usize,
    /// The step in words.
    pub step: String,
    /// The system call that failed.
    pub call: &'static str,
    pub source: io::Error,
}

/// A call that failed within a step.
struct Failed {
    call: &'static str,
    source: io::Error,
}

trait At<T> {
    /// Names the call of a result.
    fn at(self, call: &'static str) -> Result<T, Failed>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, call: &'static str) -> Result<T, Failed> {
        self.map_err(|error| Failed { call, source: error.into() })
    }
}

/// Carries out `steps`; `handed` are the trees of [`Source::Handed`], `late`
/// waits for the next of [`Source::Late`].
///
/// # Errors
///
/// The first step that fails. The process is then in an unfinished place and
/// must end.
pub fn apply(
    steps: &[Step],
    handed: &[OwnedFd],
    late: &mut dyn FnMut() -> io::Result<OwnedFd>,
) -> Result<(), ApplyError> {
    let mut builder = Builder { handed, late, overlays: Vec::new(), old_root: None };
    for (index, step) in steps.iter().enumerate() {
        builder.step(step).map_err(|failed| ApplyError {
            index,
            step: step.to_string(),
            call: failed.call,
            source: failed.source,
        })?;
    }
    Ok(())
}

struct Builder<'a> {
    handed: &'a [OwnedFd],
    late: &'a mut dyn FnMut() -> io::Result<OwnedFd>,
    overlays: Vec<OwnedFd>,
    /// The host's root, until it is left.
    old_root: Option<OwnedFd>,
}

impl Builder<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Failed> {
        match step {
            Step::MountOverlay { lowers, upper, work } => self.mount_overlay(lowers, upper, work),
            Step::BindOverlay { at, index } => {
                let mount = self.overlays.get(*index).ok_or(Errno::BADF);
                attach(mount.at("find the overlay")?.as_fd(), at)
            }
            Step::EmptyRoot { bytes } => self.empty_root(*bytes),
            Step::MakeDirectory { path, mode } => make_directory(path, *mode),
            Step::MakeFile { path, mode, content } => make_file(path, *mode, content),
            Step::MakeLink { path, to } => rustix::fs::symlink(to, path).at("symlink"),
            Step::Bind { at, source, access } => self.bind(at, source, *access),
            Step::KeepWritable { at } => place(at, at),
            Step::Place { from, at } => place(from, at),
            Step::MountProc { at } => mount_new("proc", &[], at, MountAttrFlags::empty()),
            Step::ForbidUserNamespaces { proc } => forbid_user_namespaces(proc),
            Step::LimitWatches { proc, limits } => limit_watches(proc, *limits),
            Step::Blank { at } => self.blank(at),
            Step::Cover { at } => cover(at),
            Step::MountPts { at } => {
                let options = [("ptmxmode", "0666"), ("mode", "0620")];
                mount_new("devpts", &options, at, MountAttrFlags::MOUNT_ATTR_NOEXEC)
            }
            Step::Device { at, name } => self.device(at, name),
            Step::MakeMasks => make_masks(),
            Step::Mask { at, kind } => mask_again(rustix::fs::CWD, at, *kind).map(|_| ()),
            Step::Twin { of, at } => twin(of, at),
            Step::LeaveOldRoot => self.leave_old_root(),
            Step::Seal { at } => seal(at),
            Step::EnterRoot { at } => enter_root(at),
            Step::SetHostname { name } => {
                rustix::system::sethostname(name.as_bytes()).at("sethostname")
            }
        }
    }

    fn mount_overlay(&mut self, lowers: &[Lower], upper: &Path, work: &Path) -> Result<(), Failed> {
        let open = |path, expect| {
            crate::tree::open(path, expect)
                .map_err(|error| Failed { call: "openat2", source: io::Error::other(error) })
        };
        let lowers: Vec<OwnedFd> =
            lowers.iter().map(|lower| open(&lower.path, lower.expect)).collect::<Result<_, _>>()?;
        let lowers: Vec<BorrowedFd<'_>> = lowers.iter().map(OwnedFd::as_fd).collect();
        let (upper, work) = (open(upper, None)?, open(work, None)?);
        let marks = overlay::Marks::User;
        let mount = overlay::mount(&lowers, upper.as_fd(), work.as_fd(), marks);
        let mount = mount.map_err(|error| Failed { call: error.call, source: error.source })?;
        self.overlays.push(mount);
        Ok(())
    }

    fn empty_root(&mut self, bytes: u64) -> Result<(), Failed> {
        attributes::make_all_private().at("mount_setattr(MS_PRIVATE)")?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.old_root = Some(rustix::fs::open("/", flags, Mode::empty()).at("open(/)")?);
        let size = bytes.to_string();
        let inodes = (bytes / 4096).max(16 * 1024).to_string();
        let options = [("size", size.as_str()), ("nr_inodes", inodes.as_str()), ("mode", "0755")];
        let root = new_mount("tmpfs", &options, MountAttrFlags::empty())?;
        attach(root.as_fd(), Path::new("/"))?;
        rustix::process::fchdir(root.as_fd()).at("fchdir")?;
        rustix::process::pivot_root(".", ".").at("pivot_root")
    }

    fn bind(&mut self, at: &Path, source: &Source, access: Access) -> Result<(), Failed> {
        let opened;
        let tree = match source {
            Source::Path { path, expect } => {
                opened = self.open_source(path, *expect)?;
                opened.as_fd()
            }
            Source::Handed(index) => {
                let tree = self.handed.get(*index).ok_or(Errno::BADF);
                tree.at("find the handed tree")?.as_fd()
            }
            Source::Late => {
                opened = (self.late)().at("wait for the launcher's tree")?;
                opened.as_fd()
            }
            // The plan makes another step of it.
            Source::Overlay { .. } => return Err(Errno::INVAL).at("bind"),
        };
        let read_only = match access {
            Access::ReadOnly => attributes::READ_ONLY,
            Access::ReadWrite => 0,
        };
        let wanted = attributes::NO_SUID | attributes::NO_DEV | read_only;
        // What the launcher handed over comes from the host's own mount namespace.
        attributes::seclude(tree, wanted).at("mount_setattr")?;
        attach(tree, at)
    }

    /// Clones the tree at a real path of the host: no link is followed, and
    /// what is found must be what was planned.
    fn open_source(&self, path: &Path, expect: Option<(u64, u64)>) -> Result<OwnedFd, Failed> {
        let old_root = self.old_root.as_ref().ok_or(Errno::BADF).at("find the old root")?;
        let below = path.strip_prefix("/").unwrap_or(path);
        let found = rustix::fs::openat2(
            old_root,
            below,
            OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
        .at("openat2")?;
        if let Some((device, inode)) = expect {
            let stat = rustix::fs::fstat(&found).at("fstat")?;
            if (stat.st_dev, stat.st_ino) != (device, inode) {
                return Err(Errno::STALE).at("compare with what was planned");
            }
        }
        clone_tree(found.as_fd(), Path::new(""), true)
    }

    fn device(&self, at: &Path, name: &str) -> Result<(), Failed> {
        let old_root = self.old_root.as_ref().ok_or(Errno::BADF).at("find the old root")?;
        let source = Path::new("dev").join(name);
        let tree = clone_tree(old_root.as_fd(), &source, false)?;
        attach(tree.as_fd(), at)
    }

    /// A file that this kernel lacks is left out.
    fn blank(&self, at: &Path) -> Result<(), Failed> {
        match self.device(at, "null") {
            Err(failed) if is_absent(&failed) => Ok(()),
            result => result,
        }
    }

    fn leave_old_root(&mut self) -> Result<(), Failed> {
        let old_root = self.old_root.take().ok_or(Errno::BADF).at("find the old root")?;
        rustix::process::fchdir(&old_root).at("fchdir")?;
        atoll_sys::mount::detach(c".").at("umount2(MNT_DETACH)")?;
        rustix::process::chdir("/").at("chdir(/)")
    }
}

/// What hides a file, and what hides a directory.
const MASK_FILE: &str = "/.masked-file";
const MASK_DIRECTORY: &str = "/.masked-directory";

/// Makes both, each in a read-only mount of its own: their owner, who is the
/// workload's user, could change their mode anywhere else.
fn make_masks() -> Result<(), Failed> {
    make_file(Path::new(MASK_FILE), 0, &[])?;
    make_directory(Path::new(MASK_DIRECTORY), 0)?;
    for path in [MASK_FILE, MASK_DIRECTORY] {
        let tree = clone_tree(rustix::fs::CWD, Path::new(path), false)?;
        let wanted = attributes::READ_ONLY | attributes::NO_SUID | attributes::NO_DEV;
        attributes::add_attributes(tree.as_fd(), wanted).at("mount_setattr")?;
        attach(tree.as_fd(), Path::new(path))?;
    }
    Ok(())
}

/// Hides what is at `at`, as seen from `base`, unless it is hidden already; gives
/// whether it was not. For a watcher that keeps `CAP_SYS_ADMIN` in the jail's user namespace.
///
/// # Errors
///
/// Something that is not there or not a place any more, or lies behind a link.
pub fn mask(base: BorrowedFd<'_>, at: &Path, kind: Kind) -> io::Result<bool> {
    mask_again(base, at, kind).map_err(|failed| failed.source)
}

fn mask_again(base: BorrowedFd<'_>, at: &Path, kind: Kind) -> Result<bool, Failed> {
    let mask = match kind {
        Kind::File => MASK_FILE,
        Kind::Directory => MASK_DIRECTORY,
    };
    // By descriptor, so that a link that takes a directory's place on the way
    // cannot send the mask elsewhere.
    let place = rustix::fs::openat2(
        base,
        at,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
    .at("openat2")?;
    let (found, wanted) =
        (rustix::fs::fstat(&place).at("fstat")?, rustix::fs::lstat(mask).at("lstat")?);
    if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) {
        return Ok(false);
    }
    let tree = clone_tree(rustix::fs::CWD, Path::new(mask), false)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &place, "", flags).at("move_mount")?;
    Ok(true)
}

fn make_directory(path: &Path, mode: u32) -> Result<(), Failed> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(mode)) {
        Err(Errno::EXIST) => {
            let found = rustix::fs::lstat(path).at("lstat")?;
            let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
            if is_directory { Ok(()) } else { Err(Errno::NOTDIR).at("mkdir") }
        }
        result => result.at("mkdir"),
    }
}

fn make_file(path: &Path, mode: u32, content: &[u8]) -> Result<(), Failed> {
    if content.is_empty() {
        // One call instead of two: most files here are places to bind onto. One
        // may lie in a tree that was bound before.
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            FileType::RegularFile,
            Mode::from_raw_mode(mode),
            0,
        );
        return if made == Err(Errno::EXIST) { Ok(()) } else { made.at("mknod") };
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(mode)).at("open(O_CREAT)")?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).at("write")?;
        rest = &rest[written..];
    }
    Ok(())
}

fn clone_tree(base: BorrowedFd<'_>, path: &Path, recursive: bool) -> Result<OwnedFd, Failed> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    if path.as_os_str().is_empty() {
        flags |= OpenTreeFlags::AT_EMPTY_PATH;
    }
    open_tree(base, path, flags).at("open_tree")
}

fn attach(tree: BorrowedFd<'_>, at: &Path) -> Result<(), Failed> {
    move_mount(tree, "", rustix::fs::CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .at("move_mount")
}

fn new_mount(
    kind: &'static str,
    options: &[(&str, &str)],
    more: MountAttrFlags,
) -> Result<OwnedFd, Failed> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).at("fsopen")?;
    for (key, value) in options {
        if value.is_empty() {
            fsconfig_set_flag(&context, *key).at("fsconfig")?;
        } else {
            fsconfig_set_string(&context, *key, *value).at("fsconfig")?;
        }
    }
    fsconfig_create(&context).at("fsconfig(CREATE)")?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | more;
    // devpts needs its device files to open; all else has none.
    let flags = if kind == "devpts" { flags } else { flags | MountAttrFlags::MOUNT_ATTR_NODEV };
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags).at("fsmount")
}

fn mount_new(
    kind: &'static str,
    options: &[(&str, &str)],
    at: &Path,
    more: MountAttrFlags,
) -> Result<(), Failed> {
    let mount = new_mount(kind, options, more)?;
    attach(mount.as_fd(), at)
}

/// Sets the limit of user namespaces below the sandbox's own, which only a holder
/// of `CAP_SYS_RESOURCE` in it could raise again (namespaces(7),
/// `/proc/sys/user`). The kernel sees the namespace of whoever opens the file.
fn forbid_user_namespaces(proc: &Path) -> Result<(), Failed> {
    limit(&proc.join("sys/user/max_user_namespaces"), 0)
}

/// As above, for inotify(7).
fn limit_watches(proc: &Path, limits: Watches) -> Result<(), Failed> {
    limit(&proc.join("sys/user/max_inotify_instances"), limits.instances)?;
    limit(&proc.join("sys/user/max_inotify_watches"), limits.watches)
}

fn limit(path: &Path, number: u32) -> Result<(), Failed> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).at("open(/proc/sys/user)")?;
    rustix::io::write(&file, number.to_string().as_bytes()).at("write(/proc/sys/user)")?;
    Ok(())
}

fn is_absent(failed: &Failed) -> bool {
    failed.source.kind() == io::ErrorKind::NotFound
}

/// Makes a place of procfs read-only; one that this kernel lacks is left out.
fn cover(at: &Path) -> Result<(), Failed> {
    let tree = match clone_tree(rustix::fs::CWD, at, true) {
        Err(failed) if is_absent(&failed) => return Ok(()),
        tree => tree?,
    };
    attributes::add_attributes(tree.as_fd(), attributes::READ_ONLY).at("mount_setattr")?;
    attach(tree.as_fd(), at)
}

fn place(from: &Path, at: &Path) -> Result<(), Failed> {
    let tree = clone_tree(rustix::fs::CWD, from, false)?;
    attach(tree.as_fd(), at)
}

/// No link is followed at the end of either path. What is not there any more is left so.
fn twin(of: &Path, at: &Path) -> Result<(), Failed> {
    let tree = clone_tree(rustix::fs::CWD, of, false)?;
    let wanted = attributes::READ_ONLY | attributes::NO_SUID | attributes::NO_DEV;
    attributes::add_attributes(tree.as_fd(), wanted).at("mount_setattr")?;
    match attach(tree.as_fd(), at) {
        Err(failed) if is_absent(&failed) => Ok(()),
        attached => attached,
    }
}

fn seal(at: &Path) -> Result<(), Failed> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mount = rustix::fs::openat(rustix::fs::CWD, at, flags, Mode::empty()).at("open")?;
    attributes::add_attributes_here(mount.as_fd(), attributes::READ_ONLY).at("mount_setattr")
}

/// The root until now is mounted over the new one for a moment; what was bound from it
/// stays.
fn enter_root(at: &Path) -> Result<(), Failed> {
    rustix::process::chdir(at).at("chdir")?;
    rustix::process::pivot_root(".", ".").at("pivot_root")?;
    atoll_sys::mount::detach(c".").at("umount2(MNT_DETACH)")?;
    rustix::process::chdir("/").at("chdir(/)")
}

/// Says whether a path names a directory, for callers that build a view.
///
/// # Errors
///
/// Those of statat(2), without following a final link.
pub fn is_directory(path: &Path) -> io::Result<bool> {
    let stat = rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}
