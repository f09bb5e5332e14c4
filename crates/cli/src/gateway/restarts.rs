//! When a gateway that was killed is started again: pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Ends that are longer ago do not count.
const WINDOW: Duration = Duration::from_secs(60);

/// So many within that time are answered at once.
const AT_ONCE: usize = 5;

/// How long the next one is waited with; after each further one for twice as long.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// And at most: somebody waits for the network.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// The last ends.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    ends: VecDeque<Instant>,
}

impl Restarts {
    /// It was killed. Gives how long nobody is served, so that what is killed again and again, for a
    /// reason that another start does not remove, leaves the machine to others; it is never given
    /// up.
    pub(super) fn ended(&mut self, now: Instant) -> Duration {
        while self.ends.front().is_some_and(|end| now.duration_since(*end) >= WINDOW) {
            self.ends.pop_front();
        }
        self.ends.push_back(now);
        let Some(beyond) = self.ends.len().checked_sub(AT_ONCE + 1) else { return Duration::ZERO };
        let doubled = u32::try_from(beyond).ok().and_then(|times| 2_u32.checked_pow(times));
        DELAY_MIN.saturating_mul(doubled.unwrap_or(u32::MAX)).min(DELAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_answered_at_once_and_many_ever_later() {
        let (mut restarts, begin) = (Restarts::default(), Instant::now());
        let delays: Vec<u128> = (0..14).map(|_| restarts.ended(begin).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
    }

    #[test]
    fn what_is_killed_for_months_is_served_again_each_time() {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        // Every quarter of an hour, for a year.
        for _ in 0..4 * 24 * 365 {
            assert_eq!(restarts.ended(now), Duration::ZERO);
            now += Duration::from_secs(15 * 60);
        }
        // And one that is killed whenever it is there.
        for _ in 0..100_000 {
            let delay = restarts.ended(now);
            assert!(delay <= DELAY_MAX);
            now += delay + Duration::from_millis(10);
        }
        assert!(restarts.ends.len() < 30, "{}", restarts.ends.len());
        assert_eq!(restarts.ended(now + WINDOW), Duration::ZERO);
    }
}
