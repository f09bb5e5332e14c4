//! Trying a kernel feature and leaving no trace: each call here either changes
//! nothing, or happens in a child that is gone afterwards.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// New mount namespace, for [`in_child`].
pub const NEW_MOUNT: i32 = libc::CLONE_NEWNS;
/// New user namespace; the caller's ids are then mapped to themselves.
pub const NEW_USER: i32 = libc::CLONE_NEWUSER;
/// New pid namespace; the child is its first process.
pub const NEW_PID: i32 = libc::CLONE_NEWPID;
/// New network namespace.
pub const NEW_NET: i32 = libc::CLONE_NEWNET;
/// New IPC, host name and cgroup namespaces.
pub const NEW_OTHERS: i32 = libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;

/// Step of a failed clone.
pub const STEP_CLONE: u32 = 0;
/// Step of a refused id map.
pub const STEP_MAP: u32 = 1;

/// A probe's call that failed: which, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub step: u32,
    pub errno: i32,
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done(u32),
    Failed(Failure),
    /// It was killed at the deadline.
    TimedOut,
    /// It died without an answer, as where a seccomp filter kills.
    Died,
}

/// Runs `work` in a copy of this process, in the new `namespaces`, for at most
/// `time`. The copy ends without running anything else of ours.
///
/// The process may have threads, whose locks stay locked in the copy. So `work`
/// must only make system calls: no allocation, no printing.
///
/// Source: clone(2), user_namespaces(7).
///
/// # Errors
///
/// When no pipe could be made. Failures of the child are an [`Outcome`].
pub fn in_child(
    namespaces: i32,
    time: Duration,
    work: impl FnOnce() -> Result<u32, Failure>,
) -> io::Result<Outcome> {
    let end = Instant::now() + time;
    let (answer, answerer) = pipe_with(PipeFlags::CLOEXEC)?;
    let (waiter, starter) = pipe_with(PipeFlags::CLOEXEC)?;
    let pid = match copy(namespaces) {
        Ok(pid) => pid,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or_default();
            return Ok(Outcome::Failed(Failure { step: STEP_CLONE, errno }));
        }
    };
    let Some(pid) = Pid::from_raw(pid) else {
        drop((answer, starter));
        be_child(&waiter, &answerer, work);
    };
    drop((answerer, waiter));
    let child = Child { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok() };
    if namespaces & NEW_USER != 0
        && let Err(error) = write_maps(pid)
    {
        let errno = error.raw_os_error();
        return Ok(Outcome::Failed(Failure { step: STEP_MAP, errno }));
    }
    // A child that died already has an empty answer, which is told below.
    rustix::io::write(&starter, b"g").ok();
    let outcome = child.answer(answer.as_fd(), end);
    drop(child);
    outcome
}

/// A child that is killed and collected when dropped.
struct Child {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Child {
    fn answer(&self, answer: BorrowedFd<'_>, end: Instant) -> io::Result<Outcome> {
        if !readable(answer, end)? {
            return Ok(Outcome::TimedOut);
        }
        let mut bytes = [0; 12];
        let count = rustix::io::read(answer, &mut bytes)?;
        if count != bytes.len() {
            return Ok(Outcome::Died);
        }
        let [tag, step, value] =
            [0, 4, 8].map(|at| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte])));
        Ok(match tag {
            0 => Outcome::Done(value),
            _ => Outcome::Failed(Failure { step, errno: value.cast_signed() }),
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Without pidfd (before Linux 5.3) the id is still ours: it is not
        // given out again before we collect it.
        match &self.pidfd {
            Some(pidfd) => pidfd_send_signal(pidfd, Signal::KILL).ok(),
            None => rustix::process::kill_process(self.pid, Signal::KILL).ok(),
        };
        // A child that hangs in the kernel must not hang us as well.
        let soon = Instant::now() + Duration::from_secs(2);
        let gone = self
            .pidfd
            .as_ref()
            .is_none_or(|pidfd| readable(pidfd.as_fd(), soon).unwrap_or_default());
        let how = if gone { WaitOptions::empty() } else { WaitOptions::NOHANG };
        waitpid(Some(self.pid), how).ok();
    }
}

fn readable(fd: BorrowedFd<'_>, end: Instant) -> io::Result<bool> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let time = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], time.as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn copy(namespaces: i32) -> io::Result<i32> {
    // SAFETY: without CLONE_VM this is a fork: the child has its own copy of
    // memory and continues on a copy of this stack. The contract of `in_child`
    // keeps it to system calls.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, libc::c_long::from(namespaces | libc::SIGCHLD), 0, 0, 0, 0)
    };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(pid).unwrap_or(0)) }
}

