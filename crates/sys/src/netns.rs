//! A network namespace made beside the caller's own work.
//!
//! Making one takes the kernel as long as all other namespaces together, and it
//! needs nothing from the caller. A child that shares our memory and descriptors
//! makes it on another processor; the caller enters it when it gets that far.
//! Where the caller is not root, the child first makes a user namespace to own
//! it, so the network belongs to nobody inside the sandbox's own user namespace,
//! which is a child of that one. The child also has it [captured](capture), if that is wanted.

mod ready;

pub use ready::{Network, Ready};

use crate::capture::{self, Capture, Listeners, PORTS_MAX, Ports, Step};
use crate::processor;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};
use rustix::thread::{UnshareFlags, futex};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU32, Ordering};

const STACK_BYTES: usize = 32 * 1024;

/// What the child leaves for us. Descriptors are -1 until they are there.
#[derive(Debug)]
struct Shared {
    /// The processor that the caller is on.
    cpu: usize,
    is_root: bool,
    uid: u32,
    gid: u32,
    user: AtomicI32,
    net: AtomicI32,
    /// errno of the step that failed, and its number.
    errno: AtomicI32,
    step: AtomicI32,
    /// How far the child is: [`MAKING`], [`MADE`], or 0, which the kernel writes at its end.
    progress: AtomicU32,
    /// All that was wanted is there: its loopback interface is up, and it is captured.
    is_whole: AtomicBool,
    /// The caller's process, and the child's end of a socket for what it makes; -1 if there
    /// is none.
    caller: i32,
    socket: i32,
    /// What is to become of it: [`UNDECIDED`], or one of those below that.
    wanted: AtomicU32,
    ports: [AtomicU16; PORTS_MAX],
}

const MAKING: u32 = 2;
const MADE: u32 = 1;

const UNDECIDED: u32 = 0;
const NOTHING: u32 = 1;
const ALL: u32 = 2;
const PORTS: u32 = 3;

/// A network namespace that is being made.
#[derive(Debug)]
pub struct Preparing {
    pid: i32,
    shared: Box<Shared>,
    /// Ours and the child's end of the socket that listeners come over.
    sockets: Option<(OwnedFd, OwnedFd)>,
    _stack: Vec<u128>,
}

/// A failed step on the way to a network namespace.
#[derive(Debug)]
pub struct NetError {
    pub step: &'static str,
    pub source: io::Error,
}

const STEPS: [&str; 9] =
    ["unshare", "setgroups", "uid_map", "gid_map", "lo", "ns", "route", "nft", "listen"];

/// Starts making a network namespace, raising its loopback interface, and capturing it.
///
/// Source: clone(2), network_namespaces(7), user_namespaces(7).
///
/// # Errors
///
/// `EAGAIN` over a process limit, `ENOMEM`, `EMFILE`.
pub fn prepare(capture: Capture) -> io::Result<Preparing> {
    begin(Some(capture))
}

/// The same for a caller who will [decide](Preparing::decide) whether it is captured. Until
/// then it can be entered, but is not finished.
///
/// # Errors
///
/// As [`prepare`].
pub fn prepare_undecided() -> io::Result<Preparing> {
    begin(None)
}

