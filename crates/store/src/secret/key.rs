//! The key that secrets are encrypted under: 32 random bytes as hexadecimal digits in a file.
//!
//! It is made once and never changed. From it come one key to encrypt by, one to tell by whether
//! the file is whole, and a mark to tell by whether the file is of this key at all.

use super::{SecretError, private};
use crate::disk::make_once;
use aws_lc_rs::aead::{AES_256_GCM, Aad, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac;
use std::io::Read as _;
use std::path::Path;
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
/// Bytes of a mark.
pub(super) const MARK_BYTES: usize = 8;
/// Bytes of a nonce.
pub(super) const NONCE_BYTES: usize = 12;

/// An open key; the library wipes what it has of it.
pub(super) struct Key {
    cipher: RandomizedNonceKey,
    whole: hmac::Key,
    pub(super) mark: [u8; MARK_BYTES],
}

impl Key {
    /// Reads the key in `path`, if it is there.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, SecretError> {
        let Some(bytes) = read_bytes(path)? else { return Ok(None) };
        Self::of(&bytes).map(Some)
    }

    /// Makes a key in `path`, where none is.
    pub(super) fn make(path: &Path) -> Result<Self, SecretError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        aws_lc_rs::rand::fill(bytes.as_mut_slice())
            .map_err(|_| SecretError::Cipher { step: "get random bytes for a key" })?;
        let mut text = Zeroizing::new(Vec::with_capacity(2 * KEY_BYTES + 1));
        to_hex(bytes.as_slice(), &mut text);
        text.push(b'\n');
        make_once(path, &text).map_err(|source| SecretError::File {
            step: "make",
            path: path.to_owned(),
            source,
        })?;
        Self::of(bytes.as_slice())
    }

    fn of(bytes: &[u8]) -> Result<Self, SecretError> {
        let failed = |_| SecretError::Cipher { step: "use the key" };
        let root = Salt::new(HKDF_SHA256, b"atoll secrets").extract(bytes);
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, derive(&root, "encrypt")?.as_slice());
        let cipher = cipher.map_err(failed)?;
        let whole = hmac::Key::new(hmac::HMAC_SHA256, derive(&root, "whole")?.as_slice());
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&derive(&root, "mark")?[..MARK_BYTES]);
        Ok(Self { cipher, whole, mark })
    }

    /// Encrypts a value, of which a tag makes more bytes, and gives the nonce that was drawn.
    pub(super) fn seal(
        &self,
        beside: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<[u8; NONCE_BYTES], SecretError> {
        let sealed = self.cipher.seal_in_place_append_tag(Aad::from(beside), value);
        let nonce = sealed.map_err(|_| SecretError::Cipher { step: "encrypt a secret" })?;
        Ok(*nonce.as_ref())
    }

    /// Decrypts a value in its place and gives how long it is; nothing if it is not what was
    /// encrypted, or not beside this.
    pub(super) fn open(
        &self,
        beside: &[u8],
        nonce: [u8; NONCE_BYTES],
        sealed: &mut [u8],
    ) -> Option<usize> {
        let opened = self.cipher.open_in_place((&nonce).into(), Aad::from(beside), sealed);
        opened.ok().map(|value| value.len())
    }

    /// What only who has the key can tell of these bytes.
    pub(super) fn sign(&self, bytes: &[u8]) -> hmac::Tag {
        hmac::sign(&self.whole, bytes)
    }

    pub(super) fn is_whole(&self, bytes: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.whole, bytes, tag).is_ok()
    }
}

/// The bytes of the key in `path`, if it is there.
pub(crate) fn read_bytes(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, SecretError> {
    let Some(file) = private::open_private(path)? else { return Ok(None) };
    // One byte more than there may be.
    let mut text = Zeroizing::new(Vec::with_capacity(2 * KEY_BYTES + 2));
    file.take(2 * KEY_BYTES as u64 + 2)
        .read_to_end(&mut text)
        .map_err(|source| SecretError::File { step: "read", path: path.to_owned(), source })?;
    let digits = text.strip_suffix(b"\n").and_then(from_hex);
    let bytes = digits.map(Zeroizing::new).filter(|bytes| bytes.len() == KEY_BYTES);
    bytes.ok_or_else(|| SecretError::KeyDamaged { path: path.to_owned() }).map(Some)
}

fn derive(root: &Prk, what: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, SecretError> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    root.expand(&[what.as_bytes()], HKDF_SHA256)
        .and_then(|expanded| expanded.fill(bytes.as_mut_slice()))
        .map_err(|_| SecretError::Cipher { step: "use the key" })?;
    Ok(bytes)
}

/// Appends digits in lower case, so that bytes have one spelling.
pub(super) fn to_hex(bytes: &[u8], text: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
}

pub(super) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |letter: u8| match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_chunks::<2>();
    let mut bytes = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    rest.is_empty().then_some(bytes)
}
