//! What volumes hold: a directory each, below one that only the server may enter.
//!
//! ```text
//!     STATE/volumes/ID/    what it holds, as it is shown
//! ```
//!
//! A server of root's keeps the files of all volumes with the ids of one block, and shows them to each
//! sandbox as that one's own. So a sandbox finds there what another one wrote as itself, whoever
//! both are on the host.

use super::host::{Places, call};
use super::identity::{COUNT, Ids, OF_VOLUMES};
use super::order::octets;
use super::{Container, host};
use crate::backend::{BackendError, VolumePlace};
use atoll_api::id::VolumeId;
use atoll_spawner::order::{self, Owners, Volume};
use atoll_store::tree;
use rustix::fs::{Mode, OFlags};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;

/// Where they lie, beside the sandboxes.
const VOLUMES: &str = "volumes";

impl Places {
    fn volumes(&self) -> PathBuf {
        self.state().join(VOLUMES)
    }

    fn volume(&self, id: VolumeId) -> PathBuf {
        self.volumes().join(id.to_string())
    }
}

impl Container {
    /// Makes one: a subvolume where the file system has them.
    pub(super) fn make_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        let step = "make the volume";
        self.places.check_room()?;
        let (all, path) = (self.places.volumes(), self.places.volume(id));
        DirBuilder::new().recursive(true).mode(0o700).create(&all).map_err(call(step))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let above = rustix::fs::open(&all, flags, Mode::empty())
            .map_err(|error| call(step)(error.into()))?;
        let name = id.to_string();
        let is_made = self.has_subvolumes
            && tree::create_subvolume(above.as_fd(), name.as_ref())
                .map_err(|error| host::other(step, error))?;
        if !is_made {
            DirBuilder::new().mode(0o700).create(&path).map_err(call(step))?;
        }
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = Ids::Block(OF_VOLUMES).user();
            chown(&path, Some(uid), Some(gid)).map_err(call(step))?;
        }
        let open_to_all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, open_to_all).map_err(call(step))
    }

    pub(super) fn discard_volume(&self, id: VolumeId) -> Result<(), BackendError> {
        self.trash.throw(&self.places.volume(id)).map_err(call("remove the volume"))
    }

    pub(super) fn list_volumes(&self) -> Result<Vec<VolumeId>, BackendError> {
        let step = "list the volumes";
        let entries = match std::fs::read_dir(self.places.volumes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(call(step))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(call(step))?.file_name();
            // What has another name is not ours to judge.
            found.extend(name.to_str().and_then(|name| name.parse::<VolumeId>().ok()));
        }
        Ok(found)
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
        let source = places.volume(place.id);
        if !source.is_dir() {
            return Err(BackendError::NoVolume { id: place.id });
        }
        Ok(Volume {
            source: octets(&source)?,
            at: octets(&place.at)?,
            is_writable: place.is_writable,
            owners,
        })
    };
    volumes.iter().map(shown).collect()
}
