//! From the start of a command to its end.

use super::detach::Keys;
use super::ending::{Ending, refused};
use super::follow::{Begin, Follower, Way};
use super::output::{Output, Unwritten};
use super::screen::Screen;
use super::{hints, input, signal};
use crate::error::CliError;
use crate::remote::{Format, Remote};
use crate::signals::{Taken, Watch};
use atoll_api::exec::{AttachAction, AttachEvent, CancelExec, Exec, Stream, TerminalSize};
use atoll_api::id::ExecId;
use atoll_client::attach::{Heard, Speaking};
use atoll_client::{Client, ClientError};
use bytes::Bytes;
use rustix::process::Signal;
use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long keys that may be those that leave are held back.
const HELD: Duration = Duration::from_millis(500);

/// Keys that are kept until it is known that they arrived.
const KEYS_BYTES_MAX: usize = 64 * 1024;

/// How long a command may take to end whose reader went away.
const GRACE_MS: u64 = 1000;

/// How long a connection may be away before it is said.
const NOTICE: Duration = Duration::from_secs(1);

/// What the keys are that make a signal.
const CTRL_C: u8 = 3;

/// The numbers of SIGINT and SIGPIPE.
const INTERRUPT: u8 = 2;
const PIPE: u8 = 13;

/// What is to be run, or followed.
pub(crate) struct Job<'a> {
    pub(crate) remote: &'a Remote,
    pub(crate) sandbox: &'a str,
    pub(crate) exec: ExecId,
    pub(crate) begin: Begin,
    /// Standard input is forwarded. A terminal's always is.
    pub(crate) takes_input: bool,
    /// It has our terminal.
    pub(crate) screen: Option<Screen>,
    /// It can be left by keys.
    pub(crate) can_be_left: bool,
}

/// Runs it to its end. Must be called while the process has one thread.
pub(crate) fn run(client: Client, mut job: Job<'_>) -> Result<Ending, CliError> {
    let failed = |error| CliError::new("cannot wait for signals").because(error);
    let wanted: &[&[Signal]] = match job.screen {
        Some(_) => &[&signal::WANTED, &signal::OF_TERMINALS],
        None => &[&signal::WANTED],
    };
    let signals = Taken::take(&wanted.concat()).map_err(failed)?;
    let (remote, mut screen) = (job.remote, job.screen.take());
    let asking = client.clone();
    let ending = remote.wait(async {
        let signals = signals.watch().map_err(failed)?;
        let way = if screen.is_some() { Way::Socket } else { Way::Events };
        let keys = match &mut screen {
            Some(screen) => {
                screen.begin()?;
                Some(input::keys(screen.keys()?))
            }
            None => None,
        };
        let follower = Follower::new(client, job.sandbox, job.exec, job.begin, way);
        let mut session = Session {
            remote,
            follower,
            output: Output::begin(),
            outbox: None,
            signals,
            screen: &mut screen,
            keys,
            can_be_left: job.can_be_left,
            leaving: Keys::default(),
            typed: Bytes::new(),
            speaker: None,
            sent: Sent::default(),
            stdin: (job.takes_input && way == Way::Events).then(input::standard),
            is_started: false,
            has_told: false,
        };
        session.run().await
    })?;
    // Before anything is said.
    if let Some(screen) = screen {
        screen.end();
    }
    if let (Ok(Ending::Ended(exec)), Format::Text) = (&ending, remote.format()) {
        remote.wait(hints::tell(&asking, job.sandbox, exec))?;
    }
    ending
}

struct Session<'a> {
    remote: &'a Remote,
    follower: Follower,
    output: Output,
    /// What is to be printed next.
    outbox: Option<(Stream, Bytes)>,
    signals: Watch,
    screen: &'a mut Option<Screen>,
    keys: Option<mpsc::Receiver<Bytes>>,
    can_be_left: bool,
    leaving: Keys,
    /// Keys that are to be sent next.
    typed: Bytes,
    speaker: Option<mpsc::Sender<Said>>,
    sent: Sent,
    /// Our input, until there is a command to feed.
    stdin: Option<mpsc::Receiver<Bytes>>,
    is_started: bool,
    /// It was said that the connection is away.
    has_told: bool,
}

/// What is said to a command by way of its terminal.
enum Said {
    Keys(Bytes),
    Act(AttachAction),
}

