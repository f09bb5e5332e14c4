//! What the command sees: an empty root with the system read-only, the project
//! at its own path and private places for everything else.

use crate::kernel::{self, MountAttributes};
use anyhow::{Context as _, Result};
use rustix::fs::{AtFlags, CWD, Dev, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

const SYSTEM: &[&str] = &["usr", "etc"];
/// Only where something is in them.
const MORE_SYSTEM: &[&str] = &["opt"];
/// Links into `/usr` on a merged system, else directories.
const SYSTEM_LINKS: &[&str] = &["bin", "lib", "lib64", "sbin"];
const DEVICES: &[&str] = &["full", "null", "random", "tty", "urandom", "zero"];
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("dev/fd", "/proc/self/fd"),
    ("dev/ptmx", "pts/ptmx"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
];

const CACHES: &[(&str, &str)] = &[
    (".cargo/git", "../.cache/cargo-git"),
    (".cargo/registry", "../.cache/cargo-registry"),
    (".gradle", ".cache/gradle"),
    (".m2", ".cache/m2"),
    (".npm", ".cache/npm"),
    (".yarn", ".cache/yarn"),
    ("go/pkg", "../.cache/go-pkg"),
];

pub(crate) struct View {
    pub(crate) project: PathBuf,
    pub(crate) home: PathBuf,
    /// Where writes to the project go instead of into it.
    pub(crate) layer: Option<PathBuf>,
}

impl View {
    pub(crate) fn of_working_directory(layer: Option<PathBuf>) -> Result<Self> {
        let project = std::env::current_dir().context("cannot find the working directory")?;
        let home = std::env::var_os("HOME").context("HOME is not set")?.into();
        Ok(Self { project, home, layer })
    }

    /// Builds the view and makes it the root of this process's mount namespace.
    pub(crate) fn enter(&self) -> Result<()> {
        let system: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV;
        let private = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;

        let root = filesystem("tmpfs", &[("mode", "755"), ("size", "1m")], private)?;
        // It lies over the old root, which absolute paths still mean until the
        // roots are swapped; `root` means the new one.
        attach(&root, CWD, "/")?;

        for name in SYSTEM {
            bind_system(&root, name, system)?;
        }
        for name in SYSTEM_LINKS {
            match rustix::fs::readlinkat(CWD, format!("/{name}"), Vec::new()) {
                Ok(target) => rustix::fs::symlinkat(target, &root, *name)
                    .with_context(|| format!("cannot link {name}"))?,
                Err(Errno::INVAL) => bind_system(&root, name, system)?,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot read /{name}")),
            }
        }
        self.devices(&root)?;
        for name in ["proc", "tmp"] {
            directory(&root, name)?;
        }
        let proc = private | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        attach(&filesystem("proc", &[], proc)?, root.as_fd(), "proc")?;
        narrow_proc(&root)?;
        for name in ["tmp", "dev/shm"] {
            let shared = [("mode", "1777"), ("size", "64m")];
            attach(&filesystem("tmpfs", &shared, private)?, root.as_fd(), name)?;
        }
        for name in MORE_SYSTEM {
            if std::fs::read_dir(Path::new("/").join(name))
                .is_ok_and(|mut all| all.next().is_some())
            {
                bind_system(&root, name, system)?;
            }
        }
        directory(&root, "run")?;
        attach(&filesystem("tmpfs", &[("size", "64m")], private)?, root.as_fd(), "run")?;
        let home = beneath_root(&self.home);
        directories(&root, home)?;
        let own = [("mode", "700"), ("size", "64m")];
        attach(&filesystem("tmpfs", &own, private)?, root.as_fd(), home)?;
        caches(&root, home)?;
        directory(&root, "var")?;
        for (name, target) in [("var/run", "/run"), ("var/tmp", "/tmp")] {
            link(&root, target, name)?;
        }

        let project = match &self.layer {
            None => clone_tree(Path::new("."), true)?,
            Some(layer) => overlay(&self.project, layer, private)?,
        };
        set(&project, private)?;
        let at = beneath_root(&self.project);
        directories(&root, at)?;
        attach(&project, root.as_fd(), at)?;
        self.swap_roots(&root)
    }

    fn devices(&self, root: &OwnedFd) -> Result<()> {
        for name in ["dev", "dev/pts", "dev/shm"] {
            directory(root, name)?;
        }
        for name in DEVICES {
            let place = format!("dev/{name}");
            rustix::fs::mknodat(root, &place, FileType::RegularFile, Mode::RUSR, Dev::default())
                .with_context(|| format!("cannot make {place}"))?;
            let device = clone_tree(&Path::new("/dev").join(name), false)?;
            attach(&device, root.as_fd(), &place)?;
        }
        for (name, target) in DEVICE_LINKS {
            link(root, target, name)?;
        }
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let terminals =
            filesystem("devpts", &[("ptmxmode", "0666"), ("mode", "0620")], attributes)?;
        attach(&terminals, root.as_fd(), "dev/pts")
    }

    fn swap_roots(&self, root: &OwnedFd) -> Result<()> {
        rustix::process::fchdir(root).context("cannot enter the new root")?;
        // Both names mean the new root; the old one ends up on top of it:
        // pivot_root(2), "pivot_root(".", ".")".
        rustix::process::pivot_root(".", ".").context("cannot swap the roots")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).context("cannot detach the old root")?;
        let fixed = MountAttributes {
            set: MountAttrFlags::MOUNT_ATTR_RDONLY.bits().into(),
            clear: 0,
            propagation: 0,
            userns_fd: 0,
        };
        kernel::set_attributes(root.as_fd(), &fixed, false).context("cannot make / read-only")?;
        rustix::system::sethostname(b"floor").context("cannot name the machine")?;
        rustix::process::chdir(&self.project).context("cannot enter the project")
    }
}

