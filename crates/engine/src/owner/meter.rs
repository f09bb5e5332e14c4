//! Looking at what a sandbox uses: soon after its start, less and less often, and before its end.

use super::Owner;
use crate::usage::Measured;
use atoll_api::sandbox::State;
use atoll_api::time::Timestamp;
use std::num::NonZero;
use std::thread::available_parallelism;
use std::time::Duration;

/// How long after a start it is looked for the first time; each next time after twice as long.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// And at last.
const EVERY_MAX: Duration = Duration::from_secs(30);

/// The same when a budget may be used up sooner.
const SOON_MIN: Duration = Duration::from_millis(500);

/// When it is looked next, while there are processes.
#[derive(Debug, Default)]
pub(super) struct Metering(Option<(Timestamp, Duration)>);

impl Metering {
    /// There are processes.
    fn begin(&mut self, now: Timestamp) {
        self.0 = Some((now.after(EVERY_MIN), EVERY_MIN));
    }

    /// It was looked, and a budget can be used up this soon.
    fn looked(&mut self, now: Timestamp, soonest: Option<Duration>) {
        if let Some((next, every)) = &mut self.0 {
            *every = (2 * *every).min(EVERY_MAX);
            let soonest = soonest.map_or(EVERY_MAX, |soonest| soonest.max(SOON_MIN));
            *next = now.after(soonest.min(*every));
        }
    }

    pub(super) fn look_at(&self) -> Option<Timestamp> {
        self.0.map(|(next, _)| next)
    }
}

impl Owner {
    /// There are processes from now on, which were found or have been started.
    pub(super) fn meter_begins(&mut self) {
        self.shared.meter.knows(&self.record);
        self.metering.begin(self.shared.clock.now());
    }

    /// Looks at what it uses.
    pub(super) async fn meter(&mut self) {
        if self.metering.look_at().is_none() {
            return;
        }
        self.measure().await;
    }

    /// The same, and gives it; nothing where that cannot be told.
    pub(super) async fn measure(&mut self) -> Option<Measured> {
        let measured = self.call(|backend, id| backend.measure(id)).await.ok();
        let now = self.shared.clock.now();
        if let Some(measured) = measured {
            self.shared.meter.saw(self.record.id, now, measured);
        }
        let cpus = available_parallelism().map_or(1, NonZero::get);
        self.metering.looked(now, self.shared.meter.soonest(self.record.id, cpus));
        measured
    }

    /// Its processes have ended while no server ran: what they have used may still be known.
    pub(super) async fn meter_found(&mut self) {
        if self.record.state != State::Stopped {
            return;
        }
        self.shared.meter.knows(&self.record);
        if let Ok(last) = self.call(|backend, id| backend.measure(id)).await {
            // When that was, nobody knows.
            let last = Measured { memory_bytes: None, ..last };
            self.shared.meter.saw(self.record.id, self.shared.clock.now(), last);
        }
    }

    /// Looks for the last time: its processes have ended, or are about to be killed.
    pub(super) async fn meter_last(&mut self) {
        if self.metering.0.take().is_none() {
            return;
        }
        let last = self.call(|backend, id| backend.measure(id)).await.unwrap_or_default();
        self.shared.meter.ends(self.record.id, self.shared.clock.now(), last);
    }
}
