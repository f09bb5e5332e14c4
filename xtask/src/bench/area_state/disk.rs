//! A file system in a file, so that each kind can be had anywhere.

use crate::process;
use anyhow::{Context as _, Result, ensure};
use rustix::mount::{UnmountFlags, unmount};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What kind of file system.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Neither shares blocks nor has subvolumes.
    Ext4,
    /// Has both.
    Btrfs,
}

/// Room for some copies of all files, in bytes. It is sparse.
const BYTES: u64 = 3 << 30;
/// Files of 1 KiB, thousands of times over.
const INODES: &str = "1000000";

/// Mounted; it goes with this.
pub(super) struct Disk {
    directory: TempDir,
    mount: PathBuf,
}

impl Disk {
    pub(super) fn new(scratch: &Path, kind: Kind) -> Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "only root can mount a file system");
        let directory = tempfile::Builder::new().prefix("disk-").tempdir_in(scratch)?;
        let (image, mount) = (directory.path().join("image"), directory.path().join("mount"));
        File::create(&image)?.set_len(BYTES).context("cannot make a file for it")?;
        std::fs::create_dir(&mount)?;
        let mut make = match kind {
            Kind::Ext4 => Command::new("mkfs.ext4"),
            Kind::Btrfs => Command::new("mkfs.btrfs"),
        };
        match kind {
            Kind::Ext4 => make.args(["-q", "-N", INODES]),
            Kind::Btrfs => make.arg("-q"),
        };
        process::output(make.arg(&image))?;
        process::output(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount))?;
        Ok(Self { directory, mount })
    }

    pub(super) fn path(&self) -> &Path {
        &self.mount
    }

    /// What is taken on it, in KiB.
    pub(super) fn used_kib(&self) -> Result<u64> {
        let root = File::open(&self.mount)?;
        rustix::fs::syncfs(&root)?;
        let found = rustix::fs::fstatvfs(&root)?;
        Ok((found.f_blocks - found.f_bfree) * found.f_frsize / 1024)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.mount, UnmountFlags::DETACH) {
            eprintln!("{} stays mounted: {error}", self.directory.path().display());
        }
    }
}
