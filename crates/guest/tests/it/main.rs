//! Tests of the guest over real sockets and real file systems.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
