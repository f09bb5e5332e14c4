//! Commands in a sandbox: started, followed, fed, ended.

mod collect;
mod follow;
mod translate;

pub use collect::{Collected, cut_at_end};
pub use follow::{Following, Piece};

use super::{Inside, InsideError};
use crate::error::OperationError;
use crate::guest::GuestError;
use crate::owner::Command;
use crate::services::is_service;
use atoll_api::exec::{
    CancelExec, Exec, GRACE_MS_DEFAULT, Signal, SignalExec, StartExec, Stream, TerminalSize, User,
};
use atoll_api::id::{ExecId, ID_BYTES};
use atoll_protocol::exec as protocol;
use atoll_protocol::problem::{Code, Problem};
use std::time::{Duration, Instant};
use tokio::io::AsyncRead;

/// From where an exec is followed, and whether beyond what is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Offset of the first byte of standard output that is wanted; none of it where
    /// nothing is said.
    pub stdout: Option<u64>,
    /// The same of standard error.
    pub stderr: Option<u64>,
    /// It ends with what is there, without waiting for more.
    pub is_snapshot: bool,
}

impl Place {
    /// All of it, from its start to its end.
    pub const START: Self = Self { stdout: Some(0), stderr: Some(0), is_snapshot: false };

    /// One stream alone.
    pub fn of(stream: Stream, offset: u64, is_snapshot: bool) -> Self {
        let (stdout, stderr) = match stream {
            Stream::Stdout => (Some(offset), None),
            Stream::Stderr => (None, Some(offset)),
        };
        Self { stdout, stderr, is_snapshot }
    }
}

/// An exec that was asked for, and is followed from its start.
#[derive(Debug)]
pub struct Started {
    /// This request started it; else it was there.
    pub is_new: bool,
    /// What comes of it.
    pub following: Following,
}

