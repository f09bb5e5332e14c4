//! Execs: commands that run in a sandbox, what they print, and how they end.

mod act;
mod event;
mod output;
mod pattern;
mod start;

pub use act::{CancelExec, GRACE_MS_DEFAULT, GRACE_MS_MAX, ResizeExec, Signal, SignalExec, Target};
pub use event::{AttachAction, AttachEvent, Dropped, End, EndReason, OutputEvent};
pub use output::{ExecResult, Kept, Output, RESULT_BYTES_MAX};
pub use pattern::{ExecPattern, ExecPatternError, PATTERN_BYTES_MAX, PATTERNS_COUNT_MAX};
pub use start::{
    ARGUMENTS_BYTES_MAX, ARGUMENTS_COUNT_MAX, KEEP_BYTES_DEFAULT, KEEP_BYTES_MAX, KEEP_BYTES_MIN,
    NAME_BYTES_MAX, OnDisconnect, StartExec, Stdin, TerminalSize, User, WAIT_MS_MAX,
};

use crate::error::ApiError;
use crate::id::ExecId;
use crate::octets::Octets;
use serde::{Deserialize, Serialize};

/// Where in its life an exec is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecState {
    /// Its command runs.
    Running,
    /// Its command has ended, and `ended` says how.
    Ended,
    /// What became of it is not known and will not be, and `lost` says why.
    Lost,
}

/// One of an exec's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output, or what a terminal shows.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A command that was started in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Exec {
    /// Its id, as whoever started it chose it, or made for it.
    pub id: ExecId,
    /// The name that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program and its arguments; in a session, the one text of shell. A list of
    /// execs has no more than the first 512 bytes of it.
    pub command: Vec<Octets>,
    /// The session that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its first process, in the sandbox's own numbers.
    pub pid: i32,
    /// How long ago it started, in milliseconds. Time in which the sandbox is paused
    /// does not count.
    pub started_ago_ms: u64,
    /// Where in its life it is.
    pub state: ExecState,
    /// Its standard output, or what its terminal shows.
    pub stdout: Printed,
    /// Its standard error.
    pub stderr: Printed,
    /// How many bytes of input it was fed.
    pub fed_bytes: u64,
    /// It runs in a terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Why it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<ApiError>,
}

/// How much a stream has carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Printed {
    /// All bytes, kept or not.
    pub bytes: u64,
    /// Of these dropped between the head and the tail that are kept.
    pub dropped_bytes: u64,
}

/// How an exec ended: with an exit code or by a signal, of which exactly one is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Ended {
    /// The status that its first process exited with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The number of the signal that ended its first process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why it was ended, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<EndCause>,
    /// From its start to its end, in microseconds.
    pub duration_us: u64,
    /// Processor time of it and of the children that it waited for, in microseconds.
    pub cpu_us: u64,
    /// The most memory that one of them held, in KiB.
    pub max_rss_kib: u64,
}

/// Why an exec was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// Its time was over.
    TimedOut,
    /// Somebody cancelled it.
    Cancelled,
    /// Whoever started it went away, and it was to end then.
    Disconnected,
}

/// All execs that a sandbox remembers, in the order of their start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Execs {
    /// The execs.
    pub execs: Vec<Exec>,
}
