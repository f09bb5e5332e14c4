//! Tests of the guest over real sockets, with real files and processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod serve;
