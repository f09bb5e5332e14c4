//! The bytes of an archive: decompressed, counted, and no more than the limits let through.

use super::unpack::{Limits, UnpackError};
use crate::digest::Digest;
use sha2::{Digest as _, Sha256};
use std::cell::Cell;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

/// Enough of an archive to tell how it is compressed.
const START: usize = 8;

/// Archives are made of blocks of so many bytes.
const BLOCK: u64 = 512;

enum Compression {
    None,
    Gzip,
    Zstd,
    Other(&'static str),
}

/// Tells by the first bytes.
fn compression(start: &[u8]) -> Compression {
    match start {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Other("xz"),
        [b'B', b'Z', b'h', ..] => Compression::Other("bzip2"),
        [0x04, 0x22, 0x4d, 0x18, ..] => Compression::Other("lz4"),
        [b'P', b'K', 3 | 5, ..] => Compression::Other("zip"),
        [b'h', b's', b'q', b's', ..] => Compression::Other("squashfs"),
        _ => Compression::None,
    }
}

/// Whether an archive is not compressed at all; it is read from its start afterwards.
pub(crate) fn is_plain(file: &File) -> io::Result<bool> {
    let mut start = [0; START];
    let count = file.read_at(&mut start, 0)?;
    Ok(matches!(compression(&start[..count]), Compression::None))
}

/// What an archive holds when it is decompressed.
pub(crate) struct Input<'r> {
    inner: Box<dyn Read + 'r>,
    /// Bytes taken of the archive's file.
    taken: Rc<Cell<u64>>,
    given: u64,
    limits: Limits,
    /// Of what is given, where its digest is wanted.
    hasher: Option<Sha256>,
    /// It may end within the last block: some tools fill that one up only where more follows.
    may_end_early: bool,
}

impl<'r> Input<'r> {
    pub(crate) fn open(mut reader: impl Read + 'r, limits: Limits) -> Result<Self, UnpackError> {
        let mut start = Vec::new();
        reader
            .by_ref()
            .take(START as u64)
            .read_to_end(&mut start)
            .map_err(UnpackError::from_read)?;
        let compression = compression(&start);
        let taken = Rc::new(Cell::new(0));
        let counted = Counted { inner: Cursor::new(start).chain(reader), taken: Rc::clone(&taken) };
        let reader = BufReader::with_capacity(256 * 1024, counted);
        let inner: Box<dyn Read + 'r> = match compression {
            Compression::None => Box::new(reader),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(reader);
                Box::new(decoder.map_err(UnpackError::from_read)?)
            }
            Compression::Other(name) => return Err(UnpackError::Compression { name }),
        };
        let (hasher, may_end_early) = (None, false);
        Ok(Self { inner, taken, given: 0, limits, hasher, may_end_early })
    }

    /// Takes what is missing of the last block as zeros, where a digest shows that nothing else is
    /// missing.
    pub(super) fn let_end_early(&mut self) {
        self.may_end_early = true;
    }

    /// Hashes what is given from here on.
    pub(super) fn hash(&mut self) {
        self.hasher = Some(Sha256::new());
    }

    /// Reads to the end, and gives the digest of all there was since [`Self::hash`].
    pub(super) fn digest(mut self) -> Result<Digest, UnpackError> {
        io::copy(&mut self, &mut io::sink()).map_err(UnpackError::from_read)?;
        let hasher = self.hasher.expect("whoever wants a digest has it hashed");
        Ok(Digest::of_hash(hasher.finalize().into()))
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && self.may_end_early && !buffer.is_empty() {
            return Ok(self.fill_up(buffer));
        }
        self.given += count as u64;
        let Limits { bytes, ratio, ratio_from, .. } = self.limits;
        if self.given > bytes {
            return Err(io::Error::other(OverLimit::Bytes(bytes)));
        }
        let dense = self.taken.get().saturating_mul(ratio).max(ratio_from);
        if self.given > dense {
            return Err(io::Error::other(OverLimit::Ratio(ratio)));
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..count]);
        }
        Ok(count)
    }
}

impl Input<'_> {
    fn fill_up(&mut self, buffer: &mut [u8]) -> usize {
        let missing = usize::try_from(self.given.next_multiple_of(BLOCK) - self.given);
        let count = missing.unwrap_or_default().min(buffer.len());
        buffer[..count].fill(0);
        self.given += count as u64;
        count
    }
}

/// Carries a limit through readers that know only I/O errors.
#[derive(Debug, thiserror::Error)]
enum OverLimit {
    #[error("over {0} bytes")]
    Bytes(u64),
    #[error("over {0} times its length")]
    Ratio(u64),
}

/// Carries a failure of where the archive comes from through the same readers: it is no
/// damage of the archive.
#[derive(Debug, thiserror::Error)]
#[error("the source failed")]
pub(crate) struct SourceFailed(#[source] pub(crate) io::Error);

impl UnpackError {
    /// Sorts failures of reading, which come through the decompressor and the
    /// tar reader as errors of one type.
    pub(crate) fn from_read(error: io::Error) -> Self {
        match cause::<OverLimit>(&error) {
            Some(OverLimit::Bytes(limit)) => return Self::TooLarge { limit: *limit },
            Some(OverLimit::Ratio(ratio)) => return Self::TooDense { ratio: *ratio },
            None => {}
        }
        match error.raw_os_error() {
            _ if cause::<SourceFailed>(&error).is_some() => Self::Read { source: error },
            Some(_) => Self::Read { source: error },
            None => Self::Damaged { source: error },
        }
    }
}

/// The error of this type that others are wrapped around.
pub(crate) fn cause<T: Error + 'static>(error: &io::Error) -> Option<&T> {
    let mut next: Option<&(dyn Error + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = inner.map(|inner| inner as _).or_else(|| error.source());
    }
    None
}

/// Counts what is taken of the archive's file.
struct Counted<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.taken.set(self.taken.get() + count as u64);
        Ok(count)
    }
}
