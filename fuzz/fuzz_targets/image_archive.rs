//! No archive writes outside of the directory that it is unpacked into.
//!
//! Checksums of headers are put right first, or hardly any input would get past them.
#![no_main]

use atoll_store::digest::Digest;
use atoll_store::image::{Limits, unpack};
use atoll_store::layer::{Expected, Layers};
use atoll_store::room::{Quota, Room};
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
    let layers = add_as_layer(base.path(), &with_checksums(bytes));
    assert_eq!(std::fs::read(&outside).unwrap(), b"untouched");
    let mut names: Vec<_> =
        std::fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["image-layers", "outside", "root"]);
    check_modes(&root);
    layers.iter().for_each(|tree| check_modes(tree));
});

/// The same as a layer, which is there whole or not at all.
fn add_as_layer(base: &Path, bytes: &[u8]) -> Option<PathBuf> {
    let layers = Layers::open(base).unwrap();
    let diff_id = Digest::of(bytes);
    let expected = Expected { diff_id, packed: None };
    let pin = layers.pin(&[diff_id]).unwrap();
    let quota = Quota { free_bytes: 0, images_bytes: None };
    let room = Room::new(base, quota, 0).unwrap();
    let added = layers.add(&pin, bytes, &expected, &LIMITS, &room).is_ok();
    assert_eq!(layers.list().unwrap().len(), usize::from(added));
    let chain = layers.chain(&[diff_id]).ok()?;
    chain.names(Path::new("")).unwrap();
    Some(layers.tree(&diff_id))
}

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
