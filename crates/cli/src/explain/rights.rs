//! What is in the view still has an owner and a mode.

use super::outside::Seen;
use crate::run::Outline;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    Read,
    Write,
}

/// Whether the workload's user may, as far as owners and modes go. What does not
/// exist is asked of the directory that it would be made in.
pub(super) fn allow(outline: &Outline, seen: &Seen<'_>, place: &Path, right: Right) -> bool {
    let exists = std::fs::symlink_metadata(place).is_ok();
    let asked = place.ancestors().find(|path| std::fs::symlink_metadata(path).is_ok());
    let Some(asked) = asked else { return true };
    if !exists && right == Right::Read {
        return true;
    }
    if !rustix::process::geteuid().is_root() {
        // The caller is the workload: the kernel knows best.
        let access = match (right, exists) {
            (Right::Read, _) => Access::READ_OK,
            (Right::Write, true) => Access::WRITE_OK,
            (Right::Write, false) => Access::WRITE_OK | Access::EXEC_OK,
        };
        let found = rustix::fs::accessat(CWD, asked, access, AtFlags::EACCESS);
        return found != Err(Errno::ACCESS);
    }
    let wanted = match (right, exists) {
        (Right::Read, _) => 4,
        (Right::Write, true) => 2,
        (Right::Write, false) => 3,
    };
    let is_mapped = outline.mapped.contains(&seen.entry.at);
    let mut between = asked.ancestors().skip(1).take_while(|path| path.starts_with(seen.tree));
    bits(outline, asked, is_mapped) & wanted == wanted
        && between.all(|path| bits(outline, path, is_mapped) & 1 == 1)
}

/// The bits of the mode that count for the workload (inode(7)); access control
/// lists are not looked at. In a mapped tree root's files are the workload's own.
fn bits(outline: &Outline, path: &Path, is_mapped: bool) -> u32 {
    let Ok(found) = std::fs::metadata(path) else { return 0 };
    let user = outline.user;
    let own = |id: u32, inside: u32, outside: u32| id == if is_mapped { inside } else { outside };
    let shift = if own(found.uid(), user.inside_uid, user.outside_uid) {
        6
    } else if own(found.gid(), user.inside_gid, user.outside_gid) {
        3
    } else {
        0
    };
    found.mode() >> shift & 7
}
