//! The engine as a whole, on a machine in memory and on the real kernel.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alone;
mod callers;
mod container;
mod life;
mod records;
mod restart;
mod support;
