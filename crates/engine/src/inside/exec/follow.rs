//! Following an exec: what it prints, and how it ends.

use super::super::{Inside, InsideError};
use super::translate;
use crate::guest::{self, Cut, FollowOn, GuestError, Output, OutputStream};
use atoll_api::exec::{Dropped, Exec, ExecState, Stream};
use atoll_api::id::ExecId;
use atoll_api::sandbox::State;
use atoll_protocol::exec as protocol;
use bytes::Bytes;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long to wait for word of what became of a sandbox whose guest is gone.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// What comes of an exec that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// It printed something.
    Bytes {
        /// To which stream.
        stream: Stream,
        /// Offset of the first byte: right after what came before.
        offset: u64,
        /// What it printed; never empty.
        bytes: Bytes,
    },
    /// These bytes are not kept any more.
    Dropped(Dropped),
    /// It has ended, and everything that was wanted of its output came before.
    Ended(Box<Exec>),
    /// Nothing is printed, and the sandbox lives.
    Heartbeat,
}

/// An exec that is followed. Where a connection ends it goes on with another one.
#[derive(Debug)]
pub struct Following {
    inside: Inside,
    id: ExecId,
    exec: Exec,
    keep_bytes: u64,
    since: Instant,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Live(FollowOn),
    Snapshot(OutputStream),
}

impl Following {
    pub(super) fn new(
        inside: Inside,
        id: ExecId,
        followed: guest::Followed,
    ) -> Result<Self, InsideError> {
        let status = followed.status.clone();
        let source = Source::Live(inside.guest().follow_on(followed));
        Self::of(inside, id, status, source)
    }

    pub(super) fn snapshot(
        inside: Inside,
        id: ExecId,
        followed: guest::Followed,
    ) -> Result<Self, InsideError> {
        Self::of(inside, id, followed.status, Source::Snapshot(followed.output))
    }

    fn of(
        inside: Inside,
        id: ExecId,
        status: protocol::Status,
        source: Source,
    ) -> Result<Self, InsideError> {
        let keep_bytes = status.keep_bytes;
        let exec = translate::exec(status).map_err(|error| inside.failed(error))?;
        Ok(Self { inside, id, exec, keep_bytes, since: Instant::now(), source })
    }

    /// The exec as it was when following began, or as it has ended.
    pub fn exec(&self) -> &Exec {
        &self.exec
    }

    /// How many bytes are kept of each of its streams.
    pub fn keep_bytes(&self) -> u64 {
        self.keep_bytes
    }

    /// The sandbox that it runs in.
    pub fn inside(&self) -> &Inside {
        &self.inside
    }

    /// Waits for what comes next; none after [`Piece::Ended`], or at the end of what is
    /// there where no more was asked for. May be dropped and called again, and loses
    /// nothing.
    ///
    /// # Errors
    /// [`InsideError`]: what became of the exec is not known, or it has been forgotten.
    pub async fn next(&mut self) -> Result<Option<Piece>, InsideError> {
        let next = match &mut self.source {
            Source::Live(output) => output.next().await,
            Source::Snapshot(output) => output.next().await,
        };
        match next {
            Ok(Some(Output::Bytes { stream, offset, bytes })) => {
                Ok(Some(Piece::Bytes { stream: translate::stream(stream), offset, bytes }))
            }
            Ok(Some(Output::Dropped { stream, from, to })) => {
                Ok(Some(Piece::Dropped(Dropped { stream: translate::stream(stream), from, to })))
            }
            Ok(Some(Output::Heartbeat)) => Ok(Some(Piece::Heartbeat)),
            Ok(Some(Output::Ended(told))) => {
                self.end(&told);
                // What happened in it until now was work.
                self.inside.worked();
                Ok(Some(Piece::Ended(Box::new(self.exec.clone()))))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.inside.exec_lost(self.id, error).await),
        }
    }

    fn end(&mut self, told: &protocol::Ended) {
        let was_running = self.exec.state == ExecState::Running;
        if was_running {
            let meanwhile = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let ago_ms = self.exec.started_ago_ms.saturating_add(meanwhile);
            self.exec.started_ago_ms = ago_ms.max(told.duration_us / 1000);
            self.exec.state = ExecState::Ended;
        }
        self.exec.stdout = translate::printed(told.stdout);
        self.exec.stderr = translate::printed(told.stderr);
        self.exec.fed_bytes = told.fed_bytes;
        self.exec.ended = Some(translate::ended(told));
        if let Some(ended) = &self.exec.ended {
            self.inside.oversight.exec_ended(self.inside.id, self.id, ended);
        }
        self.inside.command_done(&self.exec, was_running);
    }
}

impl Inside {
    /// Why an exec is lost: where its sandbox has ended, because of that.
    async fn exec_lost(&self, exec: ExecId, source: GuestError) -> InsideError {
        let is_gone = matches!(
            source,
            GuestError::NotThere { .. } | GuestError::Lost { cut: Cut::Ended, .. }
        );
        if is_gone && let Some((state, cause)) = self.end_of_run().await {
            return InsideError::Ended { id: self.id(), exec, state, cause };
        }
        InsideError::Exec { id: self.id(), exec, source }
    }

    /// Waits for word that the sandbox does not run any more, and why.
    async fn end_of_run(&self) -> Option<(State, Option<String>)> {
        let mut view = self.view.clone();
        let told = timeout(TOLD_WITHIN, view.wait_for(|shown| shown.state != State::Running));
        match told.await {
            Ok(Ok(shown)) => Some((shown.state, shown.cause.clone())),
            // Nobody owns it any more.
            Ok(Err(_)) => Some((State::Deleted, None)),
            Err(_) => None,
        }
    }
}
