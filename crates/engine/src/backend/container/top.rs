//! What a sandbox keeps while it is stopped, as one directory: a layer is one that was a
//! sandbox's once and never changes again.
//!
//! ```text
//!     home/       its home; with layers below, what was written to it
//!     upper/      what was written to the root file system, if that can be written
//!     image       a link to its root file system, unless that is this machine's
//!     below       the ids of the layers below, one a line, the lowest first
//!     home-work/  work/   what the overlays need while it runs; not in layers
//! ```
//!
//! All of it changes its place by one rename(2), so there is no moment at which a part of it is
//! a layer's and another still the sandbox's.

use super::host::call;
use super::identity::Ids;
use crate::backend::BackendError;
use atoll_api::id::LayerId;
use rustix::fs::{Mode, OFlags, fsync, openat, renameat};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// Longest list of layers below, in bytes: far beyond what can be mounted.
const BELOW_BYTES_MAX: u64 = 64 << 10;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Top(PathBuf);

impl Top {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    pub(super) fn home_work(&self) -> PathBuf {
        self.0.join("home-work")
    }

    /// What was written to the root file system.
    pub(super) fn upper(&self) -> PathBuf {
        self.0.join("upper")
    }

    pub(super) fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Makes it, with a home that nobody has yet.
    pub(super) fn make(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        match builder.mode(0o700).create(&self.0) {
            // It is a subvolume.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let only_ours = std::fs::Permissions::from_mode(0o700);
                std::fs::set_permissions(&self.0, only_ours)?;
            }
            made => made?,
        }
        builder.create(self.home())
    }

    /// Gives its home to the sandbox's user, with the mode that it has in `like`.
    pub(super) fn own_home(&self, ids: Ids, like: Option<&Self>) -> io::Result<()> {
        let home = self.home();
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = ids.user();
            chown(&home, Some(uid), Some(gid))?;
        }
        let Some(like) = like else { return Ok(()) };
        let mode = like.home().symlink_metadata()?.mode() & 0o1777;
        std::fs::set_permissions(home, std::fs::Permissions::from_mode(mode))
    }

    /// Whose it is.
    pub(super) fn ids(&self) -> Result<Ids, BackendError> {
        let home = self.home().symlink_metadata();
        let home = home.map_err(call("look at the sandbox's home"))?;
        Ok(Ids::of_home(home.uid(), home.gid()))
    }

    /// Notes the layers below; nothing of those that have none.
    pub(super) fn note_below(&self, below: &[LayerId]) -> io::Result<()> {
        if below.is_empty() {
            return Ok(());
        }
        std::fs::write(self.0.join("below"), text(below))
    }

    /// The layers below, the lowest first.
    pub(super) fn below(&self) -> Result<Vec<LayerId>, BackendError> {
        // It may go with its sandbox at any moment, so it is looked up once.
        let found = match File::open(self.0.join("below")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.map_err(call(READ))?,
        };
        read(&found)
    }

    /// Has what is above the layers `from`, and maybe more, lie on `flat` in their place. That is
    /// done where nothing else is in between, and to what is found, also if it changes its place
    /// meanwhile.
    pub(super) fn replace_below(
        &self,
        from: &[LayerId],
        flat: LayerId,
    ) -> Result<bool, BackendError> {
        let failed = |error: Errno| call("write the layers below")(error.into());
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = match rustix::fs::open(&self.0, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(false),
            top => top.map_err(failed)?,
        };
        let below = match openat(&top, "below", OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(false),
            found => read(&File::from(found.map_err(failed)?))?,
        };
        let Some(rest) = below.strip_prefix(from) else { return Ok(false) };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let new = openat(&top, "below.new", flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let mut new = File::from(new);
        let written = new.write_all(text(&[&[flat], rest].concat()).as_bytes());
        written.and_then(|()| new.sync_all()).map_err(call("write the layers below"))?;
        renameat(&top, "below.new", &top, "below").map_err(failed)?;
        fsync(&top).map_err(failed)?;
        Ok(true)
    }

    /// The layers below what is over this when it is the layer of that id.
    pub(super) fn below_next(&self, layer: LayerId) -> Result<Vec<LayerId>, BackendError> {
        let mut below = self.below()?;
        below.push(layer);
        Ok(below)
    }

    /// Removes what the overlays of a start have left.
    pub(super) fn remove_works(&self) -> io::Result<()> {
        [self.work(), self.home_work()].iter().try_for_each(|work| self.remove(work))
    }

    /// Removes something in it, whatever is in that.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = rustix::fs::open(&self.0, flags, Mode::empty())?;
        Ok(atoll_store::remove(top.as_fd(), path.file_name().unwrap_or_default())?)
    }

    /// Notes which root file system it has, for as long as it is there: the archive that it came
    /// from may be another one day.
    pub(super) fn note_image(&self, root: &Path) -> Result<(), BackendError> {
        std::os::unix::fs::symlink(root, self.0.join("image"))
            .map_err(call("note the sandbox's image"))
    }

    /// Its root file system; none if it is this machine's.
    pub(super) fn image(&self) -> Result<Option<PathBuf>, BackendError> {
        match std::fs::read_link(self.0.join("image")) {
            Ok(root) => Ok(Some(root)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(call("read the sandbox's image")(error)),
        }
    }
}

const READ: &str = "read the layers below";

/// Layers, one a line.
pub(super) fn text(layers: &[LayerId]) -> String {
    layers.iter().map(|layer| format!("{layer}\n")).collect()
}

/// Reads what [`text`] wrote.
pub(super) fn read(file: &File) -> Result<Vec<LayerId>, BackendError> {
    let damaged = |what: String| call(READ)(io::Error::new(io::ErrorKind::InvalidData, what));
    let mut text = String::new();
    file.take(BELOW_BYTES_MAX + 1).read_to_string(&mut text).map_err(call(READ))?;
    if text.len() as u64 > BELOW_BYTES_MAX {
        return Err(damaged(format!("there are more than {BELOW_BYTES_MAX} bytes of them")));
    }
    let parse =
        |line: &str| line.parse().map_err(|_| damaged(format!("{line:?} is the id of no layer")));
    text.lines().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_below_are_read_as_they_were_noted_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let top = Top::at(directory.path().join("top"));
        top.make().unwrap();
        assert_eq!(top.below().unwrap(), []);
        let below: Vec<LayerId> = (0..3).map(|byte| LayerId::from_random([byte; 10])).collect();
        top.note_below(&below).unwrap();
        assert_eq!(top.below().unwrap(), below);
        for text in ["lay_", "../..\n", "lay_00000000000000000000 \n", "\n"] {
            std::fs::write(top.path().join("below"), text).unwrap();
            assert!(top.below().is_err(), "{text:?}");
        }
        std::fs::write(top.path().join("below"), vec![b'\n'; 65 << 10]).unwrap();
        assert!(format!("{:?}", top.below()).contains("65536 bytes"), "{:?}", top.below());
    }
}
