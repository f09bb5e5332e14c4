//! Whether a move stays within its bounds, said beforehand.

use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::Dir;
use rustix::io::Errno;

use super::directory::{Listed, READ, is_directory, look};
use super::stop::Stop;

/// How much one move may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Bounds {
    pub(in super::super) entries: u64,
    /// Of content, holes left out. What the session wrote itself counts too,
    /// though it need not be copied.
    pub(in super::super) bytes: u64,
    /// Directories in one another; each costs descriptors.
    pub(in super::super) depth: usize,
}

impl Bounds {
    pub(in super::super) const USUAL: Self = Self { entries: 50_000, bytes: 2 << 30, depth: 128 };
}

/// Says beforehand whether a move stays within its bounds.
pub(super) struct Measure {
    bounds: Bounds,
    device: u64,
    entries: u64,
    bytes: u64,
}

impl Measure {
    /// `device` is what the directory lies on.
    pub(super) fn new(bounds: Bounds, device: u64) -> Self {
        Self { bounds, device, entries: 0, bytes: 0 }
    }

    pub(super) fn directory(
        &mut self,
        directory: BorrowedFd<'_>,
        depth: usize,
    ) -> Result<(), Stop> {
        if depth > self.bounds.depth {
            return Err(Stop::TooDeep);
        }
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > self.bounds.entries {
                return Err(Stop::TooManyEntries);
            }
            let Some(found) = look(directory, name)? else { continue };
            if is_directory(&found) {
                // What is mounted there would stay behind.
                if found.st_dev != self.device {
                    return Err(Stop::Failed(Errno::XDEV));
                }
                let below = Listed::open(directory, name, READ)?;
                self.directory(below.fd.as_fd(), depth + 1)?;
                continue;
            }
            let held = found.st_blocks.unsigned_abs().saturating_mul(512);
            self.bytes = self.bytes.saturating_add(held.min(found.st_size.unsigned_abs()));
            if self.bytes > self.bounds.bytes {
                return Err(Stop::TooManyBytes);
            }
        }
        Ok(())
    }
}
