//! What the calling process does with signals, asked and changed for a moment.

use crate::process::{SignalSet, set_signal_mask};
use std::io;
use std::os::fd::BorrowedFd;

/// Says whether the calling process ignores a signal.
///
/// Source: sigaction(2). A number that is no signal is not ignored.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value of this plain C struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks for the present one.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Has a signal do nothing but interrupt the call that its thread waits in.
///
/// Source: sigaction(2), without `SA_RESTART`.
///
/// # Errors
///
/// `EINVAL` for a number that is no signal, or none that can be caught.
pub fn interrupts(signal: i32) -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is a valid value of this plain C struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler touches nothing at all.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The blocked signals that wait for delivery to this process or thread.
///
/// Source: sigpending(2), the raw call.
///
/// # Errors
///
/// None that a valid call can give.
pub fn pending() -> io::Result<SignalSet> {
    let mut set: u64 = 0;
    // SAFETY: the set is 8 bytes, as the second argument says.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigpending, std::ptr::from_mut(&mut set), size_of::<u64>())
    };
    if result == 0 { Ok(SignalSet(set)) } else { Err(io::Error::last_os_error()) }
}

/// Reads the number of one pending signal from a descriptor made by
/// [`crate::process::signal_descriptor`], or `None` when there is none.
///
/// Source: signalfd(2).
///
/// # Errors
///
/// Those of read(2) but `EAGAIN`.
pub fn read(descriptor: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    let mut info = [0_u8; 128];
    match rustix::io::read(descriptor, &mut info) {
        Ok(_) => Ok(Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Lets pending signals of `set` take their effect now, then restores the mask.
///
/// A stop signal with the default action stops the process inside this call, and
/// the call returns once it is continued.
///
/// # Errors
///
/// None that a valid call can give.
pub fn let_through(set: SignalSet) -> io::Result<()> {
    // The mask is not known without a change: block all to learn it. Nothing
    // runs in between that could miss a signal.
    let mask = set_signal_mask(SignalSet::ALL)?;
    set_signal_mask(SignalSet(mask.0 & !set.0))?;
    set_signal_mask(mask)?;
    Ok(())
}

/// Ends the calling process by `signal`, so that whoever waits for it sees the
/// same end as that of a child which the signal ended.
///
/// Returns only for a signal whose default action does not end a process.
/// Source: signal(7).
pub fn die_by(signal: i32) {
    crate::process::default_signal_action(signal);
    // SAFETY: raise takes a number and touches no memory of ours.
    unsafe { libc::raise(signal) };
    // Blocked signals wait until now. Without an error there is nothing to tell.
    if (1..=64).contains(&signal) {
        let_through(SignalSet::of(&[signal])).ok();
    }
}
