//! Layers of images: each unpacked once, shared by all that have it.
//!
//! A layer is kept as an overlay takes it for a lower one, under the sha256 of its archive when
//! decompressed (its "diff id"), so that the same layer is there once however it was packed.
//!
//! | name below `image-layers` | what |
//! |---|---|
//! | `sha256-HEX/tree` | the files, with the marks of an overlay; the directory appears complete or not at all |
//! | `sha256-HEX/layer.json` | how much it holds |
//! | `locks/HEX.lock` | locked by who unpacks that layer |
//! | `locks/collect.lock` | locked while it is decided what is collected, and while a pin is made |
//! | `locks/pin-HEX` | digests that somebody is about to use: see [`Pin`] |
//! | `.new-HEX/`, `.old-HEX/` | being unpacked, and on its way out |
//!
//! A layer says what is in it alone, whatever it is put on: what it writes below a link of a
//! layer beneath hides that link, as with other stores that keep layers apart.

mod chain;
mod collect;

pub use chain::{Chain, Seen};
pub use collect::{Collected, Pin};

use crate::beneath;
use crate::digest::{Digest, Hashing};
use crate::image::input::SourceFailed;
use crate::image::{Limits, Report, UnpackError, Unpacked, unpack_layer};
use crate::overlay::{self, Format};
use crate::room::Room;
use crate::shelf::Shelf;
use rustix::fs::Mode;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

const TREE: &str = "tree";
const INFO: &str = "layer.json";

/// The layers of one user.
#[derive(Debug)]
pub struct Layers {
    shelf: Shelf,
    format: Format,
}

/// What is known about a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Bytes of content.
    pub bytes: u64,
    /// Files, directories, links and marks.
    pub entries: u64,
    /// How many entries and attributes were left out.
    pub left_out: u64,
    /// It hides all layers below it.
    pub is_opaque: bool,
}

/// What a layer that is to be added must be.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// sha256 of the archive when decompressed.
    pub diff_id: Digest,
    /// sha256 and length of the archive as it is packed, where they are known.
    pub packed: Option<(Digest, u64)>,
}

/// Why a layer could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("could not use the layers in {}", path.display())]
    Store { path: PathBuf, source: io::Error },
    #[error("could not unpack layer {diff_id}")]
    Unpack { diff_id: Digest, source: UnpackError },
    #[error("layer {expected} came as {found}")]
    Digest { expected: Digest, found: Digest },
    #[error("layer {diff_id} is {found} bytes long, and was to be {expected}")]
    Length { diff_id: Digest, expected: u64, found: u64 },
    #[error("layer {diff_id} is gone")]
    Gone { diff_id: Digest },
}

impl Layers {
    /// Opens `state/image-layers`, making it if need be.
    ///
    /// # Errors
    ///
    /// When it cannot be made or opened, or others could write to it.
    pub fn open(state: &Path) -> Result<Self, LayerError> {
        let path = state.join("image-layers");
        let shelf = Shelf::open(path.clone(), "locks")
            .map_err(|source| LayerError::Store { path, source })?;
        let is_root = rustix::process::geteuid().is_root();
        Ok(Self { shelf, format: if is_root { Format::Trusted } else { Format::User } })
    }

    /// How marks are written: root mounts overlays itself, others in a user namespace.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The directory with the files of a layer.
    #[must_use]
    pub fn tree(&self, diff_id: &Digest) -> PathBuf {
        self.shelf.path().join(diff_id.file_name()).join(TREE)
    }

    /// What is known about a layer; nothing if it is not there.
    #[must_use]
    pub fn info(&self, diff_id: &Digest) -> Option<Info> {
        let path = self.shelf.path().join(diff_id.file_name()).join(INFO);
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// The layers that are there, with what is known about them.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn list(&self) -> Result<Vec<(Digest, Info)>, LayerError> {
        let names = self.shelf.names().map_err(|error| self.error(error))?;
        let ids = names.iter().filter_map(|name| Digest::from_file_name(name.to_str()?));
        Ok(ids.filter_map(|id| Some((id, self.info(&id)?))).collect())
    }

    /// Directories for an overlay, topmost first, of `layers`, bottom first as images list
    /// them. Those that show nothing are left out: they are empty, hidden by another one, or
    /// there once more further up, which images may have and no overlay takes.
    ///
    /// # Errors
    ///
    /// [`LayerError::Gone`].
    pub fn lowers(&self, layers: &[Digest]) -> Result<Vec<PathBuf>, LayerError> {
        let mut lowers = Vec::new();
        for diff_id in layers.iter().rev() {
            let info = self.info(diff_id).ok_or(LayerError::Gone { diff_id: *diff_id })?;
            let tree = self.tree(diff_id);
            let is_last = lowers.is_empty() && Some(diff_id) == layers.first();
            if (info.entries > 0 && !lowers.contains(&tree)) || is_last {
                lowers.push(tree);
            }
            if info.is_opaque {
                break;
            }
        }
        Ok(lowers)
    }

