//! Whether a sandbox works.
//!
//! Work is what holds it: commands, attached streams, declared services, and the
//! use of the processor. Every hold is bounded: a job that hangs keeps a sandbox
//! awake until its bound, and is listed with its cause until then.

use crate::services::service_of;
use atoll_api::id::ExecId;
use atoll_api::sandbox::{Hold, HoldCause};
use atoll_api::service::Service;
use atoll_api::time::Timestamp;
use std::time::Duration;

/// Most holds on one sandbox.
pub const HOLDS_COUNT_MAX: usize = 1024;

/// Share of one processor from which a sandbox counts as at work, in thousandths. A
/// server that waits for requests and watches files uses some 5; a build, hundreds.
const BUSY_MILLI: u128 = 20;

/// Shortest time over which the use of the processor is told, in microseconds: in a
/// shorter one the guest's own answers would count as a sandbox's work.
const SPAN_US_MIN: u128 = 100_000;

/// Names one hold on one sandbox, to release it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldId(u64);

/// An exec that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningExec {
    /// Which.
    pub id: ExecId,
    /// How long it has run.
    pub age: Duration,
}

/// Why a hold was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// There are as many as there may be.
    #[error("the sandbox is held {HOLDS_COUNT_MAX} times already, which is the most")]
    TooMany,
    /// Longer than a hold may be.
    #[error("a hold of {asked:?} is longer than the cap hold_max of {cap:?}")]
    TooLong {
        /// What was asked for.
        asked: Duration,
        /// What is the most.
        cap: Duration,
    },
}

/// What a sandbox does and did.
#[derive(Debug)]
pub struct Activity {
    last_work_at: Timestamp,
    holds: Vec<(HoldId, Hold)>,
    holds_ever: u64,
    hold_max: Duration,
    /// Execs that ran when the guest was last asked, and since when they do.
    execs: Vec<(ExecId, Timestamp)>,
    /// The same of services.
    services: Vec<(String, Timestamp)>,
    service_hold_max: Duration,
    sample: Option<Sample>,
    busy_since: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Timestamp,
    cpu: Duration,
}

impl Activity {
    /// Begins at `now`, which counts as work.
    pub fn new(now: Timestamp, hold_max: Duration, service_hold_max: Duration) -> Self {
        Self {
            last_work_at: now,
            holds: Vec::new(),
            holds_ever: 0,
            hold_max,
            execs: Vec::new(),
            services: Vec::new(),
            service_hold_max,
            sample: None,
            busy_since: None,
        }
    }

    /// Notes that it runs from now on. `cpu` is the processor time that it has used so
    /// far, or nothing if the next sample is to tell.
    pub fn runs(&mut self, now: Timestamp, cpu: Option<Duration>) {
        self.last_work_at = self.last_work_at.max(now);
        self.sample = cpu.map(|cpu| Sample { at: now, cpu });
        self.busy_since = None;
    }

    /// Notes that something has worked until now.
    pub fn worked(&mut self, now: Timestamp) {
        self.last_work_at = self.last_work_at.max(now);
    }

    /// Takes in which execs run. Each counts as work until its bound.
    ///
    /// A service is there to be used rather than work by itself: it holds the sandbox for a
    /// while from its start, and again from any other work.
    pub fn running(&mut self, now: Timestamp, execs: Vec<RunningExec>, declared: &[Service]) {
        self.execs.clear();
        self.services.clear();
        for RunningExec { id, age } in execs {
            let since = now.before(age);
            if let Some(service) = service_of(declared, id) {
                self.services.push((service.name.clone(), since));
                continue;
            }
            self.last_work_at = self.last_work_at.max(now.min(since.after(self.hold_max)));
            self.execs.push((id, since));
        }
    }

    /// When the use of the processor was last looked at.
    pub fn sampled_at(&self) -> Option<Timestamp> {
        self.sample.map(|sample| sample.at)
    }

    /// Holds it for `bound` at most.
    ///
    /// # Errors
    /// Beyond the most holds, or the longest.
    pub fn hold(
        &mut self,
        now: Timestamp,
        cause: HoldCause,
        bound: Duration,
    ) -> Result<HoldId, HoldError> {
        self.expire(now);
        if bound > self.hold_max {
            return Err(HoldError::TooLong { asked: bound, cap: self.hold_max });
        }
        if self.holds.len() >= HOLDS_COUNT_MAX {
            return Err(HoldError::TooMany);
        }
        self.holds_ever += 1;
        let id = HoldId(self.holds_ever);
        self.holds.push((id, Hold { cause, since: now, until: now.after(bound) }));
        Ok(id)
    }

    /// Takes a hold back. One that has ended by itself is no mistake.
    pub fn release(&mut self, now: Timestamp, id: HoldId) {
        self.expire(now);
        let before = self.holds.len();
        self.holds.retain(|(other, _)| *other != id);
        if self.holds.len() < before {
            self.last_work_at = self.last_work_at.max(now);
        }
    }

    /// Takes in how much processor time it has used since it began.
    pub fn sample(&mut self, now: Timestamp, cpu: Duration) {
        let last = *self.sample.get_or_insert(Sample { at: now, cpu });
        let span_us = now.since(last.at).as_micros();
        if span_us < SPAN_US_MIN {
            return;
        }
        self.sample = Some(Sample { at: now, cpu });
        let used_us = cpu.saturating_sub(last.cpu).as_micros();
        if used_us * 1000 < span_us * BUSY_MILLI {
            self.busy_since = None;
            return;
        }
        let since = *self.busy_since.get_or_insert(last.at);
        self.last_work_at = self.last_work_at.max(now.min(since.after(self.hold_max)));
    }

    /// Notes that its processor time could not be told, which counts as rest.
    pub fn sample_failed(&mut self, now: Timestamp) {
        self.busy_since = None;
        if let Some(sample) = &mut self.sample {
            sample.at = now;
        }
    }

    /// When it last worked or, with a hold that still counts, when that one will end.
    pub fn works_until(&self) -> Timestamp {
        let held_until = self.holds.iter().map(|(_, hold)| hold.until);
        let services_until = self.services.iter().map(|(_, since)| self.service_until(*since));
        held_until.chain(services_until).fold(self.last_work_at, Timestamp::max)
    }

    /// Until when a service that runs since then holds it.
    fn service_until(&self, since: Timestamp) -> Timestamp {
        since.max(self.last_work_at).after(self.service_hold_max)
    }

    /// What holds it now.
    pub fn holds(&self, now: Timestamp) -> Vec<Hold> {
        let cpu = self.busy_since.map(|since| Hold {
            cause: HoldCause::Cpu,
            since,
            until: since.after(self.hold_max),
        });
        let execs = self.execs.iter().map(|&(exec_id, since)| Hold {
            cause: HoldCause::Exec { exec_id },
            since,
            until: since.after(self.hold_max),
        });
        let services = self.services.iter().map(|(name, since)| Hold {
            cause: HoldCause::Service { name: name.clone() },
            since: *since,
            until: self.service_until(*since),
        });
        let held = self.holds.iter().map(|(_, hold)| hold.clone());
        held.chain(execs).chain(services).chain(cpu).filter(|hold| hold.until > now).collect()
    }

    /// Forgets holds that have ended by themselves: there was work until then.
    fn expire(&mut self, now: Timestamp) {
        let last_work_at = &mut self.last_work_at;
        self.holds.retain(|(_, hold)| {
            let counts = hold.until > now;
            if !counts {
                *last_work_at = hold.until.max(*last_work_at);
            }
            counts
        });
    }
}
