//! Why an operation of a guest failed, and what is known of what became of it.

use atoll_protocol::frame::FrameError;
use atoll_protocol::hello::NoCommonVersion;
use atoll_protocol::problem::Problem;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why an operation of a guest has no result.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Nobody listens: there is no guest, or none any more. Nothing was asked.
    #[error("no guest listens at {}", .path.display())]
    NotThere {
        /// The socket's path.
        path: PathBuf,
    },
    /// This side could not connect. Nothing was asked.
    #[error("could not connect to the guest at {}", .path.display())]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// This side has as many connections to the sandbox as it may. Nothing was asked.
    #[error("{connections_max} connections to this sandbox are in use, which is the most")]
    Busy {
        /// The limit.
        connections_max: usize,
    },
    /// The request is longer than one may be. Nothing was asked.
    #[error("the request cannot be sent")]
    TooLong(#[source] io::Error),
    /// The guest is too old, or too new.
    #[error("could not agree with the guest")]
    Version(#[source] NoCommonVersion),
    /// The connection ended, or was silent for too long, before its operation had
    /// the end that it has.
    #[error("the guest is lost, {cut}: {known}")]
    Lost {
        /// What is known.
        known: Known,
        /// How it was lost.
        cut: Cut,
    },
    /// There was no answer in the time that this side gives it.
    #[error("the guest gave no answer in {after:?}: {known}")]
    TimedOut {
        /// What is known.
        known: Known,
        /// The time that was over.
        after: Duration,
    },
    /// The guest says why it cannot be done.
    #[error("the guest refused")]
    Refused(#[source] Problem),
    /// The guest said what no guest says, so nothing that it says is believed.
    #[error("the guest does not keep to the protocol: {what}")]
    Malformed {
        /// What it did; short, whatever the guest sent.
        what: String,
    },
    /// What was to be sent could not be read on this side.
    #[error("what was to be sent could not be read")]
    Source(#[source] io::Error),
}

/// How far an operation is known to have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The guest was not asked, so nothing has happened.
    NotAsked,
    /// It was asked and did not answer: whether it did it is not known.
    Asked,
    /// It answered, so the operation had begun; how it ended is not known.
    Answered,
}

/// How a connection was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It ended: the guest has ended, or closed it.
    Ended,
    /// Not even heartbeats came.
    Silent,
}

impl fmt::Display for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotAsked => "nothing has happened",
            Self::Asked => "it is not known whether anything has happened",
            Self::Answered => "it had begun, and how it ended is not known",
        })
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ended => "its connection has ended",
            Self::Silent => "it is silent",
        })
    }
}

impl GuestError {
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed { what: what.into() }
    }

    /// The cause within is left out: it may quote what the guest sent.
    pub(super) fn frame(error: &FrameError) -> Self {
        Self::malformed(error.to_string())
    }
}
