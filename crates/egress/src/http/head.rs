//! Checks the text of HTTP/1.1 before a parser sees it.
//!
//! hyper reads some texts in a tolerant way and hides what it tolerated: of two lengths it takes one, a
//! line may end in a line feed alone. Two programs that tolerate differently can be made to see
//! different requests in one text, so what is not written as RFC 9112 has it is refused here.
//! What passes has one reading: where each request begins and ends, and each of its lines.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Uri};
use memchr::memchr2;

/// Most bytes of the head of a request.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most headers of one.
pub const HEADERS_MAX: usize = 128;
/// Most bytes of what follows a body.
const TRAILERS_BYTES_MAX: usize = 8 * 1024;
/// Most digits of a length: all below 2^63.
const LENGTH_DIGITS_MAX: usize = 18;
/// The same of a chunk's.
const CHUNK_DIGITS_MAX: usize = 8;

/// Follows the requests of one connection.
#[derive(Debug, Default)]
pub struct Checker {
    state: State,
    /// How much of what is not given yet was looked at.
    scanned: usize,
    /// Where in it the line begins that is looked at.
    line: usize,
}

/// Where in a request the next byte is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length(u64),
    Chunk(Chunk),
    Trailers,
}

/// Where in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    Size { digits: usize, size: u64 },
    SizeEnd { size: u64 },
    Data(u64),
    DataCr,
    DataLf,
}

/// What can be said of the bytes at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// More are needed.
    Wait,
    /// So many of them are a head, as it should be.
    Head {
        /// How many.
        length: usize,
        /// What may follow.
        after: After,
    },
    /// So many of them belong to a body.
    Body {
        /// How many, at least one.
        length: usize,
    },
}

/// What may follow a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Its body, and the next request.
    Http,
    /// Something else, if the answer says so. Until then nothing is to be looked at.
    Perhaps,
}

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A line ends in a line feed alone, or has a carriage return in it.
    #[error("a line does not end in CR LF")]
    LineEnd,
    /// The first line is not `METHOD TARGET HTTP/1.1`.
    #[error("the first line of the request is not well-formed")]
    RequestLine,
    /// A version that is not spoken here.
    #[error("the version of HTTP is neither 1.1 nor 1.0")]
    Version,
    /// A line that begins with a blank, and so would go on with the one before.
    #[error("a header goes on in the next line")]
    Folded,
    /// No colon, a blank in front of it, or characters that no header has.
    #[error("a header is not well-formed")]
    Header,
    /// Too much of it.
    #[error(
        "the head of the request is larger than {HEAD_BYTES_MAX} bytes or has more than {HEADERS_MAX} headers"
    )]
    TooLarge,
    /// Not exactly one host.
    #[error("the request has not exactly one Host header")]
    Host,
    /// More than one length, or no number.
    #[error("the length of the body is not one number")]
    Length,
    /// More than one encoding, another than chunked, or one where there is none.
    #[error("the transfer encoding of the body is not chunked alone")]
    Encoding,
    /// A length and an encoding.
    #[error("the request has a Content-Length and a Transfer-Encoding")]
    LengthAndEncoding,
    /// A chunk of a body.
    #[error("a chunk of the body is not well-formed")]
    Chunk,
    /// What follows a body.
    #[error("what follows the body is not well-formed")]
    Trailer,
    /// A body where what follows is not HTTP.
    #[error("a request that asks for another protocol has a body")]
    UpgradeBody,
}

/// What the lines of a head say that matters here.
#[derive(Default)]
struct Framing<'a> {
    hosts: usize,
    length: Option<u64>,
    is_chunked: bool,
    upgrade: Option<&'a [u8]>,
}

