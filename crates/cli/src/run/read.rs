//! Reads small files that anybody may have put there.

use rustix::fs::OFlags;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The content of a regular file, cut at `most` bytes; `None` for anything else. A
/// pipe is not waited for.
pub(super) fn small(path: &Path, most: u64) -> Option<Vec<u8>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(())?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
