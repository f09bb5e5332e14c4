//! The gateway's HTTP between true clients and true servers, on loopback.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod attacks;
mod clients;
mod gateway;
mod gateway_hostile;
mod hostile;
mod http2;
mod lab;
mod proxies;
mod secrets;
mod streams;
mod websocket;
