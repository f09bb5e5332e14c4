//! Files of a cgroup directory, through its descriptor.

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, read, write};
use std::os::fd::{AsFd, OwnedFd};

/// No file that we read as a whole is longer, task lists apart.
const READ_MAX: usize = 1 << 20;

/// Opens a directory; a link in its place is refused.
pub(super) fn open_dir(at: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Reads a small file.
pub(super) fn read_file(dir: impl AsFd, name: &str) -> Result<String, Errno> {
    let file =
        openat(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::new();
    let mut part = [0; 4096];
    while text.len() < READ_MAX {
        match read(&file, &mut part) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    String::from_utf8(text).map_err(|_| Errno::ILSEQ)
}

/// Writes a setting. The kernel takes each in one piece.
pub(super) fn write_file(dir: impl AsFd, name: &str, value: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    loop {
        match write(&file, value.as_bytes()) {
            Ok(count) if count == value.len() => return Ok(()),
            Ok(_) => return Err(Errno::IO),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The number behind `key` in a file of `key number` lines.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        if name == key { value.trim().parse().ok() } else { None }
    })
}
