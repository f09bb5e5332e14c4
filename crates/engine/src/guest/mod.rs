//! The host's side of a guest: what a sandbox that lives can be asked.
//!
//! A [`Guest`] is where one listens, and limits. Each operation has a connection of
//! its own, and no operation waits for another one.
//!
//! Every byte that a guest sends is doubted, since whoever got hold of it can have it
//! send anything:
//!
//! | what it may do | what comes of it |
//! |---|---|
//! | end a connection early | [`GuestError::Lost`], never a result |
//! | say nothing | `Lost` after three heartbeats, or `TimedOut` |
//! | send what is no frame, or one out of place | [`GuestError::Malformed`] |
//! | jump in a stream, go back, lie about its end | `Malformed` |
//! | answer another question | `Malformed` |
//! | send without end | waits in the kernel's buffer until the caller asks for more |
//! | send heartbeats without end | `Malformed` |
//! | hand a strange socket over | `Malformed`, and it is closed |
//!
//! A connection has one frame in memory, and a sandbox has a limited number of
//! connections, few of which may bring a long answer at a time. What of this is text (paths, messages, arguments) is data: nothing
//! here opens a path that a guest names.
//!
//! Who drops a future or a stream ends its connection. Operations that had been asked
//! for by then happen or not; their ids and offsets make it safe to ask again.

mod connection;
mod content;
mod error;
mod exec;
mod files;
mod flow;
mod follow_on;
mod hearing;
mod port_stream;
mod ports;
mod shared;
mod watch;

pub use content::{Content, Piece};
pub use error::{Cut, GuestError, Known};
pub use exec::{Followed, Output, OutputStream};
pub use files::{Edited, Found, Listing, Unpacked};
pub use follow_on::FollowOn;
pub use port_stream::PortStream;
pub use shared::Settings;
pub use watch::{Seen, Watching};

use atoll_protocol::exec::Feed;
use atoll_protocol::octets::Octets;
use atoll_protocol::request::{self, Reply, Request};
use connection::Connection;
use content::{Patience, expect};
use hearing::Answers;
use shared::Shared;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;

/// A guest, asked over its socket. Clones share the limits.
#[derive(Debug, Clone)]
pub struct Guest {
    shared: Arc<Shared>,
}

impl Guest {
    /// The guest that listens on this socket, now or later.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self::with_settings(socket, Settings::default())
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_settings(socket: impl Into<PathBuf>, settings: Settings) -> Self {
        Self { shared: Arc::new(Shared::new(socket.into(), settings)) }
    }

    /// How the guest is.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn state(&self) -> Result<request::Guest, GuestError> {
        let patience = self.shared.settings.answer;
        self.once(&Request::Guest, Answers::Short, patience, |reply| match reply {
            Reply::Guest(guest) => Some(guest),
            _ => None,
        })
        .await
    }

    /// Has every command from now on begin with these variables too.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn bind(&self, environment: Vec<(String, String)>) -> Result<(), GuestError> {
        let octets = |text: String| {
            let invalid = |_| GuestError::TooLong(std::io::ErrorKind::InvalidInput.into());
            Octets::try_from(text.as_str()).map_err(invalid)
        };
        let pairs = environment.into_iter();
        let environment: Result<Vec<_>, GuestError> =
            pairs.map(|(name, value)| Ok((octets(name)?, octets(value)?))).collect();
        self.done(&Request::Bind { environment: environment? }, Duration::ZERO).await
    }

    /// Feeds an exec all that `source` has, and waits until it has been taken,
    /// however long that is.
    ///
    /// Where this fails or is dropped, the exec's status says how much it was fed;
    /// what is sent again from an earlier offset is not fed twice.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn feed<S: AsyncRead + Unpin>(
        &self,
        feed: Feed,
        source: &mut S,
    ) -> Result<(), GuestError> {
        let mut connection = Connection::begin(&self.shared, &Request::Feed(feed)).await?;
        connection.hearing.is_supervised = true;
        connection.send_content(source, Patience::Endless).await?;
        expect(connection.answer().await?, done)
    }

    /// Stops the clock that execs are timed by, before a freeze; and from here on
    /// silence is no loss.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn hold_clock(&self) -> Result<(), GuestError> {
        self.shared.expect_silence();
        let held = self.done(&Request::HoldClock, Duration::ZERO).await;
        if held.is_err() {
            self.shared.expect_heartbeats();
        }
        held
    }

    /// Lets that clock go on, after a thaw; silence is a loss again.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn release_clock(&self) -> Result<(), GuestError> {
        self.shared.expect_heartbeats();
        self.done(&Request::ReleaseClock, Duration::ZERO).await
    }

    /// Says that the guest is frozen, so that its silence is no loss: for one that is
    /// found so.
    pub fn expect_silence(&self) {
        self.shared.expect_silence();
    }

    /// Says that the guest runs again, so that its silence is a loss.
    pub fn expect_heartbeats(&self) {
        self.shared.expect_heartbeats();
    }

    /// Asks every process inside to end, kills what has not by then, and waits for the
    /// guest's word that nobody is left.
    ///
    /// # Errors
    ///
    /// [`GuestError`].
    pub async fn stop(&self, grace: Duration) -> Result<(), GuestError> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.done(&Request::Stop { grace_ms }, grace).await
    }

    /// Waits for the guest's end: until it says that it stops.
    ///
    /// # Errors
    ///
    /// [`GuestError::Lost`] where it ends in another way; [`GuestError::NotThere`]
    /// where it has ended before.
    pub async fn attend(&self) -> Result<(), GuestError> {
        let mut connection = Connection::begin(&self.shared, &Request::Attend).await?;
        connection.hearing.is_supervised = true;
        expect(connection.answer().await?, done)
    }

    /// Asks for what has one answer, which comes in `patience`.
    async fn once<T>(
        &self,
        request: &Request,
        answers: Answers,
        patience: Duration,
        pick: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<T, GuestError> {
        let (_, reply) = Connection::ask(&self.shared, request, answers, patience).await?;
        expect(reply, pick)
    }

    /// Asks for what is done or not, and may take the guest `time` by itself.
    async fn done(&self, request: &Request, time: Duration) -> Result<(), GuestError> {
        let patience = self.shared.settings.answer.saturating_add(time);
        self.once(request, Answers::Short, patience, done).await
    }
}

/// Whether a reply says that it is done.
fn done(reply: Reply) -> Option<()> {
    matches!(reply, Reply::Done).then_some(())
}
