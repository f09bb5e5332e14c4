//! The gateway's HTTP between true clients and true servers, on loopback.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod attacks;
mod hostile;
mod lab;
mod secrets;
