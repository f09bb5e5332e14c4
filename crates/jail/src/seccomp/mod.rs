//! Which system calls the workload may make, as data, and how that becomes a
//! filter.
//!
//! `table` says what is refused and why. `filter` turns a table into ranges
//! of call numbers and `tree` turns ranges into a binary search: the kernel
//! interprets a new filter once for every call number it knows, so its depth,
//! not the length of the table, is what a start pays for.
//!
//! `own` is the filter of a process of ours outside: short, and the other way round.

mod filter;
mod own;
mod table;
mod tree;

pub use filter::{Options, Program, Trap, build};
pub use own::own;
pub use table::{Refused, Why, refusal, refusal_of, refused};

// What a filter answers: seccomp(2), linux/seccomp.h.
const RET_KILL_PROCESS: u32 = 0x8000_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_ALLOW: u32 = 0x7fff_0000;
