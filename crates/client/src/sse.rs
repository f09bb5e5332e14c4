//! Server-sent events (WHATWG HTML, section 9.2), as this API sends them.

use crate::body::Download;
use crate::error::ClientError;
use std::time::Duration;
use tokio::time::timeout;

/// Largest event: a piece of output with every byte spelled out.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// How long a server may say nothing. It shows that it lives every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerEvent {
    /// Its kind; empty if it says none.
    pub(crate) kind: String,
    pub(crate) data: String,
    pub(crate) id: Option<String>,
}

/// Events as they come.
pub(crate) struct ServerEvents {
    download: Download,
    parser: Parser,
}

impl ServerEvents {
    pub(crate) fn new(download: Download) -> Self {
        Self { download, parser: Parser::default() }
    }

    /// The next one; nothing where the server ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<ServerEvent>, ClientError> {
        loop {
            if let Some(event) = self.parser.next()? {
                return Ok(Some(event));
            }
            let silent = |_| {
                let text = format!("nothing came for {} s", SILENCE_MAX.as_secs());
                ClientError::broken("events were awaited")(text.into())
            };
            match timeout(SILENCE_MAX, self.download.next()).await.map_err(silent)?? {
                Some(piece) => self.parser.feed(&piece),
                None => return Ok(None),
            }
        }
    }

    /// What the next one tells that `read` knows: one of a newer server is passed over.
    pub(crate) async fn next_told<T>(
        &mut self,
        read: impl Fn(&ServerEvent) -> Result<Option<T>, ClientError>,
    ) -> Result<Option<T>, ClientError> {
        loop {
            let Some(event) = self.next().await? else { return Ok(None) };
            if let Some(told) = read(&event)? {
                return Ok(Some(told));
            }
        }
    }
}

/// Takes bytes and gives events.
#[derive(Default)]
struct Parser {
    /// What is not looked at yet, from `begin` on.
    bytes: Vec<u8>,
    begin: usize,
    /// What is known to have no line's end in it.
    looked: usize,
    event: ServerEvent,
    has_data: bool,
}

impl Parser {
    fn feed(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.begin);
        self.looked -= self.begin;
        self.begin = 0;
        self.bytes.extend_from_slice(piece);
    }

    fn next(&mut self) -> Result<Option<ServerEvent>, ClientError> {
        while let Some(length) = self.bytes[self.looked..].iter().position(|byte| *byte == b'\n') {
            let end = self.looked + length;
            let line = self.bytes[self.begin..end].to_vec();
            (self.begin, self.looked) = (end + 1, end + 1);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let line = std::str::from_utf8(line).map_err(|_| ClientError::NotUnderstood {
                reason: "an event is no text".to_owned(),
            })?;
            if let Some(event) = self.line(line)? {
                return Ok(Some(event));
            }
        }
        self.looked = self.bytes.len();
        if self.bytes.len() - self.begin > EVENT_BYTES_MAX {
            return Err(ClientError::TooLarge { limit_bytes: EVENT_BYTES_MAX });
        }
        Ok(None)
    }

    fn line(&mut self, line: &str) -> Result<Option<ServerEvent>, ClientError> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Ok(std::mem::take(&mut self.has_data).then_some(event));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.event.kind),
            "id" => self.event.id = Some(value.to_owned()),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            // A comment, or something newer.
            _ => {}
        }
        if self.event.data.len() > EVENT_BYTES_MAX {
            return Err(ClientError::TooLarge { limit_bytes: EVENT_BYTES_MAX });
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pieces: &[&[u8]]) -> Vec<ServerEvent> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.feed(piece);
            while let Some(event) = parser.next().unwrap() {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn events_come_whole_wherever_they_are_cut() {
        let text = b": \n\nid: 7\ndata: {\"a\":1}\n\nevent: end\r\ndata: x\r\ndata:y\nnewer: 1\n\n";
        let whole = parse(&[text]);
        assert_eq!(whole.len(), 2);
        assert_eq!((whole[0].id.as_deref(), whole[0].data.as_str()), (Some("7"), "{\"a\":1}"));
        assert_eq!((whole[1].kind.as_str(), whole[1].data.as_str()), ("end", "x\ny"));
        assert_eq!(whole[1].id, None);
        for cut in 0..text.len() {
            let (head, tail) = text.split_at(cut);
            assert_eq!(parse(&[head, tail]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(parse(&bytes), whole);
    }

    #[test]
    fn what_is_not_ended_is_no_event() {
        assert_eq!(parse(&[b"data: 1\n", b"id: 2\n"]), []);
        assert_eq!(parse(&[b"event: a\n\n"]), []);
    }

    #[test]
    fn an_event_without_end_has_a_limit() {
        let mut parser = Parser::default();
        let piece = vec![b'a'; 1 << 20];
        let mut refused = false;
        for _ in 0..20 {
            parser.feed(&piece);
            refused |= parser.next().is_err();
        }
        assert!(refused);
        let mut parser = Parser::default();
        parser.feed(b"data: \xff\n");
        assert!(parser.next().is_err());
    }
}
