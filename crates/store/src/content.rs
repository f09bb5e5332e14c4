//! Copies what is in one file, holes included.

use crate::changes::compare::next_data;
use crate::node::Stamp;
use rustix::fs::SeekFrom;
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// How often somebody is asked whether to go on with a large file.
const ASKED_EVERY: u64 = 64 << 20;

/// A file without holes up to this length is read and written rather than spliced.
const SMALL: usize = 256 * 1024;

/// Copies `size` bytes. Shares the blocks where the file system can.
pub(crate) fn copy(from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    copy_data(from, to, size, &|| false).map(drop)
}

/// Copies bytes of many files, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Copier {
    buffer: Vec<u8>,
}

impl Copier {
    /// Copies the content of `from`, of which `stamp` tells the length, into an empty
    /// file and says how many bytes of it were not in holes.
    ///
    /// `ECANCELED` where `is_canceled` says so in the middle.
    pub(crate) fn copy(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        stamp: &Stamp,
        is_canceled: &dyn Fn() -> bool,
    ) -> Result<u64> {
        let has_holes = stamp.blocks.saturating_mul(512) < stamp.size;
        match usize::try_from(stamp.size) {
            Ok(0) => Ok(0),
            Ok(..=SMALL) if !has_holes => {
                self.buffer.resize(SMALL, 0);
                copy_by_hand(from, to, 0, stamp.size, &mut self.buffer)?;
                Ok(stamp.size)
            }
            Ok(_) | Err(_) => copy_data(from, to, stamp.size, is_canceled),
        }
    }
}

fn copy_data(
    from: &OwnedFd,
    to: &OwnedFd,
    size: u64,
    is_canceled: &dyn Fn() -> bool,
) -> Result<u64> {
    rustix::fs::ftruncate(to, size)?;
    let (mut at, mut copied) = (0, 0);
    loop {
        let start = next_data(from, at, size)?;
        if start >= size {
            return Ok(copied);
        }
        at = match rustix::fs::seek(from, SeekFrom::Hole(start)) {
            Ok(end) => end.clamp(start + 1, size),
            Err(Errno::INVAL | Errno::NXIO) => size,
            Err(error) => return Err(error),
        };
        copied += at - start;
        let mut part = start;
        while part < at {
            if is_canceled() {
                return Err(Errno::CANCELED);
            }
            let end = at.min(part.saturating_add(ASKED_EVERY));
            copy_range(from, to, part, end)?;
            part = end;
        }
    }
}

fn copy_range(from: &OwnedFd, to: &OwnedFd, mut at: u64, end: u64) -> Result<()> {
    while at < end {
        let (mut read, mut written) = (at, at);
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(1 << 30);
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), length) {
            // The file became shorter.
            Ok(0) => return Ok(()),
            Ok(count) => at += count as u64,
            Err(Errno::INTR) => {}
            // Other file systems, or a kernel that does not copy between them.
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::IO) => {
                return copy_by_hand(from, to, at, end, &mut vec![0; SMALL]);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn copy_by_hand(
    from: &OwnedFd,
    to: &OwnedFd,
    mut at: u64,
    end: u64,
    buffer: &mut [u8],
) -> Result<()> {
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let mut chunk = match rustix::io::pread(from, &mut buffer[..most], at) {
            Ok(0) => return Ok(()),
            Ok(count) => &buffer[..count],
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        while !chunk.is_empty() {
            match rustix::io::pwrite(to, chunk, at) {
                Ok(count) => {
                    chunk = &chunk[count..];
                    at += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
