//! What volumes hold: a directory each, below one that only the server may enter.
//!
//! ```text
//!     STATE/volumes/ID/             what it holds, as it is shown
//!     STATE/volumes/.new-ID/        a copy that is being made
//!     STATE/volumes/.new-ID-ahead/  what of it was copied before those stood still who write
//! ```
//!
//! A server of root's keeps the files of all volumes with the ids of one block, and shows them to each
//! sandbox as that one's own. So a sandbox finds there what another one wrote as itself, whoever
//! both are on the host.

use super::host::{Places, call};
use super::identity::{COUNT, Ids, OF_VOLUMES};
use super::order::octets;
use super::snapshot::open;
use super::{Container, folder, host};
use crate::backend::{BackendError, VolumeCopied, VolumePlace};
use atoll_api::id::VolumeId;
use atoll_api::snapshot::SnapshotWay;
use atoll_api::volume::VolumeLimitBy;
use atoll_spawner::order::{self, Owners, Volume};
use atoll_store::tree::{self, Index, Previous, SubvolumeError};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

/// Where they lie, beside the sandboxes.
const VOLUMES: &str = "volumes";

/// How copies are called that are being made.
const NEW: &str = ".new-";
const AHEAD: &str = "-ahead";

const COPY: &str = "copy the volume";

/// What was copied before those stood still who write.
#[derive(Debug)]
pub(super) struct Ahead {
    copied: tree::Copied,
    index: Index,
}

impl Places {
    fn volumes(&self) -> PathBuf {
        self.state().join(VOLUMES)
    }

    fn volume(&self, id: VolumeId) -> PathBuf {
        self.volumes().join(id.to_string())
    }
}

impl Container {
    /// Makes an empty directory, a subvolume where the file system has them.
    fn make_directory(&self, path: &Path) -> Result<(), BackendError> {
        let step = "make the volume";
        let all = self.places.volumes();
        DirBuilder::new().recursive(true).mode(0o700).create(&all).map_err(call(step))?;
        let name = path.file_name().unwrap_or_default();
        let is_made = self.has_subvolumes
            && tree::create_subvolume(open(&all)?.as_fd(), name)
                .map_err(|error| host::other(step, error))?;
        if is_made {
            return Ok(());
        }
        DirBuilder::new().mode(0o700).create(path).map_err(call(step))
    }

