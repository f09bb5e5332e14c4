//! One line of the log.
//!
//! A line is the record as JSON, its fields in one order and without spaces, with the hash as its
//! last field. The hash is SHA-256 over the 32 bytes of the hash before and the JSON without that
//! field, so that it is checked on the bytes as they are and nothing has to be written anew.

use atoll_api::audit::{AuditKind, AuditRecord};
use atoll_api::id::SandboxId;
use atoll_api::time::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Longest line: some more than the longest that is written.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Before the digits of the hash, and behind them.
const SEAL: (&str, &str) = (",\"hash\":\"", "\"}");
/// Digits of a hash.
const DIGITS: usize = 64;

/// A hash of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// What is before the first record.
    pub const START: Self = Self([0; 32]);

    /// Reads lower-case digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |letter: u8| match letter {
            b'0'..=b'9' => Some(letter - b'0'),
            b'a'..=b'f' => Some(letter - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is hashed of a record.
#[derive(Serialize)]
struct Body<'a> {
    seq: u64,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox_id: Option<SandboxId>,
    what: &'a AuditKind,
}

/// Writes a line behind the record with the hash `previous`, and gives its own.
pub(super) fn write(
    previous: Hash,
    (seq, at): (u64, Timestamp),
    sandbox_id: Option<SandboxId>,
    what: &AuditKind,
    lines: &mut Vec<u8>,
) -> Hash {
    let body = Body { seq, at, sandbox_id, what };
    let body = serde_json::to_string(&body).expect("a record has string keys only");
    let hash = hash(previous, &body);
    let mut line = body;
    line.pop();
    // Writing to a string cannot fail.
    writeln!(line, "{}{hash}{}", SEAL.0, SEAL.1).unwrap_or_default();
    lines.extend(line.into_bytes());
    hash
}

fn hash(previous: Hash, body: &str) -> Hash {
    let mut digest = Sha256::new();
    digest.update(previous.0);
    digest.update(body.as_bytes());
    Hash(digest.finalize().into())
}

/// The hash that a line says it has, and what it has to be over.
pub(super) fn split(line: &str) -> Option<(String, Hash)> {
    let rest = line.strip_suffix(SEAL.1)?;
    let at = rest.len().checked_sub(DIGITS)?;
    let digits = rest.get(at..)?;
    let body = rest.get(..at)?.strip_suffix(SEAL.0)?;
    Some((format!("{body}}}"), Hash::parse(digits)?))
}

/// Checks a line, without its line break, that comes behind the hash `previous`.
pub(super) fn check(previous: Hash, line: &str) -> Option<(AuditRecord, Hash)> {
    let (body, said) = split(line)?;
    if hash(previous, &body) != said {
        return None;
    }
    Some((serde_json::from_str(line).ok()?, said))
}

/// The number of a line, of which the beginning is enough.
pub(super) fn seq_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"seq\":")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}
