//! Asking git: what is run, and what it said.

use super::super::exec::new_id;
use super::super::{Inside, InsideError};
use super::REACH;
use crate::guest::{GuestError, Output};
use atoll_api::error::ErrorCode;
use atoll_api::octets::Octets;
use atoll_protocol::exec::{
    Cancel, Cause, Command, Ended, OnDisconnect, Outcome, Start, Stream, User,
};
use atoll_protocol::octets;
use atoll_protocol::problem::{Code, Problem};
use std::time::Duration;

/// Most of git's words that are told, in bytes.
const WORDS_BYTES_MAX: usize = 2048;

/// What git prints on two streams is kept by the guest until it was read, in bytes.
const KEEP_BYTES: u64 = 256 << 10;

/// What git may not do: ask anybody, page, edit, speak another language, or leave a lock
/// behind where it only looks.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "true"),
    ("SSH_ASKPASS", "true"),
    ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("LC_ALL", "C"),
    ("GCM_INTERACTIVE", "never"),
];

/// A command of git.
#[derive(Debug)]
pub(super) struct Asked {
    verb: &'static str,
    arguments: Vec<octets::Octets>,
}

/// What git printed.
pub(super) struct Said {
    pub(super) text: Vec<u8>,
    /// There is more.
    pub(super) is_cut: bool,
}

impl Asked {
    /// A command in a directory, or in none.
    pub(super) fn new(verb: &'static str, directory: Option<&Octets>) -> Result<Self, InsideError> {
        let mut git = Self { verb, arguments: Vec::new() };
        if let Some(directory) = directory {
            absolute(directory)?;
            git = git.with("-C").with_octets(super::to_guest(directory.clone()));
        }
        Ok(git.with(verb))
    }

    pub(super) fn with(self, argument: &str) -> Self {
        self.with_octets(argument.try_into().expect("arguments are checked before"))
    }

    pub(super) fn with_octets(mut self, argument: octets::Octets) -> Self {
        self.arguments.push(argument);
        self
    }

    #[cfg(test)]
    pub(super) fn arguments(&self) -> &[octets::Octets] {
        &self.arguments
    }

