//! What changes in a directory of the sandbox.

use super::Guest;
use super::connection::Connection;
use super::content::expect;
use super::error::GuestError;
use super::flow::Flow;
use super::hearing::{Answers, Said, out_of_place};
use atoll_protocol::files::{Change, Watch};
use atoll_protocol::octets::Octets;
use atoll_protocol::problem::Code;
use atoll_protocol::request::{Event, Request};

/// A directory that is watched, until this is dropped.
#[derive(Debug)]
pub struct Watching {
    flow: Flow,
}

/// What was seen in a directory that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A name has changed.
    Changed {
        /// Which, below the directory.
        path: Octets,
        /// In which way.
        change: Change,
        /// It is a directory.
        is_directory: bool,
    },
    /// More changed than could be told: look again.
    Overflowed,
    /// A directory below cannot be watched.
    Unwatched {
        /// Which.
        path: Octets,
        /// Why.
        code: Code,
    },
}

impl Guest {
    /// Watches a directory. What changes from now on is told.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn watch(&self, watch: Watch) -> Result<Watching, GuestError> {
        let (request, work) = (Request::Watch(watch), self.shared.settings.work);
        let (connection, reply) =
            Connection::ask(&self.shared, &request, Answers::Short, work).await?;
        expect(reply, super::done)?;
        Ok(Watching { flow: Flow::new(connection) })
    }
}

impl Watching {
    /// Waits for the next change; none once the directory itself is removed. May be
    /// dropped and called again, and loses nothing.
    ///
    /// # Errors
    ///
    /// As [`super::Content::next`].
    pub async fn next(&mut self) -> Result<Option<Seen>, GuestError> {
        loop {
            let seen = match self.flow.next().await? {
                Some(Said::Event(Event::Changed { path, change, is_directory })) => {
                    Seen::Changed { path, change, is_directory }
                }
                Some(Said::Event(Event::Overflowed)) => Seen::Overflowed,
                Some(Said::Event(Event::Unwatched { path, code })) => {
                    Seen::Unwatched { path, code }
                }
                Some(Said::Heartbeat) => continue,
                Some(Said::End) | None => {
                    self.flow.finish();
                    return Ok(None);
                }
                Some(Said::Problem(problem)) => {
                    return self.flow.fail(GuestError::Refused(problem));
                }
                Some(said) => return self.flow.fail(out_of_place(&said)),
            };
            return Ok(Some(seen));
        }
    }
}
