//! The clock that execs are timed by.

use crate::workload::now_us;

/// The monotonic clock without the times at which it was held: a sandbox that is
/// frozen for an hour has not used an hour of a command's time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// How long it was held in all.
    missed_us: u64,
    held_at: Option<u64>,
}

impl Clock {
    /// Microseconds on this clock.
    pub(super) fn now(&self) -> u64 {
        self.at(now_us())
    }

    /// Stops it. Held twice is held once.
    pub(super) fn hold(&mut self) {
        self.hold_at(now_us());
    }

    /// Lets it go on, if it is held.
    pub(super) fn release(&mut self) {
        self.release_at(now_us());
    }

    fn at(&self, monotonic: u64) -> u64 {
        self.held_at.unwrap_or(monotonic).saturating_sub(self.missed_us)
    }

    fn hold_at(&mut self, monotonic: u64) {
        self.held_at.get_or_insert(monotonic);
    }

    fn release_at(&mut self, monotonic: u64) {
        if let Some(held) = self.held_at.take() {
            self.missed_us += monotonic.saturating_sub(held);
        }
    }

    /// Says whether it stands still, so that no time will come.
    pub(super) fn is_held(&self) -> bool {
        self.held_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_was_held_did_not_pass() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(100), 100);
        clock.hold_at(150);
        clock.hold_at(170);
        assert_eq!((clock.at(160), clock.at(1000), clock.is_held()), (150, 150, true));
        clock.release_at(1150);
        clock.release_at(1300);
        assert_eq!((clock.at(1150), clock.at(1200), clock.is_held()), (150, 200, false));
    }
}