    #[cfg(test)]
    pub(super) fn line(&self) -> String {
        self.arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// Checks a path.
pub(super) fn absolute(path: &Octets) -> Result<(), InsideError> {
    if path.as_path().is_absolute() {
        return Ok(());
    }
    Err(InsideError::Invalid { field: "path", reason: "is not an absolute path".to_owned() })
}

/// Checks a text that becomes an argument of git, and no option.
pub(super) fn argument(
    field: &'static str,
    text: &str,
    bytes_max: usize,
) -> Result<(), InsideError> {
    let reason = match text {
        "" => "is empty",
        text if text.starts_with('-') => "begins with a dash",
        text if text.len() > bytes_max => "is too long",
        text if text.chars().any(char::is_control) => "has a control character",
        _ => return Ok(()),
    };
    Err(InsideError::Invalid { field, reason: reason.to_owned() })
}

impl Inside {
    /// Runs git, as the sandbox's user, and gives at most so much of what it prints. It
    /// ends with this.
    pub(super) async fn git(
        &self,
        git: &Asked,
        bytes_max: usize,
        time: Duration,
    ) -> Result<Said, InsideError> {
        let id = new_id()?.to_string();
        let ran = self.run_git(&id, git, bytes_max, time).await;
        self.worked();
        // It is of no interest to anybody else, and is forgotten some day anyway.
        drop(self.guest.forget(id).await);
        ran
    }

    async fn run_git(
        &self,
        id: &str,
        git: &Asked,
        bytes_max: usize,
        time: Duration,
    ) -> Result<Said, InsideError> {
        let followed = self.guest.start(start(id, git, time)).await;
        let mut followed = followed.map_err(|error| match error {
            GuestError::Refused(Problem { code: Code::NotFound, .. }) => InsideError::Git {
                code: ErrorCode::UnsupportedByTier,
                message: "there is no git in this sandbox".to_owned(),
                next_step: "use an image that has git",
            },
            error => self.failed(error),
        })?;
        let mut said = Said { text: Vec::new(), is_cut: false };
        let mut words = Vec::new();
        loop {
            match followed.output.next().await.map_err(|error| self.failed(error))? {
                Some(Output::Bytes { stream: Stream::Stdout, bytes, .. }) => {
                    let room = bytes_max - said.text.len();
                    said.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    said.is_cut = bytes.len() > room;
                }
                Some(Output::Bytes { stream: Stream::Stderr, bytes, .. }) => {
                    words.extend_from_slice(&bytes);
                    // The last words say why.
                    let excess = words.len().saturating_sub(WORDS_BYTES_MAX);
                    words.drain(..excess);
                }
                Some(Output::Dropped { stream: Stream::Stdout, .. }) => said.is_cut = true,
                Some(Output::Dropped { stream: Stream::Stderr, .. } | Output::Heartbeat) => {}
                Some(Output::Ended(ended)) => return judge(git, &ended, said, &words),
                None => {
                    let what = "it ends without an end".to_owned();
                    return Err(self.failed(GuestError::Malformed { what }));
                }
            }
            if said.is_cut {
                // The rest is not made for nobody.
                let cancel = Cancel { id: id.to_owned(), signal: 15, grace_ms: 0 };
                self.guest.cancel(cancel).await.map_err(|error| self.failed(error))?;
                return Ok(said);
            }
        }
    }
}

fn start(id: &str, git: &Asked, time: Duration) -> Start {
    let text = |text: &str| octets::Octets::try_from(text).expect("it has no NUL");
    let environment = ENVIRONMENT.iter().map(|(name, value)| (text(name), Some(text(value))));
    let transports = (text("GIT_ALLOW_PROTOCOL"), Some(text(REACH.transports())));
    let mut arguments = vec![text("git"), text("--no-pager")];
    arguments.extend(git.arguments.iter().cloned());
    Start {
        id: id.to_owned(),
        command: Command {
            arguments,
            environment: environment.chain([transports]).collect(),
            directory: None,
            user: User::Workload,
        },
        name: Some("git".to_owned()),
        session: None,
        input: Default::default(),
        timeout_ms: u64::try_from(time.as_millis()).ok(),
        keep_bytes: KEEP_BYTES,
        on_disconnect: OnDisconnect::Kill,
    }
}

fn judge(git: &Asked, ended: &Ended, said: Said, words: &[u8]) -> Result<Said, InsideError> {
    if ended.outcome == Outcome::Exited(0) {
        return Ok(said);
    }
    let words = String::from_utf8_lossy(words);
    let words = words.trim();
    let verb = git.verb;
    let message = match (ended.cause, ended.outcome) {
        (Some(Cause::TimedOut), _) => format!("git {verb} was not done in time"),
        (_, Outcome::Signalled(signal)) => format!("git {verb} was ended by signal {signal}"),
        (_, Outcome::Exited(code)) if words.is_empty() => format!("git {verb} failed with {code}"),
        (_, Outcome::Exited(_)) => format!("git {verb} failed: {words}"),
    };
    let (code, next_step) = match ended.cause {
        Some(Cause::TimedOut) => (ErrorCode::TimedOut, "ask for less, or run git as an exec"),
        _ => (kind(words), "see what git says, and decide again"),
    };
    Err(InsideError::Git { code, message, next_step })
}

/// What kind of failure git's words tell of.
fn kind(words: &str) -> ErrorCode {
    const ABSENT: [&str; 8] = [
        "not a git repository",
        "cannot change to",
        "does not exist",
        "bad revision",
        "unknown revision",
        "did not match any",
        "invalid reference",
        "not found in upstream",
    ];
    if ABSENT.iter().any(|absent| words.contains(absent)) {
        ErrorCode::NotFound
    } else if words.contains("Permission denied") || words.contains("dubious ownership") {
        ErrorCode::RefusedByPolicy
    } else if words.contains("No space left on device") {
        ErrorCode::Capacity
    } else {
        ErrorCode::Conflict
    }
}
