//! Makes system calls by their numbers and prints what became of each. For tests
//! of what a sandbox refuses, which need a program that does exactly one thing.
//!
//! `probe CALL ARGUMENT… [, CALL ARGUMENT…]…` makes each call in a child of its own
//! and prints a line for it: `ok`, the error's number, or `signal` and a number.
//! An argument is a number, `bad` (an address that is not mapped), `text:WORD` (the
//! address of a string) or `zeros` (the address of a page of zeros). Calls are
//! named as in the manual, or by number: `nr:600`. `int80 NUMBER` makes one of the
//! 32-bit table.
//!
//! `probe --without CALL ERRNO -- COMMAND…` runs a command for which that call
//! always fails, as on a machine that lacks it.

#![expect(unsafe_code, reason = "system calls by number are what this program is for")]

use anyhow::{Context as _, Result, bail};
use std::ffi::CString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, call, errno, dashes, command @ ..] = arguments.as_slice()
        && option == "--without"
        && dashes == "--"
    {
        return run_without(number(call)?, errno.parse()?, command);
    }
    for words in arguments.split(|word| word == ",") {
        let (name, words) = words.split_first().context("a call is missing")?;
        writeln!(std::io::stdout(), "{}", attempt(name, words)?)?;
    }
    Ok(())
}

/// What became of one call, made by a child: it may end the process or change it.
fn attempt(name: &str, words: &[String]) -> Result<String> {
    let mut values = [0; 6];
    for (value, word) in values.iter_mut().zip(words) {
        *value = argument(word)?;
    }
    let is_foreign = name == "int80";
    let number = if is_foreign { values[0] } else { number(name)? };
    // SAFETY: this process has one thread, so its child may do anything.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(std::io::Error::last_os_error()).context("fork"),
        0 => {
            let errno = if is_foreign { foreign(number) } else { native(number, values) };
            // SAFETY: ends the process, and runs nothing of ours before.
            unsafe { libc::_exit(errno) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is valid for writes.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            Ok(match status {
                _ if waited != child => bail!("the child is gone"),
                status if libc::WIFSIGNALED(status) => {
                    format!("signal {}", libc::WTERMSIG(status))
                }
                status if libc::WEXITSTATUS(status) == 0 => "ok".to_owned(),
                status => libc::WEXITSTATUS(status).to_string(),
            })
        }
    }
}

/// Makes the call; gives its errno, or 0.
fn native(number: i64, [a, b, c, d, e, f]: [i64; 6]) -> i32 {
    // SAFETY: what the call does is the business of whoever runs this program; its
    // addresses are of strings and a page that are never freed, or not mapped.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == -1 { std::io::Error::last_os_error().raw_os_error().unwrap_or(255) } else { 0 }
}

/// Makes a call of the 32-bit table, as a 32-bit program would.
#[cfg(target_arch = "x86_64")]
fn foreign(number: i64) -> i32 {
    let mut result = number;
    // SAFETY: with no address among its arguments, the call changes registers only;
    // the kernel may clear r8 to r11.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inout("rax") result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    i32::try_from(-result).ok().filter(|errno| (1..4096).contains(errno)).unwrap_or(0)
}

/// There is none here.
#[cfg(not(target_arch = "x86_64"))]
fn foreign(_number: i64) -> i32 {
    libc::ENOSYS
}

fn argument(word: &str) -> Result<i64> {
    let address = |pointer: *const u8| i64::try_from(pointer.expose_provenance());
    match word.strip_prefix("text:") {
        Some(text) => Ok(address(CString::new(text)?.into_raw().cast_const().cast())?),
        None if word == "bad" => Ok(1),
        None if word == "zeros" => Ok(address(Box::leak(Box::new([0_u64; 512])).as_ptr().cast())?),
        None => match word.strip_prefix("0x") {
            Some(digits) => Ok(u64::from_str_radix(digits, 16)?.cast_signed()),
            None => word.parse().with_context(|| format!("no argument: {word}")),
        },
    }
}

// linux/bpf_common.h
const LOAD_WORD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Runs `command` behind a filter that answers one call with `errno`.
fn run_without(call: i64, errno: u16, command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().context("a command is missing")?;
    let op = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let filter = [
        // The call's number is the first word that a filter sees.
        op(LOAD_WORD, 0, 0),
        op(JUMP_EQUAL, 1, u32::try_from(call)?),
        op(RETURN, 0, libc::SECCOMP_RET_ERRNO | u32::from(errno)),
        op(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    rustix::thread::set_no_new_privs(true)?;
    atoll_sys::seccomp::install(&filter, atoll_sys::seccomp::Listener::None)?;
    Err(Command::new(program).args(arguments).exec()).context("exec")
}

/// Names and numbers.
macro_rules! calls {
    ($($call:ident)+) => { &[$((stringify!($call), libc::$call)),+] };
}

fn number(name: &str) -> Result<i64> {
    if let Some(digits) = name.strip_prefix("nr:") {
        return digits.parse().with_context(|| format!("no number: {digits}"));
    }
    let known =
        CALLS.iter().chain(OLD_CALLS).find(|(known, _)| known.strip_prefix("SYS_") == Some(name));
    known.map(|(_, number)| *number).with_context(|| format!("no call: {name}"))
}

const CALLS: &[(&str, i64)] = calls! {
    SYS_accept4 SYS_acct SYS_add_key SYS_bind SYS_bpf SYS_capset SYS_chroot SYS_clock_settime
    SYS_clone SYS_clone3 SYS_close_range SYS_connect SYS_delete_module SYS_fanotify_init
    SYS_finit_module SYS_fsconfig SYS_fsmount SYS_fsopen SYS_fspick SYS_getpid SYS_init_module
    SYS_io_uring_enter SYS_io_uring_register SYS_io_uring_setup SYS_ioctl SYS_kcmp SYS_kexec_load
    SYS_keyctl SYS_landlock_create_ruleset SYS_landlock_restrict_self SYS_listen SYS_memfd_create
    SYS_mknodat SYS_mount SYS_mount_setattr SYS_move_mount SYS_open_by_handle_at SYS_open_tree
    SYS_openat2 SYS_perf_event_open SYS_personality SYS_pidfd_getfd SYS_pidfd_open SYS_pivot_root
    SYS_prctl SYS_process_madvise SYS_process_vm_readv SYS_process_vm_writev SYS_ptrace
    SYS_quotactl SYS_quotactl_fd SYS_reboot SYS_request_key SYS_seccomp SYS_setdomainname
    SYS_sethostname SYS_setns SYS_settimeofday SYS_socket SYS_socketpair SYS_swapoff SYS_swapon
    SYS_syslog SYS_umount2 SYS_unshare SYS_userfaultfd SYS_vhangup
};

#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(&str, i64)] =
    calls! { SYS_ioperm SYS_iopl SYS_kexec_file_load SYS_sysfs SYS_ustat };
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(&str, i64)] = &[];
