//! What is shown while something is copied that takes its time.

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

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10 * 1024 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_or_four_digits() {
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(1024 * 1024 - 1), "1023.9 KiB");
        assert_eq!(size(5 << 30), "5.0 GiB");
        assert_eq!(size(u64::MAX), "16777215.9 TiB");
    }
}
