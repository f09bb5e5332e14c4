//! What the process was given at its start, before Rust's runtime changes it.
//!
//! The runtime ignores `SIGPIPE` and fills closed standard descriptors with
//! `/dev/null`. A launcher has to pass on exactly what it got, so the facts are
//! taken earlier, from an initialiser that the C start-up code calls.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CLOSED_STDIO: AtomicU8 = AtomicU8::new(0);

extern "C" fn take() {
    // SAFETY: an all-zero sigaction is a valid value of this plain C struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks for the present one.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    SIGPIPE_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    for descriptor in 0..3_u8 {
        // SAFETY: F_GETFD takes and gives integers.
        if unsafe { libc::fcntl(i32::from(descriptor), libc::F_GETFD) } < 0 {
            CLOSED_STDIO.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

// SAFETY: an entry of `.init_array` is a function with the C calling convention,
// called once before `main`; this one only makes two kinds of plain system call.
#[unsafe(link_section = ".init_array")]
#[used]
static TAKE: extern "C" fn() = take;

/// Says whether `SIGPIPE` was ignored by whoever started this program.
#[must_use]
pub fn sigpipe_was_ignored() -> bool {
    SIGPIPE_IGNORED.load(Ordering::Relaxed)
}

/// Says whether a standard descriptor (0, 1, 2) was closed at the start.
#[must_use]
pub fn was_closed(descriptor: u8) -> bool {
    descriptor < 3 && CLOSED_STDIO.load(Ordering::Relaxed) & (1 << descriptor) != 0
}
