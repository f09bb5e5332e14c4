//! The tree made anew, alike in all that belongs to it.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags, fchmod, fchown, fgetxattr,
    flistxattr, fremovexattr, fsetxattr, fstat, futimens, linkat, mkdirat, openat,
};
use rustix::io::Errno;

use super::bounds::Bounds;
use super::directory::{DIRECTORY, Listed, OWN, READ, is_directory, look, mode, names};
use super::made::{Id, Made, id};
use super::stop::Stop;

/// Makes the tree anew in the staging directory.
pub(super) struct Build<'a> {
    top: BorrowedFd<'a>,
    /// Of the directory that is being filled, from the top, with a last slash.
    path: Vec<u8>,
    left: u64,
    depth_left: usize,
    /// Files with several names, and the first one here of each.
    first_names: HashMap<Id, CString>,
    /// Directories that shut out even their owner once all is made, with their
    /// modes; until then a first name may be in them.
    pub(super) narrow: Vec<(CString, Mode)>,
    pub(super) made: Made,
}

impl<'a> Build<'a> {
    /// `top` is the staging directory, which is empty.
    pub(super) fn new(top: BorrowedFd<'a>, bounds: Bounds) -> Self {
        Self {
            top,
            path: Vec::new(),
            left: bounds.entries,
            depth_left: bounds.depth + 1,
            first_names: HashMap::new(),
            narrow: Vec::new(),
            made: Made::default(),
        }
    }

    /// Fills `made`, an empty directory, from `source` and makes it alike, but
    /// for what the owner may do with it.
    pub(super) fn directory(&mut self, source: &Listed, made: BorrowedFd<'_>) -> Result<(), Stop> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(Stop::TooDeep)?;
        for name in names(source.fd.as_fd())? {
            self.left = self.left.checked_sub(1).ok_or(Stop::TooManyEntries)?;
            let Some(found) = look(source.fd.as_fd(), &name)? else { continue };
            if is_directory(&found) {
                let below = Listed::open(source.fd.as_fd(), &name, READ)?;
                mkdirat(made, &name, OWN)?;
                let new = openat(made, &name, DIRECTORY, Mode::empty())?;
                let length = self.path.len();
                self.path.extend(name.to_bytes());
                self.path.push(b'/');
                self.directory(&below, new.as_fd())?;
                self.path.truncate(length);
                let wanted = mode(&below.found);
                if !wanted.contains(OWN) {
                    let path = [&self.path, name.to_bytes()].concat();
                    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
                    self.narrow.push((path, wanted));
                }
            } else {
                self.link(source.fd.as_fd(), &name, &found, made)?;
            }
        }
        self.depth_left += 1;
        dress(source, made)
    }

    /// Gives a file its name here. Names of one file stay names of one file,
    /// which copying each of them up would not keep.
    fn link(
        &mut self,
        source: BorrowedFd<'_>,
        name: &CStr,
        found: &Stat,
        made: BorrowedFd<'_>,
    ) -> Result<(), Stop> {
        self.made.files.insert(id(found));
        if found.st_nlink > 1 {
            if let Some(first) = self.first_names.get(&id(found)) {
                return Ok(linkat(self.top, first, made, name, AtFlags::empty())?);
            }
            let path = [&self.path, name.to_bytes()].concat();
            let path = CString::new(path).map_err(|_| Errno::INVAL)?;
            self.first_names.insert(id(found), path);
        }
        linkat(source, name, made, name, AtFlags::empty())?;
        // Copying a file up may change its number.
        let now = look(source, name)?;
        self.made.files.extend(now.map(|now| id(&now)));
        Ok(())
    }
}

/// Gives a new directory what belongs to the old one; its owner keeps all rights.
fn dress(source: &Listed, made: BorrowedFd<'_>) -> Result<(), Stop> {
    let (old, new) = (&source.found, fstat(made)?);
    let differs = |old: u32, new: u32| (old != new).then_some(old);
    let uid = differs(old.st_uid, new.st_uid).map(Uid::from_raw);
    let gid = differs(old.st_gid, new.st_gid).map(Gid::from_raw);
    if uid.is_some() || gid.is_some() {
        fchown(made, uid, gid)?;
    }
    let wanted = attributes(source.fd.as_fd())?;
    for name in attributes(made)? {
        if !wanted.contains(&name) {
            fremovexattr(made, name.as_c_str())?;
        }
    }
    for name in wanted {
        // No attribute is larger (xattr(7)).
        let mut value = vec![0; 1 << 16];
        let length = fgetxattr(&source.fd, name.as_c_str(), &mut value)?;
        fsetxattr(made, name.as_c_str(), &value[..length], XattrFlags::empty())?;
    }
    fchmod(made, mode(old) | OWN)?;
    let last_access = Timespec { tv_sec: old.st_atime, tv_nsec: old.st_atime_nsec.cast_signed() };
    let last_modification =
        Timespec { tv_sec: old.st_mtime, tv_nsec: old.st_mtime_nsec.cast_signed() };
    Ok(futimens(made, &Timestamps { last_access, last_modification })?)
}

/// The attributes that a directory's owner decides on.
fn attributes(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut list = vec![0; 1 << 16];
    let length = match flistxattr(directory, &mut list) {
        Err(Errno::NOTSUP) => 0,
        other => other?,
    };
    let is_own =
        |name: &&[u8]| name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_");
    let names = list[..length].split(|byte| *byte == 0).filter(is_own);
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}
