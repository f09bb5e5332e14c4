//! Commands: start and follow them, and what can be done to them.

use super::Guest;
use super::connection::Connection;
use super::error::GuestError;
use super::flow::{Flow, ended_early};
use super::hearing::{Answers, Said, out_of_place};
use atoll_protocol::exec::{
    Cancel, Ended, Follow, Forget, Printed, Resize, Signal, Start, Status, Stream,
};
use atoll_protocol::octets::Octets;
use atoll_protocol::request::{Event, Reply, Request};
use bytes::Bytes;
use std::time::Duration;

/// Longest command that a guest may tell of, in bytes with one behind each word: some more
/// than can be asked for.
const ARGUMENTS_BYTES_MAX: usize = 576 << 10;

/// Most words that it may have.
const ARGUMENTS_COUNT_MAX: usize = 64 << 10;

/// An exec that is being followed.
#[derive(Debug)]
pub struct Followed {
    /// The request started it; else it was there.
    pub is_new: bool,
    /// As it was when following began.
    pub status: Status,
    /// What it prints, and how it ends.
    pub output: OutputStream,
}

/// What comes of an exec that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// It printed something.
    Bytes {
        /// To which stream.
        stream: Stream,
        /// Offset of the first byte: right after what came before.
        offset: u64,
        /// What it printed; never empty.
        bytes: Bytes,
    },
    /// The guest does not keep these bytes any more; the stream goes on at `to`.
    Dropped {
        /// Of which stream.
        stream: Stream,
        /// Offset of the first that is missing.
        from: u64,
        /// Offset of the first that is there again.
        to: u64,
    },
    /// It has ended, and everything that it printed came before.
    Ended(Ended),
    /// It is silent, and the guest alive.
    Heartbeat,
}

/// Output of an exec, as it comes.
///
/// What is not asked for is not received: the guest waits for who takes something
/// every few seconds, and tells others what they missed. Who drops this leaves the exec
/// running, unless its start asked for something else.
#[derive(Debug)]
pub struct OutputStream {
    flow: Flow,
    /// From where it was wanted, of both streams.
    wanted: [u64; 2],
    /// Where it stands.
    at: [u64; 2],
    is_snapshot: bool,
}

impl OutputStream {
    fn new(connection: Connection, wanted: [u64; 2], is_snapshot: bool) -> Self {
        Self { flow: Flow::new(connection), wanted, at: wanted, is_snapshot }
    }

    /// Up to here everything has been given out, of a stream: from here another
    /// [`Follow`] goes on.
    #[must_use]
    pub fn offset(&self, stream: Stream) -> u64 {
        self.at[stream.index()]
    }

    /// Waits for what comes next; none after [`Output::Ended`], or at the end of a
    /// snapshot. May be dropped and called again, and loses nothing.
    ///
    /// # Errors
    ///
    /// Of which none is an end of the exec: [`GuestError::Lost`], also at every call
    /// after an error; [`GuestError::Malformed`]; [`GuestError::Refused`] where the
    /// exec has been forgotten.
    pub async fn next(&mut self) -> Result<Option<Output>, GuestError> {
        let Some(said) = self.flow.next().await? else { return Ok(None) };
        match self.judge(said) {
            Ok(next) => {
                if matches!(next, None | Some(Output::Ended(_))) {
                    self.flow.finish();
                }
                Ok(next)
            }
            Err(error) => self.flow.fail(error),
        }
    }

    fn judge(&mut self, said: Said) -> Result<Option<Output>, GuestError> {
        match said {
            Said::Output { stream, offset, bytes } => {
                let end = self.go_on(stream, offset, offset.checked_add(bytes.len() as u64))?;
                self.at[stream.index()] = end;
                Ok(Some(Output::Bytes { stream, offset, bytes }))
            }
            Said::Event(Event::Dropped { stream, from, to }) => {
                let to = self.go_on(stream, from, Some(to))?;
                self.at[stream.index()] = to;
                Ok(Some(Output::Dropped { stream, from, to }))
            }
            Said::Event(Event::Ended(ended)) => {
                self.check_end(Stream::Stdout, ended.stdout)?;
                self.check_end(Stream::Stderr, ended.stderr)?;
                Ok(Some(Output::Ended(ended)))
            }
            Said::Heartbeat => Ok(Some(Output::Heartbeat)),
            Said::End if self.is_snapshot => Ok(None),
            // Without a word on how it ended.
            Said::End => Err(ended_early()),
            Said::Problem(problem) => Err(GuestError::Refused(problem)),
            said => Err(out_of_place(&said)),
        }
    }

