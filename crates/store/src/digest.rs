//! Names of content: its sha256.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

/// A sha256, written as `sha256:HEX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// Why a text is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("{text:?} is no digest; sha256: and 64 digits are")]
    Malformed { text: String },
    #[error("digests of {algorithm} are not supported, sha256 is")]
    Algorithm { algorithm: String },
}

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of all that there is to be read.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn of_all(reader: impl Read) -> io::Result<Self> {
        let mut hashing = Hashing::new(reader);
        hashing.drain()?;
        Ok(hashing.digest())
    }

    /// The digest that a hasher of sha256 ended with.
    #[must_use]
    pub fn of_hash(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its 64 digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The name of what is kept under it.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("sha256-{}", self.hex())
    }

    /// Reads what [`Self::file_name`] gave.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        from_hex(name.strip_prefix("sha256-")?)
    }
}

/// How much is read at once where only the digest is wanted.
const DRAIN_BYTES: usize = 256 << 10;

/// Reads, hashes and counts what is read.
pub(crate) struct Hashing<R> {
    inner: R,
    hasher: Sha256,
    count: u64,
}

impl<R: Read> Hashing<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new(), count: 0 }
    }

    /// Reads what is left.
    pub(crate) fn drain(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; DRAIN_BYTES];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Bytes that were read.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The digest of what was read.
    pub(crate) fn digest(self) -> Digest {
        Digest(self.hasher.finalize().into())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.count += count as u64;
        Ok(count)
    }
}

fn from_hex(text: &str) -> Option<Digest> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 64 || !text.bytes().all(is_hex) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(Digest(bytes))
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let malformed = || DigestError::Malformed { text: text.chars().take(200).collect() };
        let (algorithm, hex) = text.split_once(':').ok_or_else(malformed)?;
        if matches!(algorithm, "sha512" | "sha384" | "blake3") {
            return Err(DigestError::Algorithm { algorithm: algorithm.to_owned() });
        }
        if algorithm != "sha256" {
            return Err(malformed());
        }
        from_hex(hex).ok_or_else(malformed)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_hashed_and_counted() {
        let bytes = vec![7; 100_000];
        assert_eq!(Digest::of_all(&bytes[..]).unwrap(), Digest::of(&bytes));
        let mut hashing = Hashing::new(&bytes[..]);
        hashing.read_exact(&mut [0; 10]).unwrap();
        assert_eq!(hashing.count(), 10);
        hashing.drain().unwrap();
        assert_eq!((hashing.count(), hashing.digest()), (100_000, Digest::of(&bytes)));
    }

    #[test]
    fn digests_are_written_as_they_are_read() {
        let digest = Digest::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(Digest::from_file_name(&digest.file_name()), Some(digest));
        let upper = text.to_uppercase();
        for bad in ["", "sha256:", &text[..70], &upper, "sha1:da39", &text[7..], "sha256:../../x"] {
            assert!(matches!(bad.parse::<Digest>(), Err(DigestError::Malformed { .. })), "{bad}");
        }
        let other = format!("sha512:{}", "0".repeat(128)).parse::<Digest>();
        assert!(matches!(other, Err(DigestError::Algorithm { .. })));
    }
}
