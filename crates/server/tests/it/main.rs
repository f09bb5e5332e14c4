//! The server over real sockets, on the engine with a machine in memory.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod access;
mod approvals;
mod attack;
mod audit;
mod bounds;
mod denials;
mod description;
mod errors;
mod events;
mod forks;
mod health;
mod logs;
mod openapi;
mod preview;
mod sandboxes;
mod secrets;
mod shutdown;
mod silence;
mod support;
mod usage;