impl Session<'_> {
    async fn run(&mut self) -> Result<Ending, CliError> {
        loop {
            let has_keys = !self.typed.is_empty();
            let is_away = self.follower.is_away();
            // Also those that say that it is not waited for any more.
            let reads_keys = self.keys.is_some() && (is_away || !has_keys);
            let step = tokio::select! {
                is_read = self.output.has_room(), if self.outbox.is_some() => Step::Print { is_read },
                heard = self.follower.next(), if self.outbox.is_none() => {
                    match heard.map_err(|error| refused(self.remote, error))? {
                        Some(heard) => Step::Heard(heard),
                        None => continue,
                    }
                }
                signal = self.signals.next() => Step::Signal(signal),
                keys = next(&mut self.keys), if reads_keys => Step::Keys(keys),
                is_taken = has_room(self.speaker.as_ref()), if has_keys => Step::Type { is_taken },
                () = sleep_until(Instant::now() + HELD), if self.leaving.is_held() => Step::Keys(None),
                () = sleep_until(Instant::now() + NOTICE), if is_away && !self.has_told => Step::Away,
            };
            let ending = match step {
                Step::Heard(heard) => self.heard(heard).await?,
                Step::Signal(signal) => self.signal(signal).await?,
                Step::Keys(keys) => self.keys(keys),
                Step::Type { is_taken } => {
                    self.type_keys(is_taken);
                    None
                }
                Step::Print { is_read: false } => return self.nobody_reads().await,
                Step::Print { is_read: true } => {
                    if let Some((stream, bytes)) = self.outbox.take() {
                        self.output.print(stream, bytes);
                    }
                    None
                }
                Step::Away => {
                    self.tell_away();
                    None
                }
            };
            if let Some(ending) = ending {
                return self.finish(ending).await;
            }
        }
    }

    async fn heard(&mut self, heard: Heard) -> Result<Option<Ending>, CliError> {
        match heard {
            Heard::Output { stream, bytes, .. } => self.outbox = Some((stream, bytes)),
            Heard::Event(event) => match *event {
                AttachEvent::Started { exec } => self.started(&exec),
                AttachEvent::Ended { exec } => return Ok(Some(Ending::Ended(Box::new(exec)))),
                AttachEvent::Lost { error } => {
                    return Err(refused(self.remote, ClientError::Api(Box::new(error))));
                }
                // Such as keys that nobody took.
                AttachEvent::Refused { .. }
                | AttachEvent::Dropped { .. }
                | AttachEvent::End { .. }
                | AttachEvent::Heartbeat {} => {}
            },
        }
        Ok(None)
    }

    /// It runs, and there is a connection to it.
    fn started(&mut self, exec: &Exec) {
        let (client, sandbox) = (self.follower.client.clone(), self.follower.sandbox.clone());
        if let Some(read) = self.stdin.take() {
            let id = self.follower.exec;
            tokio::spawn(async move {
                if let Err(error) = input::feed(client, sandbox, id, read).await {
                    writeln!(io::stderr(), "atoll: input is not taken any more: {error}").ok();
                }
            });
        }
        if let Some(speaking) = self.follower.take_speaking() {
            let speaker = speak(speaking);
            let again = self.sent.from(exec.fed_bytes, self.is_started);
            // It has room, for nobody has used it yet.
            if !again.is_empty() {
                speaker.try_send(Said::Keys(again)).ok();
            }
            self.speaker = Some(speaker);
            self.resize();
        }
        self.is_started = true;
    }

    /// Sends the keys for which there is room; where there is no connection any more they
    /// wait for the next.
    fn type_keys(&mut self, is_taken: bool) {
        let Some(speaker) = self.speaker.take_if(|_| is_taken) else {
            self.speaker = None;
            return;
        };
        let keys = std::mem::take(&mut self.typed);
        self.sent.add(&keys);
        // What is lost on the way is sent again.
        speaker.try_send(Said::Keys(keys)).ok();
        self.speaker = Some(speaker);
    }

    fn tell_away(&mut self) {
        self.has_told = true;
        let (begin, end) = if self.screen.is_some() { ("\r\n", "\r\n") } else { ("", "\n") };
        let text = "atoll: the connection broke, and is tried again; Ctrl-C gives up, and the command goes on";
        write!(io::stderr(), "{begin}{text}{end}").ok();
    }

    fn resize(&self) {
        if let (Some(speaker), Some(screen)) = (&self.speaker, &*self.screen) {
            let TerminalSize { rows, columns } = screen.size();
            // One that has no room has a size to pass on already, and the next change tells.
            speaker.try_send(Said::Act(AttachAction::Resize { rows, columns })).ok();
        }
    }

    async fn signal(&mut self, number: u8) -> Result<Option<Ending>, CliError> {
        let is = |signal: Signal| i32::from(number) == signal.as_raw();
        if let Some(screen) = self.screen {
            if is(Signal::WINCH) || is(Signal::CONT) {
                if is(Signal::CONT) {
                    screen.begin()?;
                }
                self.resize();
                return Ok(None);
            }
            if is(Signal::TSTP) {
                screen.suspend()?;
                self.resize();
                return Ok(None);
            }
            if is(Signal::HUP) || is(Signal::TERM) {
                signal::hang_up(&self.follower).await;
                return Ok(Some(Ending::Signalled(number)));
            }
        }
        if !self.is_started {
            signal::take_back(&self.follower).await;
            return Ok(Some(Ending::Signalled(number)));
        }
        if self.follower.is_away() {
            // It goes on, as far as anybody knows.
            return Ok(Some(Ending::Signalled(number)));
        }
        signal::pass_on(&self.follower, number);
        Ok(None)
    }

    /// Takes keys; none where nothing follows those that are held, or nothing ever will.
    fn keys(&mut self, keys: Option<Bytes>) -> Option<Ending> {
        match keys {
            Some(keys) if self.follower.is_away() => {
                if keys.contains(&CTRL_C) {
                    return Some(Ending::Signalled(INTERRUPT));
                }
                self.typed = [&self.typed[..], &keys].concat().into();
                None
            }
            Some(keys) if self.can_be_left => {
                let typed = self.leaving.take(&keys);
                self.typed = typed.keys;
                typed.leaves.then_some(Ending::Left)
            }
            Some(keys) => {
                self.typed = keys;
                None
            }
            None if self.leaving.is_held() => {
                self.typed = self.leaving.release();
                None
            }
            None => {
                self.keys = None;
                None
            }
        }
    }

    /// Waits until all that came is printed, unless a signal comes.
    async fn finish(&mut self, ending: Ending) -> Result<Ending, CliError> {
        tokio::select! {
            finished = self.output.finish() => match finished {
                Ok(()) => {}
                Err(unwritten) => return ended_unread(&unwritten, ending),
            },
            signal = self.signals.next() => return Ok(Ending::Signalled(signal)),
        }
        if self.follower.missed_bytes > 0 && self.screen.is_none() {
            let message = format!("{} bytes of its output are missing", self.follower.missed_bytes);
            let told = CliError::new(message)
                .because("they came while the connection was broken, and were not kept");
            return Err(told.hint("have the command write to a file, and copy that"));
        }
        Ok(ending)
    }

    /// Ends a command that prints for nobody.
    async fn nobody_reads(&mut self) -> Result<Ending, CliError> {
        let Err(unwritten) = self.output.finish().await else {
            return Err(CliError::new("cannot write what the command prints"));
        };
        // It is not waited for us any more.
        self.follower.leave();
        let wanted = CancelExec {
            signal: atoll_api::exec::Signal::from_name("PIPE"),
            grace_ms: Some(GRACE_MS),
        };
        let Follower { client, sandbox, exec, .. } = &self.follower;
        let ending = match client.cancel_exec(sandbox, exec, &wanted).await {
            Ok(exec) => Ending::Ended(Box::new(exec)),
            Err(_) => Ending::Signalled(PIPE),
        };
        ended_unread(&unwritten, ending)
    }
}

