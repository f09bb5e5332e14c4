//! Facts about and acts on the calling process.

use std::ffi::CStr;
use std::io;

/// Says whether the calling process has exactly one thread.
///
/// Counts the links of `/proc/self/task` (proc(5)): "." and ".." and one for
/// each thread. Without procfs the answer is no.
#[must_use]
pub fn is_single_threaded() -> bool {
    rustix::fs::stat("/proc/self/task").is_ok_and(|stat| stat.st_nlink == 3)
}

/// Overwrites the environment and argument strings that the kernel shows in
/// `/proc/PID/environ` and `cmdline`, so that this process holds no secret of
/// its caller there, and names it `title`.
///
/// Values read from the environment afterwards are empty. Source: proc(5).
pub fn scrub_arguments(title: &CStr) {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: `environ` is the C library's NULL-terminated list; reading the
    // pointer itself races with nobody in a process of one thread.
    let mut entry = unsafe { environ };
    let mut low = usize::MAX;
    let mut high = 0;
    while !entry.is_null() {
        // SAFETY: `entry` walks the list up to its NULL.
        let text = unsafe { *entry };
        if text.is_null() {
            break;
        }
        // SAFETY: each entry is a C string.
        let length = unsafe { libc::strlen(text) };
        // SAFETY: exactly the string's own bytes are written.
        unsafe { std::ptr::write_bytes(text, 0, length) };
        low = low.min(text as usize);
        high = high.max(text as usize + length);
        // SAFETY: not past the NULL, which ended the loop above.
        entry = unsafe { entry.add(1) };
    }
    if low < high {
        clear_arguments_below(low, title);
    }
}

/// The argument strings lie directly below the environment strings on the
/// initial stack (execve(2) puts them there in one piece).
fn clear_arguments_below(environment: usize, title: &CStr) {
    let total: usize = std::env::args_os().map(|argument| argument.len() + 1).sum();
    let Some(start) = environment.checked_sub(total) else { return };
    let expected: Vec<u8> = std::env::args_os()
        .flat_map(|argument| {
            let mut bytes = std::os::unix::ffi::OsStringExt::into_vec(argument);
            bytes.push(0);
            bytes
        })
        .collect();
    let area = start as *mut u8;
    // SAFETY: the bytes below the first environment string belong to the same
    // initial stack mapping; they are compared with the arguments before any
    // is written.
    let found = unsafe { std::slice::from_raw_parts(area, total) };
    if found != expected {
        return;
    }
    // SAFETY: `total` bytes at `area` are the argument strings, as just seen.
    unsafe { std::ptr::write_bytes(area, 0, total) };
    let name = title.to_bytes();
    let length = name.len().min(total.saturating_sub(1));
    // SAFETY: `length` is below the size of the area.
    unsafe { std::ptr::copy_nonoverlapping(name.as_ptr(), area, length) };
}

/// Sets what a signal does for the calling process, to the default.
///
/// Source: signal(7). Numbers without a changeable action are passed over.
pub fn default_signal_action(signal: i32) {
    // SAFETY: SIG_DFL runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Has the calling process ignore a signal.
///
/// Source: signal(7).
pub fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// A set of signals by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// All signals that can be blocked.
    pub const ALL: Self = Self(!0);

    /// The set of these signal numbers (1 to 64).
    #[must_use]
    pub fn of(signals: &[i32]) -> Self {
        Self(signals.iter().fold(0, |set, signal| set | 1 << (signal - 1)))
    }
}

/// Replaces the signal mask and gives the former one.
///
/// Source: rt_sigprocmask(2), the raw call: glibc's keeps two signals back.
///
/// # Errors
///
/// None that a valid call can give.
pub fn set_signal_mask(mask: SignalSet) -> io::Result<SignalSet> {
    let mut old: u64 = 0;
    // SAFETY: both sets are 8 bytes, as the last argument says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            std::ptr::from_ref(&mask.0),
            std::ptr::from_mut(&mut old),
            size_of::<u64>(),
        )
    };
    if result == 0 { Ok(SignalSet(old)) } else { Err(io::Error::last_os_error()) }
}

