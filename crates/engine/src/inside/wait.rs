//! Waiting for something in a sandbox: a port, a line, an answer over HTTP.

use super::exec::Place;
use super::{Inside, InsideError};
use crate::guest::{GuestError, Output};
use atoll_api::sandbox::HoldCause;
use atoll_api::wait::{HttpAnswer, LogLine, Wait, WaitFor, Waited};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use regex::bytes::{Regex, RegexBuilder};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};

/// Longest piece of a line that is looked at, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Most of a line that is told, in bytes.
const TOLD_BYTES_MAX: usize = 1024;
/// After so long without output a line counts as whole, as a prompt is.
const QUIET: Duration = Duration::from_millis(300);
/// Largest compiled pattern, in bytes.
const PATTERN_SIZE_MAX: usize = 1 << 20;
/// How long to wait before asking again over HTTP.
const AGAIN: Duration = Duration::from_millis(100);
/// How long one answer over HTTP may take to begin.
const ANSWER: Duration = Duration::from_secs(30);
/// Largest head of an answer over HTTP, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

impl Inside {
    /// Waits for something. It holds the sandbox awake meanwhile.
    ///
    /// # Errors
    /// [`InsideError::NotYet`] where it is not there in time, or will not be.
    pub async fn wait(&self, request: Wait) -> Result<Waited, InsideError> {
        if let Some((field, reason)) = request.flaw() {
            return Err(InsideError::Invalid { field, reason: reason.to_owned() });
        }
        let _held = self.hold(HoldCause::Stream { name: "wait".to_owned() }).await?;
        let began = Instant::now();
        let time = Duration::from_millis(request.timeout_ms);
        let until = began + time;
        let matched = match request.until {
            WaitFor::Port(port) => {
                if !self.listens_within(port, time).await? {
                    return Err(not_yet(format!("nothing listens on port {port} yet")));
                }
                None
            }
            WaitFor::Log(line) => Some(self.line(line, until).await?),
            WaitFor::Http(answer) => Some(self.answer(answer, until).await?),
        };
        let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Waited { waited_ms, matched })
    }

    /// Waits for a line that an exec prints.
    pub(crate) async fn line(&self, line: LogLine, until: Instant) -> Result<String, InsideError> {
        let pattern = pattern(&line.pattern)?;
        let place = line.stream.map_or(Place::START, |stream| Place::of(stream, 0, false));
        let follow = place.follow(line.exec);
        let followed = self.guest.follow(follow).await.map_err(|error| self.failed(error))?;
        let mut output = self.guest.follow_on(followed);
        let mut lines = [Lines::new(&pattern), Lines::new(&pattern)];
        loop {
            let quiet = (Instant::now() + QUIET).min(until);
            let Ok(next) = timeout_at(quiet, output.next()).await else {
                if let Some(found) = lines.iter().find_map(Lines::unfinished) {
                    return Ok(found);
                }
                if Instant::now() >= until {
                    return Err(not_yet(format!(
                        "exec {} has printed no such line yet",
                        line.exec
                    )));
                }
                continue;
            };
            match next.map_err(|error| self.failed(error))? {
                Some(Output::Bytes { stream, bytes, .. }) => {
                    if let Some(found) = lines[stream.index()].add(&bytes) {
                        return Ok(found);
                    }
                }
                Some(Output::Dropped { stream, .. }) => lines[stream.index()].skip(),
                Some(Output::Heartbeat) => {}
                Some(Output::Ended(_)) | None => {
                    return lines.iter().find_map(Lines::unfinished).ok_or_else(|| {
                        let what = format!("exec {} ended without such a line", line.exec);
                        InsideError::NotYet { what, is_over: true }
                    });
                }
            }
        }
    }

    /// Waits for an answer over HTTP.
    pub(crate) async fn answer(
        &self,
        wanted: HttpAnswer,
        until: Instant,
    ) -> Result<String, InsideError> {
        let HttpAnswer { port, path, status } = wanted;
        let path = path.as_deref().unwrap_or("/");
        let mut again = interval(AGAIN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = "nothing listens there".to_owned();
        loop {
            again.tick().await;
            let left = until.saturating_duration_since(Instant::now()).min(ANSWER);
            // A look has to be possible where there is no time to wait.
            let asked = timeout(left.max(AGAIN), self.ask(port, path)).await;
            match asked {
                Ok(Ok(found)) if fits(found, status) => return Ok(found.to_string()),
                Ok(Ok(found)) => last = format!("its last answer was {found}"),
                Ok(Err(Asking::Guest(error))) => match error {
                    GuestError::Refused(_) | GuestError::Lost { .. }
                        if self.guest.state().await.is_ok() => {}
                    GuestError::Busy { .. } => "all connections are in use".clone_into(&mut last),
                    error => return Err(self.failed(error)),
                },
                Ok(Err(Asking::NoHttp)) => "it does not answer over HTTP".clone_into(&mut last),
                Err(_) => "it does not answer".clone_into(&mut last),
            }
            if Instant::now() >= until {
                return Err(not_yet(format!("port {port} does not answer as wanted: {last}")));
            }
        }
    }

    /// Asks for a path and gives the status of the answer, of which nothing else is read.
    async fn ask(&self, port: u16, path: &str) -> Result<u16, Asking> {
        let stream = self.guest.connect(port).await.map_err(Asking::Guest)?;
        let request = Request::get(path)
            .header(header::HOST, format!("localhost:{port}"))
            .header(header::USER_AGENT, "atoll")
            .header(header::ACCEPT, "*/*")
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|_| Asking::NoHttp)?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Asking::NoHttp)?;
        // The connection is driven for as long as the answer is waited for, and no longer.
        let (mut answer, mut connection) = (pin!(sender.send_request(request)), pin!(connection));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            // What it has given before it ended is there.
            _ = &mut connection => answer.await,
        };
        answer.map(|answer| answer.status().as_u16()).map_err(|_| Asking::NoHttp)
    }
}