    /// Makes an empty one.
    pub(super) fn make_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        let step = "make the volume";
        self.places.check_room()?;
        let path = self.places.volume(id);
        self.make_directory(&path)?;
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = Ids::Block(OF_VOLUMES).user();
            chown(&path, Some(uid), Some(gid)).map_err(call(step))?;
        }
        let open_to_all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, open_to_all).map_err(call(step))
    }

    fn volume_copies(&self) -> MutexGuard<'_, BTreeMap<VolumeId, Ahead>> {
        self.volume_copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begun(&self, to: VolumeId, suffix: &str) -> PathBuf {
        self.places.volumes().join(format!("{NEW}{to}{suffix}"))
    }

    /// Opens what a volume holds.
    pub(super) fn open_volume(&self, id: VolumeId) -> Result<OwnedFd, BackendError> {
        let path = self.places.volume(id);
        if path.is_dir() { open(&path) } else { Err(BackendError::NoVolume { id }) }
    }

    /// Copies most of one, while sandboxes write to it.
    pub(super) fn volume_ahead(&self, from: VolumeId, to: VolumeId) -> Result<(), BackendError> {
        self.places.check_room()?;
        let source = self.open_volume(from)?;
        if tree::is_subvolume(source.as_fd()).unwrap_or_default() {
            return Ok(());
        }
        let path = self.begun(to, AHEAD);
        self.make_directory(&path)?;
        let copied = tree::copy_ahead(source.as_fd(), open(&path)?.as_fd(), None, &|| false);
        match copied {
            Ok((copied, index)) => {
                self.volume_copies().insert(to, Ahead { copied, index });
                Ok(())
            }
            Err(error) => {
                self.throw(&path)?;
                Err(host::other(COPY, error))
            }
        }
    }

    /// Makes one of another one, to which nobody writes.
    pub(super) fn volume_copy(
        &self,
        from: VolumeId,
        to: VolumeId,
    ) -> Result<VolumeCopied, BackendError> {
        let (new, ahead) = (self.begun(to, ""), self.begun(to, AHEAD));
        let copied = self.fill_copy(from, to, &new, &ahead);
        // Whatever came of it, what was copied ahead has served.
        self.throw(&ahead)?;
        let copied = copied.and_then(|copied| {
            std::fs::rename(&new, self.places.volume(to)).map_err(call(COPY))?;
            Ok(copied)
        });
        if copied.is_err() {
            self.throw(&new)?;
        }
        copied
    }

    fn fill_copy(
        &self,
        from: VolumeId,
        to: VolumeId,
        new: &Path,
        ahead: &Path,
    ) -> Result<VolumeCopied, BackendError> {
        let source = self.open_volume(from)?;
        let before = self.volume_copies().remove(&to);
        if tree::is_subvolume(source.as_fd()).map_err(call(COPY))? {
            let all = open(&self.places.volumes())?;
            let name = new.file_name().unwrap_or_default();
            match tree::snapshot(source.as_fd(), all.as_fd(), name) {
                Ok(()) => return Ok(VolumeCopied { way: SnapshotWay::Subvolume, bytes: 0 }),
                Err(SubvolumeError::Nested) => {}
                Err(error) => return Err(host::other(COPY, error)),
            }
        }
        self.make_directory(new)?;
        let tree_before = before.as_ref().map(|_| open(ahead)).transpose()?;
        let previous = tree_before.as_ref().zip(before.as_ref());
        let previous =
            previous.map(|(tree, ahead)| Previous { tree: tree.as_fd(), index: &ahead.index });
        let copied = tree::copy(source.as_fd(), open(new)?.as_fd(), previous, &|| false);
        let (copied, _) = copied.map_err(|error| host::other(COPY, error))?;
        let ahead = before.map(|before| before.copied).unwrap_or_default();
        let is_reflinked = copied.reflinked + ahead.reflinked > 0;
        let way = if is_reflinked { SnapshotWay::Reflink } else { SnapshotWay::Copy };
        Ok(VolumeCopied { way, bytes: copied.bytes_copied + ahead.bytes_copied })
    }

    /// Writes what one holds as an archive. Nobody writes to it, so its paths lead where they led.
    pub(super) fn pack_volume(
        &self,
        id: VolumeId,
        out: &mut dyn io::Write,
    ) -> Result<(), BackendError> {
        drop(self.open_volume(id)?);
        let packed = atoll_store::pack::pack(&self.places.volume(id), &|_, _| false, out);
        match packed {
            Ok(left_out) if left_out.count == 0 => Ok(()),
            Ok(left_out) => {
                tracing::info!(volume = %id, count = left_out.count, "left out of an archive");
                Ok(())
            }
            Err(error) => Err(host::other("export the volume", error)),
        }
    }

    /// Limits one where it is a subvolume of a file system with quotas.
    pub(super) fn have_limited(
        &self,
        id: VolumeId,
        bytes: Option<u64>,
    ) -> Result<VolumeLimitBy, BackendError> {
        let volume = self.open_volume(id)?;
        if !tree::is_subvolume(volume.as_fd()).unwrap_or_default() {
            return Ok(VolumeLimitBy::Measurement);
        }
        match atoll_sys::btrfs::limit_subvolume(volume.as_fd(), bytes) {
            Ok(()) => Ok(VolumeLimitBy::FileSystem),
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                // No quotas here, none of that subvolume, or not for us.
                Some(Errno::NOTCONN | Errno::NOENT | Errno::PERM | Errno::OPNOTSUPP) => {
                    Ok(VolumeLimitBy::Measurement)
                }
                _ => Err(call("limit the volume")(error)),
            },
        }
    }

    /// What one takes on the disk, in bytes.
    pub(super) fn volume_bytes(&self, id: VolumeId) -> Result<u64, BackendError> {
        let measured = tree::measure(self.open_volume(id)?.as_fd(), u64::MAX, &|| false);
        measured
            .map(|measured| measured.disk_bytes)
            .map_err(|error| host::other("measure the volume", error))
    }

    pub(super) fn bring_volume_to_disk(&self, id: VolumeId) -> Result<(), BackendError> {
        tree::sync(self.open_volume(id)?.as_fd()).map_err(call("bring the volume to the disk"))
    }

    /// Takes away what a server left that was killed while it copied one.
    pub(super) fn clear_volumes(&self) -> Result<(), BackendError> {
        for name in self.volume_names()? {
            if name.as_encoded_bytes().starts_with(NEW.as_bytes()) {
                self.throw(&self.places.volumes().join(name))?;
            }
        }
        Ok(())
    }

    fn throw(&self, path: &Path) -> Result<(), BackendError> {
        self.trash.throw(path).map_err(call("set aside what is not needed any more"))
    }

    pub(super) fn discard_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.volume_copies().remove(&id);
        for path in [self.begun(id, ""), self.begun(id, AHEAD), self.places.volume(id)] {
            self.throw(&path)?;
        }
        Ok(())
    }

    fn volume_names(&self) -> Result<Vec<OsString>, BackendError> {
        let step = "list the volumes";
        let entries = match std::fs::read_dir(self.places.volumes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(call(step))?,
        };
        entries.map(|entry| Ok(entry.map_err(call(step))?.file_name())).collect()
    }

    pub(super) fn list_volumes(&self) -> Result<Vec<VolumeId>, BackendError> {
        // What has another name is not ours to judge.
        let id = |name: OsString| name.to_str().and_then(|name| name.parse::<VolumeId>().ok());
        Ok(self.volume_names()?.into_iter().filter_map(id).collect())
    }
}

/// The volumes of a sandbox for a start.
pub(super) fn at_start(
    places: &Places,
    volumes: &[VolumePlace],
    ids: Ids,
) -> Result<Vec<Volume>, BackendError> {
    let owners = match ids {
        Ids::Own { .. } => Owners::Own,
        Ids::Block(own) => {
            Owners::Moved(order::Ids { inside: OF_VOLUMES, outside: own, count: COUNT })
        }
    };
    let shown = |place: &VolumePlace| {
        if let Some(path) = &place.host_path {
            let found = folder::look(path, places.state(), place.is_writable)?;
            return Ok(Volume {
                source: octets(path)?,
                at: octets(&place.at)?,
                expect: Some(found.identity),
                is_writable: place.is_writable,
                owners: found.owners(ids),
            });
        }
        let source = places.volume(place.id);
        if !source.is_dir() {
            return Err(BackendError::NoVolume { id: place.id });
        }
        Ok(Volume {
            source: octets(&source)?,
            at: octets(&place.at)?,
            expect: None,
            is_writable: place.is_writable,
            owners,
        })
    };
    volumes.iter().map(shown).collect()
}