impl Inside {
    /// Runs a command, and follows it from its start.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn start_exec(&self, request: StartExec) -> Result<Started, InsideError> {
        let id = match request.id {
            Some(id) => id,
            None => new_id()?,
        };
        let wants_root = request.user == User::Root;
        let line = self.oversight.command_line(&request);
        request.validate()?;
        self.pass(id, &request, &line).await?;
        let start = translate::start(id, request)?;
        self.worked();
        let followed = self.guest().start(start).await;
        let may_run = match &followed {
            Ok(followed) => followed.is_new,
            Err(error) => !matches!(error, GuestError::Refused(_)),
        };
        if may_run {
            self.oversight.exec_started(self.id, id, line);
        }
        let followed = followed.map_err(|error| match error {
            // Nothing else that a start needs is missing anywhere.
            GuestError::Refused(Problem { code: Code::Unsupported, .. }) if wants_root => {
                let (id, tier) = (self.id(), self.view.borrow().tier);
                OperationError::Unsupported { id, tier, capability: "user_root" }.into()
            }
            error => self.failed_start(id, error),
        })?;
        let is_new = followed.is_new;
        Ok(Started { is_new, following: Following::new(self.clone(), id, followed)? })
    }

    /// Follows an exec.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn follow_exec(&self, id: ExecId, place: Place) -> Result<Following, InsideError> {
        let followed = self.guest().follow(place.follow(id)).await;
        let followed = followed.map_err(|error| self.failed_exec(id, error))?;
        if place.is_snapshot {
            Following::snapshot(self.clone(), id, followed)
        } else {
            Following::new(self.clone(), id, followed)
        }
    }

    /// An exec as it is now.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn exec(&self, id: ExecId) -> Result<Exec, InsideError> {
        let look = Place { is_snapshot: true, ..Place::default() };
        let exec = self.follow_exec(id, look).await?.exec().clone();
        self.seen(&exec);
        self.command_done(&exec, false);
        Ok(exec)
    }

    /// All execs that are remembered, in the order of their start.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn execs(&self) -> Result<Vec<Exec>, InsideError> {
        let told = self.guest().execs().await.map_err(|error| self.failed(error))?;
        let execs = told.into_iter().map(translate::exec).collect::<Result<Vec<_>, _>>();
        let execs = execs.map_err(|error| self.failed(error))?;
        execs.iter().for_each(|exec| self.seen(exec));
        let first =
            execs.iter().filter(|exec| !is_service(exec.id)).max_by_key(|exec| ended_ago(exec));
        if let Some(first) = first {
            self.command_done(first, false);
        }
        Ok(execs)
    }

    /// Has the end of an exec recorded, if it has ended and that is not recorded yet.
    fn seen(&self, exec: &Exec) {
        if let Some(ended) = &exec.ended {
            self.oversight.exec_ended(self.id, exec.id, ended);
        }
    }

    /// Notes when the first command of the sandbox ended, if this is it: now, or as long ago
    /// as its guest says.
    fn command_done(&self, exec: &Exec, is_now: bool) {
        let is_known = self.view.borrow().timeline.first_command_done_us.is_some();
        let Some(ago) = ended_ago(exec).filter(|_| !is_known && !is_service(exec.id)) else {
            return;
        };
        let ago = if is_now { Duration::ZERO } else { ago };
        let now = Instant::now();
        let command = Command::FirstDone { at: now.checked_sub(ago).unwrap_or(now) };
        if let Some(owner) = self.owner.upgrade() {
            // Who looks next tells it again.
            owner.try_send(command).unwrap_or_default();
        }
    }

    /// Feeds an exec what `source` has, from `offset` on, and closes a pipe then unless
    /// it is to stay open.
    ///
    /// # Errors
    /// [`InsideError`]; the exec says how much it was fed.
    pub async fn feed_exec<S: AsyncRead + Unpin>(
        &self,
        id: ExecId,
        offset: Option<u64>,
        keep_open: bool,
        source: &mut S,
    ) -> Result<(), InsideError> {
        let feed = protocol::Feed { id: id.to_string(), offset, keep_open };
        self.guest().feed(feed, source).await.map_err(|error| self.failed_exec(id, error))
    }

    /// Sends a signal to an exec.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn signal_exec(&self, id: ExecId, request: &SignalExec) -> Result<(), InsideError> {
        let signal = translate::signal(id, request);
        self.guest().signal(signal).await.map_err(|error| self.failed_exec(id, error))
    }

    /// Has an exec end, and waits for its end.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn cancel_exec(&self, id: ExecId, request: &CancelExec) -> Result<(), InsideError> {
        let cancel = protocol::Cancel {
            id: id.to_string(),
            signal: request.signal.unwrap_or(Signal::TERM).number(),
            grace_ms: request.grace_ms.unwrap_or(GRACE_MS_DEFAULT),
        };
        self.guest().cancel(cancel).await.map_err(|error| self.failed_exec(id, error))
    }

    /// Gives an exec's terminal another size.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn resize_exec(&self, id: ExecId, size: TerminalSize) -> Result<(), InsideError> {
        let resize = protocol::Resize { id: id.to_string(), size: translate::to_size(size) };
        self.guest().resize(resize).await.map_err(|error| self.failed_exec(id, error))
    }

    /// Has an exec forgotten that has ended.
    ///
    /// # Errors
    /// [`InsideError`].
    pub async fn forget_exec(&self, id: ExecId) -> Result<(), InsideError> {
        let forgotten = self.guest().forget(id.to_string()).await;
        forgotten.map_err(|error| self.failed_exec(id, error))
    }

    fn failed_start(&self, exec: ExecId, source: GuestError) -> InsideError {
        InsideError::Start { id: self.id(), exec, source }
    }

    fn failed_exec(&self, exec: ExecId, source: GuestError) -> InsideError {
        InsideError::Exec { id: self.id(), exec, source }
    }
}

/// How long ago an exec ended, if it has.
fn ended_ago(exec: &Exec) -> Option<Duration> {
    let ended = exec.ended.as_ref()?;
    let age = Duration::from_millis(exec.started_ago_ms);
    Some(age.saturating_sub(Duration::from_micros(ended.duration_us)))
}

/// An id that nobody has.
pub(super) fn new_id() -> Result<ExecId, InsideError> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(InsideError::Random)?;
    Ok(ExecId::from_random(bytes))
}
