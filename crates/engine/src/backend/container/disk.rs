//! How much room the files of a sandbox take.
//!
//! What is in there is a stranger's, who may move it while it is looked at: directories are opened
//! beneath each other without following links, and no file is.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// Most names that are looked at.
const NAMES_MAX: u64 = 500_000;
/// Deepest that it is looked, each level of which is an open file.
const DEPTH_MAX: usize = 128;
/// Longest that it takes.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Most files with several names that are told apart.
const LINKED_MAX: usize = 100_000;
/// Blocks as stat(2) counts them.
const BLOCK_BYTES: u64 = 512;

/// Bytes that the files below a directory take, and whether all of them were seen.
///
/// # Errors
/// The directory cannot be opened.
pub(super) fn measure(path: &Path) -> Result<(u64, bool), Errno> {
    let top = open(CWD, path)?;
    let device = rustix::fs::fstat(&top)?.st_dev;
    let mut seen = Seen {
        device,
        bytes: 0,
        names: 0,
        linked: HashSet::new(),
        until: Instant::now() + TIME_MAX,
        is_complete: true,
    };
    seen.below(&top, 1);
    Ok((seen.bytes, seen.is_complete))
}

struct Seen {
    device: u64,
    bytes: u64,
    names: u64,
    linked: HashSet<u64>,
    until: Instant,
    is_complete: bool,
}

impl Seen {
    fn below(&mut self, directory: &OwnedFd, depth: usize) {
        let Ok(entries) = Dir::read_from(directory) else {
            self.is_complete = false;
            return;
        };
        let mut deeper: Vec<CString> = Vec::new();
        for entry in entries {
            let Ok(entry) = entry else {
                self.is_complete = false;
                break;
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.names += 1;
            if self.names > NAMES_MAX || Instant::now() > self.until {
                self.is_complete = false;
                return;
            }
            let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // What is mounted there is not the sandbox's own.
            if stat.st_dev != self.device {
                continue;
            }
            let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
            if is_directory {
                deeper.push(name.to_owned());
            } else if stat.st_nlink > 1 {
                if self.linked.len() >= LINKED_MAX {
                    self.is_complete = false;
                } else if !self.linked.insert(stat.st_ino) {
                    continue;
                }
            }
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
            self.bytes = self.bytes.saturating_add(blocks * BLOCK_BYTES);
        }
        if depth >= DEPTH_MAX {
            self.is_complete &= deeper.is_empty();
            return;
        }
        for name in deeper {
            match open(directory, name.as_c_str()) {
                Ok(directory) => self.below(&directory, depth + 1),
                // It is gone, or something else by now.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(_) => self.is_complete = false,
            }
        }
    }
}

fn open(at: impl AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_count_once_and_what_is_elsewhere_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("within");
        fs::create_dir_all(within.join("a/b")).unwrap();
        let bytes = |text: &str| {
            let (bytes, is_complete) = measure(&within).unwrap();
            assert!(is_complete, "{text}");
            bytes
        };
        let empty = bytes("empty");
        fs::write(within.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        let one = bytes("one file");
        assert!((1 << 20..2 << 20).contains(&(one - empty)), "{one} and {empty}");
        fs::hard_link(within.join("a/b/file"), within.join("again")).unwrap();
        fs::write(folder.path().join("outside"), vec![1; 4 << 20]).unwrap();
        symlink(folder.path(), within.join("up")).unwrap();
        symlink(folder.path().join("outside"), within.join("file")).unwrap();
        let more = bytes("a second name, and links that lead out");
        assert!(more - one < 1 << 20, "{more} and {one}");
    }

    #[test]
    fn what_is_too_deep_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let deep = |count: usize| ["d"; 200][..count].join("/");
        fs::create_dir_all(folder.path().join(deep(DEPTH_MAX - 1))).unwrap();
        assert!(measure(folder.path()).unwrap().1);
        fs::create_dir_all(folder.path().join(deep(DEPTH_MAX + 5))).unwrap();
        assert!(!measure(folder.path()).unwrap().1);
        assert!(measure(&folder.path().join("none")).is_err());
    }
}
