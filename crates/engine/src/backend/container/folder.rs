//! Folders of the host that are shown in sandboxes as volumes.
//!
//! A server of root's shows what belongs to the folder's owner and group as the sandbox user's own,
//! and everything else as nobody's: so what the sandbox writes belongs to that owner on the host. A
//! folder of root's is only read, for what is written there could have root's power on the host.

use super::Container;
use super::identity::Ids;
use crate::backend::BackendError;
use atoll_spawner::order::Owners;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::path::Path;

/// A folder as it is now.
pub(super) struct Folder {
    /// Its device and inode.
    pub(super) identity: (u64, u64),
    owner: (u32, u32),
}

impl Folder {
    /// Whose its files are to who has these ids.
    pub(super) fn owners(&self, ids: Ids) -> Owners {
        match ids {
            Ids::Own { .. } => Owners::Own,
            Ids::Block(_) => {
                let ((uid, gid), (outside_uid, outside_gid)) = (self.owner, ids.user());
                Owners::Account { uid, gid, outside_uid, outside_gid }
            }
        }
    }
}

/// Looks at a folder, if no part of its path is a link and it may be given away like this.
pub(super) fn look(path: &Path, state: &Path, is_writable: bool) -> Result<Folder, BackendError> {
    let refused =
        |reason: &str| BackendError::Folder { path: path.to_owned(), reason: reason.to_owned() };
    let (flags, resolve) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::NO_SYMLINKS);
    let opened = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve);
    let opened = opened.map_err(|errno| match errno {
        Errno::LOOP => refused("a part of its path is a symbolic link"),
        errno => refused(&std::io::Error::from(errno).to_string()),
    })?;
    let found: Stat = rustix::fs::fstat(&opened).map_err(|errno| refused(&errno.to_string()))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Err(refused("it is no directory"));
    }
    if path.starts_with(state) || state.starts_with(path) {
        return Err(refused("the server keeps its own files there"));
    }
    let is_roots = found.st_uid == 0 || found.st_gid == 0;
    if is_writable && is_roots && rustix::process::geteuid().is_root() {
        return Err(refused("it belongs to root or root's group, so that it can only be read"));
    }
    Ok(Folder { identity: (found.st_dev, found.st_ino), owner: (found.st_uid, found.st_gid) })
}

impl Container {
    pub(super) fn look_at_folder(
        &self,
        path: &Path,
        is_writable: bool,
    ) -> Result<(), BackendError> {
        look(path, self.places.state(), is_writable).map(drop)
    }
}
