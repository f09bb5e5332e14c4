//! Limits of a server. Everything that a client can make it keep or wait for has one.

use std::time::Duration;

/// Settings of a server.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Most connections at once on each socket; further ones wait to be accepted.
    pub connections_max: usize,
    /// Most streams of events at once.
    pub streams_max: usize,
    /// Largest line and headers of a request.
    pub header_bytes_max: usize,
    /// How long they may take to arrive, and how long a connection may idle between requests.
    pub header_timeout: Duration,
    /// Largest body of a request.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Largest file or archive that is uploaded; a sandbox's own disk has limits too.
    pub upload_bytes_max: Option<u64>,
    /// How long nothing may come of what is uploaded.
    pub upload_timeout: Duration,
    /// Requests of one caller in a second, on average.
    pub requests_per_second_max: u32,
    /// Requests of one caller that may come at once.
    pub requests_burst_max: u32,
    /// Answers that are kept for requests that are sent again under one idempotency key.
    pub idempotency_keys_max: usize,
    /// How often a stream on which nothing happens shows that it lives.
    pub heartbeat: Duration,
    /// How long requests that run have to finish when the server shuts down.
    pub shutdown_grace: Duration,
    /// Free bytes where the records are, below which the server calls itself degraded.
    pub disk_free_bytes_min: u64,
    /// Free descriptors of the process, below which it calls itself degraded.
    pub descriptors_free_min: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            streams_max: 256,
            header_bytes_max: 32 * 1024,
            header_timeout: Duration::from_secs(30),
            body_bytes_max: 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            upload_bytes_max: None,
            upload_timeout: Duration::from_secs(60),
            requests_per_second_max: 5_000,
            requests_burst_max: 10_000,
            idempotency_keys_max: 10_000,
            heartbeat: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(20),
            disk_free_bytes_min: 256 * 1024 * 1024,
            descriptors_free_min: 64,
        }
    }
}
