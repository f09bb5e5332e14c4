//! What needs the real kernel, as root and as an ordinary user.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(unsafe_code, reason = "what is done between fork and exec")]

mod capture;
