//! What the host's cgroup trees offer to this process.

use super::mounts::{CgroupMount, Membership, parse_memberships, parse_mountinfo};
use rustix::fs::{Access as Mode, AtFlags, CWD, accessat};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A controller that carries one of our limits or figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    Memory,
    Pids,
    Cpu,
    /// Only v1 has it apart from `cpu`; used for the cpu time spent.
    Cpuacct,
}

impl Controller {
    pub(super) const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::Cpuacct];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.name() == name)
    }
}

/// Whether this process may make groups in a cgroup directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Writable,
    /// In words, for the person who asked for a limit.
    Refused(String),
}

/// Who else lives directly in a v2 cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupants {
    Nobody,
    OnlyUs,
    Others,
}

/// A v2 cgroup that could hold our group: our own or one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub dir: PathBuf,
    pub access: Access,
    /// The true root, which alone may hold processes beside controllers.
    pub is_root: bool,
    /// `cgroup.controllers`: what could be handed on.
    pub available: Vec<Controller>,
    /// `cgroup.subtree_control`: what is handed on already.
    pub enabled: Vec<Controller>,
    pub occupants: Occupants,
}

/// A v1 tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Legacy {
    pub controllers: Vec<Controller>,
    /// Our own cgroup in it.
    pub dir: PathBuf,
    pub access: Access,
}

/// The four arrangements of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    V2,
    V1,
    Hybrid,
    None,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::V2 => "v2",
            Self::V1 => "v1",
            Self::Hybrid => "hybrid",
            Self::None => "none",
        })
    }
}

/// The cgroup trees as seen from this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub kind: Kind,
    /// Our own v2 cgroup first, then its ancestors up to the mount's top.
    pub v2: Vec<Place>,
    pub v1: Vec<Legacy>,
}

/// A layout could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

