//! Trying what a jail needs.

use super::tools::{Tool, find_tool};
use atoll_sys::mount::{READ_ONLY, add_attributes_here, map_owners};
use atoll_sys::probe::{self, Failure, NEW_MOUNT, NEW_NET, NEW_OTHERS, NEW_PID, NEW_USER, Outcome};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};
use rustix::process::{PidfdFlags, fchdir, getpid, pidfd_open};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// For one probe. A kernel may have to load a module for it.
const TIME: Duration = Duration::from_secs(5);
/// For one `--version`.
const TOOL_TIME: Duration = Duration::from_secs(2);
/// `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
const NEW_LISTENER: u32 = 1 << 3;
/// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`, Linux 5.19.
const WAIT_KILLABLE_RECV: u32 = 1 << 5;

/// What became of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    Works,
    Failed {
        /// A name that [`super::explain()`] knows.
        step: &'static str,
        errno: i32,
    },
    TimedOut,
    /// The child was killed, as by a seccomp filter.
    Died,
    NotTried(&'static str),
}

impl Attempt {
    pub fn works(self) -> bool {
        self == Self::Works
    }
}

/// What seccomp's user notification offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notify {
    /// Sizes in bytes of a notification, a response and the call's data.
    pub sizes: Option<[u16; 3]>,
    /// Whether a notified call is safe from signals (`WAIT_KILLABLE_RECV`).
    pub is_killable: bool,
}

/// The outcome of every try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probes {
    /// A user namespace with our own ids in it.
    pub user_namespace: Attempt,
    /// All others inside of that.
    pub namespaces: Attempt,
    /// A detached tmpfs by fsopen(2) and fsmount(2).
    pub mount_api: Attempt,
    pub mount_attributes: Attempt,
    /// An overlay with `userxattr` inside a user namespace.
    pub overlay: Attempt,
    pub idmapped_mounts: Attempt,
    /// A new procfs for a new pid namespace.
    pub proc_mount: Attempt,
    pub seccomp_filter: Attempt,
    pub notify: Notify,
    /// The version of its interface, or the errno.
    pub landlock_abi: Result<u32, i32>,
    pub nf_tables: Attempt,
    pub tun: Attempt,
    pub kvm: Attempt,
    pub pidfd: Attempt,
    pub close_range: Attempt,
    pub clone3: Attempt,
    pub time_namespace: Attempt,
    pub runsc: Option<Tool>,
    pub criu: Option<Tool>,
    pub took: Duration,
}

impl Probes {
    /// Tries everything, one after the other; each is bounded in time. `path`
    /// is the `PATH` to find other programs in.
    pub fn run(path: &OsStr) -> Self {
        let start = Instant::now();
        let mut probes = Self {
            user_namespace: attempt(NEW_USER, || Ok(())),
            namespaces: attempt(NEW_USER | NEW_MOUNT | NEW_PID | NEW_NET | NEW_OTHERS, || Ok(())),
            mount_api: attempt(NEW_USER | NEW_MOUNT, || tmpfs().map(drop)),
            mount_attributes: attempt(NEW_USER | NEW_MOUNT, mount_attributes),
            overlay: attempt(NEW_USER | NEW_MOUNT, overlay),
            idmapped_mounts: idmapped_mounts(),
            proc_mount: attempt(NEW_USER | NEW_MOUNT | NEW_PID, || {
                file_system(c"proc", Step::Proc, |_| Ok(())).map(drop)
            }),
            seccomp_filter: plain("seccomp", probe::seccomp_filter_flags(0)),
            notify: notify(),
            landlock_abi: probe::landlock_abi()
                .map_err(|error| error.raw_os_error().unwrap_or_default()),
            nf_tables: attempt(NEW_USER | NEW_NET, nf_tables),
            tun: attempt(NEW_USER | NEW_NET, tun),
            kvm: attempt(0, kvm),
            pidfd: plain(
                "pidfd_open",
                pidfd_open(getpid(), PidfdFlags::empty()).map(drop).map_err(Into::into),
            ),
            close_range: plain("close_range", probe::close_range()),
            clone3: plain("clone3", probe::clone3()),
            time_namespace: plain(
                "time namespace",
                std::fs::symlink_metadata("/proc/self/ns/time").map(drop),
            ),
            runsc: find_tool("runsc", path, TOOL_TIME),
            criu: find_tool("criu", path, TOOL_TIME),
            took: Duration::ZERO,
        };
        probes.took = start.elapsed();
        probes
    }
}

