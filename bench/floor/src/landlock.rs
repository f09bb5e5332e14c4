//! The second wall around files: six rules.

use crate::kernel::{self, LandlockRuleset};
use crate::view::View;
use anyhow::{Context as _, Result};
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd as _;
use std::path::Path;

/// Rights of a file and of a directory: landlock(7), `LANDLOCK_ACCESS_FS_*`.
mod access {
    pub(super) const EXECUTE: u64 = 1 << 0;
    pub(super) const WRITE_FILE: u64 = 1 << 1;
    pub(super) const READ_FILE: u64 = 1 << 2;
    pub(super) const READ_DIR: u64 = 1 << 3;
    /// All rights of the first version.
    pub(super) const FIRST: u64 = (1 << 13) - 1;
    /// Moving between directories; refused everywhere unless handled.
    pub(super) const REFER: u64 = 1 << 13;
    pub(super) const TRUNCATE: u64 = 1 << 14;
    pub(super) const IOCTL_DEV: u64 = 1 << 15;
}

/// No abstract sockets and no signals to outside: `LANDLOCK_SCOPE_*`.
const SCOPES: u64 = 0b11;

pub(crate) fn restrict(view: &View) -> Result<()> {
    let version = kernel::landlock_version().context("the kernel has no Landlock")?;
    let all = match version {
        ..2 => access::FIRST,
        2 => access::FIRST | access::REFER,
        3..5 => access::FIRST | access::REFER | access::TRUNCATE,
        5.. => access::FIRST | access::REFER | access::TRUNCATE | access::IOCTL_DEV,
    };
    let scoped = if version >= 6 { SCOPES } else { 0 };
    let ruleset = LandlockRuleset { access_fs: all, access_net: 0, scoped };
    let ruleset = kernel::landlock_ruleset(&ruleset).context("cannot make a Landlock ruleset")?;
    let read = access::EXECUTE | access::READ_FILE | access::READ_DIR;
    let device = read | access::WRITE_FILE | (all & access::IOCTL_DEV);
    let rules: [(&Path, u64); 6] = [
        (Path::new("/"), read),
        (Path::new("/dev"), device),
        (Path::new("/dev/shm"), all),
        (Path::new("/tmp"), all),
        (&view.home, all),
        (&view.project, all),
    ];
    for (path, allowed) in rules {
        let parent = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .with_context(|| format!("cannot open {}", path.display()))?;
        kernel::landlock_allow(ruleset.as_fd(), parent.as_fd(), allowed)
            .with_context(|| format!("cannot add a Landlock rule for {}", path.display()))?;
    }
    kernel::landlock_restrict(ruleset.as_fd()).context("cannot enforce Landlock")
}
