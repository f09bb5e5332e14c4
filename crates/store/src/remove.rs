//! Deleting a tree that may be hostile: any depth, any mode, by descriptor.

use crate::beneath;
use crate::node::FileKind;
use rustix::fs::{AtFlags, OFlags, RenameFlags};
use rustix::io::{Errno, Result};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Deletes `name` in `dir` with everything in it. That it is not there is fine.
///
/// Directories that are not empty are first moved up into the top one, so that
/// only ever two levels are worked on, however deep the tree is. Nothing but another
/// subvolume of btrfs can be moved out of one, so a subvolume is cleared where it is; root
/// just has it deleted.
///
/// # Errors
///
/// Those of unlinkat(2) and renameat2(2); what is left can be deleted by another call.
pub fn remove(dir: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // Directories: EISDIR on Linux, EPERM by POSIX.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    let top = enter(dir, name)?;
    if is_subvolume(&top)? && is_destroyed(dir, name)? {
        return Ok(());
    }
    let mut moved = Moved::default();
    loop {
        let subvolumes = clear(top.as_fd(), top.as_fd(), &mut moved)?;
        if subvolumes.is_empty() {
            break;
        }
        for name in subvolumes {
            if is_destroyed(top.as_fd(), &name)? {
                continue;
            }
            let inner = enter(top.as_fd(), &name)?;
            clear(inner.as_fd(), top.as_fd(), &mut moved)?;
            rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
}

/// Deletes what is in `top`, but for subvolumes that are not empty: they are moved to
/// `aside`, or named where that is the same.
fn clear(top: BorrowedFd<'_>, aside: BorrowedFd<'_>, moved: &mut Moved) -> Result<Vec<OsString>> {
    let is_aside = beneath::stamp(top)?.id() == beneath::stamp(aside)?.id();
    loop {
        let (mut subvolumes, mut is_empty) = (Vec::new(), true);
        for name in beneath::names(top, Path::new(""))? {
            if is_removed(top, &name)? {
                continue;
            }
            let inner = enter(top, &name)?;
            if is_subvolume(&inner)? {
                if is_aside {
                    subvolumes.push(name);
                } else {
                    move_up(top, &name, aside, moved)?;
                }
                continue;
            }
            is_empty = false;
            for below in beneath::names(inner.as_fd(), Path::new(""))? {
                if !is_removed(inner.as_fd(), &below)? {
                    // Moving a directory writes its "..".
                    drop(enter(inner.as_fd(), &below)?);
                    move_up(inner.as_fd(), &below, top, moved)?;
                }
            }
            rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
        if is_empty {
            return Ok(subvolumes);
        }
    }
}

fn is_subvolume(dir: &OwnedFd) -> Result<bool> {
    crate::tree::is_subvolume_root(dir.as_fd())
}

/// Has the kernel delete a subvolume; says no where it leaves that to us.
fn is_destroyed(dir: BorrowedFd<'_>, name: &OsStr) -> Result<bool> {
    let dir = beneath::open(dir, Path::new(""), OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(atoll_sys::btrfs::destroy_subvolume(dir.as_fd(), name).is_ok())
}

/// Opens a directory after making sure that its mode lets us.
fn enter(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    let fd = beneath::dir(dir, Path::new(name))?;
    let mode = beneath::stamp(&fd)?.mode;
    if mode & 0o700 != 0o700 {
        beneath::chmod(&fd, mode | 0o700)?;
    }
    Ok(fd)
}

/// Deletes a file or an empty directory; says no to one that is not empty.
fn is_removed(dir: BorrowedFd<'_>, name: &OsStr) -> Result<bool> {
    let is_dir = beneath::look(dir, name)?.is_some_and(|stamp| stamp.kind == FileKind::Dir);
    let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match rustix::fs::unlinkat(dir, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) if is_dir => Ok(false),
        Err(error) => Err(error),
    }
}

/// How many directories were moved up.
#[derive(Default)]
struct Moved(u64);

fn move_up(
    from: BorrowedFd<'_>,
    name: &OsStr,
    top: BorrowedFd<'_>,
    moved: &mut Moved,
) -> Result<()> {
    loop {
        moved.0 += 1;
        let to = OsString::from(moved.0.to_string());
        match rustix::fs::renameat_with(from, name, top, &to, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn deep_and_shut_trees_go() {
        let root = tempfile::tempdir().unwrap();
        let dir = beneath::open_root(root.path()).unwrap();
        let mut at = dir.try_clone().unwrap();
        for _ in 0..2100 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&at, "1", Mode::RWXU).unwrap();
            at = beneath::dir(at.as_fd(), Path::new("d")).unwrap();
        }
        std::fs::create_dir_all(root.path().join("d/shut/in")).unwrap();
        std::fs::set_permissions(root.path().join("d/shut"), PermissionsExt::from_mode(0o0))
            .unwrap();
        remove(dir.as_fd(), OsStr::new("d")).unwrap();
        assert_eq!(beneath::names(dir.as_fd(), Path::new("")).unwrap(), ["1"]);
        remove(dir.as_fd(), OsStr::new("nothing")).unwrap();
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("t")).unwrap();
        std::fs::write(root.path().join("kept"), "x").unwrap();
        std::os::unix::fs::symlink("..", root.path().join("t/up")).unwrap();
        let dir = beneath::open_root(root.path()).unwrap();
        remove(dir.as_fd(), OsStr::new("t")).unwrap();
        assert_eq!(beneath::names(dir.as_fd(), Path::new("")).unwrap(), ["kept"]);
    }
}
