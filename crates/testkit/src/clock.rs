//! The clock that files are stamped with.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::{Duration, Instant};

/// Waits until files made so far are older than the time that is returned.
///
/// # Panics
///
/// If the clock stands still.
pub fn wait_for_next_tick() -> Timespec {
    let read = || clock_gettime(ClockId::RealtimeCoarse);
    let (mut last, until) = (read(), Instant::now() + Duration::from_secs(5));
    // Two ticks: a time stamp may be finer and so later than the coarse clock.
    let mut ticks = 0;
    while ticks < 2 {
        assert!(Instant::now() < until, "the coarse clock stands still");
        std::thread::yield_now();
        let now = read();
        ticks += u32::from(now > last);
        last = now;
    }
    last
}
