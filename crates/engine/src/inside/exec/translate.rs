//! From the API's words to the guest's and back.

use super::super::InsideError;
use super::super::translate::{to_api, to_guest};
use super::Place;
use crate::guest::GuestError;
use atoll_api::exec::{
    EndCause, Ended, Exec, ExecState, KEEP_BYTES_DEFAULT, OnDisconnect, Printed, SignalExec,
    StartExec, Stdin, Stream, Target, TerminalSize, User,
};
use atoll_api::id::ExecId;
use atoll_protocol::exec as protocol;
use atoll_protocol::octets as words;

/// Where a stream is followed from of which nothing is wanted.
const NOTHING: u64 = u64::MAX;

pub(super) fn start(id: ExecId, request: StartExec) -> Result<protocol::Start, InsideError> {
    request.validate()?;
    let StartExec { command, shell, session, user, directory, env, .. } = request;
    let arguments = match (command, shell) {
        (Some(command), _) => command.into_iter().map(to_guest).collect(),
        (None, Some(shell)) if session.is_some() => vec![text(&shell)],
        (None, shell) => vec![text("/bin/sh"), text("-c"), text(&shell.unwrap_or_default())],
    };
    let environment = env.0.iter().map(|(name, value)| (text(name), Some(text(value)))).collect();
    let input = match (request.terminal, request.stdin) {
        (Some(size), _) => protocol::Input::Terminal(to_size(size)),
        (None, Some(Stdin::Pipe)) => protocol::Input::Pipe,
        (None, Some(Stdin::Closed) | None) => protocol::Input::Closed,
    };
    Ok(protocol::Start {
        id: id.to_string(),
        command: protocol::Command {
            arguments,
            environment,
            directory: directory.map(to_guest),
            user: match user {
                User::User => protocol::User::Workload,
                User::Root => protocol::User::Root,
            },
        },
        session,
        input,
        timeout_ms: request.timeout_ms,
        keep_bytes: request.keep_bytes.unwrap_or(KEEP_BYTES_DEFAULT),
        on_disconnect: match request.on_disconnect {
            OnDisconnect::GoOn => protocol::OnDisconnect::GoOn,
            OnDisconnect::Kill => protocol::OnDisconnect::Kill,
        },
        name: request.name,
    })
}

impl Place {
    /// The request to follow an exec from here.
    pub(crate) fn follow(self, id: ExecId) -> protocol::Follow {
        protocol::Follow {
            id: id.to_string(),
            stdout: self.stdout.unwrap_or(NOTHING),
            stderr: self.stderr.unwrap_or(NOTHING),
            is_snapshot: self.is_snapshot,
        }
    }
}

pub(super) fn signal(id: ExecId, request: &SignalExec) -> protocol::Signal {
    protocol::Signal {
        id: id.to_string(),
        signal: request.signal.number(),
        target: match request.target {
            Target::Group => protocol::Target::Group,
            Target::Process => protocol::Target::Process,
            Target::Session => protocol::Target::Session,
        },
    }
}

/// What a guest says of an exec.
pub(super) fn exec(status: protocol::Status) -> Result<Exec, GuestError> {
    let id = status.id.parse().map_err(|_| GuestError::Malformed {
        what: "it tells of an exec that has no id of ours".to_owned(),
    })?;
    Ok(Exec {
        id,
        name: status.name,
        command: status.arguments.into_iter().map(to_api).collect(),
        session: status.session,
        pid: status.pid,
        started_ago_ms: status.age_ms,
        state: if status.ended.is_some() { ExecState::Ended } else { ExecState::Running },
        stdout: printed(status.stdout),
        stderr: printed(status.stderr),
        fed_bytes: status.fed_bytes,
        terminal: status
            .terminal
            .map(|protocol::Size { rows, columns }| TerminalSize { rows, columns }),
        ended: status.ended.as_ref().map(ended),
        lost: None,
    })
}

pub(super) fn ended(told: &protocol::Ended) -> Ended {
    let (exit_code, signal) = match told.outcome {
        protocol::Outcome::Exited(code) => (Some(code), None),
        protocol::Outcome::Signalled(signal) => (None, Some(signal)),
    };
    Ended {
        exit_code,
        signal,
        cause: told.cause.map(|cause| match cause {
            protocol::Cause::TimedOut => EndCause::TimedOut,
            protocol::Cause::Cancelled => EndCause::Cancelled,
            protocol::Cause::Disconnected => EndCause::Disconnected,
        }),
        duration_us: told.duration_us,
        cpu_us: told.cpu_us,
        max_rss_kib: told.max_rss_kib,
    }
}

pub(super) fn printed(told: protocol::Printed) -> Printed {
    Printed { bytes: told.bytes, dropped_bytes: told.dropped_bytes }
}

pub(super) fn stream(told: protocol::Stream) -> Stream {
    match told {
        protocol::Stream::Stdout => Stream::Stdout,
        protocol::Stream::Stderr => Stream::Stderr,
    }
}

pub(super) fn to_size(size: TerminalSize) -> protocol::Size {
    protocol::Size { rows: size.rows, columns: size.columns }
}

fn text(text: &str) -> words::Octets {
    words::Octets::try_from(text).expect("a request was checked for NUL")
}
