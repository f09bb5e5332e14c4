//! What a start does with what an earlier server left behind.
//!
//! A pure plan, from the host outward: what is recorded is compared with what is
//! there. The host is right about what is, the record about what was meant.
//!
//! ```text
//! recorded     running      frozen       whole, no     half or
//!              on the host  on the host  process       nothing
//! creating     remove       remove       remove        remove
//! running      adopt        adopt        stopped       failed
//! pausing      adopt        adopt        stopped       failed
//! paused       adopt        adopt        stopped       failed
//! resuming     adopt        adopt        stopped       failed
//! stopping     stop again   stop again   stopped       failed
//! stopped      stop again   stop again   stopped       failed
//! archived     stop again   stop again   archived      archived
//! failed       failed       failed       failed        failed
//! deleted      remove       remove       remove        remove
//! (nothing)    remove       remove       remove        remove
//! ```
//!
//! One that is resuming from an archive is archived still in place of failed: until its
//! files are whole here, the archive is what it has.
//!
//! A sandbox whose processes are gone but whose files are whole is stopped, not
//! failed: after the machine was started anew every one is like that, and each can
//! be resumed.

use crate::backend::{Found, Processes};
use crate::records::Record;
use atoll_api::id::SandboxId;
use atoll_api::sandbox::State;
use std::collections::BTreeMap;

/// What to do about one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Take its processes up; it is running or paused.
    Adopt(State),
    /// Take its processes up and stop them.
    StopAgain,
    /// Leave the host as it is; this is the state that it is in.
    Settle(State),
    /// Remove what there is of it, and its record.
    Remove,
}

/// What to do about everything that is recorded or there.
#[derive(Debug, Default)]
pub struct Plan {
    /// Sandboxes that are recorded.
    pub known: Vec<(Record, Action)>,
    /// What is on the host without a record: to be removed.
    pub unknown: Vec<SandboxId>,
}

/// Plans a start.
pub fn plan(records: Vec<Record>, inventory: &[Found]) -> Plan {
    let mut there: BTreeMap<SandboxId, &Found> =
        inventory.iter().map(|found| (found.id, found)).collect();
    let known = records.into_iter().map(|record| {
        let action = match judge(record.state, there.remove(&record.id)) {
            Action::Settle(State::Failed) if is_coming_back(&record) => {
                Action::Settle(State::Archived)
            }
            action => action,
        };
        (record, action)
    });
    Plan { known: known.collect(), unknown: there.into_keys().collect() }
}

/// Whether its archive has its files, if they are not here.
fn is_coming_back(record: &Record) -> bool {
    record.state == State::Resuming && record.archive.is_some()
}

/// One cell of the table.
pub fn judge(recorded: State, found: Option<&Found>) -> Action {
    let processes = found.map_or(Processes::None, |found| found.processes);
    let is_whole = found.is_some_and(|found| found.is_whole);
    let rest = if is_whole { State::Stopped } else { State::Failed };
    match recorded {
        State::Creating | State::Deleted => Action::Remove,
        State::Running | State::Pausing | State::Paused | State::Resuming => match processes {
            Processes::Running => Action::Adopt(State::Running),
            Processes::Frozen => Action::Adopt(State::Paused),
            Processes::None => Action::Settle(rest),
        },
        State::Stopping | State::Stopped => match processes {
            Processes::Running | Processes::Frozen => Action::StopAgain,
            Processes::None => Action::Settle(rest),
        },
        State::Archived => match processes {
            Processes::Running | Processes::Frozen => Action::StopAgain,
            Processes::None => Action::Settle(State::Archived),
        },
        State::Failed => Action::Settle(State::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the module's documentation is what is done.
    #[test]
    fn the_table_is_true() {
        let table = include_str!("reconcile.rs");
        let rows = table.lines().filter_map(|line| line.strip_prefix("//! ")).filter_map(|line| {
            let (state, cells) = line.split_once(' ')?;
            let state = State::ALL.into_iter().find(|known| known.as_str() == state)?;
            let cells = cells.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            Some((state, cells.collect::<Vec<_>>()))
        });
        let id = SandboxId::from_random([1; 10]);
        let found = |processes, is_whole| Some(Found { id, processes, is_whole });
        let mut count = 0;
        for (state, cells) in rows {
            let columns = [
                (found(Processes::Running, true), "running"),
                (found(Processes::Frozen, true), "paused"),
                (found(Processes::None, true), ""),
                (found(Processes::None, false), ""),
                (None, ""),
            ];
            assert_eq!(cells.len(), 4, "{state}: {cells:?}");
            let cells = cells.iter().chain(cells.last());
            for ((found, adopted), cell) in columns.iter().zip(cells) {
                let action = match judge(state, found.as_ref()) {
                    Action::Adopt(as_what) => {
                        assert_eq!(as_what.as_str(), *adopted);
                        "adopt"
                    }
                    Action::StopAgain => "stop again",
                    Action::Settle(as_what) => as_what.as_str(),
                    Action::Remove => "remove",
                };
                assert_eq!(action, *cell, "{state} and {found:?}");
                count += 1;
            }
        }
        assert_eq!(count, State::ALL.len() * 5);
    }

    #[test]
    fn what_nobody_recorded_is_removed() {
        let id = SandboxId::from_random([1; 10]);
        let plan = plan(Vec::new(), &[Found { id, processes: Processes::Running, is_whole: true }]);
        assert_eq!((plan.known.len(), plan.unknown), (0, vec![id]));
    }
}
