//! The home of unsafe: safe wrappers over the Linux calls that rustix lacks.
//!
//! Every wrapper takes and gives owned or borrowed descriptors and slices, and
//! names its source. Nothing here decides anything.
#![expect(unsafe_code, reason = "this crate exists to hold the unsafe calls")]

pub mod accept;
pub mod btrfs;
pub mod caps;
pub mod capture;
pub mod clone;
pub mod datagram;
pub mod exec;
pub mod fd;
pub mod helper;
pub mod loopback;
pub mod mount;
pub mod netns;
pub mod notify;
pub mod probe;
pub mod process;
pub mod processor;
pub mod procmem;
mod raw;
pub mod scm;
pub mod seccomp;
pub mod signals;
pub mod socket;
pub mod startup;
pub mod tty;
pub mod writeback;
