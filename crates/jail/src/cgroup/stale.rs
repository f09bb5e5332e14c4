//! Groups that runs left behind.

use super::files::{open_dir, read_file};
use super::layout::{Access, Layout};
use super::name::{Owner, owner, start_time};
use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, flock, unlinkat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What a sweep did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub removed: Vec<PathBuf>,
    /// Ownerless groups that could not go, nearly always since processes are
    /// still in them.
    pub left: Vec<PathBuf>,
}

/// Removes empty groups whose owner is gone from all trees of `layout`.
///
/// An owner of another pid namespace looks gone from here, but holds a lock on its groups.
/// Nothing is killed: the processes of a run die with its PID 1.
pub fn remove_stale(layout: &Layout) -> Swept {
    let unified = layout.v2.iter().map(|place| (&place.dir, &place.access));
    let legacy = layout.v1.iter().map(|tree| (&tree.dir, &tree.access));
    let mut swept = Swept::default();
    for (dir, access) in unified.chain(legacy) {
        if *access == Access::Writable {
            // A tree that cannot be listed has nothing that we could remove.
            sweep(dir, &mut swept).ok();
        }
    }
    swept
}

fn sweep(dir: &Path, swept: &mut Swept) -> Result<(), Errno> {
    let fd = open_dir(CWD, dir)?;
    for entry in Dir::read_from(&fd)?.flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        if owner(name).is_none_or(is_alive) {
            continue;
        }
        if is_held(&fd, name) {
            continue;
        }
        match unlinkat(&fd, name, AtFlags::REMOVEDIR) {
            Ok(()) => swept.removed.push(dir.join(name)),
            Err(Errno::NOENT) => {}
            Err(_) => swept.left.push(dir.join(name)),
        }
    }
    Ok(())
}

/// Whether somebody has the lock that whoever makes a group takes.
fn is_held(parent: &OwnedFd, name: &str) -> bool {
    open_dir(parent, name).is_ok_and(|group| {
        flock(&group, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    })
}

fn is_alive(owner: Owner) -> bool {
    match read_file(CWD, &format!("/proc/{}/stat", owner.pid)) {
        Ok(stat) => start_time(&stat) == Some(owner.start),
        Err(Errno::NOENT | Errno::SRCH) => false,
        // Whatever cannot be read is left alone.
        Err(_) => true,
    }
}
