//! The filter of a process of our own that stays outside of sandboxes and talks with strangers:
//! what is listed may be called, nothing else.

use super::filter::{Answer, Program, Rule};
use super::tree::{self, Range};
use super::{RET_ALLOW, RET_ERRNO, RET_KILL_PROCESS};

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
const EAFNOSUPPORT: i32 = 97;

static ALLOW: Rule = Rule::Give(Answer::Allow);
static REFUSE: Rule = Rule::Give(Answer::Refuse(EPERM));

/// Sockets of IPv4 and IPv6 alone: none of unix, and nothing of the kernel's.
static SOCKETS: Rule = Rule::OneOf {
    argument: 0,
    mask: u32::MAX,
    values: &[libc::AF_INET.unsigned_abs(), libc::AF_INET6.unsigned_abs()],
    then: &ALLOW,
    or: &Rule::Give(Answer::Absent(EAFNOSUPPORT)),
};

/// Memory that is no program.
static MEMORY: Rule =
    Rule::AnyBit { argument: 2, bits: libc::PROT_EXEC.unsigned_abs(), then: &REFUSE, or: &ALLOW };

/// What a thread with sockets, timers and memory needs, and what the allocator and the runtime
/// call. Nothing in it opens a file, starts a program or a thread, or reaches another process.
const CALLS: &[(libc::c_long, &Rule)] = &[
    (libc::SYS_accept4, &ALLOW),
    (libc::SYS_bind, &ALLOW),
    (libc::SYS_brk, &ALLOW),
    (libc::SYS_clock_gettime, &ALLOW),
    (libc::SYS_clock_nanosleep, &ALLOW),
    (libc::SYS_close, &ALLOW),
    (libc::SYS_connect, &ALLOW),
    (libc::SYS_epoll_ctl, &ALLOW),
    (libc::SYS_epoll_pwait, &ALLOW),
    (libc::SYS_epoll_pwait2, &ALLOW),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, &ALLOW),
    (libc::SYS_exit, &ALLOW),
    (libc::SYS_exit_group, &ALLOW),
    (libc::SYS_fcntl, &ALLOW),
    (libc::SYS_futex, &ALLOW),
    (libc::SYS_getpeername, &ALLOW),
    (libc::SYS_getpid, &ALLOW),
    (libc::SYS_getrandom, &ALLOW),
    (libc::SYS_getsockname, &ALLOW),
    (libc::SYS_getsockopt, &ALLOW),
    (libc::SYS_gettid, &ALLOW),
    (libc::SYS_ioctl, &ALLOW),
    (libc::SYS_listen, &REFUSE),
    (libc::SYS_madvise, &ALLOW),
    (libc::SYS_mmap, &MEMORY),
    (libc::SYS_mprotect, &MEMORY),
    (libc::SYS_mremap, &ALLOW),
    (libc::SYS_munmap, &ALLOW),
    (libc::SYS_nanosleep, &ALLOW),
    (libc::SYS_pipe2, &ALLOW),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, &ALLOW),
    (libc::SYS_ppoll, &ALLOW),
    (libc::SYS_read, &ALLOW),
    (libc::SYS_readv, &ALLOW),
    (libc::SYS_recvfrom, &ALLOW),
    (libc::SYS_recvmsg, &ALLOW),
    (libc::SYS_restart_syscall, &ALLOW),
    (libc::SYS_rt_sigaction, &ALLOW),
    (libc::SYS_rt_sigprocmask, &ALLOW),
    (libc::SYS_rt_sigreturn, &ALLOW),
    (libc::SYS_sched_yield, &ALLOW),
    (libc::SYS_sendmsg, &ALLOW),
    (libc::SYS_sendto, &ALLOW),
    (libc::SYS_setsockopt, &ALLOW),
    (libc::SYS_shutdown, &ALLOW),
    (libc::SYS_sigaltstack, &ALLOW),
    (libc::SYS_socket, &SOCKETS),
    (libc::SYS_splice, &ALLOW),
    (libc::SYS_tgkill, &ALLOW),
    (libc::SYS_timer_delete, &ALLOW),
    (libc::SYS_timer_settime, &ALLOW),
    (libc::SYS_write, &ALLOW),
    (libc::SYS_writev, &ALLOW),
];

/// Builds the filter.
#[must_use]
pub fn own() -> Program {
    let mut rules: Vec<(u32, Rule)> = CALLS
        .iter()
        .filter_map(|(number, rule)| Some((u32::try_from(*number).ok()?, **rule)))
        .collect();
    rules.sort_by_key(|(number, _)| *number);
    let mut ranges = Vec::new();
    let mut next = 0;
    for (number, rule) in rules {
        if number > next {
            ranges.push(Range { first: next, rule: REFUSE });
        }
        ranges.push(Range { first: number, rule });
        next = number + 1;
    }
    ranges.push(Range { first: next, rule: Rule::Give(Answer::Absent(ENOSYS)) });
    let value = |answer| match answer {
        Answer::Allow => RET_ALLOW,
        Answer::Refuse(errno) | Answer::Absent(errno) => RET_ERRNO | errno.unsigned_abs(),
        Answer::Ask | Answer::Kill => RET_KILL_PROCESS,
    };
    Program { instructions: tree::program(&ranges, &value) }
}
