//! The key that archives are encrypted by: 32 random bytes as hexadecimal digits in a file.
//!
//! From it come a key for each object, one for the names of objects, so that nobody without it can
//! tell from a name what is in the object, and a mark by which to tell whether an object is of this
//! key at all.

use super::seal::{SealError, TAG_BYTES};
use crate::digest::Digest;
use crate::secret::{self, SecretError};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac;
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
/// Bytes of a mark.
pub(super) const MARK_BYTES: usize = 8;

/// An open key. Nothing shows it.
pub struct ArchiveKey {
    root: Prk,
    names: hmac::Key,
    pub(super) mark: [u8; MARK_BYTES],
}

impl fmt::Debug for ArchiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArchiveKey(..)")
    }
}

impl ArchiveKey {
    /// Reads the key in `path`, which must be its owner's alone: 64 hexadecimal digits and a line
    /// feed, as `openssl rand -hex 32` writes them.
    ///
    /// # Errors
    /// If it is not there, others can read it, or it holds no key.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let bytes = secret::read_key(path)?.ok_or_else(|| SecretError::File {
            step: "open",
            path: path.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        Self::of(&bytes).map_err(|_| SecretError::Cipher { step: "use the key" })
    }

    pub(super) fn of(bytes: &[u8]) -> Result<Self, SealError> {
        let root = Salt::new(HKDF_SHA256, b"atoll archives").extract(bytes);
        let names = hmac::Key::new(hmac::HMAC_SHA256, derive(&root, &[b"names"])?.as_slice());
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&derive(&root, &[b"mark"])?[..MARK_BYTES]);
        Ok(Self { root, names, mark })
    }

    /// What stands for a digest in names.
    pub(super) fn name(&self, digest: &Digest) -> Digest {
        let tag = hmac::sign(&self.names, digest.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(tag.as_ref());
        Digest::of_hash(bytes)
    }

    /// The key of the object that has this salt.
    pub(super) fn of_object(&self, salt: &[u8]) -> Result<ObjectKey, SealError> {
        let key = derive(&self.root, &[b"object", salt])?;
        let key = UnboundKey::new(&AES_256_GCM, key.as_slice()).map_err(|_| SealError::Cipher)?;
        Ok(ObjectKey(LessSafeKey::new(key)))
    }
}

fn derive(root: &Prk, what: &[&[u8]]) -> Result<Zeroizing<[u8; KEY_BYTES]>, SealError> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    root.expand(what, HKDF_SHA256)
        .and_then(|expanded| expanded.fill(bytes.as_mut_slice()))
        .map_err(|_| SealError::Cipher)?;
    Ok(bytes)
}

/// The key of one object, with which no nonce may be used twice.
pub(super) struct ObjectKey(LessSafeKey);

impl ObjectKey {
    /// Encrypts a segment, and puts its tag behind it.
    pub(super) fn seal(
        &self,
        nonce: [u8; 12],
        beside: &[u8],
        segment: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self.0.seal_in_place_append_tag(nonce, Aad::from(beside), segment);
        sealed.map_err(|_| SealError::Cipher)
    }

    /// Decrypts a segment in its place; its tag stays behind it.
    pub(super) fn open(
        &self,
        nonce: [u8; 12],
        beside: &[u8],
        segment: &mut [u8],
    ) -> Result<(), SealError> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = segment.len();
        let opened = self.0.open_in_place(nonce, Aad::from(beside), segment);
        let opened = opened.map_err(|_| SealError::Damaged)?;
        debug_assert_eq!(opened.len() + TAG_BYTES, length, "the tag is no content");
        Ok(())
    }
}