impl Checker {
    /// Looks at bytes that were not given yet, from the first on.
    ///
    /// # Errors
    ///
    /// See [`Malformed`]; nothing is to be given any more.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        match self.state {
            State::Head => self.head(bytes),
            _ if bytes.is_empty() => Ok(Step::Wait),
            State::Trailers => self.trailers(bytes),
            State::Length(_) | State::Chunk(_) => self.body(bytes),
        }
    }

    /// How many bytes may be given without a look, as they belong to a body of known length.
    #[must_use]
    pub const fn unseen(&self) -> u64 {
        match self.state {
            State::Length(left) => left,
            State::Head | State::Chunk(_) | State::Trailers => 0,
        }
    }

    /// That so many of them were given.
    pub const fn skip(&mut self, length: u64) {
        if let State::Length(left) = self.state {
            self.state = match left.saturating_sub(length) {
                0 => State::Head,
                left => State::Length(left),
            };
        }
    }

    /// Whether a body is under way.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        self.state != State::Head
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        let Some(length) = self.section(bytes, HEAD_BYTES_MAX, Malformed::TooLarge)? else {
            // What is no HTTP at all need not be waited for.
            if let Some(first) = lines(&bytes[..self.line]).next() {
                read_request_line(first)?;
            }
            return Ok(Step::Wait);
        };
        let (state, after) = read_head(&bytes[..length])?;
        self.state = state;
        Ok(Step::Head { length, after })
    }

    fn trailers(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        let section = self.section(bytes, TRAILERS_BYTES_MAX, Malformed::Trailer)?;
        let Some(length) = section else { return Ok(Step::Wait) };
        for line in lines(&bytes[..length]) {
            let (name, _) = read_header(line).map_err(|_| Malformed::Trailer)?;
            let says_how = [&b"content-length"[..], b"transfer-encoding", b"host", b"upgrade"];
            if says_how.iter().any(|other| name.eq_ignore_ascii_case(other)) {
                return Err(Malformed::Trailer);
            }
        }
        self.state = State::Head;
        Ok(Step::Body { length })
    }

    /// Finds the empty line that ends a head or what follows a body.
    fn section(
        &mut self,
        bytes: &[u8],
        bytes_max: usize,
        too_large: Malformed,
    ) -> Result<Option<usize>, Malformed> {
        loop {
            let Some(found) = memchr2(b'\r', b'\n', &bytes[self.scanned..]) else {
                self.scanned = bytes.len();
                break;
            };
            let at = self.scanned + found;
            match bytes.get(at..at + 2) {
                Some(b"\r\n") => {}
                None if bytes[at] == b'\r' => {
                    self.scanned = at;
                    break;
                }
                Some(_) | None => return Err(Malformed::LineEnd),
            }
            let (is_empty, end) = (at == self.line, at + 2);
            (self.scanned, self.line) = (end, end);
            if is_empty {
                (self.scanned, self.line) = (0, 0);
                return if end > bytes_max { Err(too_large) } else { Ok(Some(end)) };
            }
        }
        if bytes.len() >= bytes_max { Err(too_large) } else { Ok(None) }
    }

    fn body(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let room = (bytes.len() - at) as u64;
            let (state, taken) = match self.state {
                State::Head | State::Trailers => break,
                State::Length(left) => {
                    let taken = left.min(room);
                    let is_end = taken == left;
                    (if is_end { State::Head } else { State::Length(left - taken) }, taken)
                }
                State::Chunk(Chunk::Data(left)) => {
                    let taken = left.min(room);
                    let is_end = taken == left;
                    let next = if is_end { Chunk::DataCr } else { Chunk::Data(left - taken) };
                    (State::Chunk(next), taken)
                }
                State::Chunk(chunk) => (chunk.next(byte)?, 1),
            };
            self.state = state;
            at += usize::try_from(taken).unwrap_or(usize::MAX);
        }
        Ok(Step::Body { length: at })
    }
}

