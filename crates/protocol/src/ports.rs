//! TCP ports on the sandbox's own loopback.

use serde::{Deserialize, Serialize};

/// Connects to a port, on 127.0.0.1 and then on ::1. Answered by `Connected`:
/// over a unix socket the connected socket comes along with that frame's first
/// byte; elsewhere the connection itself goes on as the port's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// Which, 1 to 65535.
    pub port: u16,
}

/// The sockets at which all arrives that leaves the sandbox's network, which come along with
/// this answer's first byte: those that listen, then those for DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listeners {
    /// How many listen.
    pub tcp: u8,
    /// How many receive queries.
    pub udp: u8,
    /// All TCP arrives, not only what is for certain ports.
    pub is_complete: bool,
}

/// Waits until something listens on a port. Answered by `Done`, or by a problem
/// `timed_out`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Which.
    pub port: u16,
    /// How long.
    pub timeout_ms: u64,
}

/// A port that something listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Which.
    pub port: u16,
    /// It accepts connections to every address, not only to loopback.
    pub is_any_address: bool,
}
