//! Rules by call number to a branching program.

use super::filter::{Answer, Rule};
use atoll_sys::seccomp::Instruction;

// linux/bpf_common.h
const LOAD_WORD: u16 = 0x20;
const JUMP_ALWAYS: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const AND: u16 = 0x54;
const RETURN: u16 = 0x06;

// struct seccomp_data, linux/seccomp.h
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;

/// Offset of the low half of argument `index` on a little-endian machine.
///
/// Every argument that a rule looks at is an `int` or `unsigned int` to the
/// kernel, which drops the high half itself; a test of it would only let a
/// caller choose which rule applies.
const fn offset_low(index: u32) -> u32 {
    16 + 8 * index
}

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// All numbers from `first` up to the next range's first have one rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) first: u32,
    pub(super) rule: Rule,
}

fn op(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// Builds the whole program. `ranges` is sorted and starts at 0; `value` gives
/// the number that each answer returns to the kernel.
///
/// A call of a foreign architecture kills the process: its numbers mean other
/// calls, so there is no answer that would be right.
pub(super) fn program(ranges: &[Range], value: &dyn Fn(Answer) -> u32) -> Vec<Instruction> {
    let mut code = vec![
        op(LOAD_WORD, OFFSET_ARCH),
        jump(JUMP_EQUAL, AUDIT_ARCH, 1, 0),
        op(RETURN, value(Answer::Kill)),
        op(LOAD_WORD, OFFSET_NUMBER),
    ];
    code.extend(search(ranges, value));
    code
}

/// A binary search through `ranges`, with the rules at its leaves.
fn search(ranges: &[Range], value: &dyn Fn(Answer) -> u32) -> Vec<Instruction> {
    match ranges {
        [] => Vec::new(),
        [only] => leaf(&only.rule, value),
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let (below, above) = (search(low, value), search(high, value));
            either(jump(JUMP_GREATER_EQUAL, high[0].first, 0, 0), above, below)
        }
    }
}

/// One rule: tests of arguments, then answers.
fn leaf(rule: &Rule, value: &dyn Fn(Answer) -> u32) -> Vec<Instruction> {
    match *rule {
        Rule::Give(answer) => vec![op(RETURN, value(answer))],
        Rule::AnyBit { argument, bits, then, or } => {
            let mut code = vec![op(LOAD_WORD, offset_low(argument))];
            let test = jump(JUMP_ANY_BIT, bits, 0, 0);
            code.extend(either(test, leaf(then, value), leaf(or, value)));
            code
        }
        Rule::OneOf { argument, mask, values, then, or } => {
            let mut code = vec![op(LOAD_WORD, offset_low(argument)), op(AND, mask)];
            let yes = leaf(then, value);
            let mut rest = leaf(or, value);
            for wanted in values.iter().rev() {
                rest = either(jump(JUMP_EQUAL, *wanted, 0, 0), yes.clone(), rest);
            }
            code.extend(rest);
            code
        }
    }
}

/// `test`, then `no`, then `yes`; every path of both ends in a return.
///
/// A conditional jump reaches 255 instructions; a longer way goes over an
/// unconditional one, whose reach is 32 bits.
fn either(test: Instruction, yes: Vec<Instruction>, no: Vec<Instruction>) -> Vec<Instruction> {
    let mut code = Vec::with_capacity(2 + yes.len() + no.len());
    match u8::try_from(no.len()) {
        Ok(distance) => code.push(Instruction { jt: distance, ..test }),
        Err(_) => {
            code.push(Instruction { jt: 0, jf: 1, ..test });
            code.push(op(JUMP_ALWAYS, u32::try_from(no.len()).unwrap_or(u32::MAX)));
        }
    }
    code.extend(no);
    code.extend(yes);
    code
}