impl Chunk {
    /// What one byte of a chunk's frame leads to.
    fn next(self, byte: u8) -> Result<State, Malformed> {
        let chunk = match (self, byte) {
            (Self::Size { digits, size }, b'\r') if digits > 0 => Self::SizeEnd { size },
            (Self::Size { digits, size }, _) if digits < CHUNK_DIGITS_MAX => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed::Chunk)?;
                Self::Size { digits: digits + 1, size: size * 16 + u64::from(digit) }
            }
            (Self::SizeEnd { size: 0 }, b'\n') => return Ok(State::Trailers),
            (Self::SizeEnd { size }, b'\n') => Self::Data(size),
            (Self::DataCr, b'\r') => Self::DataLf,
            (Self::DataLf, b'\n') => Self::Size { digits: 0, size: 0 },
            _ => return Err(Malformed::Chunk),
        };
        Ok(State::Chunk(chunk))
    }
}

/// The lines of a section, without the empty one at its end.
fn lines(section: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = section;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\r', rest)?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        (!line.is_empty()).then_some(line)
    })
}

fn read_head(head: &[u8]) -> Result<(State, After), Malformed> {
    let mut lines = lines(head);
    let first = lines.next().ok_or(Malformed::RequestLine)?;
    let (method, is_1_1) = read_request_line(first)?;
    let mut framing = Framing::default();
    for (number, line) in lines.enumerate() {
        if number >= HEADERS_MAX {
            return Err(Malformed::TooLarge);
        }
        let (name, value) = read_header(line)?;
        framing.add(name, value, is_1_1)?;
    }
    if framing.hosts != 1 {
        return Err(Malformed::Host);
    }
    let state = match (framing.length, framing.is_chunked) {
        (Some(_), true) => return Err(Malformed::LengthAndEncoding),
        (None, true) => State::Chunk(Chunk::Size { digits: 0, size: 0 }),
        (None | Some(0), false) => State::Head,
        (Some(length), false) => State::Length(length),
    };
    let is_websocket =
        framing.upgrade.is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"));
    let after = match is_websocket || method == Method::CONNECT {
        true if state != State::Head => return Err(Malformed::UpgradeBody),
        true => After::Perhaps,
        false => After::Http,
    };
    Ok((state, after))
}

fn read_request_line(line: &[u8]) -> Result<(Method, bool), Malformed> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Malformed::RequestLine);
    };
    let method = Method::from_bytes(method).map_err(|_| Malformed::RequestLine)?;
    if !target.iter().all(u8::is_ascii_graphic) || Uri::try_from(target).is_err() {
        return Err(Malformed::RequestLine);
    }
    let is_1_1 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ => return Err(Malformed::Version),
    };
    Ok((method, is_1_1))
}

fn read_header(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return Err(Malformed::Folded);
    }
    let colon = memchr::memchr(b':', line).ok_or(Malformed::Header)?;
    let (name, value) = (&line[..colon], without_blanks(&line[colon + 1..]));
    HeaderName::from_bytes(name).map_err(|_| Malformed::Header)?;
    HeaderValue::from_bytes(value).map_err(|_| Malformed::Header)?;
    Ok((name, value))
}

/// Without blanks and tabs around it, and nothing else: a form feed is no blank here.
fn without_blanks(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

impl<'a> Framing<'a> {
    fn add(&mut self, name: &[u8], value: &'a [u8], is_1_1: bool) -> Result<(), Malformed> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("host") {
            self.hosts += 1;
        } else if is("content-length") {
            let is_number = (1..=LENGTH_DIGITS_MAX).contains(&value.len())
                && value.iter().all(u8::is_ascii_digit);
            if !is_number || self.length.is_some() {
                return Err(Malformed::Length);
            }
            let digits = value.iter().map(|digit| u64::from(digit - b'0'));
            self.length = Some(digits.fold(0, |length, digit| length * 10 + digit));
        } else if is("transfer-encoding") {
            if self.is_chunked || !is_1_1 || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed::Encoding);
            }
            self.is_chunked = true;
        } else if is("upgrade") && self.upgrade.is_none() {
            self.upgrade = Some(value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
