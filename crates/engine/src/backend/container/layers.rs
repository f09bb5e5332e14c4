//! What a sandbox's home and its root file system consist of: the image and layers below, and
//! its own above, which takes what is written and is kept while it is stopped.

use super::host::{Places, call};
use super::identity::{COUNT, Ids};
use super::order::{account, octets};
use super::top::Top;
use crate::backend::BackendError;
use atoll_api::id::{LayerId, SandboxId};
use atoll_jail::host::{Made, Names};
use atoll_spawner::order::{self, Layers, Lower, Owners};
use atoll_store::Format;
use atoll_store::layer::{Chain, Seen};
use atoll_store::node::FileKind;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown, symlink,
};
use std::path::{Component, Path, PathBuf};

/// Directories that something is mounted on at the start.
pub(super) const PLACES: [&str; 5] = ["dev", "proc", "run", "tmp", "home/user"];

/// Longest file of an image's `/etc` that is read.
const ETC_BYTES_MAX: u64 = 1 << 20;

/// Makes the layer of a new sandbox over an image: places that the image lacks,
/// and in `/etc` the sandbox's accounts and names.
/// `workdir` is where commands are to begin.
pub(super) fn make(
    top: &Top,
    image: &Chain,
    ids: Ids,
    workdir: Option<&Path>,
) -> Result<(), BackendError> {
    let layer = Layer { lower: Some(image), upper: top.upper(), ids };
    layer.make(workdir).map_err(call("make the sandbox's root file system"))
}

/// How the overlays of a server keep their marks.
pub(super) fn format() -> Format {
    if rustix::process::geteuid().is_root() { Format::Trusted } else { Format::User }
}

/// Makes an empty one over a layer that has all that.
pub(super) fn make_above(top: &Top, below: &Top, ids: Ids) -> Result<(), BackendError> {
    let step = "make the sandbox's root file system";
    let Ok(found) = below.upper().symlink_metadata() else { return Ok(()) };
    let layer = Layer { lower: None, upper: top.upper(), ids };
    DirBuilder::new().mode(0o700).create(&layer.upper).map_err(call(step))?;
    layer.give(&layer.upper, found.mode() & 0o1777, ids.root()).map_err(call(step))
}

/// The root file system for a start, if it can be written.
pub(super) fn root_at_start(
    places: &Places,
    id: SandboxId,
    image: &[PathBuf],
    ids: Ids,
    layers: &[LayerId],
) -> Result<Option<Layers>, BackendError> {
    let top = places.top(id);
    if !top.upper().is_dir() {
        return Ok(None);
    }
    let lower = |path: &PathBuf| Ok(Lower { path: octets(path)?, owners: Owners::Inside });
    let mut lowers = image.iter().map(lower).collect::<Result<Vec<_>, BackendError>>()?;
    lowers.extend(below(places, layers, Top::upper, ids)?);
    at_start(&top, lowers, [&top.upper(), &top.work()]).map(Some)
}

/// The home for a start, if there are layers below it.
pub(super) fn home_at_start(
    places: &Places,
    id: SandboxId,
    ids: Ids,
    layers: &[LayerId],
) -> Result<Option<Layers>, BackendError> {
    let top = places.top(id);
    let lowers = below(places, layers, Top::home, ids)?;
    if lowers.is_empty() {
        return Ok(None);
    }
    at_start(&top, lowers, [&top.home(), &top.home_work()]).map(Some)
}

fn at_start(
    top: &Top,
    lowers: Vec<Lower>,
    [upper, work]: [&Path; 2],
) -> Result<Layers, BackendError> {
    let step = "clear what the last start left";
    // Marks of the last mount are there, which keep the next one from being made.
    top.remove(work).map_err(call(step))?;
    DirBuilder::new().mode(0o700).create(work).map_err(call(step))?;
    Ok(Layers { lowers, upper: octets(upper)?, work: octets(work)? })
}

/// One directory of each of these layers, with the owners as those of the sandbox, whose ids
/// are `own`.
fn below(
    places: &Places,
    layers: &[LayerId],
    part: impl Fn(&Top) -> PathBuf,
    own: Ids,
) -> Result<Vec<Lower>, BackendError> {
    let lower = |layer: &LayerId| {
        let layer = places.layer(*layer);
        let owners = owners(layer.ids()?, own);
        Ok(Lower { path: octets(&part(&layer))?, owners })
    };
    layers.iter().map(lower).collect()
}

/// How the files of those who had `theirs` are shown to those who have `own`.
fn owners(theirs: Ids, own: Ids) -> Owners {
    match (theirs, own) {
        (Ids::Block(theirs), Ids::Block(own)) if theirs != own => {
            Owners::Moved(order::Ids { inside: theirs, outside: own, count: COUNT })
        }
        _ => Owners::Own,
    }
}

struct Layer<'a> {
    lower: Option<&'a Chain>,
    upper: PathBuf,
    ids: Ids,
}

impl Layer<'_> {
    fn make(&self, workdir: Option<&Path>) -> io::Result<()> {
        self.directory(Path::new(""))?;
        for place in PLACES {
            if !self.is_in_image(Path::new(place)) {
                self.directories(Path::new(place))?;
            }
        }
        self.directories(Path::new("etc"))?;
        let read = |path: &Path| {
            let read = self.lower.and_then(|lower| lower.read(path, ETC_BYTES_MAX).ok().flatten());
            read.and_then(|bytes| String::from_utf8(bytes).ok())
        };
        for (name, made) in atoll_jail::host::etc_additions(read, &account(), Names::OfEach) {
            let path = self.upper.join("etc").join(name);
            match made {
                Made::Text(content) => {
                    std::fs::write(&path, content)?;
                    self.give(&path, 0o644, self.ids.root())?;
                }
                Made::Link(to) => {
                    symlink(to, &path)?;
                    self.own(&path, self.ids.root())?;
                }
            }
        }
        match workdir.and_then(|workdir| workdir.strip_prefix("/").ok()) {
            Some(workdir) => self.make_workdir(workdir),
            None => Ok(()),
        }
    }

    /// Makes the directory where commands begin, unless the image has it; it is the user's.
    fn make_workdir(&self, workdir: &Path) -> io::Result<()> {
        let is_there = |lower: &Chain| lower.resolve(workdir).map(|found| found.is_some());
        if self.lower.map(is_there).transpose()? == Some(true) {
            return Ok(());
        }
        self.directories(workdir)?;
        self.give(&self.upper.join(workdir), 0o755, self.ids.user())
    }

    /// Whether the image has this as a directory, behind no link.
    fn is_in_image(&self, path: &Path) -> bool {
        let mut parts = path.ancestors().filter(|part| !part.as_os_str().is_empty());
        parts.all(|part| self.in_image(part).is_some())
    }

    fn in_image(&self, path: &Path) -> Option<Seen> {
        let found = self.lower?.find(path).ok()??;
        (found.kind == FileKind::Dir).then_some(found)
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
            (found.mode & 0o1777, self.ids.outside(found.uid, found.gid))
        });
        self.give(&at, mode, owner)
    }

    fn own(&self, path: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
        if rustix::process::geteuid().is_root() {
            lchown(path, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    fn give(&self, path: &Path, mode: u32, owner: (u32, u32)) -> io::Result<()> {
        self.own(path, owner)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    }
}
