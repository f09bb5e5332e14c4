//! A layer's bytes as files again, whatever the bytes are.
//!
//! Nothing outside of the destination is reached: a record has one name in a directory that is
//! open, links are made and never followed, and going up leads to where was come from. What is made
//! is nobody's before the digest of all bytes is known to be right.

use super::Owners;
use super::code::{Decoder, Entry, Goes, Meta, Piece, wrong};
use crate::beneath::{self, chmod, proc_path};
use crate::overlay::{self, Format};
use crate::room::{NoRoom, Room};
use crate::tree::up;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// Names of files that may be named once more lie here meanwhile.
const NUMBERED: &str = ".numbered";
/// Longest file: more than any file system that there is here can hold.
const FILE_BYTES_MAX: u64 = 1 << 50;
/// Deepest directory.
const DEPTH_MAX: usize = 100_000;
/// What a file takes on a disk beside its content.
const ENTRY_BYTES: u64 = 512;

/// Where a layer goes.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'d> {
    /// An empty directory.
    pub root: &'d Path,
    /// The directories that may be in it.
    pub parts: &'d [&'d str],
    /// Whose the files are to be.
    pub owners: Owners,
    /// How overlays keep marks here.
    pub format: Format,
    /// What may be written.
    pub room: &'d Room,
}

