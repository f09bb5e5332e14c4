//! A plain linear filter of the judge's table: the shipped one is arranged better.

use atoll_jail::judge::{Condition, TRAPS, Trap};
use libc::sock_filter;

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARGUMENTS: u32 = 16;

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn skip_unless(code: u16, k: u32, jf: u8) -> sock_filter {
    sock_filter { code, jt: 0, jf, k }
}

pub(super) fn build(is_strict: bool) -> Vec<sock_filter> {
    let mut filter = vec![statement(LOAD, NUMBER)];
    for trap in TRAPS {
        let trap = if is_strict { trap.strict() } else { *trap };
        filter.extend(row(trap));
    }
    let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    for number in [libc::SYS_openat2, libc::SYS_io_uring_setup] {
        filter.push(skip_unless(IF_EQUAL, u32::try_from(number).unwrap(), 1));
        filter.push(statement(RETURN, errno));
    }
    filter.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    filter
}

fn row(trap: Trap) -> Vec<sock_filter> {
    let number = u32::try_from(trap.number).unwrap();
    let notify = statement(RETURN, libc::SECCOMP_RET_USER_NOTIF);
    match trap.condition {
        Condition::Always => vec![skip_unless(IF_EQUAL, number, 1), notify],
        Condition::AnyBit { argument, mask } => vec![
            skip_unless(IF_EQUAL, number, 4),
            statement(LOAD, ARGUMENTS + 8 * u32::from(argument)),
            skip_unless(IF_BITS, mask, 1),
            notify,
            statement(RETURN, libc::SECCOMP_RET_ALLOW),
        ],
    }
}
