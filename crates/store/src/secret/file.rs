//! The file of secrets, as lines of JSON.
//!
//! ```text
//! {"format":"atoll-secrets","version":1,"key":"MARK"}
//! {"name":"GITHUB","created_us":1,"updated_us":1,"nonce":"DIGITS","sealed":"DIGITS"}
//! {"whole":"DIGITS"}
//! ```
//!
//! There is a line for each secret, in the order of names. Each value is encrypted by itself
//! (AES-256-GCM, a random nonce), with its name beside it, so that it opens under no other. The
//! last line is an HMAC-SHA256 of every byte before it, so that names, times and the list itself
//! are what was written too. That somebody put back an older file as a whole is not noticed.

use super::key::{Key, MARK_BYTES, NONCE_BYTES, from_hex, to_hex};
use super::{ALL_BYTES_MAX, SECRETS_COUNT_MAX, Secret, SecretError, SecretName, Value};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use zeroize::Zeroizing;

const FORMAT: &str = "atoll-secrets";
/// The version this program writes.
const VERSION: u32 = 1;
/// Before the digits of the last line, and behind them.
const WHOLE: (&[u8], &[u8]) = (b"{\"whole\":\"", b"\"}\n");
const WHOLE_BYTES: usize = WHOLE.0.len() + 64 + WHOLE.1.len();
/// Largest file that is read: more than the largest that is written.
const FILE_BYTES_MAX: u64 = (2 * ALL_BYTES_MAX + 512 * SECRETS_COUNT_MAX + 1024) as u64;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: String,
    version: u32,
    key: String,
}

/// What is known of the head of any version.
#[derive(Deserialize)]
struct AnyHead {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    created_us: i64,
    updated_us: i64,
    nonce: String,
    sealed: String,
}

/// A secret whose value is encrypted.
pub(super) struct Sealed {
    name: SecretName,
    created_us: i64,
    updated_us: i64,
    nonce: [u8; NONCE_BYTES],
    sealed: Vec<u8>,
}

/// What a file turned out to be.
pub(super) enum Read {
    Secrets(Vec<Sealed>),
    WrongKey,
    TooNew(u32),
    Damaged(&'static str),
}

impl Sealed {
    /// Decrypts it; nothing if it is not what was encrypted.
    pub(super) fn open(self, key: &Key) -> Option<Secret> {
        // What was encrypted becomes the value in its place.
        let mut bytes = Zeroizing::new(self.sealed);
        let length = key.open(&beside(&self.name), self.nonce, &mut bytes)?;
        bytes.truncate(length);
        let value = Value::new(std::mem::take(&mut *bytes)).ok()?;
        let (created_us, updated_us) = (self.created_us, self.updated_us);
        Some(Secret { name: self.name, created_us, updated_us, value })
    }
}

fn beside(name: &SecretName) -> Vec<u8> {
    [FORMAT.as_bytes(), b"\0", name.as_str().as_bytes()].concat()
}

/// All bytes of a file.
pub(super) fn bytes(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The end of a file, which tells it from every other one.
pub(super) fn peek(file: &File) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let mut seal = vec![0; WHOLE_BYTES];
    let from = length.saturating_sub(WHOLE_BYTES as u64);
    let read = file.read_at(&mut seal, from)?;
    seal.truncate(read);
    Ok(seal)
}

/// The file of these secrets.
pub(super) fn write(key: &Key, secrets: &[Secret]) -> Result<Vec<u8>, SecretError> {
    let hex = |bytes: &[u8]| {
        let mut text = Vec::with_capacity(2 * bytes.len());
        to_hex(bytes, &mut text);
        String::from_utf8(text).expect("digits are ASCII")
    };
    let mut file = Vec::new();
    let mut line = |value: Vec<u8>| {
        file.extend(value);
        file.push(b'\n');
    };
    let head = Head { format: FORMAT.to_owned(), version: VERSION, key: hex(&key.mark) };
    line(serde_json::to_vec(&head).expect("it has string keys only"));
    for secret in secrets {
        // With room for the tag: a copy that grows would leave the value behind.
        let mut sealed = Zeroizing::new(Vec::with_capacity(secret.value.as_bytes().len() + 16));
        sealed.extend_from_slice(secret.value.as_bytes());
        let nonce = key.seal(&beside(&secret.name), &mut sealed)?;
        let (created_us, updated_us) = (secret.created_us, secret.updated_us);
        let (name, nonce, sealed) = (secret.name.to_string(), hex(&nonce), hex(&sealed));
        let written = Line { name, created_us, updated_us, nonce, sealed };
        line(serde_json::to_vec(&written).expect("it has string keys only"));
    }
    let tag = key.sign(&file);
    file.extend(WHOLE.0);
    to_hex(tag.as_ref(), &mut file);
    file.extend(WHOLE.1);
    Ok(file)
}

/// What a file holds, after a look at every byte.
pub(super) fn read(key: &Key, bytes: &[u8]) -> Read {
    let Some((head, _)) = split_line(bytes) else {
        return Read::Damaged("it has no first line");
    };
    match serde_json::from_slice::<AnyHead>(head) {
        Ok(any) if any.format != FORMAT => return Read::Damaged("it is no file of secrets"),
        Ok(any) if any.version > VERSION => return Read::TooNew(any.version),
        Ok(_) => {}
        Err(_) => return Read::Damaged("its first line cannot be understood"),
    }
    let Ok(head) = serde_json::from_slice::<Head>(head) else {
        return Read::Damaged("its first line cannot be understood");
    };
    match from_hex(head.key.as_bytes()) {
        Some(mark) if mark.len() == MARK_BYTES && mark != key.mark => return Read::WrongKey,
        Some(mark) if mark.len() == MARK_BYTES => {}
        _ => return Read::Damaged("its first line cannot be understood"),
    }
    let Some(lines) = bytes.len().checked_sub(WHOLE_BYTES).map(|length| bytes.split_at(length))
    else {
        return Read::Damaged("its end is missing");
    };
    let (lines, last) = lines;
    let tag = last.strip_prefix(WHOLE.0).and_then(|rest| rest.strip_suffix(WHOLE.1));
    let Some(tag) = tag.and_then(from_hex) else { return Read::Damaged("its end is missing") };
    if !key.is_whole(lines, &tag) {
        return Read::Damaged("it is not what was written");
    }
    // From here on it is, so that nothing but a fault of ours can be found.
    let mut rest = split_line(lines).map_or(&[][..], |(_, rest)| rest);
    let mut secrets = Vec::new();
    while let Some((line, more)) = split_line(rest) {
        match parse(line) {
            Some(sealed) => secrets.push(sealed),
            None => return Read::Damaged("a line cannot be understood"),
        }
        rest = more;
    }
    Read::Secrets(secrets)
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn parse(line: &[u8]) -> Option<Sealed> {
    let line: Line = serde_json::from_slice(line).ok()?;
    Some(Sealed {
        name: line.name.parse().ok()?,
        created_us: line.created_us,
        updated_us: line.updated_us,
        nonce: from_hex(line.nonce.as_bytes())?.try_into().ok()?,
        sealed: from_hex(line.sealed.as_bytes())?,
    })
}
