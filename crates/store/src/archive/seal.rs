//! Objects as they lie in a store: in segments, each of which is checked before anything is made
//! of it, so that whatever was flipped, cut off, put in another order or in another's place is
//! found out.
//!
//! ```text
//! magic (8) | version (1) | kind (1) | mark of the key (8) | salt (32) | segment | segment | …
//! ```
//!
//! A segment is up to 64 KiB of content and 16 bytes that vouch for it; all but the last are
//! full. With a key, content is encrypted: AES-256-GCM by a key that is derived for this one object
//! from its salt, where the nonce is the number of the segment and whether it is the last. Without
//! one, the 16 bytes are the beginning of a sha256. Both are also over the object's name and its head.

use super::ObjectName;
use super::key::{ArchiveKey, MARK_BYTES, ObjectKey};
use sha2::{Digest as _, Sha256};
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"atollobj";
/// The version this program writes.
const VERSION: u8 = 1;
const PLAIN: u8 = 0;
const ENCRYPTED: u8 = 1;
const SALT_BYTES: usize = 32;
const HEAD_BYTES: usize = 8 + 2 + MARK_BYTES + SALT_BYTES;
/// Content of a segment.
const SEGMENT_BYTES: usize = 64 << 10;
/// What vouches for it.
pub(super) const TAG_BYTES: usize = 16;

/// Why an object is not what was put there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It was written by something else.
    #[error("it is no object of an archive")]
    Foreign,
    /// A newer version wrote it.
    #[error("it has version {found}, and this program knows up to {VERSION}; use a newer one")]
    TooNew {
        /// Its version.
        found: u8,
    },
    /// It is encrypted, and there is no key.
    #[error("it is encrypted; serve with the key that it was encrypted by (--archive-key-file)")]
    NeedsKey,
    /// It is encrypted by another key.
    #[error("it is encrypted by another key than the one of --archive-key-file")]
    WrongKey,
    /// It is not encrypted, though there is a key: anybody could have put it there.
    #[error("it is not encrypted, though there is a key: it may be anybody's")]
    NotEncrypted,
    /// Its end is missing.
    #[error("its end is missing")]
    Truncated,
    /// It is not what was written, or was written under another name.
    #[error("it is not what was put there")]
    Damaged,
    /// The library of ciphers failed.
    #[error("the cipher failed")]
    Cipher,
}

impl SealError {
    fn into_io(self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self)
    }

    /// The one that an error of reading came of, if it came of one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        let mut source: Option<&(dyn std::error::Error + 'static)> =
            error.get_ref().map(|inner| inner as _);
        while let Some(error) = source {
            if let Some(found) = error.downcast_ref::<Self>() {
                return Some(found);
            }
            source = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
                Some(inner) => Some(inner as _),
                None => error.source(),
            };
        }
        None
    }
}

/// Vouches for segments of one object.
enum Voucher {
    Key(Box<ObjectKey>),
    Sum,
}

struct Segments {
    voucher: Voucher,
    /// The name and the head, over which every segment's tag is.
    beside: Vec<u8>,
    number: u64,
}

impl Segments {
    fn new(key: Option<&ArchiveKey>, name: &ObjectName, head: &[u8]) -> Result<Self, SealError> {
        let salt = &head[HEAD_BYTES - SALT_BYTES..];
        let voucher = match key {
            Some(key) => Voucher::Key(Box::new(key.of_object(salt)?)),
            None => Voucher::Sum,
        };
        let beside = [head, name.as_str().as_bytes()].concat();
        Ok(Self { voucher, beside, number: 0 })
    }

    /// What tells the next segment from all others.
    fn nonce(&mut self, is_last: bool) -> Result<[u8; 12], SealError> {
        let mut nonce = [0; 12];
        nonce[3..11].copy_from_slice(&self.number.to_be_bytes());
        nonce[11] = u8::from(is_last);
        self.number = self.number.checked_add(1).ok_or(SealError::Cipher)?;
        Ok(nonce)
    }

    /// Puts its tag behind a segment, which is encrypted if there is a key.
    fn seal(&mut self, segment: &mut Vec<u8>, is_last: bool) -> Result<(), SealError> {
        let nonce = self.nonce(is_last)?;
        match &self.voucher {
            Voucher::Key(key) => key.seal(nonce, &self.beside, segment),
            Voucher::Sum => {
                let tag = sum(nonce, &self.beside, segment);
                segment.extend(tag);
                Ok(())
            }
        }
    }

    /// Takes its tag off a segment that is what was sealed.
    fn open(&mut self, segment: &mut Vec<u8>, is_last: bool) -> Result<(), SealError> {
        let nonce = self.nonce(is_last)?;
        let length = segment.len().checked_sub(TAG_BYTES).ok_or(SealError::Truncated)?;
        match &self.voucher {
            Voucher::Key(key) => key.open(nonce, &self.beside, segment)?,
            Voucher::Sum => {
                if segment[length..] != sum(nonce, &self.beside, &segment[..length]) {
                    return Err(SealError::Damaged);
                }
            }
        }
        segment.truncate(length);
        Ok(())
    }
}

