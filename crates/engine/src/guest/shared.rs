//! What all connections to one guest have in common: where it is, and limits.

use atoll_protocol::frame::HEARTBEAT_MS;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Limits of what one sandbox may take of this side.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Connections to the guest at once; each has at most one frame in memory.
    pub connections_max: usize,
    /// Connections to ports of the sandbox at once.
    pub ports_max: usize,
    /// Answers with long lists that are taken in at once; more of them wait.
    pub long_max: usize,
    /// How often a guest with nothing to say says so.
    pub heartbeat: Duration,
    /// How long the guest may take to begin an operation, or to do a short one.
    pub answer: Duration,
    /// How long it may take where that depends on how many files there are.
    pub work: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections_max: 128,
            ports_max: 256,
            long_max: 4,
            heartbeat: Duration::from_millis(HEARTBEAT_MS),
            answer: Duration::from_secs(30),
            work: Duration::from_secs(600),
        }
    }
}

impl Settings {
    /// A guest that says nothing for longer is lost.
    pub(super) fn silence(&self) -> Duration {
        self.heartbeat * 3
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) settings: Settings,
    pub(super) connections: Arc<Semaphore>,
    pub(super) ports: Arc<Semaphore>,
    pub(super) long: Arc<Semaphore>,
    voice: Mutex<Voice>,
}

/// Whether the guest is expected to say something.
#[derive(Debug, Clone, Copy)]
enum Voice {
    /// It is frozen, or about to be.
    Frozen,
    /// It runs, since then.
    Runs(Instant),
}

impl Shared {
    pub(super) fn new(path: PathBuf, settings: Settings) -> Self {
        let connections = Arc::new(Semaphore::new(settings.connections_max));
        let ports = Arc::new(Semaphore::new(settings.ports_max));
        let long = Arc::new(Semaphore::new(settings.long_max));
        let voice = Mutex::new(Voice::Runs(Instant::now()));
        Self { path, settings, connections, ports, long, voice }
    }

    pub(super) fn expect_silence(&self) {
        self.set(Voice::Frozen);
    }

    pub(super) fn expect_heartbeats(&self) {
        self.set(Voice::Runs(Instant::now()));
    }

    fn set(&self, voice: Voice) {
        *self.voice.lock().unwrap_or_else(PoisonError::into_inner) = voice;
    }

    /// When a guest is lost that has said nothing since then; none while it is
    /// not expected to.
    pub(super) fn silent_until(&self, since: Instant) -> Option<Instant> {
        match *self.voice.lock().unwrap_or_else(PoisonError::into_inner) {
            Voice::Frozen => None,
            Voice::Runs(start) => Some(since.max(start) + self.settings.silence()),
        }
    }
}