/// No user namespaces, few watches, no settings of the kernel, no keys.
fn narrow_proc(root: &OwnedFd) -> Result<()> {
    const LIMITS: [(&str, &str); 3] = [
        ("proc/sys/user/max_user_namespaces", "0"),
        ("proc/sys/user/max_inotify_instances", "64"),
        ("proc/sys/user/max_inotify_watches", "65536"),
    ];
    for (limit, number) in LIMITS {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(root, limit, flags, Mode::empty())
            .with_context(|| format!("cannot open {limit}"))?;
        rustix::io::write(&file, number.as_bytes())
            .with_context(|| format!("cannot write {limit}"))?;
    }
    let settings = clone_tree_at(root.as_fd(), Path::new("proc/sys"), true)?;
    set(&settings, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    attach(&settings, root.as_fd(), "proc/sys")?;
    for name in ["proc/keys", "proc/key-users"] {
        attach(&clone_tree(Path::new("/dev/null"), false)?, root.as_fd(), name)?;
    }
    Ok(())
}

/// The directory of caches in a private HOME, and the links of tools into it.
fn caches(root: &OwnedFd, home: &Path) -> Result<()> {
    for name in [".cache", ".cargo", "go"] {
        directory(root, home.join(name))?;
    }
    for (name, target) in CACHES {
        link(root, target, home.join(name))?;
    }
    Ok(())
}

/// The project under a new layer that takes the writes.
fn overlay(project: &Path, layer: &Path, attributes: MountAttrFlags) -> Result<OwnedFd> {
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    for path in [layer, &upper, &work] {
        std::fs::create_dir(path).with_context(|| format!("cannot make {}", path.display()))?;
    }
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (lower, upper, work) = (text(project), text(&upper), text(&work));
    let options = [("lowerdir", &*lower), ("upperdir", &*upper), ("workdir", &*work)];
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)
        .context("cannot make an overlay")?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), key, value)
            .with_context(|| format!("cannot set {key}"))?;
    }
    for flag in ["userxattr", "volatile"] {
        rustix::mount::fsconfig_set_flag(context.as_fd(), flag)
            .with_context(|| format!("cannot set {flag}"))?;
    }
    rustix::mount::fsconfig_create(context.as_fd()).context("cannot make the overlay")?;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .context("cannot mount the overlay")
}

fn bind_system(root: &OwnedFd, name: &str, attributes: MountAttrFlags) -> Result<()> {
    let tree = clone_tree(&Path::new("/").join(name), true)?;
    set(&tree, attributes)?;
    directory(root, name)?;
    attach(&tree, root.as_fd(), name)
}

/// Source: open_tree(2).
fn clone_tree(path: &Path, is_recursive: bool) -> Result<OwnedFd> {
    clone_tree_at(CWD, path, is_recursive)
}

fn clone_tree_at(base: BorrowedFd<'_>, path: &Path, is_recursive: bool) -> Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    flags.set(OpenTreeFlags::AT_RECURSIVE, is_recursive);
    rustix::mount::open_tree(base, path, flags)
        .with_context(|| format!("cannot clone the mounts at {}", path.display()))
}

/// Sets attributes on a whole tree and cuts it off from later mounts outside.
fn set(tree: &OwnedFd, attributes: MountAttrFlags) -> Result<()> {
    let attributes = MountAttributes {
        set: attributes.bits().into(),
        clear: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    kernel::set_attributes(tree.as_fd(), &attributes, true).context("cannot set mount attributes")
}

/// Source: fsopen(2), fsconfig(2), fsmount(2).
fn filesystem(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> Result<OwnedFd> {
    let make = || {
        let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            rustix::mount::fsconfig_set_string(context.as_fd(), *key, *value)?;
        }
        rustix::mount::fsconfig_create(context.as_fd())?;
        rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    make().with_context(|| format!("cannot make a {kind}"))
}

/// Source: move_mount(2).
fn attach(mount: &OwnedFd, to: BorrowedFd<'_>, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount.as_fd(), "", to, path, flags)
        .with_context(|| format!("cannot attach a mount at {}", path.display()))
}

fn link(root: &OwnedFd, target: &str, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    rustix::fs::symlinkat(target, root, path)
        .with_context(|| format!("cannot link {}", path.display()))
}

fn directory(root: &OwnedFd, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    match rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot make {}", path.display())),
    }
}

/// Makes a directory and its parents, unless it is there.
fn directories(root: &OwnedFd, path: &Path) -> Result<()> {
    if rustix::fs::accessat(root, path, rustix::fs::Access::EXISTS, AtFlags::empty()).is_ok() {
        return Ok(());
    }
    let mut made = PathBuf::new();
    for part in path.components() {
        made.push(part);
        directory(root, &made)?;
    }
    Ok(())
}

/// The same path for a descriptor of the root.
fn beneath_root(path: &Path) -> &Path {
    let mut parts = path.components();
    if parts.clone().next() == Some(Component::RootDir) {
        parts.next();
    }
    parts.as_path()
}
