//! A root file system that can be written: the image below, and a layer of the sandbox's own
//! that takes what is written and is kept while the sandbox is stopped.

use super::host::{Places, call};
use super::identity::Ids;
use super::order::{account, octets};
use crate::backend::BackendError;
use atoll_api::id::SandboxId;
use atoll_spawner::order::{Layers, Lower, Owners};
use std::ffi::OsStr;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Component, Path, PathBuf};

/// Directories that something is mounted on at the start.
const PLACES: [&str; 5] = ["dev", "proc", "run", "tmp", "home/user"];

/// Makes the layer of a new sandbox over the image at `root`: places that the image lacks,
/// and in `/etc` the sandbox's accounts and names.
pub(super) fn make(
    places: &Places,
    id: SandboxId,
    root: &Path,
    ids: Ids,
) -> Result<(), BackendError> {
    let layer = Layer { lower: root, upper: places.upper(id), ids };
    layer.make().map_err(call("make the sandbox's root file system"))
}

/// The layers for a start, if the sandbox has any.
pub(super) fn at_start(
    places: &Places,
    id: SandboxId,
    root: &Path,
) -> Result<Option<Layers>, BackendError> {
    let (upper, work) = (places.upper(id), places.work(id));
    if !upper.is_dir() {
        return Ok(None);
    }
    let step = "clear what the last start left";
    // Marks of the last mount are there, which keep the next one from being made.
    places.remove_in(id, OsStr::new("work")).map_err(call(step))?;
    DirBuilder::new().mode(0o700).create(&work).map_err(call(step))?;
    let lowers = vec![Lower { path: octets(root)?, owners: Owners::Inside }];
    Ok(Some(Layers { lowers, upper: octets(&upper)?, work: octets(&work)? }))
}

struct Layer<'a> {
    lower: &'a Path,
    upper: PathBuf,
    ids: Ids,
}

impl Layer<'_> {
    fn make(&self) -> io::Result<()> {
        self.directory(Path::new(""))?;
        for place in PLACES {
            if !self.is_in_image(Path::new(place)) {
                self.directories(Path::new(place))?;
            }
        }
        self.directories(Path::new("etc"))?;
        for (name, content) in
            atoll_jail::host::etc_additions(self.lower, &account(), super::order::HOSTNAME)
        {
            let path = self.upper.join("etc").join(name);
            std::fs::write(&path, content)?;
            self.give(&path, 0o644, self.ids.root())?;
        }
        Ok(())
    }

    /// Whether the image has this as a directory, behind no link.
    fn is_in_image(&self, path: &Path) -> bool {
        let mut parts = path.ancestors().filter(|part| !part.as_os_str().is_empty());
        parts.all(|part| self.in_image(part).is_some())
    }

    fn in_image(&self, path: &Path) -> Option<Metadata> {
        let found = self.lower.join(path).symlink_metadata().ok()?;
        found.is_dir().then_some(found)
    }

    /// Makes a directory in the layer, with those above it.
    fn directories(&self, path: &Path) -> io::Result<()> {
        let mut made = PathBuf::new();
        for part in path.components() {
            if let Component::Normal(name) = part {
                made.push(name);
                self.directory(&made)?;
            }
        }
        Ok(())
    }

    /// Makes one: as the image has it, if it does.
    fn directory(&self, path: &Path) -> io::Result<()> {
        let at = self.upper.join(path);
        match DirBuilder::new().mode(0o700).create(&at) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made?,
        }
        let found = self.is_in_image(path).then(|| self.in_image(path)).flatten();
        let (mode, owner) = found.map_or((0o755, self.ids.root()), |found| {
            (found.mode() & 0o1777, self.ids.outside(found.uid(), found.gid()))
        });
        self.give(&at, mode, owner)
    }

    fn give(&self, path: &Path, mode: u32, (uid, gid): (u32, u32)) -> io::Result<()> {
        if rustix::process::geteuid().is_root() {
            chown(path, Some(uid), Some(gid))?;
        }
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    }
}