fn be_child(
    waiter: &OwnedFd,
    answerer: &OwnedFd,
    work: impl FnOnce() -> Result<u32, Failure>,
) -> ! {
    let end = EndHere;
    // If the parent is killed the child must not outlive it. A child in a new
    // pid namespace or without the call still ends with its work.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    let mut go = [0];
    if rustix::io::read(waiter, &mut go) == Ok(1) {
        let (tag, step, value) = match work() {
            Ok(value) => (0_u32, 0, value),
            Err(Failure { step, errno }) => (1, step, errno.cast_unsigned()),
        };
        let mut bytes = [0; 12];
        for (at, number) in [(0, tag), (4, step), (8, value)] {
            bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        rustix::io::write(answerer, &bytes).ok();
    }
    drop(end);
    unreachable!("dropping the guard ends the process")
}

/// Ends the process when dropped: a panic must not unwind into the parent's
/// frames, of which the child holds a copy.
struct EndHere;

impl Drop for EndHere {
    fn drop(&mut self) {
        // SAFETY: _exit takes an integer and does not return; it runs no
        // handlers, which belong to the parent.
        unsafe { libc::_exit(0) }
    }
}

/// Maps the caller's own ids to themselves in the child's user namespace.
fn write_maps(pid: Pid) -> Result<(), Errno> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (uids, gids) = (format!("{uid} {uid} 1"), format!("{gid} {gid} 1"));
    write_to(pid, &[("setgroups", "deny"), ("uid_map", &uids), ("gid_map", &gids)])
}

fn write_to(pid: Pid, files: &[(&str, &str)]) -> Result<(), Errno> {
    let pid = pid.as_raw_nonzero();
    files.iter().try_for_each(|(file, text)| {
        let path = format!("/proc/{pid}/{file}");
        let file = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes()).map(drop)
    })
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A user namespace that maps our own ids to themselves and has no processes.
///
/// Source: user_namespaces(7).
///
/// # Errors
///
/// Those of clone(2) and of writing the maps.
pub fn user_namespace() -> io::Result<OwnedFd> {
    empty_user_namespace(write_maps)
}

/// A user namespace without processes in which the `count` ids from `inside` on, of users and of
/// groups, are those from `outside` on. Only root may map what is not its own.
///
/// Source: user_namespaces(7).
///
/// # Errors
///
/// Those of clone(2) and of writing the maps.
pub fn user_namespace_of(inside: u32, outside: u32, count: u32) -> io::Result<OwnedFd> {
    let map = format!("{inside} {outside} {count}");
    empty_user_namespace(|pid| write_to(pid, &[("uid_map", &map), ("gid_map", &map)]))
}

/// A user namespace without processes in which one user and one group, and nobody else, are those
/// of the host: each is the number inside and then the one outside.
///
/// Source: user_namespaces(7).
///
/// # Errors
///
/// Those of clone(2) and of writing the maps.
pub fn user_namespace_of_account(user: [u32; 2], group: [u32; 2]) -> io::Result<OwnedFd> {
    let map = |[inside, outside]: [u32; 2]| format!("{inside} {outside} 1");
    let (users, groups) = (map(user), map(group));
    empty_user_namespace(|pid| write_to(pid, &[("uid_map", &users), ("gid_map", &groups)]))
}

fn empty_user_namespace(map: impl FnOnce(Pid) -> Result<(), Errno>) -> io::Result<OwnedFd> {
    let (waiter, starter) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(pid) = Pid::from_raw(copy(NEW_USER)?) else {
        drop(starter);
        // Ends when the parent closes its side, or is killed.
        be_child(&waiter, &waiter, || Ok(0));
    };
    let child = Child { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok() };
    map(pid)?;
    let path = format!("/proc/{}/ns/user", child.pid.as_raw_nonzero());
    Ok(openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Turns the error that a known call gives for empty arguments into success.
fn unless(result: libc::c_long, known: i32) -> io::Result<()> {
    match check(result) {
        Err(error) if error.raw_os_error() != Some(known) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The version of Landlock's interface.
///
/// Source: landlock(7), `LANDLOCK_CREATE_RULESET_VERSION`.
///
/// # Errors
///
/// `ENOSYS` where it was not built in, `EOPNOTSUPP` where it is switched off.
pub fn landlock_abi() -> io::Result<u32> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads no attributes and makes no object.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    Ok(u32::try_from(check(result)?).unwrap_or_default())
}

/// Sizes of a notification, a response and the data of a filtered call.
///
/// Source: seccomp(2), `SECCOMP_GET_NOTIF_SIZES`.
///
/// # Errors
///
/// `EINVAL` before Linux 5.0, `ENOSYS` without seccomp.
pub fn seccomp_notify_sizes() -> io::Result<[u16; 3]> {
    const GET_NOTIF_SIZES: u32 = 3;
    let mut sizes = [0_u16; 3];
    // SAFETY: the kernel writes a `struct seccomp_notif_sizes`, which is three
    // 16-bit numbers, into an array of just that layout.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, GET_NOTIF_SIZES, 0, sizes.as_mut_ptr()) };
    check(result)?;
    Ok(sizes)
}

/// Whether filters can be loaded with these `SECCOMP_FILTER_FLAG_*` bits. The
/// kernel looks at the flags before it finds that there is no filter.
///
/// Source: seccomp(2), `SECCOMP_SET_MODE_FILTER`: `EINVAL`, `EFAULT`.
///
/// # Errors
///
/// `EINVAL` for a flag that it does not know.
pub fn seccomp_filter_flags(flags: u32) -> io::Result<()> {
    const SET_MODE_FILTER: u32 = 1;
    // SAFETY: a null program is refused with EFAULT; nothing is installed.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, std::ptr::null::<u8>()) };
    unless(result, libc::EFAULT)
}

/// Whether clone3(2) is there (Linux 5.3; some container filters hide it).
///
/// # Errors
///
/// `ENOSYS` or `EPERM` if not.
pub fn clone3() -> io::Result<()> {
    // SAFETY: arguments of size 0 are refused with EINVAL; nothing is cloned.
    let result = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<u8>(), 0_usize) };
    unless(result, libc::EINVAL)
}

/// Whether close_range(2) is there (Linux 5.9). Closes nothing: the range is
/// one number that no descriptor can have.
///
/// # Errors
///
/// `ENOSYS` if not.
pub fn close_range() -> io::Result<()> {
    // SAFETY: plain integers; no descriptor lies in the range.
    let result = unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, 0) };
    check(result).map(drop)
}

