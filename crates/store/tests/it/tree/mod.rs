//! Trees that are copied as a whole.

mod ahead;
mod copy;
mod disks;
mod listing;
mod stacks;

use crate::support::{as_root_and_user, is_root};
use atoll_store::tree::{self, Copied, CopyError, Index, Previous};
use listing::Listing;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tree to be copied, and its copies beside it.
struct Case {
    _root: tempfile::TempDir,
    base: PathBuf,
    indices: Vec<Index>,
}

impl Case {
    fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// On another file system.
    fn within(dir: &Path) -> Self {
        let root = tempfile::Builder::new().prefix("atoll-tree-").tempdir_in(dir).unwrap();
        let base = root.path().to_owned();
        fs::create_dir(base.join("source")).unwrap();
        Self { _root: root, base, indices: Vec::new() }
    }

    fn source(&self) -> PathBuf {
        self.base.join("source")
    }

    /// The copy of this number.
    fn copied(&self, number: usize) -> PathBuf {
        self.base.join(format!("copy-{number}"))
    }

    /// Runs a script in the tree.
    #[track_caller]
    fn run(&self, script: &str) {
        crate::support::run_script(Command::new("bash").current_dir(self.source()), script);
    }

    /// Makes the next copy, which may link to the one before.
    fn try_copy(&mut self, is_canceled: &dyn Fn() -> bool) -> Result<Copied, CopyError> {
        let number = self.indices.len();
        fs::create_dir(self.copied(number)).unwrap();
        let open = |path: &Path| File::open(path).unwrap();
        let (source, destination) = (open(&self.source()), open(&self.copied(number)));
        let before = number.checked_sub(1).map(|before| open(&self.copied(before)));
        let previous = before
            .as_ref()
            .zip(self.indices.last())
            .map(|(tree, index)| Previous { tree: tree.as_fd(), index });
        let (copied, index) =
            tree::copy(source.as_fd(), destination.as_fd(), previous, is_canceled)?;
        // As it is used: by way of the disk.
        let (base, name) = (open(&self.base), format!("index-{number}"));
        index.save(base.as_fd(), OsStr::new(&name)).unwrap();
        let loaded = Index::load(base.as_fd(), OsStr::new(&name)).unwrap();
        assert_eq!(loaded.len(), index.len());
        self.indices.push(loaded);
        Ok(copied)
    }

    #[track_caller]
    fn copy(&mut self) -> Copied {
        self.try_copy(&|| false).unwrap()
    }

    /// Checks that the last copy is as the source.
    #[track_caller]
    fn check(&self) {
        let last = self.indices.len() - 1;
        Listing::of(&self.copied(last)).assert_is(&Listing::of(&self.source()));
    }

    /// Whether anything is linked here; says so if not.
    fn links(&self) -> bool {
        const EXT4_XFS_BTRFS: [u32; 3] = [0xef53, 0x5846_5342, 0x9123_683e];
        let kind = rustix::fs::statfs(&self.base).unwrap().f_type;
        let links = u32::try_from(kind).is_ok_and(|kind| EXT4_XFS_BTRFS.contains(&kind));
        if !links {
            let reason = "temporary files lie on a file system whose times are not relied on";
            atoll_testkit::skip::skip("tree-links", reason);
        }
        links
    }

    /// Waits until what was done so far shows in other times than what will be.
    fn tick() {
        atoll_testkit::clock::wait_for_next_tick();
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        // Modes would keep an ordinary user from cleaning up.
        Command::new("chmod").args(["-R", "u+rwX"]).arg(&self.base).output().ok();
    }
}
