//! The engine as a whole, on a machine in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alone;
mod callers;
mod life;
mod records;
mod restart;
mod support;