    /// The end of a piece of a stream, which must begin where the last one ended.
    fn go_on(&self, stream: Stream, from: u64, to: Option<u64>) -> Result<u64, GuestError> {
        let at = self.offset(stream);
        match to {
            Some(to) if from == at && to > from => Ok(to),
            _ => {
                let what = format!("it goes on with {stream:?} at {from}, and was at {at}");
                Err(GuestError::malformed(what))
            }
        }
    }

    /// An end says how much there was, and all of that was here.
    fn check_end(&self, stream: Stream, printed: Printed) -> Result<(), GuestError> {
        let at = self.offset(stream);
        let is_beyond = at == self.wanted[stream.index()] && at > printed.bytes;
        if (at == printed.bytes || is_beyond) && printed.dropped_bytes <= printed.bytes {
            return Ok(());
        }
        let bytes = printed.bytes;
        let what = format!("it ends {stream:?} after {bytes} bytes, and was at {at}");
        Err(GuestError::malformed(what))
    }
}

impl Guest {
    /// Starts a command and follows it. Sent again with the same id, it follows the
    /// one that is there.
    ///
    /// # Errors
    ///
    /// [`GuestError`]; `Known` says whether it may have been started.
    pub async fn start(&self, start: Start) -> Result<Followed, GuestError> {
        let (id, arguments) = (start.id.clone(), start.command.arguments.clone());
        let request = Request::Start(start);
        let (connection, is_new, status) = self.begin_following(&request, &id).await?;
        check_arguments(&arguments, &status.arguments)?;
        Ok(Followed { is_new, status, output: OutputStream::new(connection, [0, 0], false) })
    }

    /// Follows an exec from the offsets that are asked for.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn follow(&self, follow: Follow) -> Result<Followed, GuestError> {
        let (id, wanted) = (follow.id.clone(), [follow.stdout, follow.stderr]);
        let is_snapshot = follow.is_snapshot;
        let request = Request::Follow(follow);
        let (connection, is_new, status) = self.begin_following(&request, &id).await?;
        if is_new {
            return Err(GuestError::malformed("it started an exec that was to be followed"));
        }
        Ok(Followed { is_new, status, output: OutputStream::new(connection, wanted, is_snapshot) })
    }

    async fn begin_following(
        &self,
        request: &Request,
        id: &str,
    ) -> Result<(Connection, bool, Status), GuestError> {
        let patience = self.shared.settings.answer;
        match Connection::ask(&self.shared, request, Answers::Long, patience).await? {
            (connection, Reply::Started { is_new, status }) if status.id == id => {
                check_length(&status)?;
                Ok((connection, is_new, status))
            }
            _ => Err(GuestError::malformed("it answers something else")),
        }
    }

    /// All execs that the guest remembers, in the order of their start.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn execs(&self) -> Result<Vec<Status>, GuestError> {
        let patience = self.shared.settings.answer;
        self.once(&Request::Execs, Answers::Long, patience, |reply| match reply {
            Reply::Execs(execs) => Some(execs),
            _ => None,
        })
        .await
        .and_then(|execs| execs.iter().try_for_each(check_length).map(|()| execs))
    }

    /// Sends a signal.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn signal(&self, signal: Signal) -> Result<(), GuestError> {
        self.done(&Request::Signal(signal), Duration::ZERO).await
    }

    /// Asks an exec to end, has it killed if it does not, and waits for its end.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn cancel(&self, cancel: Cancel) -> Result<(), GuestError> {
        let grace = Duration::from_millis(cancel.grace_ms);
        self.done(&Request::Cancel(cancel), grace).await
    }

    /// Gives an exec's terminal another size.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn resize(&self, resize: Resize) -> Result<(), GuestError> {
        self.done(&Request::Resize(resize), Duration::ZERO).await
    }

    /// Has an exec forgotten that has ended, with what it printed.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn forget(&self, id: impl Into<String>) -> Result<(), GuestError> {
        self.done(&Request::Forget(Forget { id: id.into() }), Duration::ZERO).await
    }
}

/// A command is no longer than one that can be asked for.
fn check_length(status: &Status) -> Result<(), GuestError> {
    let words = &status.arguments;
    let bytes: usize = words.iter().map(|word| word.as_bytes().len() + 1).sum();
    if words.len() > ARGUMENTS_COUNT_MAX || bytes > ARGUMENTS_BYTES_MAX {
        return Err(GuestError::malformed("it tells of a command longer than any"));
    }
    Ok(())
}

fn check_arguments(asked: &[Octets], told: &[Octets]) -> Result<(), GuestError> {
    if asked == told {
        return Ok(());
    }
    Err(GuestError::malformed("it follows another command than it was asked to start"))
}
