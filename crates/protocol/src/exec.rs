//! Running commands: start, follow, feed, signal.
//!
//! An exec is known by an id that the host chooses, so a request that is sent
//! again never runs a command twice. Its output is kept by the guest, each stream
//! in a bounded store that is addressed by offset; a connection only looks at it,
//! and where it ended another goes on.

use crate::octets::Octets;
use serde::{Deserialize, Serialize};

/// Longest id of an exec, in bytes of printable ASCII.
pub const ID_BYTES_MAX: usize = 64;

/// Most bytes that may be kept of one stream.
pub const KEEP_BYTES_MAX: u64 = 64 << 20;

/// Longest id of a session, in bytes: letters, digits, dashes and underscores.
pub const SESSION_BYTES_MAX: usize = 64;

/// Longest name of an exec, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// What a list of execs has of each one's arguments, in bytes: so many that a list of
/// all that are remembered can be said.
pub const LISTED_BYTES_MAX: usize = 512;

/// Fewest bytes that may be kept of one stream.
pub const KEEP_BYTES_MIN: u64 = 4 << 10;

/// Kept of one stream where nothing is said, in bytes.
pub const KEEP_BYTES_DEFAULT: u64 = 1 << 20;

/// Runs a command and follows it. Answered by `Started`; then output, and at
/// last the event `Ended`.
///
/// Sent again with the same id, it follows the exec that is there; with another
/// command under that id it is refused as a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Chosen by the host; see [`ID_BYTES_MAX`].
    pub id: String,
    /// What to run, and from where.
    pub command: Command,
    /// The session that it is part of, which begins with its first exec. The command is
    /// then one argument, a text of bash: it starts with the directory, variables,
    /// functions, aliases and options that the exec before it left, and leaves its own.
    /// What the command says of directory and variables holds over those. A session
    /// runs one exec at a time; another is refused as a conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What its standard descriptors are.
    #[serde(default)]
    pub input: Input,
    /// Killed at this time after its start, with all of its session; none where
    /// nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How many bytes are kept of each stream: a quarter from its head, the rest
    /// from its tail. [`KEEP_BYTES_MIN`] to [`KEEP_BYTES_MAX`].
    #[serde(default = "keep_bytes_default")]
    pub keep_bytes: u64,
    /// What becomes of it when this connection ends before it does.
    #[serde(default)]
    pub on_disconnect: OnDisconnect,
    /// Told again with its status; at most [`NAME_BYTES_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

fn keep_bytes_default() -> u64 {
    KEEP_BYTES_DEFAULT
}

/// A command as execve(2) takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program, looked for along PATH if it has no slash, and its arguments.
    pub arguments: Vec<Octets>,
    /// Variables that differ from the sandbox's own; `None` unsets one.
    #[serde(default)]
    pub environment: Vec<(Octets, Option<Octets>)>,
    /// Where it starts; the sandbox's working directory where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Octets>,
    /// As whom.
    #[serde(default)]
    pub user: User,
}

/// As whom a command runs inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// The sandbox's ordinary user.
    #[default]
    Workload,
    /// The sandbox's root, where its tier has one: it owns the files of the
    /// system, and has no capability that reaches out.
    Root,
}

/// What a command's standard descriptors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Standard input is at its end; output and errors are two pipes.
    #[default]
    Closed,
    /// The same with a pipe as standard input, fed by [`Feed`].
    Pipe,
    /// A terminal of this size is all three; what it prints is one stream, stdout.
    Terminal(Size),
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// What becomes of an exec whose connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It goes on, and can be followed again.
    #[default]
    GoOn,
    /// It is killed.
    Kill,
}

/// Follows an exec from these offsets. Answered by `Started`; then as [`Start`].
///
/// An offset before what is kept begins with the event `Dropped`; one beyond the
/// end waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follow {
    /// Which.
    pub id: String,
    /// Offset of the first byte of standard output that is wanted.
    #[serde(default)]
    pub stdout: u64,
    /// The same of standard error.
    #[serde(default)]
    pub stderr: u64,
    /// Ends with what is there, without waiting for more.
    #[serde(default)]
    pub is_snapshot: bool,
}

/// Feeds an exec that has a pipe or a terminal as standard input: frames `Body`
/// follow, then `End`, which closes a pipe. Answered by `Done` when the command,
/// or the pipe to it, has taken everything.
///
/// A connection that ends without `End` leaves the pipe open for another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// Which.
    pub id: String,
    /// How many bytes were fed before: what is sent again is not fed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Leave a pipe open after `End`.
    #[serde(default)]
    pub keep_open: bool,
}

/// Sends a signal. Answered by `Done`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Which exec.
    pub id: String,
    /// The number, 1 to 64.
    pub signal: i32,
    /// Whom it is for.
    #[serde(default)]
    pub target: Target,
}

/// Who gets a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The command's process group; of a terminal the foreground one.
    #[default]
    Group,
    /// Only the process that was started.
    Process,
    /// Everything that it started and that has not left its session.
    Session,
}

/// Asks an exec to end, and kills all of its session if it has not by then.
/// Answered by `Done` once it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// Which.
    pub id: String,
    /// What it is asked by; SIGTERM where nothing is said.
    #[serde(default = "sigterm")]
    pub signal: i32,
    /// How long it may take; 0 kills at once.
    pub grace_ms: u64,
}

fn sigterm() -> i32 {
    15
}

/// Gives an exec's terminal another size. Answered by `Done`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// Which.
    pub id: String,
    /// The new size.
    pub size: Size,
}

/// Forgets an exec that has ended, and what it printed. Answered by `Done`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// Which.
    pub id: String,
}

/// One of an exec's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output, or what a terminal shows.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Its place where both are kept side by side.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }
}

/// What is known of an exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Which.
    pub id: String,
    /// Its first process, in the sandbox's own numbers.
    pub pid: i32,
    /// What was run; in a list, the beginning of it.
    pub arguments: Vec<Octets>,
    /// The name that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The session that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How many bytes are kept of each stream.
    pub keep_bytes: u64,
    /// How long ago it started, on the clock that stands still with the sandbox.
    pub age_ms: u64,
    /// Standard output so far.
    pub stdout: Printed,
    /// Standard error so far.
    pub stderr: Printed,
    /// How many bytes of input it was fed.
    pub fed_bytes: u64,
    /// It runs in a terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Size>,
    /// How it ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// How much a stream has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Printed {
    /// All bytes, kept or not.
    pub bytes: u64,
    /// Of these dropped between the head and the tail that are kept.
    pub dropped_bytes: u64,
}

/// How an exec ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// What the kernel says of its first process.
    pub outcome: Outcome,
    /// Why we ended it, if we did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// From start to end, on the clock that stands still with the sandbox.
    pub duration_us: u64,
    /// Processor time of it and of the children that it waited for.
    pub cpu_us: u64,
    /// The most memory that one of them held.
    pub max_rss_kib: u64,
    /// How many bytes of input it was fed.
    pub fed_bytes: u64,
    /// Standard output up to the end; more may come of processes that were left.
    pub stdout: Printed,
    /// Standard error up to the end.
    pub stderr: Printed,
}

/// What the kernel says of the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with this status.
    Exited(u8),
    /// This signal ended it.
    Signalled(i32),
}

/// Why the guest ended an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its time was over.
    TimedOut,
    /// Somebody cancelled it.
    Cancelled,
    /// Its connection ended, and it was to end with it.
    Disconnected,
}