/// Why a layer could not be unpacked. What was begun is left for the caller to remove.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Somebody does not want it any more.
    #[error("it was cancelled")]
    Canceled,
    /// It does not arrive, or is not what was packed. It may be of a
    /// [`SealError`](super::SealError).
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// It is another layer.
    #[error("it is not the layer that the archive names")]
    OtherDigest,
    /// It has more than the archive says that it has.
    #[error("it has more than {limit} {what}, which are all that the archive names")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many.
        limit: u64,
    },
    /// A directory of it lies elsewhere below, which only a server of root can have.
    #[error("{} was moved, which only a server that runs as root can show", path.display())]
    NeedsRoot {
        /// The directory.
        path: PathBuf,
    },
    /// The disk is full, or is not to be filled further.
    #[error("there is no room for it")]
    NoRoom(#[source] NoRoom),
    /// Something cannot be written.
    #[error("could not write {}", path.display())]
    Write {
        /// Which; relative to the layer.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes everything that comes, at most so many records.
pub(super) fn unpack(
    packed: impl Read,
    to: &Destination<'_>,
    entries_max: u64,
    is_canceled: &dyn Fn() -> bool,
) -> Result<(), UnpackError> {
    let top = |source: io::Error| UnpackError::Write { path: PathBuf::new(), source };
    let root = beneath::open_root(to.root).map_err(top)?;
    let private = Mode::RWXU;
    rustix::fs::mkdirat(&root, NUMBERED, private).map_err(|errno| top(errno.into()))?;
    let numbered = beneath::dir(root.as_fd(), Path::new(NUMBERED));
    let numbered = numbered.map_err(|errno| top(errno.into()))?;
    let id = beneath::stamp(&root).map_err(|errno| top(errno.into()))?.id();
    let mut unpacker = Unpacker {
        decoder: Decoder(packed),
        to,
        numbered,
        last_number: 0,
        dir: root.try_clone().map_err(top)?,
        levels: vec![Level { id, finish: None }],
        path: PathBuf::new(),
        left: entries_max,
        is_canceled,
    };
    unpacker.decoder.begin().map_err(UnpackError::Read)?;
    while unpacker.step()? {
        if unpacker.left == 0 {
            return Err(UnpackError::TooLarge { what: "entries", limit: entries_max });
        }
        unpacker.left -= 1;
        if is_canceled() {
            return Err(UnpackError::Canceled);
        }
    }
    crate::remove::remove(root.as_fd(), OsStr::new(NUMBERED)).map_err(|errno| top(errno.into()))
}

struct Level {
    id: (u64, u64),
    /// What the directory gets when everything is in it.
    finish: Option<(Meta, Goes, bool)>,
}

struct Unpacker<'u, R> {
    decoder: Decoder<R>,
    to: &'u Destination<'u>,
    numbered: OwnedFd,
    last_number: u32,
    dir: OwnedFd,
    levels: Vec<Level>,
    path: PathBuf,
    left: u64,
    is_canceled: &'u dyn Fn() -> bool,
}

impl<R: Read> Unpacker<'_, R> {
    /// Deals with the next record; nothing follows on the last one.
    fn step(&mut self) -> Result<bool, UnpackError> {
        let entry = self.decoder.entry().map_err(UnpackError::Read)?;
        match entry {
            Entry::End if self.levels.len() == 1 => return Ok(false),
            Entry::Leave if self.levels.len() > 1 => self.leave()?,
            Entry::End | Entry::Leave => return Err(damaged("its directories do not fit")),
            Entry::Directory { name, meta, goes, is_copy } => {
                self.enter(name, (meta, goes, is_copy))?;
            }
            _ if self.levels.len() == 1 => return Err(damaged("it has more than its parts")),
            Entry::File { name, meta, number, bytes } => {
                self.named(&name, |it| it.file(&name, &meta, number, bytes))?;
            }
            Entry::Link { name, meta, target } => self.named(&name, |it| {
                it.made(rustix::fs::symlinkat(&target, &it.dir, &name))?;
                it.special(&name, &meta)
            })?,
            Entry::Fifo { name, meta } => {
                self.named(&name, |it| it.node(&name, FileType::Fifo, &meta))?;
            }
            Entry::Socket { name, meta } => {
                self.named(&name, |it| it.node(&name, FileType::Socket, &meta))?;
            }
            Entry::Again { name, number } => {
                if number == 0 || number > self.last_number {
                    return Err(damaged("a name is of a file that was not there before"));
                }
                self.named(&name, |it| {
                    let numbered = number.to_string();
                    let flags = AtFlags::empty();
                    it.made(rustix::fs::linkat(&it.numbered, numbered, &it.dir, &name, flags))
                })?;
            }
            Entry::Gone { name } => self.named(&name, |it| {
                let kind = FileType::CharacterDevice;
                it.made(rustix::fs::mknodat(&it.dir, &name, kind, Mode::empty(), 0))
            })?,
        }
        Ok(true)
    }

    /// Does something about a name in the directory, for which there has to be room.
    fn named(
        &mut self,
        name: &OsStr,
        make: impl FnOnce(&mut Self) -> Result<(), UnpackError>,
    ) -> Result<(), UnpackError> {
        self.to.room.take(ENTRY_BYTES).map_err(UnpackError::NoRoom)?;
        self.path.push(name);
        make(self)?;
        self.path.pop();
        Ok(())
    }

    fn made<T>(&self, made: Result<T, Errno>) -> Result<T, UnpackError> {
        made.map_err(|errno| self.failed(errno.into()))
    }

    fn failed(&self, source: io::Error) -> UnpackError {
        UnpackError::Write { path: self.path.clone(), source }
    }

    fn enter(&mut self, name: OsString, finish: (Meta, Goes, bool)) -> Result<(), UnpackError> {
        let is_part = self.levels.len() == 1;
        if is_part && !self.to.parts.iter().any(|part| name == *part) {
            return Err(damaged("it has more than its parts"));
        }
        if self.levels.len() > DEPTH_MAX {
            return Err(damaged("its directories are too deep"));
        }
        self.to.room.take(ENTRY_BYTES).map_err(UnpackError::NoRoom)?;
        self.path.push(&name);
        if matches!(finish.1, Goes::Redirect(_)) && self.to.format == Format::User {
            return Err(UnpackError::NeedsRoot { path: self.path.clone() });
        }
        self.made(rustix::fs::mkdirat(&self.dir, &name, Mode::RWXU))?;
        let inside = self.made(beneath::dir(self.dir.as_fd(), Path::new(&name)))?;
        let id = self.made(beneath::stamp(&inside))?.id();
        self.levels.push(Level { id, finish: Some(finish) });
        self.dir = inside;
        Ok(())
    }

    fn leave(&mut self) -> Result<(), UnpackError> {
        let left = self.levels.pop().and_then(|level| level.finish);
        let above = self.levels.last().map(|level| level.id).unwrap_or_default();
        let above =
            self.made(up(self.dir.as_fd(), above).and_then(|dir| dir.ok_or(Errno::STALE)))?;
        if let Some((meta, goes, is_copy)) = left {
            let format = self.to.format;
            let mark = match goes {
                Goes::On => None,
                Goes::Opaque => Some(overlay::opaque(format)),
                Goes::Redirect(to) => {
                    if !overlay::leads_on(format, &to) {
                        return Err(damaged("a directory leads out of what is below"));
                    }
                    Some(overlay::redirect(format, to))
                }
            };
            if let Some((name, value)) = mark {
                let path = proc_path(&self.dir);
                self.made(rustix::fs::setxattr(path, &name, &value, XattrFlags::empty()))?;
            }
            if is_copy {
                self.made(overlay::set_copied(format, &self.dir))?;
            }
            self.finish(&self.dir, &meta, true)?;
        }
        self.dir = above;
        self.path.pop();
        Ok(())
    }

    fn file(
        &mut self,
        name: &OsStr,
        meta: &Meta,
        number: u32,
        bytes: u64,
    ) -> Result<(), UnpackError> {
        if bytes > FILE_BYTES_MAX {
            return Err(damaged("a file is too long"));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let flags = flags | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(self.made(opened)?);
        let mut missing = bytes;
        loop {
            if (self.is_canceled)() {
                return Err(UnpackError::Canceled);
            }
            match self.decoder.piece(missing).map_err(UnpackError::Read)? {
                Piece::End => break,
                Piece::Bytes(content) => {
                    missing -= content.len() as u64;
                    self.to.room.take(content.len() as u64).map_err(UnpackError::NoRoom)?;
                    file.write_all(&content).map_err(|error| self.failed(error))?;
                }
                Piece::Hole(length) => {
                    missing -= length;
                    let to = SeekFrom::Current(length.cast_signed());
                    self.made(rustix::fs::seek(&file, to))?;
                }
            }
        }
        self.made(rustix::fs::ftruncate(&file, bytes))?;
        let file = OwnedFd::from(file);
        self.finish(&file, meta, true)?;
        if number == 0 {
            return Ok(());
        }
        if number != self.last_number + 1 {
            return Err(damaged("its files are not numbered in order"));
        }
        self.last_number = number;
        let flags = AtFlags::empty();
        self.made(rustix::fs::linkat(&self.dir, name, &self.numbered, number.to_string(), flags))
    }

    fn node(&mut self, name: &OsStr, kind: FileType, meta: &Meta) -> Result<(), UnpackError> {
        self.made(rustix::fs::mknodat(&self.dir, name, kind, Mode::RUSR | Mode::WUSR, 0))?;
        let handle = self.made(beneath::handle(self.dir.as_fd(), Path::new(name)))?;
        self.finish(&handle, meta, true)
    }

    fn special(&mut self, name: &OsStr, meta: &Meta) -> Result<(), UnpackError> {
        let handle = self.made(beneath::handle(self.dir.as_fd(), Path::new(name)))?;
        self.finish(&handle, meta, false)
    }

    /// Gives what was just made its owner, attributes, mode and time, in the order in which none
    /// undoes another.
    fn finish(&self, made: &OwnedFd, meta: &Meta, has_mode: bool) -> Result<(), UnpackError> {
        let owner = self.to.owners.outside((meta.uid, meta.gid));
        let (uid, gid) =
            owner.ok_or_else(|| damaged("a file is somebody's who cannot be there"))?;
        let found = self.made(beneath::stamp(made))?;
        if (found.uid, found.gid) != (uid, gid) {
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            self.made(rustix::fs::chownat(made, "", uid, gid, AtFlags::EMPTY_PATH))?;
        }
        for (name, value) in &meta.attributes {
            let bytes = name.as_encoded_bytes();
            if !bytes.starts_with(b"user.") || bytes.starts_with(b"user.overlay.") {
                return Err(damaged("a file has an attribute that is not its user's"));
            }
            self.made(rustix::fs::setxattr(proc_path(made), name, value, XattrFlags::empty()))?;
        }
        if has_mode {
            self.made(chmod(made, meta.mode))?;
        }
        let time = Timespec { tv_sec: meta.mtime.sec, tv_nsec: meta.mtime.nsec.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        self.made(rustix::fs::utimensat(made, "", &times, AtFlags::EMPTY_PATH))
    }
}

fn damaged(what: &'static str) -> UnpackError {
    UnpackError::Read(wrong(what))
}

#[cfg(test)]
mod tests;
