//! The Linux calls that rustix has no function for.
#![expect(unsafe_code, reason = "a yardstick that shares no code with what it measures")]

use rustix::net::{AddressFamily, SocketType};
use rustix::process::Pid;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Attributes of the mounts in a tree: mount_setattr(2).
#[repr(C)]
pub(crate) struct MountAttributes {
    pub(crate) set: u64,
    pub(crate) clear: u64,
    pub(crate) propagation: u64,
    pub(crate) userns_fd: u64,
}

/// What a Landlock ruleset handles: landlock_create_ruleset(2).
#[repr(C)]
pub(crate) struct LandlockRuleset {
    pub(crate) access_fs: u64,
    pub(crate) access_net: u64,
    pub(crate) scoped: u64,
}

/// A rule for all that lies beneath a path: landlock_add_rule(2).
#[repr(C, packed)]
struct LandlockBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

fn checked(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn descriptor(raw: i64) -> io::Result<OwnedFd> {
    let raw = i32::try_from(raw).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel has just given this descriptor to us and to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Clones this process into new namespaces; the child gets `None`.
///
/// Source: clone3(2).
pub(crate) fn clone_into_namespaces() -> io::Result<Option<Pid>> {
    // SAFETY: all-zero is a valid value of this plain C struct.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from(NAMESPACES.cast_unsigned());
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    // SAFETY: `args` is valid for its whole size and asks for no shared memory,
    // so this behaves as fork(2) does. The process has one thread, so the child
    // may go on using the allocator.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
    checked(pid).map(crate::pid)
}

/// Forks; the child gets `None`.
///
/// Source: fork(2).
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the process has one thread, so the child finds no foreign lock.
    checked(i64::from(unsafe { libc::fork() })).map(crate::pid)
}

/// Source: setresgid(2), setresuid(2); by number, since glibc's functions ask
/// every thread.
pub(crate) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: takes three numbers.
    checked(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) })?;
    // SAFETY: takes three numbers.
    checked(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) })?;
    Ok(())
}

/// Changes the attributes of every mount in the tree that `tree` stands for.
///
/// Source: mount_setattr(2).
pub(crate) fn set_attributes(
    tree: BorrowedFd<'_>,
    attributes: &MountAttributes,
    is_recursive: bool,
) -> io::Result<()> {
    let recursive = if is_recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a terminated string and `attributes` is valid for the
    // size that is given; the kernel keeps neither.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    })?;
    Ok(())
}

/// Gives the highest Landlock version that the kernel knows.
///
/// Source: landlock_create_ruleset(2), `LANDLOCK_CREATE_RULESET_VERSION`.
pub(crate) fn landlock_version() -> io::Result<i64> {
    const VERSION: libc::c_uint = 1;
    let nothing = std::ptr::null::<LandlockRuleset>();
    // SAFETY: with this flag the kernel reads no memory.
    checked(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) })
}

/// Source: landlock_create_ruleset(2).
pub(crate) fn landlock_ruleset(ruleset: &LandlockRuleset) -> io::Result<OwnedFd> {
    // SAFETY: `ruleset` is valid for the size that is given.
    let raw = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(ruleset),
            size_of::<LandlockRuleset>(),
            0,
        )
    };
    descriptor(checked(raw)?)
}

/// Source: landlock_add_rule(2).
pub(crate) fn landlock_allow(
    ruleset: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    allowed_access: u64,
) -> io::Result<()> {
    const PATH_BENEATH: libc::c_uint = 1;
    let rule = LandlockBeneath { allowed_access, parent_fd: parent.as_raw_fd() };
    // SAFETY: `rule` has the layout of this kind of rule; the kernel copies it.
    checked(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    })?;
    Ok(())
}

/// Source: landlock_restrict_self(2).
pub(crate) fn landlock_restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes two numbers.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    Ok(())
}

/// Loads the filter for this process, for good.
///
/// Source: seccomp(2), `SECCOMP_SET_MODE_FILTER`.
pub(crate) fn install_filter(filter: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` describes `len` instructions that outlive this call;
    // the kernel copies them.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
    Ok(())
}

/// Has every descriptor above stderr closed by exec.
///
/// Source: close_range(2).
pub(crate) fn close_above_stderr() -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 1 << 2;
    let (first, last): (libc::c_uint, _) = (3, libc::c_uint::MAX);
    // SAFETY: takes three numbers, and closes nothing yet.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, CLOSE_RANGE_CLOEXEC) })?;
    Ok(())
}

/// Sets the loopback interface up.
///
/// Source: netdevice(7), `SIOCSIFFLAGS`.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all-zero is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    let up = libc::c_short::try_from(libc::IFF_UP).map_err(|_| io::ErrorKind::InvalidInput)?;
    request.ifr_ifru.ifru_flags = up;
    // SAFETY: this request reads an `ifreq`, which `request` is.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    checked(result.into())?;
    Ok(())
}
