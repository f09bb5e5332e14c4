//! Helpers for tests; never linked into a program that ships.

pub mod pty;
pub mod skip;