/// Makes a descriptor that becomes readable when a signal of `set` is pending.
///
/// Source: signalfd(2).
///
/// # Errors
///
/// `EMFILE`, `ENFILE`, `ENOMEM`.
pub fn signal_descriptor(set: SignalSet) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the set is 8 bytes, as the third argument says.
    let raw = unsafe {
        libc::syscall(libc::SYS_signalfd4, -1, std::ptr::from_ref(&set.0), size_of::<u64>(), flags)
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    let raw = i32::try_from(raw).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(raw) })
}

/// A signal that was pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    pub signal: i32,
    /// It came from the kernel or from a process outside our pid namespace:
    /// the sender has no id here.
    pub from_outside: bool,
}

/// Reads one pending signal, or `None` when there is none.
///
/// Source: signalfd(2).
///
/// # Errors
///
/// Those of read(2) but `EAGAIN`.
pub fn read_signal(descriptor: std::os::fd::BorrowedFd<'_>) -> io::Result<Option<Received>> {
    let mut info = [0_u8; 128];
    match rustix::io::read(descriptor, &mut info) {
        Ok(_) => {
            // struct signalfd_siginfo: ssi_signo, ssi_errno, ssi_code, ssi_pid.
            let word = |at: usize| {
                i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]])
            };
            Ok(Some(Received { signal: word(0), from_outside: word(12) == 0 }))
        }
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What wait4(2) tells of an ended child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub pid: i32,
    pub end: End,
    /// CPU time of the child and those it waited for, in microseconds.
    pub cpu_us: u64,
    /// The largest resident set of any of them, in KiB.
    pub max_rss_kib: u64,
}

/// How a process ended or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It called exit with this status (0 to 255).
    Exited(u8),
    /// This signal ended it.
    Signalled(i32),
    /// This signal stopped it; it lives.
    Stopped(i32),
}

/// Collects one child that has ended or stopped, without waiting.
///
/// `pid` -1 means any. `None`: nothing to collect now, or no child at all.
///
/// Source: wait4(2).
///
/// # Errors
///
/// `EINTR`.
pub fn collect(pid: i32) -> io::Result<Option<Ended>> {
    wait4(pid, libc::WNOHANG | libc::WUNTRACED)
}

/// Waits until the child `pid` has ended.
///
/// Source: wait4(2).
///
/// # Errors
///
/// `ECHILD` if there is no such child.
pub fn wait_for(pid: i32) -> io::Result<Ended> {
    loop {
        match wait4(pid, 0) {
            Ok(Some(ended)) => return Ok(ended),
            Ok(None) => return Err(io::Error::from_raw_os_error(libc::ECHILD)),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn wait4(pid: i32, options: i32) -> io::Result<Option<Ended>> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both results are written to values of ours of the right type.
    let found = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
    if found < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ECHILD) { Ok(None) } else { Err(error) };
    }
    if found == 0 {
        return Ok(None);
    }
    let end = if libc::WIFSTOPPED(status) {
        End::Stopped(libc::WSTOPSIG(status))
    } else if libc::WIFSIGNALED(status) {
        End::Signalled(libc::WTERMSIG(status))
    } else {
        End::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
    };
    let micros = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000
            + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    Ok(Some(Ended {
        pid: found,
        end,
        cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
        max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
    }))
}

/// Whether two tasks have one table of descriptors, not two equal ones.
///
/// Source: kcmp(2), `KCMP_FILES`. Both may be threads.
///
/// # Errors
///
/// `EPERM` if the caller may not trace both, `ESRCH` if one is gone, `ENOSYS` on a
/// kernel without the call.
pub fn shares_descriptors(
    one: rustix::process::Pid,
    other: rustix::process::Pid,
) -> io::Result<bool> {
    /// Of linux/kcmp.h.
    const KCMP_FILES: libc::c_int = 2;
    let (one, other) = (one.as_raw_nonzero().get(), other.as_raw_nonzero().get());
    // SAFETY: kcmp takes plain integers and touches no memory of ours.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0, 0) };
    if order < 0 { Err(io::Error::last_os_error()) } else { Ok(order == 0) }
}

/// Ends the calling process at once, without running exit handlers.
///
/// Source: _exit(2).
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_leave_the_table_of_descriptors() {
        let process = rustix::process::getpid();
        let compared = std::thread::spawn(move || {
            let shares = || shares_descriptors(rustix::thread::gettid(), process).unwrap();
            let before = shares();
            crate::fd::unshare_and_close_from(u32::MAX).unwrap();
            (before, shares())
        });
        assert_eq!(compared.join().unwrap(), (true, false));
    }
}