/// The calls of the probes. The first two are those of [`probe::in_child`].
#[derive(Debug, Clone, Copy)]
enum Step {
    Open = 2,
    Configure,
    Mount,
    MakeDirectory,
    Attributes,
    Overlay,
    Proc,
    NfTables,
    Tun,
    KvmOpen,
    Kvm,
    Idmap,
    Place,
}

impl Step {
    const ALL: [Self; 13] = [
        Self::Open,
        Self::Configure,
        Self::Mount,
        Self::MakeDirectory,
        Self::Attributes,
        Self::Overlay,
        Self::Proc,
        Self::NfTables,
        Self::Tun,
        Self::KvmOpen,
        Self::Kvm,
        Self::Idmap,
        Self::Place,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Open => "fsopen",
            Self::Configure => "fsconfig",
            Self::Mount => "fsmount",
            Self::MakeDirectory => "mkdir",
            Self::Attributes => "mount_setattr",
            Self::Overlay => "overlay",
            Self::Proc => "mount_proc",
            Self::NfTables => "nf_tables",
            Self::Tun => "tun",
            Self::KvmOpen => "open /dev/kvm",
            Self::Kvm => "kvm",
            Self::Idmap => "idmap",
            Self::Place => "move_mount",
        }
    }

    fn name_of(number: u32) -> &'static str {
        match number {
            probe::STEP_CLONE => "clone",
            probe::STEP_MAP => "uid_map",
            number => Self::ALL
                .into_iter()
                .find(|step| *step as u32 == number)
                .map_or("unknown", Self::name),
        }
    }

    fn failed(self, error: Errno) -> Failure {
        Failure { step: self as u32, errno: error.raw_os_error() }
    }

    fn failed_io(self, error: &io::Error) -> Failure {
        Failure { step: self as u32, errno: error.raw_os_error().unwrap_or_default() }
    }
}

/// Runs `work` in a child. It may only make system calls.
fn attempt(namespaces: i32, work: impl FnOnce() -> Result<(), Failure>) -> Attempt {
    match probe::in_child(namespaces, TIME, || work().map(|()| 0)) {
        Ok(Outcome::Done(_)) => Attempt::Works,
        Ok(Outcome::Failed(Failure { step, errno })) => {
            Attempt::Failed { step: Step::name_of(step), errno }
        }
        Ok(Outcome::TimedOut) => Attempt::TimedOut,
        Ok(Outcome::Died) => Attempt::Died,
        Err(_) => Attempt::NotTried("no pipe could be made"),
    }
}

fn plain(step: &'static str, result: io::Result<()>) -> Attempt {
    match result {
        Ok(()) => Attempt::Works,
        Err(error) => Attempt::Failed { step, errno: error.raw_os_error().unwrap_or_default() },
    }
}

/// Mounts a file system without a place. Failures carry the step `at` if they
/// concern the file system, not the calls.
fn file_system(
    name: &CStr,
    at: Step,
    configure: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>,
) -> Result<OwnedFd, Failure> {
    let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|error| {
        // The type is unknown, or the call is.
        if error == Errno::NODEV { at.failed(error) } else { Step::Open.failed(error) }
    })?;
    configure(context.as_fd()).map_err(|error| at.failed(error))?;
    fsconfig_create(&context).map_err(|error| at.failed(error))?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        .map_err(|error| at.failed(error))
}

fn tmpfs() -> Result<OwnedFd, Failure> {
    file_system(c"tmpfs", Step::Mount, |_| Ok(()))
}

fn mount_attributes() -> Result<(), Failure> {
    let mount = tmpfs()?;
    add_attributes_here(mount.as_fd(), READ_ONLY)
        .map_err(|error| Step::Attributes.failed_io(&error))
}

/// As review mode mounts it, but wholly on a tmpfs.
fn overlay() -> Result<(), Failure> {
    let mount = tmpfs()?;
    for dir in [c"l", c"u", c"w"] {
        mkdirat(&mount, dir, Mode::RWXU).map_err(|error| Step::MakeDirectory.failed(error))?;
    }
    // Older kernels take no layers of a mount that has no place, so it gets one,
    // over the root of this namespace, and names are looked up from within it.
    move_mount(&mount, c"", CWD, c"/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|error| Step::Place.failed(error))?;
    fchdir(&mount).map_err(|error| Step::Place.failed(error))?;
    let configure = |context: BorrowedFd<'_>| {
        fsconfig_set_string(context, c"lowerdir", c"l")?;
        fsconfig_set_string(context, c"upperdir", c"u")?;
        fsconfig_set_string(context, c"workdir", c"w")?;
        fsconfig_set_flag(context, c"userxattr")
    };
    file_system(c"overlay", Step::Overlay, configure).map(drop)
}

