//! Following a command, and going on where the connection breaks.

use atoll_api::exec::{AttachEvent, StartExec, Stream};
use atoll_api::id::ExecId;
use atoll_client::attach::{Heard, Hearing, Speaking};
use atoll_client::followed::Followed;
use atoll_client::{Client, ClientError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How long a server may be away.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait before the first attempt to reach it again, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// How the command is come by.
pub(crate) enum Begin {
    /// It is started.
    Start(Box<StartExec>),
    /// It is there, and these bytes of its streams were seen.
    Attach { stdout: u64, stderr: u64 },
}

/// How it is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Events,
    Socket,
}

/// Follows one command.
pub(super) struct Follower {
    pub(super) client: Client,
    pub(super) sandbox: String,
    pub(super) exec: ExecId,
    way: Way,
    /// Until it is known to run.
    start: Option<Box<StartExec>>,
    at: [u64; 2],
    source: Option<Source>,
    speaking: Option<Speaking>,
    away: Option<Away>,
    /// What was dropped before we had it.
    pub(super) missed_bytes: u64,
}

enum Source {
    Events(Box<Followed>),
    Socket(Hearing),
}

/// A connection that broke.
struct Away {
    since: Instant,
    again: Instant,
    pause: Duration,
}

impl Follower {
    pub(super) fn new(client: Client, sandbox: &str, exec: ExecId, begin: Begin, way: Way) -> Self {
        let (start, at) = match begin {
            Begin::Start(wanted) => (Some(wanted), [0, 0]),
            Begin::Attach { stdout, stderr } => (None, [stdout, stderr]),
        };
        let (source, speaking, away) = (None, None, None);
        let (sandbox, missed_bytes) = (sandbox.to_owned(), 0);
        Self { client, sandbox, exec, way, start, at, source, speaking, away, missed_bytes }
    }

    /// Whether the server cannot be reached at the moment.
    pub(super) fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// What speaks to the command over the connection that was made last; once.
    pub(super) fn take_speaking(&mut self) -> Option<Speaking> {
        self.speaking.take()
    }

    /// Ends the connection.
    pub(super) fn leave(&mut self) {
        (self.source, self.speaking) = (None, None);
    }

    /// What comes next of it; nothing where the connection is not what it was. Dropping
    /// this loses none.
    pub(super) async fn next(&mut self) -> Result<Option<Heard>, ClientError> {
        let heard = match &mut self.source {
            Some(Source::Events(events)) => events.next().await,
            Some(Source::Socket(hearing)) => hearing.next().await,
            None => return self.connect().await.map(|()| None),
        };
        match heard {
            Ok(Some(heard)) => {
                self.away = None;
                self.take(heard)
            }
            Ok(None) => self.broke(closed("the server closed it")).map(|()| None),
            Err(error) => self.broke(error).map(|()| None),
        }
    }

    fn take(&mut self, heard: Heard) -> Result<Option<Heard>, ClientError> {
        match heard {
            Heard::Output { stream, offset, bytes } => {
                let at = &mut self.at[index(stream)];
                // What was had already is not told twice.
                let had = usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
                let bytes = bytes.slice(had.min(bytes.len())..);
                let offset = *at;
                *at += bytes.len() as u64;
                Ok((!bytes.is_empty()).then_some(Heard::Output { stream, offset, bytes }))
            }
            Heard::Event(event) => {
                match &*event {
                    AttachEvent::Started { .. } => self.start = None,
                    AttachEvent::Dropped { dropped } => {
                        self.missed_bytes += dropped.to.saturating_sub(dropped.from);
                        self.at[index(dropped.stream)] = dropped.to;
                    }
                    AttachEvent::End { .. } => {
                        self.broke(closed("the server ends"))?;
                        return Ok(None);
                    }
                    AttachEvent::Heartbeat {} => return Ok(None),
                    AttachEvent::Ended { .. }
                    | AttachEvent::Lost { .. }
                    | AttachEvent::Refused { .. } => {}
                }
                Ok(Some(Heard::Event(event)))
            }
        }
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        if let Some(away) = &self.away {
            sleep_until(away.again).await;
        }
        match self.try_connect().await {
            Ok(source) => {
                self.source = Some(source);
                Ok(())
            }
            // One that was never there is not waited for.
            Err(error @ (ClientError::NoServer { .. } | ClientError::Connect { .. }))
                if self.away.is_none() =>
            {
                Err(error)
            }
            Err(error) => self.broke(error),
        }
    }

    async fn try_connect(&mut self) -> Result<Source, ClientError> {
        let (client, sandbox) = (&self.client, self.sandbox.as_str());
        let [stdout, stderr] = self.at;
        match self.way {
            Way::Events => match &self.start {
                Some(wanted) => client.start_followed(sandbox, wanted).await,
                None => client.follow_exec(sandbox, &self.exec, stdout, stderr, true).await,
            }
            .map(|followed| Source::Events(Box::new(followed))),
            Way::Socket => {
                if let Some(wanted) = &self.start {
                    client.start_exec(sandbox, wanted).await?;
                    self.start = None;
                }
                let (hearing, speaking) =
                    client.attach(sandbox, &self.exec, stdout, stderr).await?;
                self.speaking = Some(speaking);
                Ok(Source::Socket(hearing))
            }
        }
    }

    /// Has it tried again, if that can help and for a limited time.
    fn broke(&mut self, error: ClientError) -> Result<(), ClientError> {
        (self.source, self.speaking) = (None, None);
        if !is_of_the_way(&error) {
            return Err(error);
        }
        let now = Instant::now();
        let [first, longest] = PAUSES;
        let away = self.away.get_or_insert(Away { since: now, again: now, pause: first });
        if now.duration_since(away.since) > PATIENCE {
            return Err(error);
        }
        away.again = now + away.pause;
        away.pause = (away.pause * 2).min(longest);
        Ok(())
    }
}

/// Whether the way to the server is what failed.
pub(super) fn is_of_the_way(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Broken { .. } | ClientError::NoServer { .. } | ClientError::Connect { .. }
    )
}

fn closed(how: &str) -> ClientError {
    ClientError::Broken { during: "an exec was followed", source: how.into() }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}
