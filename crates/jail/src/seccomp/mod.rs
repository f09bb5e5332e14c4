//! Which system calls the workload may make, as data, and how that becomes a
//! filter.
//!
//! `table` says what is refused and why. `filter` turns a table into ranges
//! of call numbers and `tree` turns ranges into a binary search: the kernel
//! interprets a new filter once for every call number it knows, so its depth,
//! not the length of the table, is what a start pays for.

mod filter;
mod table;
mod tree;

pub use filter::{Options, Program, Trap, build};
pub use table::{Refused, Why, refusal, refusal_of, refused};
