//! Owners, modes, attributes and times, carried over exactly.

use super::copy::Step;
use crate::beneath::{chmod, proc_path};
use crate::node::{FileKind, Stamp, Time};
use rustix::fs::{AtFlags, Gid, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::{Errno, Result};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Most files have few attributes, and short ones.
const USUAL: usize = 512;
/// The kernel's own limit (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const LONGEST: usize = 64 * 1024;

/// Attributes of one file.
pub(super) type Attributes = Vec<(OsString, Vec<u8>)>;

/// Whether an attribute belongs to the file rather than to the machine, as a label of
/// its security policy does.
fn is_kept(name: &OsStr) -> bool {
    const EXACT: [&[u8]; 3] =
        [b"security.capability", b"system.posix_acl_access", b"system.posix_acl_default"];
    let name = name.as_bytes();
    name.starts_with(b"user.") || name.starts_with(b"trusted.") || EXACT.contains(&name)
}

/// All attributes that are kept, of what `fd` refers to, also by `O_PATH`.
pub(super) fn read(fd: impl AsFd) -> Result<Attributes> {
    let path = proc_path(&fd);
    let names = match filled(|buffer| rustix::fs::listxattr(&path, buffer)) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        names => names?,
    };
    let mut attributes = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsString::from_vec(name.to_vec());
        if !is_kept(&name) {
            continue;
        }
        let value = filled(|buffer| rustix::fs::getxattr(&path, &name, buffer))?;
        attributes.push((name, value));
    }
    Ok(attributes)
}

/// Takes away what a new file has from where it was made, such as a default access list.
pub(super) fn clear(fd: impl AsFd) -> Result<()> {
    let path = proc_path(&fd);
    for (name, _) in read(fd)? {
        rustix::fs::removexattr(&path, name)?;
    }
    Ok(())
}

fn filled(call: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut usual = [0; USUAL];
    match call(&mut usual) {
        Ok(length) => return Ok(usual[..length].to_vec()),
        Err(Errno::RANGE) => {}
        Err(error) => return Err(error),
    }
    let mut longest = vec![0; LONGEST];
    let length = call(&mut longest)?;
    longest.truncate(length);
    Ok(longest)
}

/// Gives what `fd` refers to, just made by us, everything that `stamp` and `attributes`
/// say. In this order none undoes another: a new owner takes set-user-id bits and
/// capabilities away, and access lists change mode bits.
pub(super) fn set(
    fd: impl AsFd,
    stamp: &Stamp,
    attributes: &Attributes,
) -> std::result::Result<(), (Step, Errno)> {
    let fd = fd.as_fd();
    let found = crate::beneath::stamp(fd).map_err(|error| (Step::Inspect, error))?;
    if (found.uid, found.gid) != (stamp.uid, stamp.gid) {
        let uid = (found.uid != stamp.uid).then(|| Uid::from_raw(stamp.uid));
        let gid = (found.gid != stamp.gid).then(|| Gid::from_raw(stamp.gid));
        rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)
            .map_err(|error| (Step::SetOwner, error))?;
    }
    if !attributes.is_empty() {
        let path = proc_path(&fd);
        for (name, value) in attributes {
            rustix::fs::setxattr(&path, name, value, XattrFlags::empty())
                .map_err(|error| (Step::SetAttribute, error))?;
        }
    }
    // Without owner and attributes changed, the mode is what it was made with.
    let is_changed = found.mode != stamp.mode || !attributes.is_empty();
    if stamp.kind != FileKind::Symlink && is_changed {
        chmod(fd, stamp.mode).map_err(|error| (Step::SetMode, error))?;
    }
    let times =
        Timestamps { last_access: timespec(stamp.atime), last_modification: timespec(stamp.mtime) };
    rustix::fs::utimensat(fd, "", &times, AtFlags::EMPTY_PATH)
        .map_err(|error| (Step::SetTimes, error))
}

fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() }
}
