//! System calls past the C library, for processes that share memory with another one: even
//! errno is the other's.

use rustix::io::Errno;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Sets a socket's option of one `int` to 1.
///
/// Source: setsockopt(2).
///
/// # Errors
///
/// Those of setsockopt(2).
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> Result<(), Errno> {
    let yes: libc::c_int = 1;
    let arguments = [
        i64::from(socket.as_raw_fd()).cast_unsigned(),
        i64::from(level).cast_unsigned(),
        i64::from(option).cast_unsigned(),
        std::ptr::from_ref(&yes) as u64,
        size_of::<libc::c_int>() as u64,
    ];
    // SAFETY: the kernel reads as many bytes of `yes` as it has, and writes none.
    let result = unsafe { call(libc::SYS_setsockopt, arguments) };
    match i32::try_from(result) {
        Ok(errno @ ..0) => Err(Errno::from_raw_os_error(errno.wrapping_neg())),
        _ => Ok(()),
    }
}

/// # Safety
///
/// What the kernel reads or writes by these arguments must be the caller's to have read or
/// written.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: libc::c_long, arguments: [u64; 5]) -> i64 {
    let result;
    let [first, second, third, fourth, fifth] = arguments;
    // SAFETY: the registers are those of syscall(2), and what the instruction overwrites is said.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, preserves_flags),
        );
    }
    result
}

/// # Safety
///
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: libc::c_long, arguments: [u64; 5]) -> i64 {
    let result;
    let [first, second, third, fourth, fifth] = arguments;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            options(nostack, preserves_flags),
        );
    }
    result
}