fn begin(capture: Option<Capture>) -> io::Result<Preparing> {
    let sockets = match capture {
        Some(Capture::None) => None,
        Some(Capture::All(_) | Capture::Ports(_)) | None => {
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            Some(rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
        }
    };
    let shared = Box::new(Shared {
        cpu: processor::current(),
        is_root: rustix::process::geteuid().is_root(),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        user: AtomicI32::new(-1),
        net: AtomicI32::new(-1),
        errno: AtomicI32::new(0),
        step: AtomicI32::new(0),
        progress: AtomicU32::new(MAKING),
        is_whole: AtomicBool::new(false),
        caller: rustix::process::getpid().as_raw_pid(),
        socket: sockets.as_ref().map_or(-1, |(_, theirs)| theirs.as_raw_fd()),
        wanted: AtomicU32::new(UNDECIDED),
        ports: [const { AtomicU16::new(0) }; PORTS_MAX],
    });
    if let Some(capture) = capture {
        shared.want(capture);
    }
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
    let argument = std::ptr::from_ref::<Shared>(&shared).cast_mut();
    // SAFETY: `run` uses nothing but its own stack, the shared block (atomics and
    // values that nobody writes) and raw system calls: rustix's Linux backend
    // neither allocates nor touches errno or thread-locals in the calls made.
    // Stack and block outlive the child, and with them the word that the kernel
    // writes at its end: `drop` waits for it.
    let pid = unsafe {
        libc::clone(
            run,
            top.cast(),
            flags,
            argument.cast(),
            std::ptr::null_mut::<libc::pid_t>(),
            std::ptr::null_mut::<libc::c_void>(),
            shared.progress.as_ptr(),
        )
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    processor::keep_off(shared.cpu, Pid::from_raw(pid));
    Ok(Preparing { pid, shared, sockets, _stack: stack })
}

extern "C" fn run(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the pointer that `prepare` passed; the block is only read here,
    // but for its atomics.
    let shared = unsafe { &*argument.cast::<Shared>() };
    // A new child may come before the parent that would have moved it.
    if processor::current() == shared.cpu {
        processor::keep_off(shared.cpu, None);
    }
    let failed = |(step, errno): (i32, Errno)| {
        shared.step.store(step, Ordering::Relaxed);
        shared.errno.store(errno.raw_os_error(), Ordering::Release);
    };
    let made = make(shared).map_err(failed);
    // It can be entered while its loopback interface is raised, which takes a while, as
    // our end does.
    shared.progress.store(MADE, Ordering::Release);
    futex::wake(&shared.progress, futex::Flags::empty(), 1).ok();
    if made.is_ok() {
        match complete(shared) {
            Ok(()) => shared.is_whole.store(true, Ordering::Release),
            Err(error) => failed(error),
        }
    }
    0
}

/// Raises loopback and captures the network, as far as that is wanted.
fn complete(shared: &Shared) -> Result<(), (i32, Errno)> {
    let wanted = shared.wanted.load(Ordering::Acquire);
    if matches!(wanted, UNDECIDED | NOTHING) {
        crate::loopback::up_raw().map_err(|errno| (4, errno))?;
    }
    if wanted == UNDECIDED {
        // The kernel ends us with a caller who never says what it wants.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|errno| (4, errno))?;
        let parent = rustix::process::getppid().map_or(0, Pid::as_raw_pid);
        while parent == shared.caller && shared.wanted.load(Ordering::Acquire) == UNDECIDED {
            futex::wait(&shared.wanted, futex::Flags::empty(), UNDECIDED, None).ok();
        }
    }
    if shared.socket < 0 {
        return Ok(());
    }
    // SAFETY: our table is a copy of the caller's, which has this descriptor as long as we
    // live; nobody closes it here.
    let socket = unsafe { BorrowedFd::borrow_raw(shared.socket) };
    capture::set_up(shared.capture(), socket).map_err(|(step, errno)| match step {
        Step::Route => (6, errno),
        Step::Rules => (7, errno),
        Step::Sockets => (8, errno),
    })
}

impl Shared {
    fn want(&self, capture: Capture) {
        let (wanted, ports) = match capture {
            Capture::None => (NOTHING, Ports::default()),
            Capture::All(ports) => (ALL, ports),
            Capture::Ports(ports) => (PORTS, ports),
        };
        for (to, from) in self.ports.iter().zip(ports.0) {
            to.store(from, Ordering::Relaxed);
        }
        self.wanted.store(wanted, Ordering::Release);
    }

    fn capture(&self) -> Capture {
        let wanted = self.wanted.load(Ordering::Acquire);
        let mut ports = Ports::default();
        for (to, from) in ports.0.iter_mut().zip(&self.ports) {
            *to = from.load(Ordering::Relaxed);
        }
        match wanted {
            ALL => Capture::All(ports),
            PORTS => Capture::Ports(ports),
            _ => Capture::None,
        }
    }
}

fn make(shared: &Shared) -> Result<(), (i32, Errno)> {
    let user = if shared.is_root { UnshareFlags::empty() } else { UnshareFlags::NEWUSER };
    // SAFETY: this process has a file system view and, but for memory that it
    // does not write, nothing in common with threads of its own: it has none.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET | user) }.map_err(|e| (0, e))?;
    if !shared.is_root {
        write(c"/proc/self/setgroups", b"deny").map_err(|e| (1, e))?;
        map(c"/proc/self/uid_map", shared.uid).map_err(|e| (2, e))?;
        map(c"/proc/self/gid_map", shared.gid).map_err(|e| (3, e))?;
        shared.user.store(open(c"/proc/self/ns/user").map_err(|e| (5, e))?, Ordering::Relaxed);
    }
    shared.net.store(open(c"/proc/self/ns/net").map_err(|e| (5, e))?, Ordering::Release);
    // What is opened from here on is not to be in the caller's table, which may be copied
    // meanwhile.
    // SAFETY: as above; descriptors that are left to the caller stay in its table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }.map_err(|e| (0, e))
}

fn open(path: &std::ffi::CStr) -> Result<i32, Errno> {
    let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(fd.into_raw_fd())
}

/// Allocates nothing.
pub(crate) fn write(path: &std::ffi::CStr, text: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text).map(|_| ())
}

/// Writes "ID ID 1" without an allocation.
fn map(path: &std::ffi::CStr, id: u32) -> Result<(), Errno> {
    let mut digits = [b' '; 12];
    let (mut at, mut rest) = (11, id);
    loop {
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        at -= 1;
        if rest == 0 {
            break;
        }
    }
    let mut line = [b' '; 26];
    line[..12].copy_from_slice(&digits);
    line[12..24].copy_from_slice(&digits);
    line[24..].copy_from_slice(b" 1");
    write(path, &line)
}

impl Preparing {
    /// Waits until the namespace is there and moves the calling process, which
    /// must have one thread, into it (and into the user namespace that owns it,
    /// where the caller is not root).
    ///
    /// # Errors
    ///
    /// The step that failed: `EPERM` where user namespaces are refused.
    pub fn enter(&mut self) -> Result<(), NetError> {
        let Self { shared, .. } = self;
        while shared.progress.load(Ordering::Acquire) == MAKING {
            // At once if it is no more, and then looked at again.
            futex::wait(&shared.progress, futex::Flags::empty(), MAKING, None).ok();
        }
        self.check()?;
        let (user, net) = self.take_namespaces()?;
        ready::enter(user.as_ref(), &net)
    }

    /// The user namespace, unless the caller is root, and the network namespace.
    fn take_namespaces(&self) -> Result<(Option<OwnedFd>, OwnedFd), NetError> {
        let shared = &self.shared;
        // Without one it was killed, and we would stay where we are.
        let there = |fd: Option<OwnedFd>, step| fd.ok_or_else(|| ended(step));
        let user = (!shared.is_root).then(|| there(take(&shared.user), "setns(user)"));
        Ok((user.transpose()?, there(take(&shared.net), "setns(net)")?))
    }

    /// Waits until all of it is there, and gives it for others to enter.
    ///
    /// # Errors
    ///
    /// As [`Preparing::enter`]. What has been entered is not given away.
    pub fn ready(mut self) -> Result<Ready, NetError> {
        let listeners = self.listeners()?;
        let (user, net) = self.take_namespaces()?;
        Ok(Ready { user, net, listeners })
    }

    /// The process that makes it, until it is known to have ended.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Says that a child of the caller's was collected; whether it was the one that makes this,
    /// so that nothing is waited for any more.
    pub fn collected(&mut self, pid: i32) -> bool {
        let is_ours = self.pid == pid;
        if is_ours {
            self.pid = 0;
        }
        is_ours
    }

    /// Says whether it is to be captured, if that has not been said. The first word holds.
    pub fn decide(&self, capture: Capture) {
        if self.shared.wanted.load(Ordering::Relaxed) == UNDECIDED {
            self.shared.want(capture);
            futex::wake(&self.shared.wanted, futex::Flags::empty(), 1).ok();
        }
    }

    /// Waits until all of it is there, and gives the sockets where everything arrives: none
    /// if it is not captured, or they were given before. Who has not decided gets no capture.
    ///
    /// # Errors
    ///
    /// As [`Preparing::enter`].
    pub fn listeners(&mut self) -> Result<Option<Listeners>, NetError> {
        self.wait();
        self.check()?;
        if !self.shared.is_whole.load(Ordering::Acquire) {
            return Err(ended("lo"));
        }
        let Some((ours, theirs)) = self.sockets.take() else { return Ok(None) };
        if self.shared.capture() == Capture::None {
            return Ok(None);
        }
        // What was sent is there, and a wait would have an end.
        drop(theirs);
        let received = Listeners::receive(ours.as_fd());
        received.map(Some).map_err(|source| NetError { step: "listen", source })
    }

    /// Waits until all of it is there, its loopback interface too.
    ///
    /// # Errors
    ///
    /// As [`Preparing::enter`].
    pub fn finish(mut self) -> Result<(), NetError> {
        self.listeners().map(drop)
    }

    /// What has failed so far.
    fn check(&self) -> Result<(), NetError> {
        match self.shared.errno.load(Ordering::Acquire) {
            0 => Ok(()),
            errno => {
                let step = usize::try_from(self.shared.step.load(Ordering::Relaxed)).unwrap_or(0);
                let step = STEPS.get(step).copied().unwrap_or("netns");
                Err(NetError { step, source: io::Error::from_raw_os_error(errno) })
            }
        }
    }

    fn wait(&mut self) {
        self.decide(Capture::None);
        if self.pid > 0 {
            // Nobody else collects it; an error means that it is gone already.
            crate::process::wait_for(self.pid).ok();
            self.pid = 0;
        }
    }
}

fn ended(step: &'static str) -> NetError {
    NetError { step, source: io::Error::other("the process that was to make it has ended") }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        self.wait();
        drop((take(&self.shared.user), take(&self.shared.net)));
    }
}

