//! Runs the built programs in a small interpreter and compares them with the
//! table, so that a wrong jump cannot hide.

use super::*;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// Interprets the subset of classic BPF that the builder emits.
fn run(program: &Program, arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let load = |offset: u32| match offset {
        0 => number,
        4 => arch,
        _ => {
            let index = usize::try_from((offset - 16) / 8).unwrap();
            let half = if (offset - 16).is_multiple_of(8) { 0 } else { 32 };
            u32::try_from((arguments[index] >> half) & 0xffff_ffff).unwrap()
        }
    };
    let (mut at, mut accumulator) = (0_usize, 0_u32);
    loop {
        let instruction = program.instructions[at];
        let branch = |yes: bool| usize::from(if yes { instruction.jt } else { instruction.jf });
        at += 1;
        match instruction.code {
            0x20 => accumulator = load(instruction.k),
            0x54 => accumulator &= instruction.k,
            0x05 => at += instruction.k as usize,
            0x15 => at += branch(accumulator == instruction.k),
            0x35 => at += branch(accumulator >= instruction.k),
            0x45 => at += branch(accumulator & instruction.k != 0),
            0x06 => return instruction.k,
            other => panic!("unexpected instruction {other:#x}"),
        }
    }
}

fn interesting_arguments() -> Vec<[u64; 6]> {
    let values = [0, 1, 2, 3, 6, 8, 10, 16, 17, 0x800, 0x1000_0000, 0x5412, 0x541c, 0x4004_9409];
    let mut all = Vec::new();
    for first in values {
        for second in values {
            for (third, fourth) in [(0, 0), (1, 0), (6, 0), (17, 0), (136, 0), (0x40, 0x400)] {
                all.push([first, second, third, fourth, 0, 0]);
                all.push([first | 1 << 32, second | 1 << 33, third | 1 << 34, fourth, 0, 0]);
            }
        }
    }
    all
}

#[test]
fn every_call_gets_the_answer_of_the_table() {
    for listener in [false, true] {
        let options = Options { listener, performs: true, has_helper: true, ..Options::default() };
        let program = build(&options);
        for number in 0..table::NEWEST + 40 {
            let rule = table::refused().find(|line| line.number == number);
            for arguments in interesting_arguments() {
                let answer = match rule {
                    Some(line) => line.rule.answer(&arguments),
                    None if number > table::NEWEST => Answer::Absent(table::ENOSYS),
                    None => Answer::Allow,
                };
                let found = run(&program, ARCH, number, arguments);
                assert_eq!(found, value(answer, listener), "call {number} {arguments:x?}");
            }
        }
    }
}

#[test]
fn set_id_bits_count_only_where_a_mode_is_meant() {
    let line = |name: &str| table::refused().find(|line| line.name == name).unwrap();
    let is_refused = |name: &str, arguments: [u64; 6]| {
        table::refusal_of(line(name).number, &arguments).is_some()
    };
    let (create, temporary) = (0o101, libc::O_TMPFILE as u64 | 2);
    assert!(is_refused("openat", [0, 0, create, 0o4755, 0, 0]));
    assert!(is_refused("openat", [0, 0, temporary, 0o2755, 0, 0]));
    assert!(!is_refused("openat", [0, 0, create, 0o1755, 0, 0]));
    assert!(!is_refused("openat", [0, 0, 1, 0o6755, 0, 0]), "no file is made");
    let directory = libc::O_DIRECTORY as u64;
    assert!(!is_refused("openat", [0, 0, directory, 0o6755, 0, 0]), "no file is made");
    assert!(is_refused("fchmod", [0, 0o4755, 0, 0, 0, 0]));
    assert!(!is_refused("fchmod", [0, 0o2755, 0, 0, 0, 0]), "directories have it");
    assert!(is_refused("fchmodat2", [0, 0, 0o4000, 0, 0, 0]));
    assert!(is_refused("mknodat", [0, 0, 0o2755, 0, 0, 0]));
}

#[test]
fn foreign_architectures_die_and_x32_numbers_do_not_exist() {
    let program = build(&Options::default());
    assert_eq!(run(&program, 0x4000_0003, 102, [0; 6]), RET_KILL_PROCESS);
    assert_eq!(run(&program, ARCH, 0x4000_0000 | 165, [0; 6]), RET_ERRNO | 38);
}

#[test]
fn a_trap_replaces_the_rule_of_its_call() {
    let traps = [Trap { number: 2, when: Some((1, 0x40)) }, Trap { number: 83, when: None }];
    let program = build(&Options { listener: true, traps: &traps, ..Options::default() });
    assert_eq!(run(&program, ARCH, 2, [0, 0x40, 0, 0, 0, 0]), RET_USER_NOTIF);
    assert_eq!(run(&program, ARCH, 2, [0, 0, 0, 0, 0, 0]), RET_ALLOW);
    assert_eq!(run(&program, ARCH, 83, [0; 6]), RET_USER_NOTIF);
}

#[test]
fn options_lift_their_own_rules_only() {
    let number = |name: &str| table::refused().find(|line| line.name == name).unwrap().number;
    let debug = build(&Options { ptrace: true, ..Options::default() });
    assert_eq!(run(&debug, ARCH, number("ptrace"), [0; 6]), RET_ALLOW);
    assert_eq!(run(&debug, ARCH, number("unshare"), [0; 6]), RET_ERRNO | 1);
    let nested = build(&Options { nested_userns: true, ..Options::default() });
    assert_eq!(run(&nested, ARCH, number("unshare"), [0; 6]), RET_ALLOW);
    assert_eq!(run(&nested, ARCH, number("ptrace"), [0; 6]), RET_ERRNO | 1);
    let domains = number("landlock_create_ruleset");
    assert_eq!(run(&nested, ARCH, domains, [0; 6]), RET_ALLOW);
    let set_id = build(&Options { set_id: true, ..Options::default() });
    let fchmod = (number("fchmod"), [3, 0o4755, 0, 0, 0, 0]);
    assert_eq!(run(&set_id, ARCH, fchmod.0, fchmod.1), RET_ALLOW);
    assert_eq!(run(&debug, ARCH, fchmod.0, fchmod.1), RET_ERRNO | 1);
    let performs = build(&Options { performs: true, listener: true, ..Options::default() });
    assert_eq!(run(&performs, ARCH, domains, [0; 6]), RET_ERRNO | table::ENOSYS.unsigned_abs());
}

#[test]
fn limits_of_the_sandboxs_own_processes_stay() {
    let number = u32::try_from(libc::SYS_prlimit64).unwrap();
    let answer = |has_helper, pid| {
        let program = build(&Options { has_helper, listener: true, ..Options::default() });
        run(&program, ARCH, number, [pid, 7, 0, 0, 0, 0])
    };
    let refused = RET_ERRNO | 1;
    let cases = [
        (0, RET_ALLOW, RET_ALLOW),
        (1, refused, refused),
        (2, RET_ALLOW, refused),
        (1 << 32 | 2, RET_ALLOW, refused),
        (3, RET_ALLOW, RET_ALLOW),
    ];
    for (pid, alone, helped) in cases {
        assert_eq!((answer(false, pid), answer(true, pid)), (alone, helped), "{pid:#x}");
    }
}

#[test]
fn the_search_stays_shallow() {
    let program = build(&Options { listener: true, ..Options::default() });
    assert!(program.instructions.len() < 400, "{}", program.instructions.len());
}
