//! Archives: layers and what goes along with them, as objects of a store that nobody vouches for.
//!
//! | to know | read |
//! |---|---|
//! | how an object is made safe against who keeps it | [`Sealer`], [`Opener`] |
//! | how a layer becomes bytes, the same for the same files | [`pack_layer`] |
//! | how it becomes files again, whatever the bytes are | [`unpack_layer`] |
//! | what an archive says about itself | [`Manifest`] |
//!
//! A layer is packed, hashed, compressed (zstd) and sealed, in this order, in memory that does not
//! grow with it. Its object has the digest in its name, or with a key what only who has the key can
//! make of that. On the way back every step is undone and checked, within the limits that the
//! manifest names and that the reader allows; nothing here is anybody's before the digest is right.

mod code;
mod key;
mod layer;
mod manifest;
mod pack;
mod seal;
mod unpack;

pub use key::ArchiveKey;
pub use layer::{Expected, Packed, check_layer, pack_layer, unpack_layer};
pub use manifest::{
    LAYERS_MAX, MANIFEST_BYTES_MAX, Manifest, ManifestError, PackedLayer, VERSION, read_manifest,
    write_manifest,
};
pub use pack::{PackError, Source};
pub use seal::{Opener, SealError, Sealer};
pub use unpack::{Destination, UnpackError};

use crate::digest::Digest;
use std::fmt;

/// What an object is called where it is sealed and opened: one in another's place does not open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    #[cfg(test)]
    pub(crate) fn new(name: String) -> Self {
        Self(name)
    }

    /// The name under which a layer's object is sealed; `nonce` is in no other one's.
    #[must_use]
    pub fn of_layer(nonce: &str) -> Self {
        Self(format!("layers/{nonce}"))
    }

    /// The name of a manifest.
    #[must_use]
    pub fn of_manifest(id: &str) -> Self {
        Self(format!("archives/{id}"))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What stands for a layer's digest in the names of its objects: to who has no key it says
/// nothing about the content.
#[must_use]
pub fn shown(digest: &Digest, key: Option<&ArchiveKey>) -> String {
    key.map_or(*digest, |key| key.name(digest)).hex()
}

/// Whose the files of a layer are: what owners on this machine are within a sandbox, and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// All are this user's and this group's, who are that user inside.
    One {
        /// On this machine.
        uid: u32,
        /// On this machine.
        gid: u32,
        /// Inside.
        inside: u32,
    },
    /// A block of ids: inside they begin at 0, and the last one is nobody's.
    Block {
        /// The first one on this machine.
        first: u32,
        /// How many.
        count: u32,
    },
}

/// Nobody, inside.
const NOBODY: u32 = 65_534;

impl Owners {
    /// Who an owner on this machine is inside; root who is none of these.
    pub(super) fn inside(self, (uid, gid): (u32, u32)) -> (u32, u32) {
        let of = |id: u32| match self {
            Self::One { inside, .. } => inside,
            Self::Block { first, count } => match id.checked_sub(first) {
                Some(at) if at + 1 == count => NOBODY,
                Some(at) if at < count => at,
                _ => 0,
            },
        };
        (of(uid), of(gid))
    }

    /// Who an owner inside is on this machine; none of a block for who cannot be there.
    pub(super) fn outside(self, (uid, gid): (u32, u32)) -> Option<(u32, u32)> {
        let of = |id: u32| match self {
            Self::One { .. } => None,
            Self::Block { first, count } => match id {
                NOBODY => Some(first + count - 1),
                id if id < count - 1 => Some(first + id),
                _ => None,
            },
        };
        match self {
            Self::One { uid, gid, .. } => Some((uid, gid)),
            Self::Block { .. } => Some((of(uid)?, of(gid)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_back_as_who_they_were_inside() {
        let root = Owners::Block { first: 0x7100_0000, count: 1024 };
        for id in [0, 1, 1000, 1022, NOBODY] {
            let outside = root.outside((id, id)).unwrap();
            assert_eq!(root.inside(outside), (id, id));
        }
        assert_eq!(root.outside((1023, 0)), None);
        assert_eq!(root.outside((0, u32::MAX)), None);
        assert_eq!(root.inside((5, u32::MAX)), (0, 0));
        let own = Owners::One { uid: 4, gid: 5, inside: 1000 };
        assert_eq!(own.inside((4, 5)), (1000, 1000));
        assert_eq!(own.outside((0, NOBODY)), Some((4, 5)));
    }

    #[test]
    fn names_say_nothing_about_content_to_who_has_no_key() {
        let digest = Digest::of(b"content");
        let name = |key: Option<&ArchiveKey>| shown(&digest, key);
        let [one, other] = [7, 8].map(|byte| ArchiveKey::of(&[byte; 32]).unwrap());
        assert_eq!(name(None), digest.hex());
        assert_ne!(name(Some(&one)), digest.hex());
        assert_ne!(name(Some(&one)), name(Some(&other)));
        assert_eq!(name(Some(&one)), name(Some(&one)));
    }
}
