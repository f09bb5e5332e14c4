//! The area of `atoll serve`: sandboxes made, commands run and output read, by a client of
//! a server that runs, against the floor and against other sandboxes that stay.
//!
//! | budgets about | are in |
//! |---|---|
//! | one sandbox, made and used | [`life`] |
//! | output | [`stream`] |
//! | many sandboxes | [`many`] |

mod life;
mod many;
mod stream;

use super::build::Programs;
use super::group::{Collected, Results, compare, rounds};
use super::peers::Crun;
use super::resident::Resident;
use crate::served::Served;
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

type Group = super::group::Group<Scene>;

pub(super) const GROUPS: [Group; 5] =
    [life::CREATE, life::EXEC, stream::GROUP, many::RATE, many::MEMORY];

const TRUE: &str = "/bin/true";

/// A server that runs, and the programs it is held against.
pub(super) struct Scene {
    served: Served,
    atoll: PathBuf,
    floor: PathBuf,
    /// Where contestants keep what they need.
    folder: PathBuf,
}

impl Scene {
    pub(super) fn new(programs: &Programs, scratch: &Path) -> Result<Self> {
        let own = |name: &str| -> Result<PathBuf> {
            let path = scratch.join(name);
            fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            Ok(path)
        };
        let (folder, place) = (own("contestants")?, own("server")?);
        let served = Served::start(&programs.atoll, &place, None)?;
        let Programs { atoll, floor, .. } = programs;
        Ok(Self { served, atoll: atoll.clone(), floor: floor.clone(), folder })
    }

    /// A floor that stays, whose jails have this program in their project: the shortest
    /// there is.
    fn floor(&self) -> Result<(Resident, PathBuf)> {
        let (project, home) = (self.folder.join("project"), self.folder.join("home"));
        for path in [&project, &home] {
            fs::create_dir_all(path)?;
        }
        let nothing = project.join("nothing");
        fs::copy(&self.floor, &nothing)?;
        Ok((Resident::start(&self.floor, &project, &home)?, nothing))
    }

    fn crun(&self) -> Result<Crun> {
        let folder = self.folder.join("crun");
        fs::create_dir(&folder)?;
        Crun::start(&folder)
    }
}
