//! How much may still be written: a disk is never filled, and what is kept of images has a
//! quota.

use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// So much is written before it is looked again how much is free.
const LOOK_AGAIN_BYTES: u64 = 16 << 20;

/// What may be taken of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// So many bytes stay free.
    pub free_bytes: u64,
    /// All layers and images together may take so many, if that is limited.
    pub images_bytes: Option<u64>,
}

impl Default for Quota {
    fn default() -> Self {
        Self { free_bytes: 512 << 20, images_bytes: None }
    }
}

/// Why there is no room.
#[derive(Debug, thiserror::Error)]
pub enum NoRoom {
    /// The disk is nearly full.
    #[error(
        "{needed_bytes} bytes are needed, and {free_bytes} are free on the disk, \
         of which {kept_bytes} stay so"
    )]
    Disk {
        /// At least so many more would be written.
        needed_bytes: u64,
        /// So many are free.
        free_bytes: u64,
        /// So many of these stay free.
        kept_bytes: u64,
    },
    /// Images take as much as they may.
    #[error(
        "{needed_bytes} bytes are needed, and images take {used_bytes} of the {quota_bytes} \
         that they may"
    )]
    Quota {
        /// At least so many more would be written.
        needed_bytes: u64,
        /// So many are taken.
        used_bytes: u64,
        /// So many may be.
        quota_bytes: u64,
    },
    /// It cannot be told.
    #[error("it cannot be told how much is free")]
    Unknown(#[source] io::Error),
}

/// Room for what is being written, by several at once.
#[derive(Debug)]
pub struct Room {
    disk: OwnedFd,
    quota: Quota,
    /// What there was before.
    used_bytes: u64,
    taken_bytes: AtomicU64,
}

impl Room {
    /// The room below `directory`, where images take `used_bytes`.
    ///
    /// # Errors
    ///
    /// When the directory cannot be opened.
    pub fn new(directory: &Path, quota: Quota, used_bytes: u64) -> io::Result<Self> {
        let disk = crate::beneath::open_root(directory)?;
        Ok(Self { disk, quota, used_bytes, taken_bytes: AtomicU64::new(0) })
    }

    /// Takes room for so many bytes more.
    ///
    /// # Errors
    ///
    /// [`NoRoom`].
    pub fn take(&self, bytes: u64) -> Result<(), NoRoom> {
        let before = self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
        let (used_bytes, taken) = (self.used_bytes.saturating_add(before), before + bytes);
        if let Some(quota_bytes) = self.quota.images_bytes
            && used_bytes.saturating_add(bytes) > quota_bytes
        {
            return Err(NoRoom::Quota { needed_bytes: bytes, used_bytes, quota_bytes });
        }
        if before == 0 || before / LOOK_AGAIN_BYTES != taken / LOOK_AGAIN_BYTES {
            self.check_disk(bytes)?;
        }
        Ok(())
    }

    /// Whether there is room for so many bytes, without taking it.
    ///
    /// # Errors
    ///
    /// [`NoRoom`].
    pub fn check(&self, needed_bytes: u64) -> Result<(), NoRoom> {
        let taken = self.taken_bytes.load(Ordering::Relaxed);
        let used_bytes = self.used_bytes.saturating_add(taken);
        if let Some(quota_bytes) = self.quota.images_bytes
            && used_bytes.saturating_add(needed_bytes) > quota_bytes
        {
            return Err(NoRoom::Quota { needed_bytes, used_bytes, quota_bytes });
        }
        self.check_disk(needed_bytes)
    }

    fn check_disk(&self, needed_bytes: u64) -> Result<(), NoRoom> {
        let found = rustix::fs::fstatvfs(&self.disk)
            .map_err(|error: Errno| NoRoom::Unknown(error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        // A small disk keeps a twentieth.
        let kept_bytes = self.quota.free_bytes.min(bytes(found.f_blocks) / 20);
        let free_bytes = bytes(found.f_bavail);
        if free_bytes.saturating_sub(kept_bytes) < needed_bytes {
            return Err(NoRoom::Disk { needed_bytes, free_bytes, kept_bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_and_the_disk_are_kept_to() {
        let dir = tempfile::tempdir().unwrap();
        let room = |images_bytes, used| {
            Room::new(dir.path(), Quota { free_bytes: 0, images_bytes }, used).unwrap()
        };
        let limited = room(Some(100), 40);
        limited.take(50).unwrap();
        limited.check(10).unwrap();
        let error = limited.take(11).unwrap_err();
        let NoRoom::Quota { needed_bytes, used_bytes, quota_bytes } = error else {
            panic!("{error}")
        };
        assert_eq!((needed_bytes, used_bytes, quota_bytes), (11, 90, 100));
        assert!(matches!(room(None, 0).take(1 << 60), Err(NoRoom::Disk { .. })));
        room(None, u64::MAX).take(1).unwrap();
    }
}