/// Why there is no status.
enum Asking {
    Guest(GuestError),
    NoHttp,
}

fn not_yet(what: String) -> InsideError {
    InsideError::NotYet { what, is_over: false }
}

fn fits(found: u16, wanted: Option<u16>) -> bool {
    wanted.map_or(found < 500, |wanted| found == wanted)
}

/// Checks a pattern before there is anything to look at.
///
/// # Errors
/// If it is no regular expression that is taken.
pub(crate) fn check_pattern(text: &str) -> Result<(), InsideError> {
    pattern(text).map(drop)
}

fn pattern(text: &str) -> Result<Regex, InsideError> {
    let built = RegexBuilder::new(text).size_limit(PATTERN_SIZE_MAX).build();
    built.map_err(|error| InsideError::Invalid {
        field: "for.log.pattern",
        reason: format!("is no regular expression: {error}"),
    })
}

/// Lines of one stream, as they come.
struct Lines<'a> {
    pattern: &'a Regex,
    /// What has come of the line that is not whole.
    begun: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn new(pattern: &'a Regex) -> Self {
        Self { pattern, begun: Vec::new() }
    }

    /// Takes what comes next, and gives the first line that matches.
    fn add(&mut self, mut bytes: &[u8]) -> Option<String> {
        while !bytes.is_empty() {
            let room = LINE_BYTES_MAX - self.begun.len();
            let end = bytes.iter().take(room).position(|&byte| byte == b'\n');
            let taken = end.unwrap_or_else(|| bytes.len().min(room));
            self.begun.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[end.map_or(taken, |end| end + 1)..];
            if end.is_some() || self.begun.len() == LINE_BYTES_MAX {
                let found = self.unfinished();
                self.begun.clear();
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Something is missing here: what had begun has no end.
    fn skip(&mut self) {
        self.begun.clear();
    }

    /// What has come of the last line, if it matches.
    fn unfinished(&self) -> Option<String> {
        let line = self.begun.strip_suffix(b"\r").unwrap_or(&self.begun);
        if line.is_empty() || !self.pattern.is_match(line) {
            return None;
        }
        let mut text = String::from_utf8_lossy(line).into_owned();
        text.truncate(text.floor_char_boundary(TOLD_BYTES_MAX));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_that_is_not_whole_is_looked_at_when_nothing_comes() {
        let pattern = pattern("ready").unwrap();
        let mut lines = Lines::new(&pattern);
        assert_eq!(lines.add(b"not rea"), None);
        assert_eq!(lines.unfinished(), None);
        assert_eq!(lines.add(b"dy> "), None);
        assert_eq!(lines.unfinished().as_deref(), Some("not ready> "));
        lines.skip();
        assert_eq!(lines.add(b"dy\nis ready\r\nmore"), Some("is ready".to_owned()));
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_memory() {
        let pattern = pattern("z$").unwrap();
        let mut lines = Lines::new(&pattern);
        for _ in 0..100 {
            assert_eq!(lines.add(&[b'x'; 100_000]), None);
            assert!(lines.begun.capacity() <= 2 * LINE_BYTES_MAX);
        }
    }

    proptest! {
        #[test]
        fn how_output_is_cut_into_pieces_makes_no_difference(
            text in "[ab\n]{0,60}", cuts in proptest::collection::vec(1..9_usize, 0..40),
        ) {
            let pattern = pattern("^ab+a$").unwrap();
            let whole = Lines::new(&pattern).add(text.as_bytes());
            let (mut lines, mut rest, mut found) = (Lines::new(&pattern), text.as_bytes(), None);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (piece, left) = rest.split_at(cut.min(rest.len()));
                found = found.or_else(|| lines.add(piece));
                rest = left;
            }
            let expected = text.rsplit_once('\n').and_then(|(lines, _)| {
                lines.split('\n').find(|line| pattern.is_match(line.as_bytes()))
            });
            prop_assert_eq!(&whole, &found);
            prop_assert_eq!(whole.as_deref(), expected);
        }
    }
}
