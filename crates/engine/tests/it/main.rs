//! The engine as a whole, on a machine in memory and on the real kernel; and its client of
//! guests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alone;
mod archives;
mod budgets;
mod callers;
mod container;
mod depth;
mod diff;
mod guest;
mod images;
mod life;
mod pools;
mod random;
mod records;
mod restart;
mod snapshots;
mod support;
mod templates;
mod usage;
mod volume_limits;
mod volumes;