impl Layout {
    /// Looks at the trees below `root`: `/`, or a made-up tree in tests.
    ///
    /// # Errors
    ///
    /// When `/proc/self/mountinfo` cannot be read. A kernel without cgroups is
    /// no error but [`Kind::None`].
    pub fn detect(root: &Path) -> Result<Self, LayoutError> {
        let read = |path: &str| {
            let path = root.join(path);
            std::fs::read_to_string(&path).map_err(|source| LayoutError::Read { path, source })
        };
        let mounts = parse_mountinfo(read("proc/self/mountinfo")?.as_bytes());
        let memberships = match read("proc/self/cgroup") {
            Ok(table) => parse_memberships(&table),
            Err(LayoutError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let v1: Vec<_> =
            memberships.iter().filter_map(|line| find_v1(root, line, &mounts)).collect();
        let v2 = find_v2(root, &memberships, &mounts);
        let kind = match (v2.is_empty(), v1.is_empty()) {
            (false, true) => Kind::V2,
            (true, false) => Kind::V1,
            (false, false) => Kind::Hybrid,
            (true, true) => Kind::None,
        };
        Ok(Self { kind, v2, v1 })
    }

    /// The v1 tree of `controller`.
    pub(super) fn legacy(&self, controller: Controller) -> Option<&Legacy> {
        self.v1.iter().find(|tree| tree.controllers.contains(&controller))
    }
}

/// Joins an absolute path to a root that may be made up.
fn beneath(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The first mount that shows `path`, by its place in the file system.
fn locate<'a>(
    root: &Path,
    path: &Path,
    mut mounts: impl Iterator<Item = &'a CgroupMount>,
) -> Option<(PathBuf, PathBuf)> {
    mounts.find_map(|mount| Some((beneath(root, &mount.locate(path)?), beneath(root, &mount.at))))
}

fn find_v1(root: &Path, line: &Membership, mounts: &[CgroupMount]) -> Option<Legacy> {
    let controllers: Vec<_> =
        line.controllers.iter().filter_map(|name| Controller::parse(name)).collect();
    let first = controllers.first()?;
    let carries = |mount: &&CgroupMount| {
        let options = mount.v1_options.iter().flatten();
        options.into_iter().any(|option| option == first.name())
    };
    let (dir, _top) = locate(root, &line.path, mounts.iter().filter(carries))?;
    let access = access(&dir);
    Some(Legacy { controllers, dir, access })
}

fn find_v2(root: &Path, memberships: &[Membership], mounts: &[CgroupMount]) -> Vec<Place> {
    let Some(line) = memberships.iter().find(|line| line.controllers.is_empty()) else {
        return Vec::new();
    };
    let unified = mounts.iter().filter(|mount| mount.v1_options.is_none());
    let Some((own, top)) = locate(root, &line.path, unified) else { return Vec::new() };
    own.ancestors().take_while(|dir| dir.starts_with(&top)).map(place).collect()
}

fn place(dir: &Path) -> Place {
    let list = |file: &str| -> Vec<Controller> {
        let names = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
        names.split_whitespace().filter_map(Controller::parse).collect()
    };
    // Only the true root lacks this file; the top of a cgroup namespace has it.
    let kind = std::fs::read_to_string(dir.join("cgroup.type"));
    let is_root = matches!(&kind, Err(error) if error.kind() == io::ErrorKind::NotFound);
    let threaded = kind.is_ok_and(|kind| kind.trim() != "domain");
    let access = if threaded {
        Access::Refused(format!("{} is a threaded cgroup", dir.display()))
    } else {
        access(dir)
    };
    // The root may hold thousands of processes and may hold them; do not count.
    let occupants =
        if is_root || access != Access::Writable { Occupants::Others } else { occupants(dir) };
    Place {
        access,
        is_root,
        available: list("cgroup.controllers"),
        enabled: list("cgroup.subtree_control"),
        occupants,
        dir: dir.to_owned(),
    }
}

fn occupants(dir: &Path) -> Occupants {
    let us = std::process::id().to_string();
    match std::fs::read_to_string(dir.join("cgroup.procs")) {
        Ok(pids) if pids.trim().is_empty() => Occupants::Nobody,
        Ok(pids) if pids.lines().all(|pid| pid == us) => Occupants::OnlyUs,
        Ok(_) | Err(_) => Occupants::Others,
    }
}

/// A child group needs a directory of ours and, to move a process into it, the
/// task list of the nearest common ancestor (cgroup-v2.rst, "Delegation
/// Containment"), which is this directory or one above it.
fn access(dir: &Path) -> Access {
    let refused = |path: &Path, error: rustix::io::Errno| {
        let why = match error {
            rustix::io::Errno::ROFS => "is mounted read-only".to_owned(),
            rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => {
                format!("is not writable for user {}", rustix::process::geteuid().as_raw())
            }
            error => format!("cannot be used ({})", io::Error::from(error)),
        };
        Access::Refused(format!("{} {why}", path.display()))
    };
    if let Err(error) = accessat(CWD, dir, Mode::WRITE_OK | Mode::EXEC_OK, AtFlags::EACCESS) {
        return refused(dir, error);
    }
    let tasks = dir.join("cgroup.procs");
    match accessat(CWD, &tasks, Mode::WRITE_OK, AtFlags::EACCESS) {
        Ok(()) => Access::Writable,
        Err(error) => refused(&tasks, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    const V2_MOUNT: &str = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1_MOUNTS: &str = "\
        31 20 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 20 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        33 20 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";

    #[test]
    fn v2_lists_our_cgroup_and_its_ancestors() {
        let us = std::process::id().to_string();
        let own = "sys/fs/cgroup/user.slice/run.scope";
        let root = tree(&[
            ("proc/self/mountinfo", V2_MOUNT),
            ("proc/self/cgroup", "0::/user.slice/run.scope\n"),
            ("sys/fs/cgroup/cgroup.procs", "1\n2\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n"),
            ("sys/fs/cgroup/cgroup.subtree_control", "cpu memory pids\n"),
            ("sys/fs/cgroup/user.slice/cgroup.procs", ""),
            ("sys/fs/cgroup/user.slice/cgroup.type", "domain\n"),
            ("sys/fs/cgroup/user.slice/cgroup.controllers", "cpu memory pids\n"),
            ("sys/fs/cgroup/user.slice/cgroup.subtree_control", "memory pids\n"),
            (&format!("{own}/cgroup.procs"), &us),
            (&format!("{own}/cgroup.type"), "domain\n"),
            (&format!("{own}/cgroup.controllers"), "memory pids\n"),
            (&format!("{own}/cgroup.subtree_control"), "\n"),
        ]);
        let layout = Layout::detect(root.path()).unwrap();
        assert_eq!(layout.kind, Kind::V2);
        let [own_place, slice, top] = layout.v2.as_slice() else { panic!("{layout:?}") };
        assert_eq!(own_place.dir, root.path().join(own));
        assert_eq!(own_place.access, Access::Writable);
        assert_eq!(own_place.occupants, Occupants::OnlyUs);
        assert_eq!(own_place.available, [Controller::Memory, Controller::Pids]);
        assert_eq!(own_place.enabled, []);
        assert!(!own_place.is_root);
        assert_eq!(slice.occupants, Occupants::Nobody);
        assert_eq!(slice.enabled, [Controller::Memory, Controller::Pids]);
        assert_eq!(top.dir, root.path().join("sys/fs/cgroup"));
        assert!(top.is_root);
    }

    #[test]
    fn a_threaded_or_missing_cgroup_is_refused_with_the_reason() {
        let root = tree(&[
            ("proc/self/mountinfo", V2_MOUNT),
            ("proc/self/cgroup", "0::/gone\n"),
            ("sys/fs/cgroup/cgroup.type", "threaded\n"),
            ("sys/fs/cgroup/cgroup.procs", ""),
        ]);
        let layout = Layout::detect(root.path()).unwrap();
        let reasons: Vec<_> = layout.v2.iter().map(|place| format!("{:?}", place.access)).collect();
        assert!(reasons[0].contains("No such file"), "{reasons:?}");
        assert!(reasons[1].contains("threaded"), "{reasons:?}");
    }

    #[test]
    fn v1_finds_a_path_per_controller() {
        let root = tree(&[
            ("proc/self/mountinfo", V1_MOUNTS),
            ("proc/self/cgroup", "9:name=systemd:/\n4:memory:/box/1\n3:cpu,cpuacct:/\n2:pids:/\n"),
            ("sys/fs/cgroup/memory/box/1/cgroup.procs", ""),
            ("sys/fs/cgroup/cpu,cpuacct/cgroup.procs", ""),
        ]);
        let layout = Layout::detect(root.path()).unwrap();
        assert_eq!(layout.kind, Kind::V1);
        let dir = |controller| layout.legacy(controller).map(|tree| tree.dir.clone());
        let cgroup = root.path().join("sys/fs/cgroup");
        assert_eq!(dir(Controller::Memory), Some(cgroup.join("memory/box/1")));
        assert_eq!(dir(Controller::Cpu), Some(cgroup.join("cpu,cpuacct/")));
        assert_eq!(dir(Controller::Cpu), dir(Controller::Cpuacct));
        // Known to the kernel, but mounted nowhere.
        assert_eq!(dir(Controller::Pids), None);
    }

    #[test]
    fn hybrid_and_none() {
        let mounts = format!("{V1_MOUNTS}{}", V2_MOUNT.replace("/cgroup rw", "/cgroup/unified rw"));
        let root = tree(&[
            ("proc/self/mountinfo", &mounts),
            ("proc/self/cgroup", "4:memory:/\n0::/\n"),
            ("sys/fs/cgroup/memory/cgroup.procs", ""),
            ("sys/fs/cgroup/unified/cgroup.procs", ""),
        ]);
        assert_eq!(Layout::detect(root.path()).unwrap().kind, Kind::Hybrid);

        let root = tree(&[("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")]);
        assert_eq!(Layout::detect(root.path()).unwrap().kind, Kind::None);

        let root = tree(&[]);
        let error = Layout::detect(root.path()).unwrap_err();
        assert!(error.to_string().contains("mountinfo"), "{error}");
    }
}
