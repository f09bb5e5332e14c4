//! Directories of installed programs.

use crate::spec::{Entry, What};
use rustix::fs::{AtFlags, FileType};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where distributions and package managers install programs. A link among
/// them (as on merged-/usr systems) becomes a link inside.
///
/// Of `/nix` without the socket of its daemon, which is root and has the network.
const PLACES: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/gnu",
    "/snap",
    "/home/linuxbrew",
];

/// The installed system, read-only.
#[must_use]
pub fn system() -> Vec<Entry> {
    PLACES.iter().filter_map(|place| entry(Path::new(place))).collect()
}

/// The private directories that every program expects.
#[must_use]
pub fn own() -> Vec<Entry> {
    vec![
        Entry::new("/dev", What::Devices),
        Entry::private("/dev/shm", 0o1777),
        Entry::private("/tmp", 0o1777),
        Entry::private("/run", 0o755),
        Entry::link("/var/tmp", "/tmp"),
        Entry::link("/var/run", "/run"),
    ]
}

/// The places of [`system`] that hold programs, for explanations.
pub fn places() -> impl Iterator<Item = &'static Path> {
    PLACES.iter().map(|place| Path::new(*place))
}

fn entry(place: &Path) -> Option<Entry> {
    let stat = rustix::fs::statat(rustix::fs::CWD, place, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if place == Path::new(OFTEN_EMPTY) && is_empty(place) => None,
        FileType::Directory => Some(Entry::system(place)),
        FileType::Symlink => {
            let target = rustix::fs::readlink(place, Vec::new()).ok()?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            Some(Entry::link(place, target))
        }
        _ => None,
    }
}

/// A bind costs more than a look.
const OFTEN_EMPTY: &str = "/opt";

fn is_empty(place: &Path) -> bool {
    std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none())
}
