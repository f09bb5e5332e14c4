//! Places in the tree that is being unpacked.
//!
//! Names are resolved by the kernel as a program inside the image would see
//! them: `openat2` with `RESOLVE_IN_ROOT`, so that links, absolute ones too, lead
//! to places in the tree and nowhere else. A root file system needs that:
//! `lib/x` often goes through `lib -> usr/lib`.

use super::unpack::UnpackError;
use crate::beneath;
use crate::node::FileKind;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result as OsResult};
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// A path from the archive, made relative to the root. The root itself is empty.
///
/// `..` is refused rather than resolved: no archiver writes it.
pub(super) fn inside(path: &Path) -> Result<PathBuf, UnpackError> {
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(UnpackError::Escapes { path: path.to_owned() });
            }
        }
    }
    if inside.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(UnpackError::Escapes { path: path.to_owned() });
    }
    Ok(inside)
}

/// Opens a place as a program inside would.
pub(super) fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> OsResult<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    loop {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other,
        }
    }
}

pub(super) fn open_dir(root: BorrowedFd<'_>, path: &Path) -> OsResult<OwnedFd> {
    open(root, path, OFlags::PATH | OFlags::DIRECTORY)
}

/// The directory that is to hold `path`, made with all above it if it is not
/// there, and the last name.
pub(super) fn parent(
    root: BorrowedFd<'_>,
    path: &Path,
) -> Result<(OwnedFd, OsString), UnpackError> {
    let name = path.file_name().unwrap_or(OsStr::new(".")).to_owned();
    let above = path.parent().unwrap_or(Path::new(""));
    let error = |source: Errno| UnpackError::Write { path: path.to_owned(), source: source.into() };
    match open_dir(root, above) {
        Ok(dir) => return Ok((dir, name)),
        Err(Errno::NOENT) => {}
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return Err(UnpackError::InTheWay { path: path.to_owned() });
        }
        Err(source) => return Err(error(source)),
    }
    let mut made = PathBuf::new();
    let mut dir = open_dir(root, &made).map_err(error)?;
    for part in above {
        made.push(part);
        dir = match open_dir(root, &made) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&dir, part, Mode::from_raw_mode(0o755)) {
                    Ok(()) => {}
                    // A link that leads to nothing.
                    Err(Errno::EXIST) => {
                        return Err(UnpackError::InTheWay { path: path.to_owned() });
                    }
                    Err(source) => return Err(error(source)),
                }
                open_dir(root, &made).map_err(error)?
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(UnpackError::InTheWay { path: path.to_owned() });
            }
            Err(source) => return Err(error(source)),
        };
    }
    Ok((dir, name))
}

/// Frees a name for a new file: a later entry of the same name wins, except over
/// a directory that holds something.
pub(super) fn clear(dir: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), UnpackError> {
    let error = |source: Errno| UnpackError::Write { path: path.to_owned(), source: source.into() };
    let flags = match beneath::look(dir, name).map_err(error)? {
        None => return Ok(()),
        Some(found) if found.kind == FileKind::Dir => AtFlags::REMOVEDIR,
        Some(_) => AtFlags::empty(),
    };
    match rustix::fs::unlinkat(dir, name, flags) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(UnpackError::InTheWay { path: path.to_owned() }),
        other => other.map_err(error),
    }
}
