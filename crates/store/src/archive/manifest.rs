//! What an archive says about itself: JSON in an object that is sealed like all others.
//!
//! It is written last, so an archive without one is none. `about` is the engine's to understand.

use super::layer::Expected;
use super::seal::{Opener, SealError, Sealer};
use super::{ArchiveKey, ObjectName};
use crate::digest::Digest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// The version this program writes.
pub const VERSION: u32 = 1;
/// Longest manifest.
pub const MANIFEST_BYTES_MAX: usize = 4 << 20;
/// Most layers of an archive: more cannot be mounted.
pub const LAYERS_MAX: usize = 128;
/// Largest number that is believed of a layer's bytes or entries.
const NUMBER_MAX: u64 = 1 << 50;

const FORMAT: &str = "atoll-archive";

/// A layer of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedLayer {
    /// The first part of its object's name: see [`super::shown`].
    pub shown: String,
    /// The last part, under which it is sealed.
    pub nonce: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// sha256 of what is in it.
    pub digest: Digest,
    /// Bytes of that.
    pub packed_bytes: u64,
    /// Files, directories, links and marks.
    pub entries: u64,
}

impl PackedLayer {
    /// What it must be.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let Self { digest, packed_bytes, entries, .. } = *self;
        Expected { digest, packed_bytes, entries }
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest<A> {
    format: String,
    version: u32,
    /// The archive's id.
    pub id: String,
    /// Its layers, the lowest first.
    pub layers: Vec<PackedLayer>,
    /// What is in it.
    pub about: A,
}

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not what was written.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A newer version wrote it.
    #[error("it has format {found}, and this program knows up to {VERSION}; use a newer one")]
    TooNew {
        /// Its format.
        found: u32,
    },
    /// It says what none says.
    #[error("it cannot be understood: {reason}")]
    Malformed {
        /// Why.
        reason: String,
    },
    /// It is too long.
    #[error("it has more than {MANIFEST_BYTES_MAX} bytes")]
    TooLarge,
}

impl<A> Manifest<A> {
    /// One of this version.
    #[must_use]
    pub fn new(id: String, layers: Vec<PackedLayer>, about: A) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, id, layers, about }
    }

    fn check(&self, id: &str) -> Result<(), ManifestError> {
        let malformed = |reason: &str| Err(ManifestError::Malformed { reason: reason.to_owned() });
        if self.format != FORMAT {
            return malformed("it is of something else");
        }
        if self.id != id {
            return malformed("it is of another archive");
        }
        if self.layers.len() > LAYERS_MAX {
            return malformed("it has too many layers");
        }
        let is_hex = |text: &str, length: usize| {
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == length && text.bytes().all(is_digit)
        };
        for layer in &self.layers {
            if !is_hex(&layer.shown, 64) || !is_hex(&layer.nonce, 32) {
                return malformed("a layer has a name that no object has");
            }
            if [layer.bytes, layer.packed_bytes, layer.entries].iter().any(|it| *it > NUMBER_MAX) {
                return malformed("a layer is larger than any can be");
            }
        }
        Ok(())
    }
}

/// The object of a manifest.
///
/// # Errors
/// If it would be too long, or cannot be encrypted.
pub fn write_manifest<A: Serialize>(
    manifest: &Manifest<A>,
    key: Option<&ArchiveKey>,
) -> Result<Vec<u8>, ManifestError> {
    let text = serde_json::to_vec(manifest)
        .map_err(|error| ManifestError::Malformed { reason: error.to_string() })?;
    if text.len() > MANIFEST_BYTES_MAX {
        return Err(ManifestError::TooLarge);
    }
    let name = ObjectName::of_manifest(&manifest.id);
    let sealed = Sealer::new(Vec::new(), key, &name).and_then(|mut sealer| {
        sealer.write_all(&text)?;
        sealer.finish()
    });
    sealed.map_err(|error| SealError::of(&error).cloned().unwrap_or(SealError::Cipher).into())
}

/// Reads the manifest of the archive of that id.
///
/// # Errors
/// See [`ManifestError`].
pub fn read_manifest<A: DeserializeOwned>(
    object: &[u8],
    key: Option<&ArchiveKey>,
    id: &str,
) -> Result<Manifest<A>, ManifestError> {
    #[derive(Deserialize)]
    struct Any {
        version: u32,
    }
    let name = ObjectName::of_manifest(id);
    let mut text = Vec::new();
    let read = Opener::new(object, key, &name)
        .and_then(|opener| opener.take(MANIFEST_BYTES_MAX as u64 + 1).read_to_end(&mut text));
    read.map_err(|error| SealError::of(&error).cloned().unwrap_or(SealError::Damaged))?;
    if text.len() > MANIFEST_BYTES_MAX {
        return Err(ManifestError::TooLarge);
    }
    let malformed =
        |error: serde_json::Error| ManifestError::Malformed { reason: error.to_string() };
    let any: Any = serde_json::from_slice(&text).map_err(malformed)?;
    if any.version != VERSION {
        return Err(ManifestError::TooNew { found: any.version });
    }
    let manifest: Manifest<A> = serde_json::from_slice(&text).map_err(malformed)?;
    manifest.check(id)?;
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer() -> PackedLayer {
        let digest = Digest::of(b"a");
        PackedLayer {
            shown: digest.hex(),
            nonce: "0".repeat(32),
            bytes: 1,
            digest,
            packed_bytes: 2,
            entries: 3,
        }
    }

    fn round(manifest: &Manifest<String>, id: &str) -> Result<Manifest<String>, ManifestError> {
        read_manifest(&write_manifest(manifest, None).unwrap(), None, id)
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let manifest = Manifest::new("arc_1".to_owned(), vec![layer()], "about".to_owned());
        assert_eq!(round(&manifest, "arc_1").as_ref(), Ok(&manifest));
        assert_eq!(round(&manifest, "arc_2"), Err(SealError::Damaged.into()));
        let key = ArchiveKey::of(&[1; 32]).unwrap();
        let object = write_manifest(&manifest, Some(&key)).unwrap();
        assert_eq!(read_manifest(&object, Some(&key), "arc_1").as_ref(), Ok(&manifest));
        assert_eq!(
            read_manifest::<String>(&object, None, "arc_1"),
            Err(SealError::NeedsKey.into())
        );
        assert!(!object.windows(5).any(|window| window == b"about"));
    }

    #[test]
    fn what_no_manifest_says_is_refused() {
        let about = || "a".to_owned();
        let with = |layer: PackedLayer| Manifest::new(about(), vec![layer], about());
        let wrong = [
            with(PackedLayer { nonce: "../".to_owned(), ..layer() }),
            with(PackedLayer { shown: "A".repeat(64), ..layer() }),
            with(PackedLayer { packed_bytes: u64::MAX, ..layer() }),
            Manifest::new(about(), vec![layer(); LAYERS_MAX + 1], about()),
        ];
        for manifest in wrong {
            let read = round(&manifest, "a");
            assert!(matches!(read, Err(ManifestError::Malformed { .. })), "{read:?}");
        }
        let mut newer = with(layer());
        newer.version = 2;
        assert_eq!(round(&newer, "a"), Err(ManifestError::TooNew { found: 2 }));
        let long = Manifest::new(about(), Vec::new(), "a".repeat(MANIFEST_BYTES_MAX));
        assert_eq!(write_manifest(&long, None), Err(ManifestError::TooLarge));
    }
}
