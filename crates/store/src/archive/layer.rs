//! From a layer to its object and back.

use super::pack::{self, PackError, Source};
use super::seal::{Opener, SealError, Sealer};
use super::unpack::{self, Destination, UnpackError};
use super::{ArchiveKey, ObjectName};
use crate::digest::{Digest, Hashing};
use sha2::{Digest as _, Sha256};
use std::io::{self, Read, Write};

/// How hard it is compressed: higher levels take long, and find little more in files of projects.
const LEVEL: i32 = 3;

/// How much a reader may be asked to look back, as a power of 2: more than writers do.
const WINDOW_LOG_MAX: u32 = 23;

/// What was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// sha256 of what was packed, before it was compressed.
    pub digest: Digest,
    /// Bytes of that.
    pub packed_bytes: u64,
    /// Files, directories, links and marks.
    pub entries: u64,
    /// What has no place in an archive.
    pub left_out: u64,
    /// Bytes of the object.
    pub bytes: u64,
}

/// What a layer that is unpacked must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// See [`Packed::digest`].
    pub digest: Digest,
    /// See [`Packed::packed_bytes`].
    pub packed_bytes: u64,
    /// See [`Packed::entries`].
    pub entries: u64,
}

/// Writes the object of that name; it is whole if this succeeds.
///
/// # Errors
/// See [`PackError`].
pub fn pack_layer(
    source: &Source<'_>,
    key: Option<&ArchiveKey>,
    name: &ObjectName,
    out: impl Write,
    is_canceled: &dyn Fn() -> bool,
) -> Result<Packed, PackError> {
    let sealer = Sealer::new(Counting { inner: out, count: 0 }, key, name);
    let compressed = sealer.and_then(|sealer| zstd::Encoder::new(sealer, LEVEL));
    let mut summing =
        Summing { inner: compressed.map_err(PackError::Write)?, hasher: Sha256::new(), count: 0 };
    let counts = pack::pack(source, &mut summing, is_canceled)?;
    let Summing { inner, hasher, count } = summing;
    let written = inner.finish().and_then(Sealer::finish).map_err(PackError::Write)?;
    Ok(Packed {
        digest: Digest::of_hash(hasher.finalize().into()),
        packed_bytes: count,
        entries: counts.entries,
        left_out: counts.left_out,
        bytes: written.count,
    })
}

/// Unpacks the object of that name, of which nothing is to be used unless this succeeds.
///
/// # Errors
/// See [`UnpackError`].
pub fn unpack_layer(
    object: impl Read,
    key: Option<&ArchiveKey>,
    name: &ObjectName,
    expected: &Expected,
    to: &Destination<'_>,
    is_canceled: &dyn Fn() -> bool,
) -> Result<(), UnpackError> {
    let limit = expected.packed_bytes;
    let read = |error: io::Error| match TooMuch::is(&error) {
        true => UnpackError::TooLarge { what: "bytes", limit },
        false => UnpackError::Read(error),
    };
    let opener = Opener::new(object, key, name).map_err(UnpackError::Read)?;
    let mut expanded = zstd::Decoder::new(opener).map_err(UnpackError::Read)?;
    expanded.window_log_max(WINDOW_LOG_MAX).map_err(UnpackError::Read)?;
    let mut hashing = Hashing::new(AtMost { inner: expanded, left: limit });
    let unpacked = unpack::unpack(&mut hashing, to, expected.entries, is_canceled);
    unpacked.map_err(|error| match error {
        UnpackError::Read(error) => read(error),
        error => error,
    })?;
    // To the end, where what is cut off shows, and what was put behind it.
    hashing.drain().map_err(read)?;
    if hashing.digest() != expected.digest {
        return Err(UnpackError::OtherDigest);
    }
    Ok(())
}

/// Reads the object of that name to its end, and looks whether it is what is expected, as
/// [`unpack_layer`] would without writing anything.
///
/// # Errors
/// See [`UnpackError`].
pub fn check_layer(
    object: impl Read,
    key: Option<&ArchiveKey>,
    name: &ObjectName,
    expected: &Expected,
    is_canceled: &dyn Fn() -> bool,
) -> Result<(), UnpackError> {
    let limit = expected.packed_bytes;
    let read = |error: io::Error| match TooMuch::is(&error) {
        true => UnpackError::TooLarge { what: "bytes", limit },
        false => UnpackError::Read(error),
    };
    let opener = Opener::new(object, key, name).map_err(UnpackError::Read)?;
    let mut expanded = zstd::Decoder::new(opener).map_err(UnpackError::Read)?;
    expanded.window_log_max(WINDOW_LOG_MAX).map_err(UnpackError::Read)?;
    let mut hashing = Hashing::new(AtMost { inner: expanded, left: limit });
    let mut piece = vec![0; 64 << 10];
    while hashing.read(&mut piece).map_err(read)? > 0 {
        if is_canceled() {
            return Err(UnpackError::Canceled);
        }
    }
    if hashing.digest() != expected.digest {
        return Err(UnpackError::OtherDigest);
    }
    Ok(())
}

impl UnpackError {
    /// What is wrong with the object, if that is what it is about.
    #[must_use]
    pub fn seal(&self) -> Option<&SealError> {
        match self {
            Self::Read(error) => SealError::of(error),
            _ => None,
        }
    }
}

struct Counting<W> {
    inner: W,
    count: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

struct Summing<W> {
    inner: W,
    hasher: Sha256,
    count: u64,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Gives at most so many bytes; that there are more is an error.
struct AtMost<R> {
    inner: R,
    left: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("there are more bytes than there may be")]
struct TooMuch;

impl TooMuch {
    fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

impl<R: Read> Read for AtMost<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        // One byte more is asked for where none may be, so that it shows.
        if most == 0 && !buffer.is_empty() {
            return match self.inner.read(&mut buffer[..1])? {
                0 => Ok(0),
                _ => Err(io::Error::new(io::ErrorKind::InvalidData, TooMuch)),
            };
        }
        let count = self.inner.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}