/// A reader who left, as head(1) does, is no failure; a disk that is full is one.
fn ended_unread(unwritten: &Unwritten, ending: Ending) -> Result<Ending, CliError> {
    if unwritten.error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(ending);
    }
    let stream = match unwritten.stream {
        Stream::Stdout => "standard output",
        Stream::Stderr => "standard error",
    };
    let error = io::Error::from(unwritten.error.kind());
    Err(CliError::new(format!("cannot write to {stream}, and the command was ended"))
        .because(error))
}

enum Step {
    Heard(Heard),
    Signal(u8),
    Keys(Option<Bytes>),
    Type { is_taken: bool },
    Print { is_read: bool },
    Away,
}

async fn next(keys: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match keys {
        Some(keys) => keys.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits for room for something to be said; says whether anybody listens.
async fn has_room(speaker: Option<&mpsc::Sender<Said>>) -> bool {
    match speaker {
        Some(speaker) => speaker.reserve().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// Says things in a task of its own: a command that takes no keys keeps nobody from what
/// it prints.
fn speak(mut speaking: Speaking) -> mpsc::Sender<Said> {
    const WAITING: usize = 16;
    let (speaker, mut said) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        while let Some(said) = said.recv().await {
            let done = match said {
                Said::Keys(keys) => speaking.feed(keys).await,
                Said::Act(action) => speaking.act(&action).await,
            };
            // It is heard elsewhere that the connection broke.
            if done.is_err() {
                break;
            }
        }
    });
    speaker
}

/// Keys that were sent, of which it is not known how many arrived.
#[derive(Debug, Default)]
struct Sent {
    /// How many bytes the command was fed before there was a connection to it.
    base: u64,
    count: u64,
    last: VecDeque<u8>,
}

impl Sent {
    fn add(&mut self, keys: &[u8]) {
        self.count += keys.len() as u64;
        self.last.extend(keys);
        let excess = self.last.len().saturating_sub(KEYS_BYTES_MAX);
        self.last.drain(..excess);
    }

    /// What has to be sent again on a new connection, where the command was fed so much.
    fn from(&mut self, fed_bytes: u64, is_again: bool) -> Bytes {
        if !is_again {
            self.base = fed_bytes;
            return Bytes::new();
        }
        let arrived = fed_bytes.saturating_sub(self.base);
        let missing = usize::try_from(self.count.saturating_sub(arrived)).unwrap_or(usize::MAX);
        let missing = missing.min(self.last.len());
        self.last.range(self.last.len() - missing..).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_did_not_arrive_are_sent_again() {
        let mut sent = Sent::default();
        assert_eq!(sent.from(10, false), "");
        sent.add(b"abc");
        sent.add(b"def");
        assert_eq!(sent.from(14, true), "ef");
        assert_eq!(sent.from(16, true), "");
        // Somebody else has typed too.
        assert_eq!(sent.from(20, true), "");
        sent.add(&vec![b'x'; KEYS_BYTES_MAX]);
        assert_eq!(sent.from(10, true).len(), KEYS_BYTES_MAX);
    }
}
