//! Files of the project that belong to somebody else. Inside they are nobody's,
//! and can often not be changed where the caller could: root has become one user,
//! and an overlay copies no file of an owner that the sandbox does not have.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Whose files the command takes for its own, where that is less than outside.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) root: PathBuf,
    /// On the host.
    pub(super) uid: u32,
}

/// Names of the project's directory that are looked at, at most.
const LOOKED_AT_MAX: usize = 1000;

impl Owned {
    /// Names in the project's directory whose owner is another. What lies deeper
    /// most often comes with one of these.
    pub(super) fn others(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.root) else { return Vec::new() };
        let is_other = |entry: &std::fs::DirEntry| {
            entry.metadata().is_ok_and(|metadata| metadata.uid() != self.uid)
        };
        let others = entries.take(LOOKED_AT_MAX).flatten().filter(is_other);
        let mut names: Vec<String> =
            others.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}
