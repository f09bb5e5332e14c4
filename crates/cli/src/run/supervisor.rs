//! Who answers the workload's calls, within PID 1.
//!
//! Where the command writes the host's own directories, a live workspace or
//! granted ones, the judge does. It is in a Landlock domain with the
//! workload's own rights, or its opens would reach further than the workload's;
//! the workload is in a domain below that one, so that it cannot trace PID 1.
//! So it is where PID 1 moves directories of a review workspace, for ordinary
//! users. Else what the filter refuses is only told.

use super::inside::{failure, not_confined};
use super::refusal;
use atoll_guest::init::{self, Attendant, Attended};
use atoll_guest::message::Failure;
use atoll_guest::workload::{self, Slave, Started, Workload};
use atoll_jail::confine::{self, Walls};
use atoll_jail::judge::{Config, Denial, Judge, Moves, Moving, Refuser, Serving};
use atoll_store::apply::STAGE_PREFIX;
use atoll_sys::caps;
use atoll_sys::process;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Starts a workload that is judged. Directories of the review workspace at
/// `place` are moved too.
pub(super) fn judged(
    workload: &Workload,
    slave: Option<&Slave>,
    walls: Walls,
    config: Config,
    place: Option<&Path>,
) -> Result<Attended, Failure> {
    let judge = Judge::new(config)
        .and_then(|judge| match place {
            Some(place) => judge.moving(place, &move_stage()),
            None => Ok(judge),
        })
        .map_err(|error| failure("judge", &error, 0))?;
    let (started, listener) = start_below(workload, slave, walls)?;
    let listener =
        listener.ok_or_else(|| failure("seccomp", &io::Error::from(io::ErrorKind::NotFound), 0))?;
    let serving = judge.begin(listener).map_err(|error| failure("judge", &error, 0))?;
    Ok((started, Some(Box::new(Performing { work: Some(Work::Judge(Box::new(serving))) }))))
}

/// Starts the workload of a review workspace whose directories PID 1 moves.
pub(super) fn moved(
    workload: &Workload,
    slave: Option<&Slave>,
    walls: Walls,
    root: &Path,
) -> Result<Attended, Failure> {
    let moves = Moves::new(root, &move_stage()).map_err(|error| failure("judge", &error, 0))?;
    let (started, listener) = start_below(workload, slave, walls)?;
    // An older kernel answers renames itself.
    let Some(listener) = listener else { return Ok((started, None)) };
    let moving = moves.begin(listener).map_err(|error| failure("judge", &error, 0))?;
    Ok((started, Some(Box::new(Performing { work: Some(Work::Moves(Box::new(moving))) }))))
}

/// How staging directories of moves begin, which are never part of a review.
fn move_stage() -> String {
    format!("{STAGE_PREFIX}move-")
}

/// Starts the workload in a domain below PID 1's, and makes PID 1 ready to act
/// for it. Gives the listener, if there is one.
fn start_below(
    workload: &Workload,
    slave: Option<&Slave>,
    mut walls: Walls,
) -> Result<(Started, Option<OwnedFd>), Failure> {
    if let Some(rules) = walls.split_domain().map_err(|error| not_confined(&error))? {
        confine::restrict(rules).map_err(|error| not_confined(&error))?;
    }
    let mut started = start(workload, slave, walls)?;
    confine::drop_capabilities(1 << caps::SYS_PTRACE).map_err(|error| not_confined(&error))?;
    // The caller's pipes are the workload's alone, and the judge's work begins.
    init::leave_standard_descriptors();
    let listener = started.listener.take();
    Ok((started, listener))
}

/// Starts the workload; PID 1 tells what is refused.
pub(super) fn told(
    workload: &Workload,
    slave: Option<&Slave>,
    walls: Walls,
) -> Result<Attended, Failure> {
    let mut started = start(workload, slave, walls)?;
    confine::drop_capabilities(0).map_err(|error| not_confined(&error))?;
    let Some(listener) = started.listener.take() else { return Ok((started, None)) };
    let refuser = Refuser::new(listener).map_err(|error| failure("seccomp", &error, 0))?;
    Ok((started, Some(Box::new(Telling { refuser, is_done: false }))))
}

fn start(workload: &Workload, slave: Option<&Slave>, walls: Walls) -> Result<Started, Failure> {
    let mut walls = Some(walls);
    workload::start(workload, slave, &mut || {
        let walls = walls.take();
        walls.map_or(Ok(None), |walls| walls.raise().map_err(|error| not_confined(&error)))
    })
}

/// Whose work the workload's calls are.
enum Work {
    Judge(Box<Serving>),
    Moves(Box<Moving>),
}

/// Performs calls until nobody is left to ask.
struct Performing {
    work: Option<Work>,
}

impl Attendant for Performing {
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.work.as_ref().map(|work| match work {
            Work::Judge(serving) => serving.as_fd(),
            Work::Moves(moving) => moving.as_fd(),
        })
    }

    fn attend(&mut self, is_readable: bool) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let mut tell = |denial: Denial| records.push(refusal::denied(&denial));
        let attended = match &mut self.work {
            Some(Work::Judge(serving)) => serving.attend(is_readable, &mut tell),
            Some(Work::Moves(moving)) => moving.attend(&mut tell),
            None => return records,
        };
        match attended {
            Ok(true) => {}
            // The workload's end follows.
            Ok(false) => records.extend(self.finish()),
            // Calls would fail unjudged or for no reason from here on: nothing may go on.
            Err(_) => process::exit_now(1),
        }
        records
    }

    fn finish(&mut self) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let mut tell = |denial: Denial| records.push(refusal::denied(&denial));
        match self.work.take() {
            Some(Work::Judge(serving)) => {
                let report = serving.finish(&mut tell);
                records.extend(refusal::noticed(&report));
            }
            Some(Work::Moves(moving)) => moving.finish(),
            None => {}
        }
        records
    }

    fn timeout(&self) -> Option<Duration> {
        match &self.work {
            Some(Work::Judge(serving)) => serving.timeout(),
            Some(Work::Moves(_)) | None => None,
        }
    }
}

/// Tells what the filter refuses, where nothing else is judged.
struct Telling {
    refuser: Refuser,
    is_done: bool,
}

impl Attendant for Telling {
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_done).then(|| self.refuser.as_fd())
    }

    fn attend(&mut self, _is_readable: bool) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let mut tell = |denial: Denial| records.push(refusal::denied(&denial));
        self.is_done = self.is_done || !self.refuser.attend(&mut tell);
        records
    }

    fn finish(&mut self) -> Vec<Vec<u8>> {
        self.attend(false)
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }
}
