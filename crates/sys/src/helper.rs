//! A helper process beside the caller that no wait of the caller's ever shows.

use std::io;

/// Which side of [`fork_helper`] this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// The new process.
    Child,
    /// The caller, with the helper's process id.
    Parent(i32),
}

/// Copies the calling process without asking for `SIGCHLD` at the copy's end.
///
/// Such a child is invisible to wait(2), waitpid(2) and waitid(2) without
/// `__WALL` or `__WCLONE`, so it cannot be taken for another child. When the
/// caller ends first, the reaper of orphans gets it like any other.
///
/// Source: clone(2) (exit signal 0), wait(2) (`__WCLONE`).
///
/// # Errors
///
/// `EAGAIN` over a process limit, `ENOMEM`.
///
/// # Panics
///
/// If the process has more than one thread: locks held by the others would stay
/// locked for ever in the copy.
pub fn fork_helper() -> io::Result<Helper> {
    assert!(crate::process::is_single_threaded(), "a process with threads must not be copied");
    // SAFETY: without CLONE_VM this is a fork; a null stack keeps the stack
    // pointer in the copied memory. The process has one thread (asserted above),
    // so the copy finds no foreign lock.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    match i32::try_from(pid) {
        Ok(0) => Ok(Helper::Child),
        Ok(pid) if pid > 0 => Ok(Helper::Parent(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until a helper made by [`fork_helper`] has ended, and collects it.
///
/// Source: waitpid(2), `__WALL`.
///
/// # Errors
///
/// `ECHILD` if there is no such child.
pub fn wait_for_helper(pid: i32) -> io::Result<()> {
    loop {
        // SAFETY: a null status pointer is allowed; nothing is written.
        let found = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
        if found >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
