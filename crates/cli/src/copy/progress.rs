//! What is shown while something is copied that takes its time.

use crate::remote::size;
use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, interval_at};

/// How long it may take before anything is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is shown then.
const AGAIN: Duration = Duration::from_millis(200);

/// Bytes that were copied, as they are.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does it, and shows on a terminal how far it is.
pub(super) async fn shown<T>(count: &Count, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let mut ticks = interval_at(Instant::now() + PATIENCE, AGAIN);
    let mut is_shown = false;
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = ticks.tick() => {
                is_shown = true;
                write!(io::stderr(), "\r{} copied\x1b[K", size(count.bytes())).ok();
            }
        }
    };
    if is_shown {
        write!(io::stderr(), "\r\x1b[K").ok();
    }
    done
}
