//! No object of an archive writes outside of the directory that it is unpacked into, or makes us panic,
//! and what it says of itself keeps to its limits.
//!
//! What is not encrypted anybody can seal: the same bytes are also sealed and compressed as ours are,
//! or hardly any input would get past that.
#![no_main]

use atoll_store::Format;
use atoll_store::archive::{
    Destination, Expected, LAYERS_MAX, Manifest, ObjectName, Owners, Sealer, UnpackError,
    check_layer, read_manifest, unpack_layer,
};
use atoll_store::digest::Digest;
use atoll_store::room::{Quota, Room};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const ENTRIES_MAX: u64 = 64;
const PARTS: [&str; 2] = ["home", "upper"];
const ID: &str = "arc_0001020304050607abff";

fuzz_target!(|bytes: &[u8]| {
    for object in [bytes.to_vec(), sealed(bytes, &ObjectName::of_manifest(ID))] {
        let read: Result<Manifest<Value>, _> = read_manifest(&object, None, ID);
        if let Ok(manifest) = read {
            assert!(manifest.id == ID && manifest.layers.len() <= LAYERS_MAX);
            for layer in &manifest.layers {
                assert!(!layer.shown.contains(['/', '.']) && !layer.nonce.contains(['/', '.']));
            }
        }
    }
    let name = ObjectName::of_layer("n");
    let expected = Expected {
        digest: Digest::of(bytes),
        packed_bytes: bytes.len() as u64,
        entries: ENTRIES_MAX,
    };
    let compressed = zstd::encode_all(bytes, 1).unwrap();
    let object = sealed(&compressed, &name);
    // Whatever it means, it is what it is to be.
    check_layer(object.as_slice(), None, &name, &expected, &|| false).unwrap();
    for object in [bytes.to_vec(), object] {
        unpack(&object, &name, &expected);
    }
});

fn sealed(bytes: &[u8], name: &ObjectName) -> Vec<u8> {
    let mut sealer = Sealer::new(Vec::new(), None, name).unwrap();
    sealer.write_all(bytes).unwrap();
    sealer.finish().unwrap()
}

fn unpack(object: &[u8], name: &ObjectName, expected: &Expected) {
    let base = tempfile::tempdir_in(memory()).unwrap();
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(&outside, "untouched").unwrap();
    let before = outside.metadata().unwrap();
    let room = Room::new(&root, Quota { free_bytes: 0, images_bytes: Some(1 << 20) }, 0).unwrap();
    let (uid, gid) = (before.uid(), before.gid());
    let owners = Owners::One { uid, gid, inside: 1000 };
    let to = Destination { root: &root, parts: &PARTS, owners, format: Format::User, room: &room };
    let unpacked = unpack_layer(object, None, name, expected, &to, &|| false);
    assert!(!matches!(unpacked, Err(UnpackError::Canceled)));
    assert_eq!(std::fs::read(&outside).unwrap(), b"untouched");
    let after = outside.metadata().unwrap();
    assert_eq!((before.mode(), before.mtime_nsec()), (after.mode(), after.mtime_nsec()));
    let mut names: Vec<_> =
        std::fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["outside", "root"]);
    if unpacked.is_ok() {
        for entry in std::fs::read_dir(&root).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(PARTS.iter().any(|part| name == *part), "{name:?}");
        }
    }
    // One that nobody may look into could not be removed by who is not root.
    open_up(&root);
}

fn open_up(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).ok();
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Files in memory are made a few times faster.
fn memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}
