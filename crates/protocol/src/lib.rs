//! What the host and a guest say to each other, as bytes and back; no I/O.
//!
//! Every operation has a connection of its own (a unix socket, or vsock), so
//! the kernel's connections are the multiplexer and its buffers the flow
//! control. What travels are frames ([`frame`]): a length, a kind, a payload that
//! is JSON for what is said and raw bytes for what is carried.
//!
//! ```text
//!     host                                  guest
//!      │ Hello, Request                       │
//!      ├─────────────────────────────────────>│
//!      │ Body … End             (some)        │
//!      ├─────────────────────────────────────>│
//!      │                  Hello, Reply        │
//!      │<─────────────────────────────────────┤
//!      │   Stdout, Stderr, Body, Event,       │
//!      │   Heartbeat … End      (some)        │
//!      │<─────────────────────────────────────┤
//! ```
//!
//! Instead of `Reply`, and at any later time, a [`Problem`](problem::Problem) ends
//! the operation. A connection that ends without `Reply`, `Problem` or the end
//! that its operation has means that the outcome is unknown: lost.
//!
//! Connections have no order among each other: who feeds or signals an exec waits
//! for the reply to its start first.
//!
//! The host treats every byte from a guest as hostile. Each kind of frame has a
//! limit that is checked before anything is allocated, unknown kinds and fields
//! are refused, and what is decoded is data, never a name to be used on the host.
//!
//! A guest may be older than the host that finds it again, so the version is
//! agreed first ([`hello`]); within it things are only added.

#![warn(missing_docs)]

pub mod exec;
pub mod files;
pub mod frame;
pub mod hello;
pub mod octets;
pub mod ports;
pub mod problem;
pub mod request;
