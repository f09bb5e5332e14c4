//! The frames that everything travels in.
//!
//! ```text
//!     0        4      5
//!     ┌────────┬──────┬─────────────┐
//!     │ length │ kind │ payload     │    length: of the payload, little-endian
//!     └────────┴──────┴─────────────┘
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::ops::Range;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 5;

/// Longest payload that is JSON, in bytes: room for an environment and the
/// arguments that execve(2) takes.
pub const JSON_BYTES_MAX: usize = 4 << 20;

/// Most raw bytes in one frame, without the offset that output has.
pub const DATA_BYTES_MAX: usize = 256 << 10;

/// Bytes of the offset that begins the payload of output.
pub const OFFSET_BYTES: usize = 8;

/// A guest that has nothing to say on a connection that follows, feeds, cancels or
/// attends says so after this time; one that works for long, more often.
pub const HEARTBEAT_MS: u64 = 15_000;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Hello`](crate::hello::Hello), the first of each side.
    Hello,
    /// [`Request`](crate::request::Request), the second of the host.
    Request,
    /// [`Reply`](crate::request::Reply): the operation has begun, or is done.
    Reply,
    /// [`Problem`](crate::problem::Problem): the operation has failed; the last frame.
    Problem,
    /// Output of an exec: the offset of the first byte, then the bytes.
    Stdout,
    /// As [`Kind::Stdout`], of its other stream.
    Stderr,
    /// Bytes of a file, an archive or standard input.
    Body,
    /// No more bytes come.
    End,
    /// [`Event`](crate::request::Event) of an operation that goes on.
    Event,
    /// Nothing to say, but alive.
    Heartbeat,
}

const KINDS: [Kind; 10] = [
    Kind::Hello,
    Kind::Request,
    Kind::Reply,
    Kind::Problem,
    Kind::Stdout,
    Kind::Stderr,
    Kind::Body,
    Kind::End,
    Kind::Event,
    Kind::Heartbeat,
];

impl Kind {
    /// The byte that stands for it; 0 stands for none.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Request => 2,
            Self::Reply => 3,
            Self::Problem => 4,
            Self::Stdout => 5,
            Self::Stderr => 6,
            Self::Body => 7,
            Self::End => 8,
            Self::Event => 9,
            Self::Heartbeat => 10,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.byte() == byte)
    }

    /// Longest payload, in bytes.
    #[must_use]
    pub const fn bytes_max(self) -> usize {
        match self {
            Self::Hello => 1024,
            Self::Request | Self::Reply | Self::Problem | Self::Event => JSON_BYTES_MAX,
            Self::Stdout | Self::Stderr => OFFSET_BYTES + DATA_BYTES_MAX,
            Self::Body => DATA_BYTES_MAX,
            Self::End | Self::Heartbeat => 0,
        }
    }

    const fn bytes_min(self) -> usize {
        match self {
            Self::Stdout | Self::Stderr => OFFSET_BYTES,
            _ => 0,
        }
    }
}

/// Bytes that are no frame, or a frame that does not say what it should. The
/// connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A kind that this version does not have.
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// A payload that is longer, or shorter, than one of its kind can be.
    #[error("a {kind:?} frame of {length} bytes")]
    Length {
        /// Of which kind.
        kind: Kind,
        /// What its header says, in bytes.
        length: usize,
    },
    /// JSON that says nothing that this side knows.
    #[error("a {kind:?} frame that cannot be read")]
    Json {
        /// Of which kind.
        kind: Kind,
        /// Where and why.
        source: serde_json::Error,
    },
}

/// The header of a frame with `length` bytes of payload.
///
/// # Panics
///
/// If no frame of that kind has so many: a bug of the sender.
#[must_use]
pub fn header(kind: Kind, length: usize) -> [u8; HEADER_BYTES] {
    assert!(length <= kind.bytes_max(), "a {kind:?} frame of {length} bytes");
    let length = u32::try_from(length).expect("every limit fits");
    let [a, b, c, d] = length.to_le_bytes();
    [a, b, c, d, kind.byte()]
}

/// The header of a frame of output, with its offset; `length` bytes of output
/// follow, at most [`DATA_BYTES_MAX`].
///
/// # Panics
///
/// As [`header`].
#[must_use]
pub fn output_header(kind: Kind, offset: u64, length: usize) -> [u8; HEADER_BYTES + OFFSET_BYTES] {
    let mut bytes = [0; HEADER_BYTES + OFFSET_BYTES];
    let (front, back) = bytes.split_at_mut(HEADER_BYTES);
    front.copy_from_slice(&header(kind, OFFSET_BYTES + length));
    back.copy_from_slice(&offset.to_le_bytes());
    bytes
}

/// Adds a frame that says `value` to `bytes`.
///
/// # Errors
///
/// `InvalidInput` if it is too long to be said, and then nothing was added.
pub fn put_json(bytes: &mut Vec<u8>, kind: Kind, value: &impl Serialize) -> io::Result<()> {
    let payload = serde_json::to_vec(value).map_err(io::Error::other)?;
    if payload.len() > kind.bytes_max() {
        let text = format!("{} bytes do not fit into a {kind:?} frame", payload.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    bytes.extend(header(kind, payload.len()));
    bytes.extend(payload);
    Ok(())
}

/// One frame, as it was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: Kind,
    /// What it carries.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// What a frame of JSON says.
    ///
    /// # Errors
    ///
    /// [`FrameError::Json`].
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        serde_json::from_slice(self.payload)
            .map_err(|source| FrameError::Json { kind: self.kind, source })
    }

    /// The offset and the bytes of a frame of output; of another kind, 0 and all.
    #[must_use]
    pub fn output(&self) -> (u64, &'a [u8]) {
        match (self.kind, self.payload.split_first_chunk::<OFFSET_BYTES>()) {
            (Kind::Stdout | Kind::Stderr, Some((offset, bytes))) => {
                (u64::from_le_bytes(*offset), bytes)
            }
            _ => (0, self.payload),
        }
    }
}

/// Takes frames out of a stream of bytes.
///
/// Read into [`Decoder::space`], say how much with [`Decoder::filled`], then take
/// frames with [`Decoder::next`] until there is none. A length is judged as soon
/// as its header is there, so never more is kept than the longest frame of the
/// kind that was announced.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// What has been received and not taken.
    received: Range<usize>,
}

/// Room that is always offered, in bytes.
const SPACE_BYTES: usize = 64 << 10;

impl Decoder {
    /// Room for the next bytes; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        let wanted = self.missing().max(SPACE_BYTES);
        if self.buffer.len() - self.received.end < wanted {
            self.buffer.copy_within(self.received.clone(), 0);
            self.received = 0..self.received.len();
            let length = self.received.end + wanted;
            if self.buffer.len() < length {
                self.buffer.resize(length, 0);
            }
        }
        &mut self.buffer[self.received.end..]
    }

    /// Says that so many bytes of the room have been filled.
    ///
    /// # Panics
    ///
    /// If they are more than there was room for.
    pub fn filled(&mut self, length: usize) {
        assert!(length <= self.buffer.len() - self.received.end, "more bytes than room");
        self.received.end += length;
    }

    /// The next frame, if all of it is there.
    ///
    /// # Errors
    ///
    /// [`FrameError::Kind`], [`FrameError::Length`]; again at every later call.
    #[expect(clippy::should_implement_trait, reason = "a frame borrows the buffer")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let Some((kind, length)) = self.announced()? else { return Ok(None) };
        let start = self.received.start + HEADER_BYTES;
        let end = start + length;
        if end > self.received.end {
            return Ok(None);
        }
        self.received.start = end;
        Ok(Some(Frame { kind, payload: &self.buffer[start..end] }))
    }

    /// Says whether [`Decoder::next`] has a frame to give.
    ///
    /// # Errors
    ///
    /// As [`Decoder::next`].
    pub fn is_ready(&self) -> Result<bool, FrameError> {
        let whole = |(_, length)| HEADER_BYTES + length <= self.received.len();
        Ok(self.announced()?.is_some_and(whole))
    }

    /// Gives memory back that a long frame took. Nothing that was received is lost.
    pub fn shrink(&mut self) {
        self.buffer.copy_within(self.received.clone(), 0);
        self.received = 0..self.received.len();
        self.buffer.truncate(self.received.len().max(SPACE_BYTES));
        self.buffer.shrink_to_fit();
    }

    /// Says whether bytes are left that are not a whole frame: where the stream
    /// ends so, it was cut off.
    #[must_use]
    pub fn is_within_frame(&self) -> bool {
        !self.received.is_empty()
    }

    /// What the next frame is, and how long its payload, as soon as its header is there.
    ///
    /// # Errors
    ///
    /// As [`Decoder::next`].
    pub fn announced(&self) -> Result<Option<(Kind, usize)>, FrameError> {
        let received = &self.buffer[self.received.clone()];
        let Some((&[a, b, c, d, kind], _)) = received.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let kind = Kind::of(kind).ok_or(FrameError::Kind(kind))?;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > kind.bytes_max() || length < kind.bytes_min() {
            return Err(FrameError::Length { kind, length });
        }
        Ok(Some((kind, length)))
    }

    /// How many bytes of the announced frame are still to come.
    fn missing(&self) -> usize {
        match self.announced() {
            Ok(Some((_, length))) => (HEADER_BYTES + length).saturating_sub(self.received.len()),
            Ok(None) | Err(_) => HEADER_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Frames = Vec<(Kind, Vec<u8>)>;

    fn frames() -> impl Strategy<Value = Frames> {
        let frame = (0..KINDS.len(), proptest::collection::vec(any::<u8>(), 8..300));
        proptest::collection::vec(frame, 0..8).prop_map(|frames| {
            let cut = |(index, mut bytes): (usize, Vec<u8>)| {
                bytes.truncate(KINDS[index].bytes_max());
                (KINDS[index], bytes)
            };
            frames.into_iter().map(cut).collect()
        })
    }

    /// Gives `bytes` to a decoder in pieces of these lengths.
    fn decode(bytes: &[u8], pieces: &[usize]) -> Result<(Frames, bool), FrameError> {
        let (mut decoder, mut found) = (Decoder::default(), Vec::new());
        let (mut rest, mut pieces) = (bytes, pieces.iter().cycle());
        while !rest.is_empty() {
            let space = decoder.space();
            let length = pieces.next().copied().unwrap_or(1).clamp(1, rest.len().min(space.len()));
            space[..length].copy_from_slice(&rest[..length]);
            decoder.filled(length);
            rest = &rest[length..];
            while decoder.is_ready()? {
                let frame = decoder.next()?.expect("it is ready");
                found.push((frame.kind, frame.payload.to_vec()));
            }
            assert!(decoder.next()?.is_none(), "it was not ready");
        }
        Ok((found, decoder.is_within_frame()))
    }

    proptest! {
        #[test]
        fn frames_are_found_however_they_are_cut(
            frames in frames(),
            pieces in proptest::collection::vec(1..400_usize, 1..10),
        ) {
            let mut bytes = Vec::new();
            for (kind, payload) in &frames {
                bytes.extend(header(*kind, payload.len()));
                bytes.extend(payload);
            }
            prop_assert_eq!(decode(&bytes, &pieces).unwrap(), (frames, false));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic_in_bounded_memory(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut decoder = Decoder::default();
            for byte in bytes {
                decoder.space()[0] = byte;
                decoder.filled(1);
                while let Ok(Some(_)) = decoder.next() {}
                prop_assert!(decoder.buffer.len() <= JSON_BYTES_MAX + SPACE_BYTES + HEADER_BYTES);
            }
        }
    }

    #[test]
    fn a_length_is_refused_before_its_bytes_arrive() {
        for kind in KINDS {
            let mut bytes = u32::MAX.to_le_bytes().to_vec();
            bytes.push(kind.byte());
            let refused = decode(&bytes, &[5]);
            assert!(matches!(refused, Err(FrameError::Length { .. })), "{kind:?}: {refused:?}");
        }
        let short = decode(&[7, 0, 0, 0, Kind::Stdout.byte()], &[5]);
        assert!(matches!(short, Err(FrameError::Length { length: 7, .. })), "{short:?}");
        assert!(matches!(decode(&[0, 0, 0, 0, 99], &[5]), Err(FrameError::Kind(99))));
    }

    #[test]
    fn room_does_not_grow_with_the_stream() {
        let mut decoder = Decoder::default();
        let mut frame = header(Kind::Body, DATA_BYTES_MAX).to_vec();
        frame.resize(HEADER_BYTES + DATA_BYTES_MAX, b'x');
        for _ in 0..100 {
            for piece in frame.chunks(1000) {
                decoder.space()[..piece.len()].copy_from_slice(piece);
                decoder.filled(piece.len());
                while let Some(frame) = decoder.next().unwrap() {
                    assert_eq!(frame.payload.len(), DATA_BYTES_MAX);
                }
            }
        }
        assert!(decoder.buffer.len() < 3 * DATA_BYTES_MAX, "{}", decoder.buffer.len());
    }

    #[test]
    fn output_has_an_offset() {
        let mut bytes = output_header(Kind::Stderr, 1 << 40, 2).to_vec();
        bytes.extend(b"ab");
        let mut decoder = Decoder::default();
        decoder.space()[..bytes.len()].copy_from_slice(&bytes);
        decoder.filled(bytes.len());
        let frame = decoder.next().unwrap().unwrap();
        assert_eq!((frame.kind, frame.output()), (Kind::Stderr, (1 << 40, &b"ab"[..])));
    }

    #[test]
    fn what_is_too_long_to_be_said_is_not_begun() {
        let mut bytes = vec![1];
        let long = "x".repeat(2000);
        assert!(put_json(&mut bytes, Kind::Hello, &long).is_err());
        assert_eq!(bytes, [1]);
    }
}
