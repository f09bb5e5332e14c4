//! Where the repository and its packages are, as cargo sees them.

use crate::process;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The part of `cargo metadata` that the tasks read.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<DependencyKind>,
}

/// A dependency without a kind is a normal one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DependencyKind {
    Dev,
    Build,
}

/// The root of the repository: the parent of this crate's folder.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies one folder below the root")
}

/// The workspace's own packages; needs no network.
pub(crate) fn metadata() -> Result<Metadata> {
    let mut cargo = process::cargo();
    cargo.args(["metadata", "--format-version", "1", "--no-deps"]);
    let json = process::output(&mut cargo)?;
    serde_json::from_str(&json).context("cannot read what `cargo metadata` printed")
}

/// Files that are committed or would be, relative to the root.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let listing = process::output(git.current_dir(root()))?;
    let mut files: Vec<PathBuf> =
        listing.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    // A file that was deleted but not yet staged is still in the index.
    files.retain(|file| root().join(file).symlink_metadata().is_ok());
    Ok(files)
}
