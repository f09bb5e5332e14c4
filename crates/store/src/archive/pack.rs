//! The files of a layer as bytes, the same for the same files wherever they lie.
//!
//! Marks of overlays, of which each kind of server has its own, and owners, which are others on
//! every machine, become what they mean. Left out are devices, access lists and capabilities,
//! which no sandbox has any use for, and what a file system notes for itself.

use super::Owners;
use super::code::{ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, Encoder, Entry, Goes, Meta, PIECE_BYTES};
use crate::beneath;
use crate::changes::compare::next_data;
use crate::node::{FileKind, Stamp};
use crate::overlay::{self, Below, Format};
use crate::tree::{may_open_up, open_quietly, up};
use crate::xattr;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// What is packed.
#[derive(Debug, Clone, Copy)]
pub struct Source<'s> {
    /// The directory that has the parts.
    pub root: &'s Path,
    /// Directories in it; those that are not there are left out.
    pub parts: &'s [&'s str],
    /// Whose they are.
    pub owners: Owners,
    /// How their overlays keep marks.
    pub format: Format,
}

/// What was packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Records.
    pub(super) entries: u64,
    /// What has no place in an archive: devices, attributes.
    pub(super) left_out: u64,
}

/// Why a layer could not be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// Somebody does not want it any more.
    #[error("it was cancelled")]
    Canceled,
    /// Something cannot be read. Paths are relative to the layer.
    #[error("could not read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Content of a file is not in the layer.
    #[error("{} has its content elsewhere, which cannot be archived", path.display())]
    Elsewhere {
        /// Which.
        path: PathBuf,
    },
    /// What was packed cannot be written.
    #[error("could not write what was packed")]
    Write(#[source] io::Error),
}

/// Writes everything; `is_canceled` is asked now and then.
pub(super) fn pack(
    source: &Source<'_>,
    out: impl Write,
    is_canceled: &dyn Fn() -> bool,
) -> Result<Counts, PackError> {
    let root = open_top(source)?;
    // Which files have several names within the layer has to be known when the first one is met.
    let mut several = HashMap::new();
    let mut count = |_: &OwnedFd, seen: Seen<'_>| {
        if let Seen::Other(_, stamp) = seen
            && stamp.kind == FileKind::File
            && stamp.nlink > 1
        {
            *several.entry(stamp.id()).or_insert(0_u32) += 1;
        }
        Ok(())
    };
    walk(&root, source.parts, is_canceled, &mut count)?;
    several.retain(|_, count| *count > 1);
    several.values_mut().for_each(|number| *number = 0);
    let mut packer = Packer {
        encoder: Encoder(out),
        source,
        several,
        last_number: 0,
        counts: Counts::default(),
        buffer: vec![0; PIECE_BYTES],
        is_canceled,
    };
    packer.encoder.begin().map_err(PackError::Write)?;
    walk(&root, source.parts, is_canceled, &mut |dir, seen| packer.put(dir, seen))?;
    packer.entry(&Entry::End)?;
    Ok(packer.counts)
}

fn open_top(source: &Source<'_>) -> Result<OwnedFd, PackError> {
    let failed = |source| PackError::Read { path: PathBuf::new(), source };
    beneath::open_root(source.root).map_err(failed)
}

/// What a walk meets.
enum Seen<'s> {
    /// A directory, which is open, and was of that mode before it was opened up.
    Directory(&'s OsStr, &'s Stamp, &'s OwnedFd),
    Other(&'s OsStr, &'s Stamp),
    Leave,
}

/// Why what was met could not be dealt with; the walk knows where.
enum Fault {
    Read(Errno),
    Elsewhere,
    Write(io::Error),
    Canceled,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Read(errno)
    }
}

struct Level {
    id: (u64, u64),
    names: std::vec::IntoIter<OsString>,
    /// To be given back when it is left.
    mode: Option<u32>,
}

