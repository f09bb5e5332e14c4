//! What may follow on what in a sandbox's life.
//!
//! ```text
//!            Pause    Resume    Stop      Runs     Frozen  Ended    Archived
//! creating   .        .         .         running  .       .        .
//! running    pausing  .         stopping  .        .       stopped  .
//! pausing    .        .         .         running  paused  stopped  .
//! paused     .        resuming  stopping  .        .       stopped  .
//! resuming   .        .         .         running  paused  stopped  archived
//! stopping   .        .         .         .        .       stopped  .
//! stopped    .        resuming  .         .        .       .        archived
//! archived   .        resuming  .         .        .       .        .
//! ```
//!
//! `Pause`, `Resume` and `Stop` begin something; the other steps say what has
//! turned out to be the case, so a pause that did not work is `Runs`, and a start
//! that did not work is `Ended`, or `Archived` where its files did not come back. Beside
//! the table, `Broke` leads to failed and
//! `Delete` to deleted. Nothing but `Delete` follows on failed, and nothing on
//! deleted; a sandbox that is being made cannot break, since one whose making
//! failed is deleted.
//!
//! There is no lock and no I/O here; the sandbox's owner task is the one caller.

use atoll_api::sandbox::State;

/// Something that changes a sandbox's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Its processes are to be frozen.
    Pause,
    /// It is to run again.
    Resume,
    /// Its processes are to end.
    Stop,
    /// Its processes run.
    Runs,
    /// Its processes are frozen.
    Frozen,
    /// Its processes have ended, and its files are here.
    Ended,
    /// Its files are in object storage.
    Archived,
    /// It cannot go on.
    Broke,
    /// It is to be gone.
    Delete,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Pause,
        Self::Resume,
        Self::Stop,
        Self::Runs,
        Self::Frozen,
        Self::Ended,
        Self::Archived,
        Self::Broke,
        Self::Delete,
    ];
}

/// Gives the state that follows, or nothing where `step` cannot happen.
pub fn next(state: State, step: Step) -> Option<State> {
    use Step::{Archived, Broke, Delete, Ended, Frozen, Pause, Resume, Runs, Stop};
    match state {
        State::Creating => match step {
            Runs => Some(State::Running),
            Delete => Some(State::Deleted),
            Pause | Resume | Stop | Frozen | Ended | Archived | Broke => None,
        },
        State::Running => match step {
            Pause => Some(State::Pausing),
            Stop => Some(State::Stopping),
            Ended => Some(State::Stopped),
            Broke => Some(State::Failed),
            Delete => Some(State::Deleted),
            Resume | Runs | Frozen | Archived => None,
        },
        State::Pausing => match step {
            Runs => Some(State::Running),
            Frozen => Some(State::Paused),
            Ended => Some(State::Stopped),
            Broke => Some(State::Failed),
            Delete => Some(State::Deleted),
            Pause | Resume | Stop | Archived => None,
        },
        State::Paused => match step {
            Resume => Some(State::Resuming),
            Stop => Some(State::Stopping),
            Ended => Some(State::Stopped),
            Broke => Some(State::Failed),
            Delete => Some(State::Deleted),
            Pause | Runs | Frozen | Archived => None,
        },
        State::Resuming => match step {
            Runs => Some(State::Running),
            Frozen => Some(State::Paused),
            Ended => Some(State::Stopped),
            Archived => Some(State::Archived),
            Broke => Some(State::Failed),
            Delete => Some(State::Deleted),
            Pause | Resume | Stop => None,
        },
        State::Stopping => match step {
            Ended => Some(State::Stopped),
            Broke => Some(State::Failed),
            Delete => Some(State::Deleted),
            Pause | Resume | Stop | Runs | Frozen | Archived => None,
        },
        State::Stopped => match step {
            Resume => Some(State::Resuming),
            Archived => Some(State::Archived),
            Broke => Some(State::Failed),
            Delete => Some(State::Deleted),
            Pause | Stop | Runs | Frozen | Ended => None,
        },
        State::Archived => match step {
            Resume => Some(State::Resuming),
            Broke => Some(State::Failed),
            Delete => Some(State::Deleted),
            Pause | Stop | Runs | Frozen | Ended | Archived => None,
        },
        State::Failed => match step {
            Delete => Some(State::Deleted),
            Pause | Resume | Stop | Runs | Frozen | Ended | Archived | Broke => None,
        },
        State::Deleted => match step {
            Pause | Resume | Stop | Runs | Frozen | Ended | Archived | Broke | Delete => None,
        },
    }
}

/// Something that a caller, or a sandbox's own lifecycle, asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Freeze its processes.
    Pause,
    /// Let it run again: thaw, or start from its files.
    Resume,
    /// Ask its processes to end, and kill those that do not.
    Stop,
    /// Kill its processes.
    Kill,
    /// Put its files into object storage.
    Archive,
    /// Remove it.
    Delete,
}

/// What is to be done about a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Do it, beginning with this step.
    Begin(Step),
    /// It is so already.
    Already,
    /// It makes no sense in this state.
    Refuse,
}

/// Judges a verb. Asking twice is no mistake, so that a retry is safe.
pub fn judge(verb: Verb, state: State) -> Answer {
    let (step, done) = match verb {
        Verb::Pause => (Step::Pause, State::Paused),
        Verb::Resume => (Step::Resume, State::Running),
        Verb::Stop | Verb::Kill => (Step::Stop, State::Stopped),
        Verb::Archive => (Step::Archived, State::Archived),
        Verb::Delete => (Step::Delete, State::Deleted),
    };
    if state == done {
        Answer::Already
    } else if (verb, state) == (Verb::Archive, State::Resuming) {
        // That it is archived again is found out, and not asked for.
        Answer::Refuse
    } else if next(state, step).is_some() {
        Answer::Begin(step)
    } else {
        Answer::Refuse
    }
}

#[cfg(test)]
mod tests;
