//! A seccomp filter that refuses some calls, arranged as a tree.
//!
//! The kernel runs a new filter once for every call number to find those that
//! are always allowed, so what counts is the depth: a tree of fifty comparisons
//! is six deep, a list of them fifty.

use libc::{c_long, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets in `struct seccomp_data`: seccomp(2).
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

/// Call numbers from here on belong to the x32 way of calling.
const X32: u32 = 0x4000_0000;

const REFUSED: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// clone3 passes its flags by pointer, where a filter cannot see them; told that
/// there is no such call, the C library uses clone.
const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();

/// From this call number up to the next range's, the answer is the same.
#[derive(Clone, Copy)]
struct Range {
    start: u32,
    answer: u32,
}

pub(crate) fn program() -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE_AT),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER_AT),
    ];
    tree(&ranges(), &mut program);
    program
}

/// Sorted, beginning at 0, neighbours with different answers.
fn ranges() -> Vec<Range> {
    let clone3 = (libc::SYS_clone3, ABSENT);
    let mut calls: Vec<(u32, u32)> = REFUSED
        .iter()
        .map(|&number| (number, REFUSE))
        .chain([clone3])
        .map(|(number, answer)| (u32::try_from(number).unwrap_or(X32), answer))
        .collect();
    calls.sort_unstable();
    let mut ranges = vec![Range { start: 0, answer: ALLOW }];
    let mut add = |start, answer| {
        let last = ranges.last_mut().expect("begins with one range");
        if last.start == start {
            last.answer = answer;
        } else if last.answer != answer {
            ranges.push(Range { start, answer });
        }
    };
    for (index, &(number, answer)) in calls.iter().enumerate() {
        add(number, answer);
        if calls.get(index + 1).is_none_or(|&(next, _)| next != number + 1) {
            add(number + 1, ALLOW);
        }
    }
    add(X32, ABSENT);
    ranges
}

/// Splits the ranges in halves until one is left.
fn tree(ranges: &[Range], program: &mut Vec<sock_filter>) {
    if let [only] = ranges {
        program.push(answer(only.answer));
        return;
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let at = program.len();
    program.push(jump(libc::BPF_JGE, high[0].start, 0, 0));
    tree(low, program);
    let skip = program.len() - at - 1;
    program[at].jt = u8::try_from(skip).expect("half of the tree is shorter than 256");
    tree(high, program);
}

const fn load(offset: u32) -> sock_filter {
    sock_filter { code: code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), jt: 0, jf: 0, k: offset }
}

const fn jump(test: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: code(libc::BPF_JMP | test | libc::BPF_K), jt, jf, k }
}

const fn answer(k: u32) -> sock_filter {
    sock_filter { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k }
}

#[expect(clippy::cast_possible_truncation, reason = "classic BPF has 16-bit instruction codes")]
const fn code(bits: u32) -> u16 {
    bits as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel would; gives the answer and the number of
    /// instructions that it took.
    fn ask(program: &[sock_filter], architecture: u32, number: u32) -> (u32, usize) {
        let (mut at, mut steps, mut value) = (0, 0, 0);
        loop {
            let sock_filter { code: bits, jt, jf, k } = program[at];
            steps += 1;
            at += 1;
            if bits == load(0).code {
                value = if k == NUMBER_AT { number } else { architecture };
            } else if bits == answer(0).code {
                return (k, steps);
            } else {
                let equal = bits == jump(libc::BPF_JEQ, 0, 0, 0).code;
                let holds = if equal { value == k } else { value >= k };
                at += usize::from(if holds { jt } else { jf });
            }
        }
    }

    #[test]
    fn each_call_gets_its_answer() {
        let program = program();
        for number in 0..1000 {
            let expect = match c_long::from(number) {
                libc::SYS_clone3 => ABSENT,
                call if REFUSED.contains(&call) => REFUSE,
                _ => ALLOW,
            };
            assert_eq!(ask(&program, ARCHITECTURE, number).0, expect, "{number}");
        }
        assert_eq!(ask(&program, ARCHITECTURE, X32 + 39).0, ABSENT);
        assert_eq!(ask(&program, ARCHITECTURE, u32::MAX).0, ABSENT);
    }

    #[test]
    fn another_architecture_is_killed() {
        let (verdict, _) = ask(&program(), 0x4000_0003, 39);
        assert_eq!(verdict, libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn the_tree_is_flat() {
        let program = program();
        let compares = program.iter().filter(|one| one.jt != 0).count();
        assert!(compares > 40, "{compares}");
        for number in 0..1000 {
            let (_, steps) = ask(&program, ARCHITECTURE, number);
            assert!(steps <= 12, "{number} takes {steps}");
        }
    }
}
