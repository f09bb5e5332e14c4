//! How the process starts, and what it was given.
//!
//! A launcher has to pass on exactly what it got, so the facts are taken from an
//! initialiser that the C start-up code calls, before anything changes them.
//! [`main!`](crate::main) then takes the place of Rust's own start-up code, which
//! reads the memory map and makes a signal stack to tell of stack overflows: a
//! tenth of a millisecond, in a program that is started for every command.

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

/// Makes the C `main` of a program whose own, given here, returns its exit status.
///
/// As with Rust's start-up code `SIGPIPE` is ignored, closed standard descriptors are
/// `/dev/null`, and the arguments are known (glibc hands them to initialisers). What
/// is written to standard output must be flushed, and an overflow of the stack ends
/// the program by `SIGSEGV` without a word.
///
/// Source: the standard library's `rt::init`; "Standard Streams" of
/// <https://doc.rust-lang.org/std/io/>.
#[macro_export]
macro_rules! main {
    ($main:expr) => {
        #[unsafe(no_mangle)]
        extern "C" fn main(_count: i32, _arguments: *const *const u8) -> i32 {
            $crate::startup::prepare();
            let main: fn() -> u8 = $main;
            i32::from(main())
        }
    };
}

/// The first part of [`main!`](crate::main).
#[doc(hidden)]
pub fn prepare() {
    for descriptor in 0..3_u8 {
        if was_closed(descriptor) {
            // SAFETY: the path is a C string. The lowest free number is taken, which
            // is the closed one: those below it are open by now.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
    // SAFETY: no handler is set, the signal is merely ignored.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
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