fn sum(nonce: [u8; 12], beside: &[u8], segment: &[u8]) -> [u8; TAG_BYTES] {
    let mut hasher = Sha256::new();
    hasher.update(nonce);
    hasher.update((beside.len() as u64).to_be_bytes());
    hasher.update(beside);
    hasher.update(segment);
    let hash: [u8; 32] = hasher.finalize().into();
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hash[..TAG_BYTES]);
    tag
}

/// Writes an object. It is whole only after [`Self::finish`].
pub struct Sealer<W> {
    out: W,
    segments: Segments,
    buffer: Vec<u8>,
}

impl<W: Write> Sealer<W> {
    /// Begins the object of that name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, key: Option<&ArchiveKey>, name: &ObjectName) -> io::Result<Self> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend(MAGIC);
        head.extend([VERSION, if key.is_some() { ENCRYPTED } else { PLAIN }]);
        head.extend(key.map_or([0; MARK_BYTES], |key| key.mark));
        let mut salt = [0; SALT_BYTES];
        aws_lc_rs::rand::fill(&mut salt).map_err(|_| SealError::Cipher.into_io())?;
        head.extend(salt);
        let segments = Segments::new(key, name, &head).map_err(SealError::into_io)?;
        out.write_all(&head)?;
        Ok(Self { out, segments, buffer: Vec::with_capacity(SEGMENT_BYTES + TAG_BYTES) })
    }

    fn put(&mut self, is_last: bool) -> io::Result<()> {
        self.segments.seal(&mut self.buffer, is_last).map_err(SealError::into_io)?;
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the last segment, without which there is no object.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.put(true)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // One that is full is written when there is more, since it may be the last.
        if self.buffer.len() == SEGMENT_BYTES && !bytes.is_empty() {
            self.put(false)?;
        }
        let taken = bytes.len().min(SEGMENT_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // What is not full yet stays.
        Ok(())
    }
}

/// Reads an object, of which it gives nothing that it has not checked.
pub struct Opener<R> {
    inner: R,
    segments: Segments,
    /// Of the segment that is given out, and how much of it was.
    segment: Vec<u8>,
    given: usize,
    /// The beginning of the next one.
    ahead: Vec<u8>,
    is_over: bool,
}

impl<R: Read> Opener<R> {
    /// Begins to read the object of that name.
    ///
    /// # Errors
    /// If it cannot be read; with a [`SealError`] inside if it cannot be the one.
    pub fn new(mut inner: R, key: Option<&ArchiveKey>, name: &ObjectName) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES];
        let read = fill(&mut inner, &mut head)?;
        check_head(&head[..read], key).map_err(SealError::into_io)?;
        let segments = Segments::new(key, name, &head).map_err(SealError::into_io)?;
        let mut opener = Self {
            inner,
            segments,
            segment: Vec::with_capacity(SEGMENT_BYTES + TAG_BYTES),
            given: 0,
            ahead: vec![0; SEGMENT_BYTES + TAG_BYTES],
            is_over: false,
        };
        opener.look_ahead()?;
        Ok(opener)
    }

    fn look_ahead(&mut self) -> io::Result<()> {
        self.ahead.resize(SEGMENT_BYTES + TAG_BYTES, 0);
        let read = fill(&mut self.inner, &mut self.ahead)?;
        self.ahead.truncate(read);
        Ok(())
    }

    /// Opens the next segment; it is the last if nothing is behind it.
    fn next(&mut self) -> io::Result<()> {
        std::mem::swap(&mut self.segment, &mut self.ahead);
        self.given = 0;
        self.ahead.clear();
        if self.segment.len() == SEGMENT_BYTES + TAG_BYTES {
            self.look_ahead()?;
        }
        self.is_over = self.ahead.is_empty();
        let length = self.segment.len();
        let opened = self.segments.open(&mut self.segment, self.is_over);
        opened.map_err(|error| match error {
            // At a segment's end a cut shows by that one not being the last.
            SealError::Damaged if self.is_over && length == SEGMENT_BYTES + TAG_BYTES => {
                SealError::Truncated.into_io()
            }
            error => error.into_io(),
        })
    }
}

fn check_head(head: &[u8], key: Option<&ArchiveKey>) -> Result<(), SealError> {
    let Some(rest) = head.strip_prefix(MAGIC) else {
        let is_cut = head.len() < MAGIC.len() && MAGIC.starts_with(head);
        return Err(if is_cut { SealError::Truncated } else { SealError::Foreign });
    };
    match (rest.first(), key) {
        (None, _) => return Err(SealError::Truncated),
        (Some(&found), _) if found != VERSION => return Err(SealError::TooNew { found }),
        _ if head.len() < HEAD_BYTES => return Err(SealError::Truncated),
        _ => {}
    }
    match (rest[1], key) {
        (PLAIN, None) => Ok(()),
        (PLAIN, Some(_)) => Err(SealError::NotEncrypted),
        (ENCRYPTED, None) => Err(SealError::NeedsKey),
        (ENCRYPTED, Some(key)) if rest[2..2 + MARK_BYTES] != key.mark => Err(SealError::WrongKey),
        (ENCRYPTED, Some(_)) => Ok(()),
        _ => Err(SealError::Foreign),
    }
}

