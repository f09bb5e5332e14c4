//! From the table of refused calls to a filter program.

use super::table::{self, Refused};
use super::tree::{self, Range};
use super::{RET_ALLOW, RET_ERRNO, RET_KILL_PROCESS, RET_USER_NOTIF};
use atoll_sys::seccomp::Instruction;

/// What the kernel does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Allow,
    /// Fails with this errno; where a supervisor listens, it is told first.
    Refuse(i32),
    /// Fails with this errno in silence: programs probe for the call.
    Absent(i32),
    /// A supervisor answers.
    Ask,
    /// The process dies by `SIGSYS`.
    Kill,
}

/// A call's answer, perhaps by its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Give(Answer),
    /// By whether `argument` has any of `bits`.
    AnyBit {
        argument: u32,
        bits: u32,
        then: &'static Self,
        or: &'static Self,
    },
    /// By whether `argument & mask` is one of `values`.
    OneOf {
        argument: u32,
        mask: u32,
        values: &'static [u32],
        then: &'static Self,
        or: &'static Self,
    },
}

impl Rule {
    /// The answer to a call with these arguments. Of an argument the low half
    /// counts, as in the filter: the kernel takes all of them as 32 bits wide.
    pub(super) fn answer(&self, arguments: &[u64; 6]) -> Answer {
        let low = |argument: u32| {
            let value = usize::try_from(argument).ok().and_then(|at| arguments.get(at));
            u32::try_from(value.copied().unwrap_or(0) & u64::from(u32::MAX)).unwrap_or(u32::MAX)
        };
        match *self {
            Self::Give(answer) => answer,
            Self::AnyBit { argument, bits, then, or } => {
                (if low(argument) & bits == 0 { or } else { then }).answer(arguments)
            }
            Self::OneOf { argument, mask, values, then, or } => {
                let is_one = values.contains(&(low(argument) & mask));
                (if is_one { then } else { or }).answer(arguments)
            }
        }
    }
}

/// A call that a supervisor answers, on top of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trap {
    /// Call number (`libc::SYS_…`).
    pub number: u32,
    /// Only when this argument has any of these bits: (argument, bits).
    pub when: Option<(u32, u32)>,
}

/// What the filter is built for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// ptrace(2) and its relatives are allowed, for debuggers.
    pub ptrace: bool,
    /// New user namespaces are allowed, for browsers' own sandboxes.
    pub nested_userns: bool,
    /// A helper runs beside PID 1.
    pub has_helper: bool,
    /// Files may get the bits of programs that run as their owner: where they belong to
    /// ids that are nobody's on the host.
    pub set_id: bool,
    /// A supervisor listens, so refusals are told to it.
    pub listener: bool,
    /// It performs calls, for which a Landlock domain of the caller's own would not
    /// hold: the kernel does not say in which one a caller is.
    pub performs: bool,
    /// Calls that the supervisor answers.
    pub traps: &'a [Trap],
}

/// A filter, ready to load.
#[derive(Debug, Clone)]
pub struct Program {
    pub instructions: Vec<Instruction>,
}

static ALLOW: Rule = Rule::Give(Answer::Allow);
static ASK: Rule = Rule::Give(Answer::Ask);

fn value(answer: Answer, listener: bool) -> u32 {
    match answer {
        Answer::Allow => RET_ALLOW,
        Answer::Ask => RET_USER_NOTIF,
        Answer::Refuse(_) if listener => RET_USER_NOTIF,
        Answer::Refuse(errno) | Answer::Absent(errno) => RET_ERRNO | errno.unsigned_abs(),
        Answer::Kill => RET_KILL_PROCESS,
    }
}

/// Builds the filter.
#[must_use]
pub fn build(options: &Options<'_>) -> Program {
    let mut rules: Vec<(u32, Rule)> = table::refused()
        .filter(|refused| !lifted(refused, options))
        .map(|refused| {
            let is_alone = refused.why == table::Why::Supervisor && !options.has_helper;
            (refused.number, if is_alone { table::PRLIMIT_ALONE } else { refused.rule })
        })
        .collect();
    for trap in options.traps {
        let rule = match trap.when {
            None => ASK,
            Some((argument, bits)) => Rule::AnyBit { argument, bits, then: &ASK, or: &ALLOW },
        };
        rules.retain(|(number, _)| *number != trap.number);
        rules.push((trap.number, rule));
    }
    rules.sort_by_key(|(number, _)| *number);
    let listener = options.listener;
    Program { instructions: tree::program(&ranges(&rules), &|answer| value(answer, listener)) }
}

fn lifted(refused: &Refused, options: &Options<'_>) -> bool {
    match refused.why {
        table::Why::OtherProcesses => options.ptrace,
        table::Why::Namespaces => options.nested_userns,
        table::Why::Domains => !options.performs,
        table::Why::SetId => options.set_id,
        _ => false,
    }
}

/// Fills the gaps between rules with "allow", and everything above the newest
/// call we know with "no such call", so that a new kernel adds nothing unseen.
fn ranges(rules: &[(u32, Rule)]) -> Vec<Range> {
    let mut ranges = Vec::with_capacity(2 * rules.len() + 2);
    let mut next = 0;
    for (number, rule) in rules {
        if *number > next {
            ranges.push(Range { first: next, rule: ALLOW });
        }
        ranges.push(Range { first: *number, rule: *rule });
        next = number + 1;
    }
    if next <= table::NEWEST {
        ranges.push(Range { first: next, rule: ALLOW });
    }
    let unknown = Rule::Give(Answer::Absent(table::ENOSYS));
    ranges.push(Range { first: table::NEWEST.max(next.saturating_sub(1)) + 1, rule: unknown });
    merge_equal(ranges)
}

/// Joins neighbours with the same plain answer.
fn merge_equal(ranges: Vec<Range>) -> Vec<Range> {
    let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let same = matches!(
            (merged.last().map(|last| last.rule), range.rule),
            (Some(Rule::Give(a)), Rule::Give(b)) if a == b
        );
        if !same {
            merged.push(range);
        }
    }
    merged
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
