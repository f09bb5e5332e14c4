//! What happens to a sandbox when nobody asks.
//!
//! A pure decision: from the time, the times that its maker set and what it did,
//! to what is due now and when to look again. Idle means that nothing works inside,
//! not that no request comes in: see [`Activity`]. What is decided here is carried
//! out by the same code as a request.

mod activity;
mod caps;

pub use activity::{Activity, HOLDS_COUNT_MAX, HoldError, HoldId, RunningExec};
pub use caps::{CapExceeded, Caps, Defaults};

use crate::state::Verb;
use atoll_api::sandbox::{Lifecycle, State};
use atoll_api::time::Timestamp;
use std::time::Duration;

/// What a decision depends on, beside the time.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Where it is in its life.
    pub state: State,
    /// When it came there.
    pub state_since: Timestamp,
    /// When it was stopped, if it is; archived or not.
    pub stopped_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its lease began: when it was made, or its lease renewed.
    pub lease_from: Timestamp,
    /// A budget of it is used up.
    pub is_overdrawn: bool,
    /// A volume to which it writes is full.
    pub has_full_volume: bool,
    /// When it last worked or, with a hold that still counts, will have: the hold's end.
    pub works_until: Timestamp,
}

/// Something that is due, and the time of the lifecycle that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// What to do.
    pub verb: Verb,
    /// The field that says so, as in `idle_stop_ms`, or [`OVERDRAWN`], or [`VOLUME_FULL`].
    pub reason: &'static str,
}

/// What is said of a sandbox that is stopped for a budget.
pub const OVERDRAWN: &str = "budget";

/// The same for a volume that is full.
pub const VOLUME_FULL: &str = "volume";

/// What to do now, and when to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// What is due.
    pub due: Option<Due>,
    /// When something will be due next if nothing changes.
    pub look_at: Option<Timestamp>,
}

/// Decides. Of several things that are due, deletion comes first.
pub fn decide(now: Timestamp, lifecycle: &Lifecycle, facts: &Facts) -> Decision {
    let mut decision = Decision { due: None, look_at: None };
    for (at, due) in deadlines(lifecycle, facts).into_iter().flatten() {
        if at > now {
            decision.look_at = Some(decision.look_at.map_or(at, |other| other.min(at)));
        } else if decision.due.is_none() {
            decision.due = Some(due);
        }
    }
    decision
}

/// When each time of the lifecycle ends, the deletions first.
fn deadlines(lifecycle: &Lifecycle, facts: &Facts) -> [Option<(Timestamp, Due)>; 7] {
    let deadline = |from: Timestamp, span_ms: Option<u64>, verb, reason| {
        span_ms.map(|ms| (from.after(Duration::from_millis(ms)), Due { verb, reason }))
    };
    // What is under way ends by itself, and is looked at then.
    let (is_at_rest, is_down) = match facts.state {
        State::Running | State::Paused => (true, false),
        State::Stopped | State::Archived | State::Failed => (true, true),
        State::Creating | State::Pausing | State::Resuming | State::Stopping | State::Deleted => {
            (false, false)
        }
    };
    // A paused sandbox does not work either, but stopping it would lose its memory.
    let may_idle = facts.state == State::Running;
    let down_since = facts.stopped_at.unwrap_or(facts.state_since);
    let is_stopped = facts.state == State::Stopped;
    [
        deadline(facts.lease_from, lifecycle.lease_ms, Verb::Delete, "lease_ms")
            .filter(|_| is_at_rest),
        deadline(facts.created_at, lifecycle.max_lifetime_ms, Verb::Delete, "max_lifetime_ms")
            .filter(|_| is_at_rest),
        deadline(down_since, lifecycle.delete_after_ms, Verb::Delete, "delete_after_ms")
            .filter(|_| is_down),
        // Memory that is frozen is used too.
        Some((facts.state_since, Due { verb: Verb::Stop, reason: OVERDRAWN }))
            .filter(|_| facts.is_overdrawn && is_at_rest && !is_down),
        // What is frozen writes nothing.
        Some((facts.state_since, Due { verb: Verb::Stop, reason: VOLUME_FULL }))
            .filter(|_| facts.has_full_volume && facts.state == State::Running),
        deadline(facts.works_until, lifecycle.idle_stop_ms, Verb::Stop, "idle_stop_ms")
            .filter(|_| may_idle),
        deadline(down_since, lifecycle.archive_after_ms, Verb::Archive, "archive_after_ms")
            .filter(|_| is_stopped),
    ]
}

#[cfg(test)]
mod tests;