impl<R: Read> Read for Opener<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.segment.len() {
            if self.is_over {
                return Ok(0);
            }
            self.next()?;
        }
        let count = buffer.len().min(self.segment.len() - self.given);
        buffer[..count].copy_from_slice(&self.segment[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// Reads until the buffer is full or there is no more.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> ObjectName {
        ObjectName::new(text.to_owned())
    }

    fn sealed(content: &[u8], key: Option<&ArchiveKey>, under: &str) -> Vec<u8> {
        let mut sealer = Sealer::new(Vec::new(), key, &name(under)).unwrap();
        sealer.write_all(content).unwrap();
        sealer.finish().unwrap()
    }

    fn opened(object: &[u8], key: Option<&ArchiveKey>, under: &str) -> Result<Vec<u8>, SealError> {
        let read = Opener::new(object, key, &name(under)).and_then(|mut opener| {
            let mut content = Vec::new();
            opener.read_to_end(&mut content)?;
            Ok(content)
        });
        read.map_err(|error| SealError::of(&error).unwrap().clone())
    }

    fn keys() -> [Option<ArchiveKey>; 2] {
        [None, Some(ArchiveKey::of(&[7; 32]).unwrap())]
    }

    #[test]
    fn what_was_sealed_is_what_is_opened() {
        let sizes = [0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 3 * SEGMENT_BYTES];
        for key in keys() {
            for size in sizes {
                let content: Vec<u8> = (0..=250).cycle().take(size).collect();
                let object = sealed(&content, key.as_ref(), "layers/a");
                assert_eq!(opened(&object, key.as_ref(), "layers/a"), Ok(content), "{size}");
            }
        }
    }

    #[test]
    fn another_key_and_none_are_told_apart() {
        let [_, key] = keys();
        let other = ArchiveKey::of(&[8; 32]).unwrap();
        let encrypted = sealed(b"content", key.as_ref(), "a");
        assert_eq!(opened(&encrypted, Some(&other), "a"), Err(SealError::WrongKey));
        assert_eq!(opened(&encrypted, None, "a"), Err(SealError::NeedsKey));
        let plain = sealed(b"content", None, "a");
        assert_eq!(opened(&plain, key.as_ref(), "a"), Err(SealError::NotEncrypted));
        assert_eq!(opened(b"something else", None, "a"), Err(SealError::Foreign));
        let mut newer = plain;
        newer[8] = 9;
        assert_eq!(opened(&newer, None, "a"), Err(SealError::TooNew { found: 9 }));
    }

    #[test]
    fn one_in_anothers_place_is_found_out_and_so_are_segments() {
        for key in keys() {
            let key = key.as_ref();
            let content = vec![1; 3 * SEGMENT_BYTES];
            let object = sealed(&content, key, "layers/a");
            assert_eq!(opened(&object, key, "layers/b"), Err(SealError::Damaged));
            let size = SEGMENT_BYTES + TAG_BYTES;
            let segment = |number: usize| object[HEAD_BYTES + number * size..][..size].to_vec();
            let with = |numbers: &[usize]| {
                let mut other = object[..HEAD_BYTES].to_vec();
                numbers.iter().for_each(|&number| other.extend(segment(number)));
                opened(&other, key, "layers/a")
            };
            assert_eq!(with(&[0, 1, 2]), Ok(content.clone()));
            assert_eq!(with(&[1, 0, 2]), Err(SealError::Damaged));
            assert_eq!(with(&[0, 2]), Err(SealError::Truncated));
            assert_eq!(with(&[0, 1]), Err(SealError::Truncated));
            assert_eq!(with(&[0, 1, 2, 2]), Err(SealError::Damaged));
            let mut other = sealed(&content, key, "layers/a");
            other.splice(HEAD_BYTES..HEAD_BYTES + size, segment(0));
            assert_eq!(opened(&other, key, "layers/a"), Err(SealError::Damaged));
        }
    }

    proptest! {
        #[test]
        fn every_cut_and_every_flipped_bit_is_an_error(
            size in 0..2 * SEGMENT_BYTES, at: prop::sample::Index, bit in 0..8_u8, cut: bool,
        ) {
            for key in keys() {
                let key = key.as_ref();
                let mut object = sealed(&vec![3; size], key, "a");
                let at = at.index(object.len());
                match cut {
                    true => object.truncate(at),
                    false => object[at] ^= 1 << bit,
                }
                prop_assert!(opened(&object, key, "a").is_err());
            }
        }

        #[test]
        fn nothing_that_anybody_sends_is_taken_for_an_object(bytes: Vec<u8>) {
            for key in keys() {
                prop_assert!(opened(&bytes, key.as_ref(), "a").is_err());
            }
        }
    }
}