    /// The layers of an image, to be looked into.
    ///
    /// # Errors
    ///
    /// As for [`Self::lowers`], and when one cannot be opened.
    pub fn chain(&self, layers: &[Digest]) -> Result<Chain, LayerError> {
        let lowers = self.lowers(layers)?;
        Chain::open(&lowers, self.format).map_err(|error| self.error(error))
    }

    /// Unpacks a layer that is not there; `reader` is only read if so. Failures of it that are
    /// no damage of the archive are told apart if it wraps them by [`source_failed`].
    ///
    /// The pin keeps it from being collected before anybody has it.
    ///
    /// # Errors
    ///
    /// [`LayerError`]. Nothing of it is kept then.
    pub fn add(
        &self,
        _pin: &Pin,
        reader: impl Read,
        expected: &Expected,
        limits: &Limits,
        room: &Room,
    ) -> Result<Info, LayerError> {
        let diff_id = &expected.diff_id;
        // Who waits here finds it there, as a rule.
        let _lock = self.shelf.lock(&diff_id.hex()).map_err(|error| self.error(error))?;
        if let Some(info) = self.info(diff_id) {
            return Ok(info);
        }
        let name = OsString::from(diff_id.file_name());
        let fill = |new: BorrowedFd<'_>| self.fill(new, reader, expected, limits, room);
        self.shelf.put(&name, fill, |error| self.error(error))
    }

    fn fill(
        &self,
        new: BorrowedFd<'_>,
        reader: impl Read,
        expected: &Expected,
        limits: &Limits,
        room: &Room,
    ) -> Result<Info, LayerError> {
        let error = |errno: Errno| self.error(errno.into());
        let diff_id = expected.diff_id;
        let unpacking = |source| LayerError::Unpack { diff_id, source };
        rustix::fs::mkdirat(new, TREE, Mode::from_raw_mode(0o755)).map_err(error)?;
        let tree = beneath::dir(new, Path::new(TREE)).map_err(error)?;
        let mut hashing = Hashing::new(reader);
        let take = |bytes| room.take(bytes);
        let Unpacked { report, diff_id: found } =
            unpack_layer(&mut hashing, tree.as_fd(), limits, self.format, &take)
                .map_err(unpacking)?;
        // What follows the archive's end belongs to the layer too.
        hashing.drain().map_err(|source| unpacking(UnpackError::Read { source }))?;
        if let Some((packed, length)) = expected.packed {
            if hashing.count() != length {
                let found = hashing.count();
                return Err(LayerError::Length { diff_id, expected: length, found });
            }
            let found = hashing.digest();
            if found != packed {
                return Err(LayerError::Digest { expected: packed, found });
            }
        }
        if found != diff_id {
            return Err(LayerError::Digest { expected: diff_id, found });
        }
        let info = self.describe(&tree, &report).map_err(error)?;
        let text = serde_json::to_vec(&info).map_err(|source| self.error(source.into()))?;
        let path = beneath::proc_path(&new);
        std::fs::write(Path::new(&path).join(INFO), text).map_err(|source| self.error(source))?;
        // Under this name it is believed, also after a power failure.
        let directory = File::from(rustix::io::fcntl_dupfd_cloexec(new, 0).map_err(error)?);
        rustix::fs::syncfs(directory).map_err(error)?;
        Ok(info)
    }

    fn describe(&self, tree: impl std::os::fd::AsFd, report: &Report) -> rustix::io::Result<Info> {
        let marks = overlay::dir_marks(self.format, tree)?;
        Ok(Info {
            bytes: report.bytes,
            entries: report.entries,
            left_out: report.skipped_count,
            is_opaque: matches!(marks.below, overlay::Below::Opaque),
        })
    }

    /// Bytes that all layers take, as far as is known.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn used_bytes(&self) -> Result<u64, LayerError> {
        Ok(self.list()?.iter().map(|(_, info)| info.bytes + info.entries * 512).sum())
    }

    fn error(&self, source: io::Error) -> LayerError {
        LayerError::Store { path: self.shelf.path().to_owned(), source }
    }
}

/// Marks an error of a reader as no damage of the archive.
#[must_use]
pub fn source_failed(error: io::Error) -> io::Error {
    io::Error::other(SourceFailed(error))
}
