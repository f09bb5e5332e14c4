//! Reads where cgroup trees are mounted and where in them we are.

use crate::mountinfo::{Mount, mounts, unescape};
use std::path::{Path, PathBuf};

/// One cgroup mount of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CgroupMount {
    /// The cgroup that is visible as the top of this mount.
    pub(super) shown: PathBuf,
    pub(super) at: PathBuf,
    /// `None` for v2; else the super options of v1, which name its controllers.
    pub(super) v1_options: Option<Vec<String>>,
}

/// Picks the cgroup mounts out of a mountinfo table.
pub(super) fn parse_mountinfo(table: &[u8]) -> Vec<CgroupMount> {
    mounts(table).filter_map(|mount| parse_mount(&mount)).collect()
}

fn parse_mount(mount: &Mount<'_>) -> Option<CgroupMount> {
    let v1_options = match mount.kind {
        b"cgroup2" => None,
        b"cgroup" => {
            let options = String::from_utf8_lossy(mount.options);
            Some(options.split(',').map(str::to_owned).collect())
        }
        _ => return None,
    };
    Some(CgroupMount { shown: unescape(mount.shown), at: unescape(mount.at), v1_options })
}

/// One line of `/proc/self/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Membership {
    /// Empty for v2.
    pub(super) controllers: Vec<String>,
    pub(super) path: PathBuf,
}

/// Parses `/proc/self/cgroup`: `id:controllers:path`.
///
/// Source: cgroups(7).
pub(super) fn parse_memberships(table: &str) -> Vec<Membership> {
    let parse = |line: &str| {
        let (_id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let controllers =
            controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Some(Membership { controllers, path: path.into() })
    };
    table.lines().filter_map(parse).collect()
}

impl CgroupMount {
    /// Where the cgroup `path` is seen through this mount; `None` when it lies
    /// outside of what the mount shows, as in a container that was given the
    /// host's cgroup namespace but only a part of the tree.
    pub(super) fn locate(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.shown).ok()?;
        if below.components().any(|part| part == std::path::Component::ParentDir) {
            return None;
        }
        // Joining nothing would leave a slash at the end.
        let is_top = below.as_os_str().is_empty();
        Some(if is_top { self.at.clone() } else { self.at.join(below) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_picked_and_unescaped() {
        let table = "\
            22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            31 23 0:28 / /sys/fs/cgroup/a\\040b rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            41 31 0:38 /pod /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n\
            garbage\n";
        let mounts = parse_mountinfo(table.as_bytes());
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].at, Path::new("/sys/fs/cgroup/a b"));
        assert_eq!(mounts[0].v1_options.as_deref().unwrap(), ["rw", "cpu", "cpuacct"]);
        assert_eq!(mounts[1].shown, Path::new("/pod"));
        assert_eq!(mounts[1].v1_options, None);
    }

    #[test]
    fn a_cgroup_outside_of_the_mount_is_not_located() {
        let mount =
            |shown: &str| CgroupMount { shown: shown.into(), at: "/m".into(), v1_options: None };
        assert_eq!(mount("/").locate(Path::new("/a/b")), Some("/m/a/b".into()));
        assert_eq!(mount("/a").locate(Path::new("/a/b")), Some("/m/b".into()));
        assert_eq!(mount("/a").locate(Path::new("/a")), Some("/m".into()));
        assert_eq!(mount("/a").locate(Path::new("/ab")), None);
        assert_eq!(mount("/a").locate(Path::new("/")), None);
        assert_eq!(mount("/").locate(Path::new("/../x")), None);
    }

    #[test]
    fn memberships_are_parsed() {
        let lines =
            parse_memberships("9:name=systemd:/\n4:cpu,cpuacct:/a:b\n0::/user.slice\n\nx\n");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].controllers, ["name=systemd"]);
        assert_eq!(lines[1].controllers, ["cpu", "cpuacct"]);
        assert_eq!(lines[1].path, Path::new("/a:b"));
        assert!(lines[2].controllers.is_empty());
    }
}
