//! Where contestants work.

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, UnmountFlags};
use std::path::Path;
use tempfile::TempDir;

/// A directory that goes when this does: in memory where the caller may mount,
/// so that the mood of a disk is not measured.
pub(super) struct Scratch {
    directory: TempDir,
    is_mounted: bool,
}

impl Scratch {
    pub(super) fn new() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("atoll-bench-").tempdir()?;
        let options = c"size=4g,mode=755";
        let is_mounted = rustix::process::geteuid().is_root();
        if is_mounted {
            rustix::mount::mount(
                "atoll-bench",
                directory.path(),
                "tmpfs",
                MountFlags::NOSUID | MountFlags::NODEV,
                options,
            )
            .context("cannot mount a file system in memory")?;
        }
        Ok(Self { directory, is_mounted })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_mounted {
            // The working directory is below it.
            std::env::set_current_dir("/").ok();
            rustix::mount::unmount(self.directory.path(), UnmountFlags::DETACH).ok();
        }
    }
}