/// The version of the KVM interface behind an open `/dev/kvm`.
///
/// Source: the kernel's virt/kvm/api.rst, `KVM_GET_API_VERSION`.
///
/// # Errors
///
/// `ENOTTY` for another device.
pub fn kvm_api_version(kvm: BorrowedFd<'_>) -> io::Result<u32> {
    const GET_API_VERSION: libc::c_ulong = 0xae00;
    // SAFETY: the request takes no argument and touches no memory.
    let version = unsafe { libc::ioctl(kvm.as_raw_fd(), GET_API_VERSION as _, 0) };
    Ok(u32::try_from(check(version.into())?).unwrap_or_default())
}

/// Makes an empty virtual machine, which ends with its descriptor.
///
/// Source: the kernel's virt/kvm/api.rst, `KVM_CREATE_VM`.
///
/// # Errors
///
/// Where the hardware cannot.
pub fn kvm_create_vm(kvm: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const CREATE_VM: libc::c_ulong = 0xae01;
    // SAFETY: the request takes the machine type (0) by value.
    let fd = unsafe { libc::ioctl(kvm.as_raw_fd(), CREATE_VM as _, 0) };
    check(fd.into())?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a TAP interface of an open `/dev/net/tun`; it goes with the descriptor.
///
/// Source: the kernel's networking/tuntap.rst.
///
/// # Errors
///
/// `EPERM` without `CAP_NET_ADMIN` in the network namespace.
pub fn make_tap(tun: BorrowedFd<'_>) -> io::Result<()> {
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    const IFF_TAP: u16 = 0x0002;
    const IFF_NO_PI: u16 = 0x1000;
    // `struct ifreq`: a name (empty: the kernel picks one), then the flags.
    let mut request = [0_u8; 40];
    request[16..18].copy_from_slice(&(IFF_TAP | IFF_NO_PI).to_ne_bytes());
    // SAFETY: the kernel reads and writes a `struct ifreq` of 40 bytes, all of
    // which are ours.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETIFF as _, request.as_mut_ptr()) };
    check(result.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    #[test]
    fn a_child_answers_fails_dies_or_is_killed() {
        let run = |work: fn() -> Result<u32, Failure>| in_child(0, TIME, work).unwrap();
        assert_eq!(run(|| Ok(7)), Outcome::Done(7));
        let failure = Failure { step: 9, errno: libc::EPERM };
        assert_eq!(run(|| Err(Failure { step: 9, errno: libc::EPERM })), Outcome::Failed(failure));
        let dies = || {
            rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).ok();
            Ok(0)
        };
        assert_eq!(run(dies), Outcome::Died);
        let hangs = || loop {
            poll(&mut [], None).ok();
        };
        let outcome = in_child(0, Duration::from_millis(20), hangs).unwrap();
        assert_eq!(outcome, Outcome::TimedOut);
        // All four were collected.
        assert_eq!(waitpid(None, WaitOptions::NOHANG).unwrap_err(), Errno::CHILD);
    }

    #[test]
    fn a_user_namespace_maps_us_to_ourselves() {
        let uid = rustix::process::geteuid();
        let work = || {
            let inside = rustix::process::geteuid();
            if inside == uid { Ok(inside.as_raw()) } else { Err(Failure { step: 5, errno: 0 }) }
        };
        let outcome = in_child(NEW_USER, TIME, work).unwrap();
        match outcome {
            Outcome::Done(inside) => assert_eq!(inside, uid.as_raw()),
            // A host that forbids them says so at one of these two places.
            Outcome::Failed(failure) => assert!(failure.step <= STEP_MAP, "{failure:?}"),
            Outcome::TimedOut | Outcome::Died => panic!("{outcome:?}"),
        }
    }

    #[test]
    fn unknown_filter_flags_are_told_from_known_ones() {
        assert!(seccomp_filter_flags(0).is_ok());
        assert!(seccomp_filter_flags(1 << 31).is_err());
    }
}
