//! The home of unsafe: safe wrappers over the Linux calls that rustix lacks.
#![expect(unsafe_code, reason = "this crate exists to hold the unsafe calls")]
pub mod fd;
pub mod notify;
pub mod probe;
pub mod procmem;
