//! Making processes: a copy in new namespaces, and a child that shares memory
//! until it runs another program.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// New user namespace (`CLONE_NEWUSER`).
pub const NEW_USER: u64 = 0x1000_0000;
/// New mount namespace (`CLONE_NEWNS`).
pub const NEW_MOUNT: u64 = 0x0002_0000;
/// New pid namespace (`CLONE_NEWPID`).
pub const NEW_PID: u64 = 0x2000_0000;
/// New network namespace (`CLONE_NEWNET`).
pub const NEW_NET: u64 = 0x4000_0000;
/// New IPC namespace (`CLONE_NEWIPC`).
pub const NEW_IPC: u64 = 0x0800_0000;
/// New UTS (host name) namespace (`CLONE_NEWUTS`).
pub const NEW_UTS: u64 = 0x0400_0000;
/// New cgroup namespace (`CLONE_NEWCGROUP`).
pub const NEW_CGROUP: u64 = 0x0200_0000;

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// `struct clone_args` of clone(2), version 2 (88 bytes, Linux 5.7).
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Which side of [`fork_into`] this is.
#[derive(Debug)]
pub enum Fork {
    /// The new process.
    Child,
    /// The caller, with the child's id in its own pid namespace and a pidfd.
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Copies the calling process into new namespaces, and into the v2 control
/// group whose directory `cgroup` is.
///
/// Source: clone(2), `clone3`.
///
/// # Errors
///
/// `EPERM` where user namespaces are refused, `ENOSPC` or `EUSERS` over a
/// namespace limit, `EAGAIN` over a process limit.
///
/// # Panics
///
/// If the process has more than one thread: locks held by the others would stay
/// locked for ever in the copy.
pub fn fork_into(namespaces: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Fork> {
    assert!(crate::process::is_single_threaded(), "a process with threads must not be copied");
    let mut pidfd: i32 = -1;
    let mut args = CloneArgs {
        flags: namespaces | CLONE_PIDFD,
        pidfd: std::ptr::from_mut(&mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(directory) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::try_from(directory.as_raw_fd()).unwrap_or_default();
    }
    // SAFETY: without CLONE_VM this is a fork: the child has its own copy of
    // memory and the same stack contents. The process has one thread (asserted
    // above), so no lock is held by anybody else. `args` and `pidfd` outlive the
    // call.
    let result = unsafe {
        libc::syscall(libc::SYS_clone3, std::ptr::from_mut(&mut args), size_of::<CloneArgs>())
    };
    match result {
        0 => Ok(Fork::Child),
        pid if pid > 0 => {
            // SAFETY: the kernel has just made this descriptor for us alone.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Fork::Parent { pid: i32::try_from(pid).unwrap_or(i32::MAX), pidfd })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts a child that shares our memory and descriptors and runs `child` while
/// we stand still, until it has run another program or ended.
///
/// `child` returns only when it could not; what it returns is its exit status.
/// Because descriptors are shared, one that it opens stays open here.
///
/// Source: clone(2), `CLONE_VM`, `CLONE_VFORK`, `CLONE_FILES`.
///
/// # Errors
///
/// `EAGAIN` over a process limit, `ENOMEM`.
pub fn spawn_shared<F: FnMut() -> i32>(mut child: F) -> io::Result<i32> {
    extern "C" fn entry<F: FnMut() -> i32>(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `argument` is the closure below, which the standing-still
        // parent keeps alive and does not touch meanwhile.
        let child = unsafe { &mut *argument.cast::<F>() };
        child()
    }
    const STACK_BYTES: usize = 256 * 1024;
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: the child runs on a stack of its own that lives until the call
    // returns, and CLONE_VFORK keeps this thread still until the child is gone
    // from this memory, so nothing is touched from two sides at once.
    let pid = unsafe {
        libc::clone(entry::<F>, top.cast(), flags, std::ptr::from_mut(&mut child).cast())
    };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
}
