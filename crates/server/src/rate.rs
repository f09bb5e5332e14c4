//! How often one caller may ask: a bucket each, which fills steadily.

use crate::access::Caller;
use crate::error::Failure;
use atoll_api::error::ErrorCode;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Most buckets that are kept. Full ones are as good as none, and are let go of first.
const BUCKETS_MAX: usize = 2048;

/// Buckets of all callers.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: f64,
    burst: f64,
    per_second_max: u32,
    buckets: Mutex<HashMap<Caller, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Requests that may come at once.
    left: f64,
    at: Instant,
}

impl Rates {
    pub(crate) fn new(per_second_max: u32, burst_max: u32) -> Self {
        let (per_second, burst) = (f64::from(per_second_max), f64::from(burst_max));
        Self { per_second, burst, per_second_max, buckets: Mutex::default() }
    }

    /// Takes one request out of the caller's bucket.
    pub(crate) fn admit(&self, caller: Caller) -> Result<(), Failure> {
        self.take(caller, Instant::now()).map_err(|wait| {
            let limit = ("requests_per_second_max", u64::from(self.per_second_max));
            let message = "this key or user asks too often";
            let after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
            Failure::limit(ErrorCode::Capacity, limit, message, "wait, then ask again")
                .after_ms(after_ms)
        })
    }

    fn take(&self, caller: Caller, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX {
            buckets.retain(|_, bucket| self.filled(*bucket, now) < self.burst);
        }
        let bucket = buckets.entry(caller).or_insert(Bucket { left: self.burst, at: now });
        let left = self.filled(*bucket, now);
        if left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - left) / self.per_second));
        }
        *bucket = Bucket { left: left - 1.0, at: now };
        Ok(())
    }

    fn filled(&self, bucket: Bucket, now: Instant) -> f64 {
        let new = now.saturating_duration_since(bucket.at).as_secs_f64() * self.per_second;
        (bucket.left + new).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let rates = Rates::new(10, 3);
        let (one, other) = (Caller::Local { uid: 1 }, Caller::Local { uid: 2 });
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(rates.take(one, start), Ok(()));
        }
        assert_eq!(rates.take(one, start), Err(Duration::from_millis(100)));
        assert_eq!(rates.take(other, start), Ok(()));
        assert_eq!(rates.take(one, start + Duration::from_millis(101)), Ok(()));
        assert!(rates.take(one, start + Duration::from_millis(101)).is_err());
        let later = start + Duration::from_secs(3600);
        for _ in 0..3 {
            assert_eq!(rates.take(one, later), Ok(()));
        }
        assert!(rates.take(one, later).is_err());
    }

    #[test]
    fn buckets_do_not_pile_up() {
        let rates = Rates::new(10, 3);
        let start = Instant::now();
        for uid in 0..3 * 2048 {
            let at = start + Duration::from_secs(u64::from(uid));
            assert_eq!(rates.take(Caller::Local { uid }, at), Ok(()));
        }
        assert!(rates.buckets.lock().unwrap().len() <= BUCKETS_MAX);
    }
}