/// Only root may map the mounts of the initial user namespace's file systems.
fn idmapped_mounts() -> Attempt {
    if !rustix::process::geteuid().is_root() {
        return Attempt::NotTried("only root may map a mount's owners, and only root needs it");
    }
    let userns = match probe::user_namespace() {
        Ok(userns) => userns,
        Err(error) => return plain("clone", Err(error)),
    };
    attempt(NEW_MOUNT, || {
        let mount = tmpfs()?;
        map_owners(mount.as_fd(), userns.as_fd()).map_err(|error| Step::Idmap.failed_io(&error))
    })
}

fn notify() -> Notify {
    let flags = NEW_LISTENER | WAIT_KILLABLE_RECV;
    Notify {
        sizes: probe::seccomp_notify_sizes().ok(),
        is_killable: probe::seccomp_filter_flags(flags).is_ok(),
    }
}

/// Asks nf_tables for the number of its rule set's generation.
///
/// Sources: netlink(7); linux/netfilter/nfnetlink.h and nf_tables.h.
fn nf_tables() -> Result<(), Failure> {
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
        socket_with,
    };
    const NFNL_SUBSYS_NFTABLES: u16 = 10 << 8;
    const NFT_MSG_GETGEN: u16 = 16;
    const NLMSG_ERROR: u16 = 2;
    const NLM_F_REQUEST: u16 = 1;
    let at = |error| Step::NfTables.failed(error);
    let protocol = Some(netlink::NETFILTER);
    let family = AddressFamily::NETLINK;
    let socket =
        socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol).map_err(at)?;
    // `struct nlmsghdr` and, all zero, `struct nfgenmsg`.
    let mut request = [0_u8; 20];
    request[0..4].copy_from_slice(&20_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&(NFNL_SUBSYS_NFTABLES | NFT_MSG_GETGEN).to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    send(&socket, &request, SendFlags::empty()).map_err(at)?;
    let mut answer = [0_u8; 256];
    let (count, _) = recv(&socket, &mut answer, RecvFlags::empty()).map_err(at)?;
    if count < 20 {
        return Err(at(Errno::BADMSG));
    }
    if u16::from_ne_bytes([answer[4], answer[5]]) == NLMSG_ERROR {
        let negated = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        return Err(at(Errno::from_raw_os_error(negated.wrapping_neg())));
    }
    Ok(())
}

fn tun() -> Result<(), Failure> {
    let file = openat(CWD, c"/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Step::Tun.failed(error))?;
    probe::make_tap(file.as_fd()).map_err(|error| Step::Tun.failed_io(&error))
}

/// The one version of the interface that there has been since 2007.
const KVM_API_VERSION: u32 = 12;

fn kvm() -> Result<(), Failure> {
    let file = openat(CWD, c"/dev/kvm", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Step::KvmOpen.failed(error))?;
    let failed = |error: io::Error| Step::Kvm.failed_io(&error);
    if probe::kvm_api_version(file.as_fd()).map_err(failed)? != KVM_API_VERSION {
        return Err(Step::Kvm.failed(Errno::PROTO));
    }
    probe::kvm_create_vm(file.as_fd()).map(drop).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = (0..15).map(Step::name_of).collect();
        assert_eq!(names.len(), 15);
        assert!(!names.contains("unknown"));
        assert_eq!(Step::name_of(15), "unknown");
    }

    #[test]
    fn probes_end_and_leave_nothing() {
        let traces = || {
            let count = |dir: &str| std::fs::read_dir(dir).unwrap().count();
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            (count("/proc/self/fd"), mounts, std::env::current_dir().unwrap())
        };
        let before = traces();
        let probes = Probes::run(OsStr::new(""));
        assert_eq!(traces(), before);
        assert!(probes.took < TIME * 2, "{probes:?}");
        let collected = rustix::process::waitpid(None, rustix::process::WaitOptions::NOHANG);
        assert_eq!(collected.unwrap_err(), Errno::CHILD);
    }
}
