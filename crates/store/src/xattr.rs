//! Reading and writing extended attributes of exactly one object.
//!
//! The calls go through `/proc/self/fd`, because the f-variants refuse `O_PATH`
//! descriptors and need read permission. Source: xattr(7), proc_pid_fd(5).

use crate::beneath::proc_path;
use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The kernel's own limit on one value and on the list (`XATTR_SIZE_MAX`,
/// `XATTR_LIST_MAX`): nothing longer can exist.
const LONGEST: usize = 64 * 1024;

/// Attributes that belong to the file as its user sees it, by name.
pub(crate) type Xattrs = BTreeMap<OsString, Vec<u8>>;

/// One attribute, or nothing when the file does not have it, may not have one
/// or lies on a file system without them.
pub(crate) fn get(fd: impl AsFd, name: &OsStr) -> Result<Option<Vec<u8>>> {
    let mut value = vec![0; LONGEST];
    match rustix::fs::getxattr(proc_path(&fd), name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::NOTSUP | Errno::PERM) => Ok(None),
        Err(error) => Err(error),
    }
}

fn list(fd: impl AsFd) -> Result<Vec<OsString>> {
    let mut names = vec![0; LONGEST];
    match rustix::fs::listxattr(proc_path(&fd), names.as_mut_slice()) {
        Ok(length) => {
            names.truncate(length);
            let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            Ok(names.map(|name| OsString::from_vec(name.to_vec())).collect())
        }
        Err(Errno::NOTSUP) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether an attribute is carried over: `user.*` and the access lists.
///
/// `user.overlay.*` never is: on a project it would be read as overlay
/// markings by the next session. Capabilities and security labels are not the
/// sandbox's to set.
fn is_carried(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let acl = name == b"system.posix_acl_access" || name == b"system.posix_acl_default";
    acl || (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
}

/// All attributes of a file that are compared and carried over.
pub(crate) fn carried(fd: impl AsFd) -> Result<Xattrs> {
    let fd = fd.as_fd();
    let mut xattrs = Xattrs::new();
    for name in list(fd)?.into_iter().filter(|name| is_carried(name)) {
        if let Some(value) = get(fd, &name)? {
            xattrs.insert(name, value);
        }
    }
    Ok(xattrs)
}

/// Makes the carried attributes of a file exactly `wanted`.
pub(crate) fn make_equal(fd: impl AsFd, wanted: &Xattrs) -> Result<()> {
    let fd = fd.as_fd();
    let present = carried(fd)?;
    for name in present.keys().filter(|name| !wanted.contains_key(*name)) {
        rustix::fs::removexattr(proc_path(&fd), name)?;
    }
    for (name, value) in wanted.iter().filter(|(name, value)| present.get(*name) != Some(value)) {
        rustix::fs::setxattr(proc_path(&fd), name, value, XattrFlags::empty())?;
    }
    Ok(())
}