fn take(slot: &AtomicI32) -> Option<OwnedFd> {
    let raw = slot.swap(-1, Ordering::Acquire);
    // SAFETY: the child made this descriptor in our shared table and left it to
    // us; the swap takes it exactly once.
    (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> std::path::PathBuf {
        std::fs::read_link("/proc/thread-self/ns/net").unwrap()
    }

    /// Whether all went well, in a thread of its own: it stays where it moves to.
    fn made(kill: bool) -> bool {
        let made = move || {
            let before = network();
            let mut preparing = prepare(Capture::None).unwrap();
            if kill {
                let child = Pid::from_raw(preparing.pid).unwrap();
                rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
            }
            let entered = preparing.enter();
            assert_eq!(entered.is_ok(), network() != before, "{entered:?}");
            let finished = preparing.finish();
            assert!(entered.is_ok() || finished.is_err());
            finished.is_ok()
        };
        std::thread::spawn(made).join().unwrap()
    }

    #[test]
    fn whoever_has_no_network_of_its_own_is_told() {
        if !rustix::process::geteuid().is_root() {
            // Where threads are, nobody else moves to another user namespace.
            return;
        }
        assert!(made(false));
        let failed = (0..200).filter(|_| !made(true)).count();
        assert!(failed > 0, "no child was killed in time");
    }
}