/// Meets everything below the parts, in the order of names, with no directory open but one.
fn walk(
    root: &OwnedFd,
    parts: &[&str],
    is_canceled: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(&OwnedFd, Seen<'_>) -> Result<(), Fault>,
) -> Result<(), PackError> {
    let mut path = PathBuf::new();
    let walked = walk_at(root, parts, is_canceled, visit, &mut path);
    walked.map_err(|fault| match fault {
        Fault::Read(errno) => PackError::Read { path, source: errno.into() },
        Fault::Elsewhere => PackError::Elsewhere { path },
        Fault::Write(error) => PackError::Write(error),
        Fault::Canceled => PackError::Canceled,
    })
}

fn walk_at(
    root: &OwnedFd,
    parts: &[&str],
    is_canceled: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(&OwnedFd, Seen<'_>) -> Result<(), Fault>,
    path: &mut PathBuf,
) -> Result<(), Fault> {
    let mut dir = root.try_clone().map_err(|error| errno(&error))?;
    let mut names: Vec<OsString> = parts.iter().map(OsString::from).collect();
    names.sort();
    let top = Level { id: beneath::stamp(&dir)?.id(), names: names.into_iter(), mode: None };
    let mut levels = vec![top];
    while let Some(level) = levels.last_mut() {
        if is_canceled() {
            return Err(Fault::Canceled);
        }
        let Some(name) = level.names.next() else {
            let mode = level.mode;
            levels.pop();
            let Some(above) = levels.last() else { break };
            visit(&dir, Seen::Leave)?;
            let left = up(dir.as_fd(), above.id)?.ok_or(Errno::STALE)?;
            if let Some(mode) = mode {
                beneath::chmod(&dir, mode)?;
            }
            dir = left;
            path.pop();
            continue;
        };
        let is_part = levels.len() == 1;
        let stamp = match beneath::look(&dir, &name)? {
            Some(stamp) => stamp,
            None if is_part => continue,
            None => return Err(Errno::STALE.into()),
        };
        path.push(&name);
        if stamp.kind != FileKind::Dir {
            visit(&dir, Seen::Other(&name, &stamp))?;
            path.pop();
            continue;
        }
        let (inside, mode) = enter(&dir, &name, &stamp)?;
        visit(&dir, Seen::Directory(&name, &stamp, &inside))?;
        let mut names = beneath::names(inside.as_fd(), Path::new(""))?;
        names.sort();
        levels.push(Level { id: stamp.id(), names: names.into_iter(), mode });
        dir = inside;
    }
    Ok(())
}

/// Opens a directory, with a mode that lets us if it is ours; gives the mode that it had then.
fn enter(dir: &OwnedFd, name: &OsStr, stamp: &Stamp) -> Result<(OwnedFd, Option<u32>), Errno> {
    const ENTER: u32 = 0o500;
    let handle = beneath::dir(dir.as_fd(), Path::new(name))?;
    if beneath::stamp(&handle)?.id() != stamp.id() {
        return Err(Errno::STALE);
    }
    let opens_up = stamp.mode & ENTER != ENTER && may_open_up(stamp);
    if opens_up {
        beneath::chmod(&handle, stamp.mode | ENTER)?;
    }
    let inside = open_quietly(dir.as_fd(), Path::new(name), OFlags::DIRECTORY)?;
    Ok((inside, opens_up.then_some(stamp.mode)))
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

struct Packer<'p, W> {
    encoder: Encoder<W>,
    source: &'p Source<'p>,
    /// Files that have several names in the layer, and the number that each was given; 0 before.
    several: HashMap<(u64, u64), u32>,
    last_number: u32,
    counts: Counts,
    buffer: Vec<u8>,
    is_canceled: &'p dyn Fn() -> bool,
}

impl<W: Write> Packer<'_, W> {
    fn entry(&mut self, entry: &Entry) -> Result<(), PackError> {
        self.put_entry(entry).map_err(|fault| match fault {
            Fault::Write(error) => PackError::Write(error),
            _ => PackError::Canceled,
        })
    }

    fn put_entry(&mut self, entry: &Entry) -> Result<(), Fault> {
        self.counts.entries += 1;
        self.encoder.entry(entry).map_err(Fault::Write)
    }

    fn put(&mut self, dir: &OwnedFd, seen: Seen<'_>) -> Result<(), Fault> {
        match seen {
            Seen::Leave => self.put_entry(&Entry::Leave),
            Seen::Directory(name, stamp, inside) => {
                let marks = overlay::dir_marks(self.source.format, inside)?;
                let goes = match marks.below {
                    Below::Same => Goes::On,
                    Below::Opaque | Below::Forged => Goes::Opaque,
                    Below::Sibling(name) => Goes::Redirect(name),
                    Below::Path(path) => Goes::Redirect(Path::new("/").join(path).into()),
                };
                let meta = self.meta(inside, stamp)?;
                let (name, is_copy) = (name.to_owned(), marks.origin.is_copy());
                self.put_entry(&Entry::Directory { name, meta, goes, is_copy })
            }
            Seen::Other(name, stamp) => self.other(dir, name, stamp),
        }
    }

    fn other(&mut self, dir: &OwnedFd, name: &OsStr, stamp: &Stamp) -> Result<(), Fault> {
        let owned = || name.to_owned();
        if stamp.is_null_device() {
            return self.put_entry(&Entry::Gone { name: owned() });
        }
        if !matches!(
            stamp.kind,
            FileKind::File | FileKind::Symlink | FileKind::Fifo | FileKind::Socket
        ) {
            self.counts.left_out += 1;
            return Ok(());
        }
        let handle = beneath::handle(dir.as_fd(), Path::new(name))?;
        if beneath::stamp(&handle)?.id() != stamp.id() {
            return Err(Errno::STALE.into());
        }
        match stamp.kind {
            FileKind::Symlink => {
                let target = beneath::read_link(dir, name)?.into_os_string();
                let meta = self.meta(&handle, stamp)?;
                self.put_entry(&Entry::Link { name: owned(), meta, target })
            }
            FileKind::Fifo => {
                let meta = self.meta(&handle, stamp)?;
                self.put_entry(&Entry::Fifo { name: owned(), meta })
            }
            FileKind::Socket => {
                let meta = self.meta(&handle, stamp)?;
                self.put_entry(&Entry::Socket { name: owned(), meta })
            }
            _ => self.file(dir, &handle, name, stamp),
        }
    }

    fn file(
        &mut self,
        dir: &OwnedFd,
        handle: &OwnedFd,
        name: &OsStr,
        stamp: &Stamp,
    ) -> Result<(), Fault> {
        let format = self.source.format;
        let has_marks = overlay::dir_marks(format, dir)?.marked_whiteouts;
        let marks = overlay::file_marks(format, handle, stamp, has_marks)?;
        if marks.is_whiteout {
            return self.put_entry(&Entry::Gone { name: name.to_owned() });
        }
        if marks.has_no_data {
            return Err(Fault::Elsewhere);
        }
        let number = self.number(stamp);
        if let Some((number, true)) = number {
            return self.put_entry(&Entry::Again { name: name.to_owned(), number });
        }
        let number = number.map_or(0, |(number, _)| number);
        const READ: u32 = 0o400;
        let opens_up = stamp.mode & READ == 0 && may_open_up(stamp);
        if opens_up {
            beneath::chmod(handle, stamp.mode | READ)?;
        }
        let opened = open_quietly(dir.as_fd(), Path::new(name), OFlags::NONBLOCK | OFlags::NOCTTY);
        let meta = self.meta(handle, stamp);
        if opens_up {
            beneath::chmod(handle, stamp.mode)?;
        }
        let (file, meta) = (opened?, meta?);
        let found = beneath::stamp(&file)?;
        if found.id() != stamp.id() || found.kind != FileKind::File {
            return Err(Errno::STALE.into());
        }
        let bytes = found.size;
        self.put_entry(&Entry::File { name: name.to_owned(), meta, number, bytes })?;
        self.content(&file, &found)?;
        self.encoder.end_of_content().map_err(Fault::Write)
    }

    /// The number of a file that has several names here, and whether it was met before.
    fn number(&mut self, stamp: &Stamp) -> Option<(u32, bool)> {
        let number = self.several.get_mut(&stamp.id())?;
        let was_met = *number > 0;
        if !was_met {
            self.last_number += 1;
            *number = self.last_number;
        }
        Some((*number, was_met))
    }

    /// Writes content, where what is all zeros is a hole, however the file system has it.
    fn content(&mut self, file: &OwnedFd, stamp: &Stamp) -> Result<(), Fault> {
        let (piece, size) = (PIECE_BYTES as u64, stamp.size);
        let has_holes = stamp.blocks.saturating_mul(512) < size;
        let (mut at, mut hole) = (0, 0);
        while at < size {
            if (self.is_canceled)() {
                return Err(Fault::Canceled);
            }
            if has_holes {
                let data = next_data(file, at, size)? / piece * piece;
                if data > at {
                    let skipped = data.min(size) - at;
                    (at, hole) = (at + skipped, hole + skipped);
                    continue;
                }
            }
            let length = usize::try_from((size - at).min(piece)).unwrap_or(PIECE_BYTES);
            read_at(file, &mut self.buffer[..length], at)?;
            at += length as u64;
            let bytes = &self.buffer[..length];
            if bytes.iter().all(|byte| *byte == 0) {
                hole += length as u64;
                continue;
            }
            if hole > 0 {
                self.encoder.hole(hole).map_err(Fault::Write)?;
                hole = 0;
            }
            self.encoder.bytes(bytes).map_err(Fault::Write)?;
        }
        if hole > 0 { self.encoder.hole(hole).map_err(Fault::Write) } else { Ok(()) }
    }

    fn meta(&mut self, handle: &OwnedFd, stamp: &Stamp) -> Result<Meta, Errno> {
        let (uid, gid) = self.source.owners.inside((stamp.uid, stamp.gid));
        let (mut attributes, mut length) = (Vec::new(), 0);
        for (name, value) in xattr::carried(handle)? {
            length += value.len();
            let fits = length <= ATTRIBUTES_BYTES_MAX && attributes.len() < ATTRIBUTES_MAX;
            // Access lists name ids of this machine.
            if fits && name.as_encoded_bytes().starts_with(b"user.") {
                attributes.push((name, value));
            } else {
                self.counts.left_out += 1;
            }
        }
        Ok(Meta { mode: stamp.mode, uid, gid, mtime: stamp.mtime, attributes })
    }
}

/// Reads exactly so much.
fn read_at(file: &OwnedFd, mut buffer: &mut [u8], mut at: u64) -> Result<(), Errno> {
    while !buffer.is_empty() {
        match rustix::io::pread(file, &mut *buffer, at) {
            // It became shorter, which no layer does.
            Ok(0) => return Err(Errno::STALE),
            Ok(count) => {
                at += count as u64;
                buffer = &mut buffer[count..];
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
