//! No archive writes outside of the directory that it is unpacked into.
//!
//! Checksums of headers are put right first, or hardly any input would get past them.
#![no_main]

use atoll_store::image::{Limits, unpack};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

const BLOCK: usize = 512;
const LIMITS: Limits = Limits { bytes: 1 << 20, entries: 64, ratio: 100, ratio_from: 1 << 18 };

fuzz_target!(|bytes: &[u8]| {
    let base = tempfile::tempdir_in(memory()).unwrap();
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(&outside, "untouched").unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(&root, flags, Mode::empty()).unwrap();
    if let Ok(report) = unpack(with_checksums(bytes).as_slice(), directory.as_fd(), &LIMITS) {
        assert!(report.entries <= LIMITS.entries && report.bytes <= LIMITS.bytes);
    }
    assert_eq!(std::fs::read(&outside).unwrap(), b"untouched");
    let mut names: Vec<_> =
        std::fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["outside", "root"]);
    check_modes(&root);
});

/// Nothing that was unpacked gives anybody privileges.
fn check_modes(directory: &Path) {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        assert_eq!(metadata.mode() & 0o6000, 0, "{}", path.display());
        if metadata.is_dir() {
            check_modes(&path);
        }
    }
}

/// tar(5): the sum of the header's bytes, its own eight counted as spaces.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    const FIELD: std::ops::Range<usize> = 148..156;
    let mut archive = bytes.to_vec();
    for block in archive.chunks_exact_mut(BLOCK) {
        if &block[257..262] != b"ustar" {
            continue;
        }
        block[FIELD].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[FIELD].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    archive
}

/// Files in memory are made a few times faster.
fn memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}
