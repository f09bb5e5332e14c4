//! HTTP as bytes, so that what a server sends is seen as it comes, up to its end or to
//! where it breaks off.

use super::Served;
use super::support::socket;
use serde_json::Value;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longer than any answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// An answer whose body has not been read yet.
pub(super) struct Answer {
    pub(super) status: u16,
    /// Names in small letters.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
}

/// A body as it comes. One that breaks off is an error and no end.
pub(super) struct Body {
    stream: BufReader<UnixStream>,
    left: Left,
}

/// What is still to come.
enum Left {
    Bytes(u64),
    /// Of this chunk, and then more chunks.
    Chunk(u64),
    /// Until the connection ends, as after an upgrade.
    All,
}

impl Served<'_> {
    /// Sends the head of a request, and gives its connection.
    pub(super) fn begin(&self, method: &str, path: &str, headers: &str) -> UnixStream {
        let mut stream = UnixStream::connect(socket(self.project())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// Asks, and reads no further than the head of the answer.
    #[track_caller]
    pub(super) fn open(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(Value::to_string).unwrap_or_default();
        let headers = format!(
            "connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        let mut stream = self.begin(method, path, &headers);
        stream.write_all(body.as_bytes()).unwrap();
        answer(stream).unwrap()
    }

    /// Follows a stream of server-sent events.
    #[track_caller]
    pub(super) fn events(&self, path: &str) -> Events {
        let headers = "connection: close\r\naccept: text/event-stream\r\n";
        let answer = answer(self.begin("GET", path, headers)).unwrap();
        assert_eq!(answer.status, 200, "{path}: {:?}", answer.headers);
        Events(BufReader::new(answer.body))
    }
}

/// Reads the head of an answer.
pub(super) fn answer(stream: UnixStream) -> io::Result<Answer> {
    let invalid = |line: &str| io::Error::new(io::ErrorKind::InvalidData, line.to_owned());
    let mut stream = BufReader::with_capacity(256 << 10, stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix("\r\n").ok_or_else(|| invalid(&line))?;
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let first = lines.remove(0);
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| invalid(&first))?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| invalid(&line))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let header = |name: &str| headers.iter().find(|(had, _)| had == name).map(|(_, value)| value);
    let left = match (header("content-length"), header("transfer-encoding")) {
        (Some(length), None) => Left::Bytes(length.parse().map_err(|_| invalid(length))?),
        (None, Some(coding)) if coding == "chunked" => Left::Chunk(0),
        (None, None) if status == 101 => Left::All,
        (None, None) => Left::Bytes(0),
        _ => return Err(invalid("a body that has no length or two")),
    };
    Ok(Answer { status, headers, body: Body { stream, left } })
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(had, _)| had == name).map(|(_, value)| value.as_str())
    }

    /// The whole body.
    pub(super) fn bytes(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.body.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Body {
    pub(super) fn connection(&self) -> &UnixStream {
        self.stream.get_ref()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(line.to_owned())
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match &mut self.left {
            Left::All => return self.stream.read(buffer),
            Left::Bytes(0) => return Ok(0),
            Left::Bytes(left) => left,
            Left::Chunk(left) if *left > 0 => left,
            Left::Chunk(_) => {
                let line = self.line()?;
                let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, line.clone());
                let length = u64::from_str_radix(&line, 16).map_err(invalid)?;
                if length == 0 {
                    self.line()?;
                    self.left = Left::Bytes(0);
                    return Ok(0);
                }
                self.left = Left::Chunk(length);
                return self.read(buffer);
            }
        };
        let most = buffer.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        let length = self.stream.read(&mut buffer[..most])?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= length as u64;
        if let Left::Chunk(0) = self.left {
            self.line()?;
        }
        Ok(length)
    }
}

/// Server-sent events as they come.
pub(super) struct Events(BufReader<Body>);

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

impl Events {
    /// The next one; none at the end, and an error where it breaks off. What only shows
    /// that the stream lives is counted in `beats`.
    pub(super) fn next(&mut self, beats: &mut usize) -> io::Result<Option<Event>> {
        let mut event = Event { name: String::new(), id: None, data: Value::Null };
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                assert!(event.name.is_empty(), "cut off: {event:?}");
                return Ok(None);
            }
            let line = line.trim_end_matches('\n');
            match line.split_once(':') {
                _ if line.is_empty() && event.name.is_empty() => {}
                _ if line.is_empty() => return Ok(Some(event)),
                Some(("", _)) => *beats += 1,
                Some(("event", name)) => name.trim().clone_into(&mut event.name),
                Some(("id", id)) => event.id = Some(id.trim().to_owned()),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ => panic!("no line of an event: {line:?}"),
            }
        }
    }

    /// The next one of this name.
    #[track_caller]
    pub(super) fn until(&mut self, name: &str) -> Event {
        loop {
            match self.next(&mut 0).unwrap() {
                Some(event) if event.name == name => return event,
                Some(_) => {}
                None => panic!("no event {name}"),
            }
        }
    }

    /// All up to the end.
    #[track_caller]
    pub(super) fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next(&mut 0).unwrap() {
            events.push(event);
        }
        events
    }
}
