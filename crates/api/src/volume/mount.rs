//! How a sandbox has a volume: where, and what it may do with it.

use super::{VolumeName, VolumeRef};
use crate::id::VolumeId;
use crate::sandbox::{InvalidRequest, malformed, not_longer, not_more};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most volumes of a sandbox.
pub const VOLUME_MOUNTS_COUNT_MAX: usize = 16;

/// Longest path at which one is shown, in bytes.
pub const VOLUME_PATH_BYTES_MAX: usize = 1024;

/// What is said where several write.
pub const SHARED_WARNING: &str = "other sandboxes may write to this volume at the same time, and \
                                  nothing keeps what they write apart";

/// Where nothing is shown, and nothing below: what makes the system work.
const SYSTEM: [&str; 18] = [
    "/bin", "/boot", "/dev", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix",
    "/proc", "/run", "/sbin", "/snap", "/sys", "/usr", "/var/run", "/var/tmp",
];

/// Where nothing is shown, but below.
const OWN: [&str; 5] = ["/home", "/home/user", "/root", "/tmp", "/var"];

/// What a sandbox may do with a volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VolumeAccess {
    /// It reads, beside whoever writes.
    ReadOnly,
    /// It writes, and no other sandbox does.
    #[default]
    Writer,
    /// It writes beside others that do too: how they keep out of each other's way is theirs.
    Shared,
}

impl VolumeAccess {
    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Writer => "writer",
            Self::Shared => "shared",
        }
    }

    /// Whether two sandboxes may have a volume so at once.
    pub fn goes_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::ReadOnly, _) | (_, Self::ReadOnly) | (Self::Shared, Self::Shared) => true,
            (Self::Writer, _) | (_, Self::Writer) => false,
        }
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        self != Self::ReadOnly
    }
}

impl fmt::Display for VolumeAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Asks for a volume to be shown in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeMount {
    /// Which, by its id or name.
    pub volume: VolumeRef,
    /// Where inside: an absolute path without `.` and `..`, that is neither in a directory of the
    /// system's nor the home, `/tmp`, `/var` or `/root` themselves. What the image has there is
    /// covered.
    #[schema(min_length = 2, max_length = 1024)]
    pub path: String,
    /// What it may do with it.
    #[serde(default)]
    pub access: VolumeAccess,
}

/// A volume that a sandbox has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MountedVolume {
    /// Which.
    pub volume_id: VolumeId,
    /// Its name.
    pub name: VolumeName,
    /// Where inside.
    pub path: String,
    /// What it may do with it.
    pub access: VolumeAccess,
    /// What to beware of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Checks where volumes are to be shown.
///
/// # Errors
/// Gives the first field that is wrong, with the limit that it breaks.
pub fn validate_mounts(mounts: &[VolumeMount]) -> Result<(), InvalidRequest> {
    not_more("volumes", mounts.len(), VOLUME_MOUNTS_COUNT_MAX)?;
    for (index, mount) in mounts.iter().enumerate() {
        let field = format!("volumes.{index}.path");
        not_longer(&field, &mount.path, VOLUME_PATH_BYTES_MAX)?;
        if let Some(reason) = flaw(&mount.path) {
            return malformed(&field, reason);
        }
        let earlier = || mounts.iter().take(index);
        if earlier().any(|other| meet(&other.path, &mount.path)) {
            return malformed(
                &field,
                "is within the path of another volume, or the other way round",
            );
        }
        if earlier().any(|other| other.volume == mount.volume) {
            return malformed(&format!("volumes.{index}.volume"), "is there already");
        }
    }
    Ok(())
}

/// What is wrong with a path at which a volume is to be shown.
fn flaw(path: &str) -> Option<&'static str> {
    let Some(below) = path.strip_prefix('/') else { return Some("is not an absolute path") };
    if path.chars().any(char::is_control) {
        return Some("contains a control character");
    }
    let is_plain = |name: &str| !name.is_empty() && name != "." && name != "..";
    if !below.split('/').all(is_plain) {
        return Some("has an empty part, `.` or `..`, or ends with a slash");
    }
    if SYSTEM.iter().any(|system| is_within(path, system)) {
        return Some("is in a directory of the system's");
    }
    OWN.contains(&path).then_some("is a directory that other things are in; choose one below it")
}

fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn meet(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(volume: &str, path: &str) -> VolumeMount {
        let access = VolumeAccess::default();
        VolumeMount { volume: volume.parse().unwrap(), path: path.to_owned(), access }
    }

    #[test]
    fn who_writes_alone_goes_with_no_other_who_writes() {
        use VolumeAccess::{ReadOnly, Shared, Writer};
        for (one, other, go) in [
            (ReadOnly, ReadOnly, true),
            (ReadOnly, Writer, true),
            (ReadOnly, Shared, true),
            (Shared, Shared, true),
            (Writer, Writer, false),
            (Writer, Shared, false),
        ] {
            assert_eq!(one.goes_with(other), go, "{one} and {other}");
            assert_eq!(other.goes_with(one), go, "{other} and {one}");
        }
        for access in [ReadOnly, Writer, Shared] {
            assert_eq!(serde_json::to_value(access).unwrap(), access.as_str());
        }
    }

    #[test]
    fn a_volume_is_shown_where_nothing_of_the_systems_is() {
        for path in ["/data", "/home/user/models", "/tmp/x", "/var/lib/db", "/opt/x", "/usrx", "/r"]
        {
            assert_eq!(validate_mounts(&[mount("a", path)]), Ok(()), "{path}");
        }
        for path in [
            "",
            "/",
            "data",
            "./data",
            "/data/",
            "//data",
            "/data//x",
            "/data/../etc",
            "/./data",
            "/..",
            "/a\0b",
            "/a\nb",
            "/proc",
            "/proc/self",
            "/sys/fs",
            "/dev",
            "/dev/shm",
            "/run",
            "/etc",
            "/etc/x",
            "/usr/local/x",
            "/lib64",
            "/home",
            "/home/user",
            "/tmp",
            "/var",
            "/var/run/x",
            "/root",
        ] {
            let refused = validate_mounts(&[mount("a", path)]).unwrap_err();
            assert_eq!(refused.field(), "volumes.0.path", "{path:?}");
        }
        let long = format!("/{}", "a".repeat(VOLUME_PATH_BYTES_MAX));
        assert!(validate_mounts(&[mount("a", &long)]).is_err());
    }

    #[test]
    fn volumes_do_not_meet_and_each_comes_once() {
        let refused =
            |mounts: &[VolumeMount]| validate_mounts(mounts).unwrap_err().field().to_owned();
        assert_eq!(validate_mounts(&[mount("a", "/a"), mount("b", "/ab")]), Ok(()));
        for (one, other) in [("/a", "/a"), ("/a", "/a/b"), ("/a/b", "/a")] {
            let mounts = [mount("a", one), mount("b", other)];
            assert_eq!(refused(&mounts), "volumes.1.path", "{one} and {other}");
        }
        assert_eq!(refused(&[mount("a", "/a"), mount("a", "/b")]), "volumes.1.volume");
        let many: Vec<_> = (0..=VOLUME_MOUNTS_COUNT_MAX)
            .map(|number| mount(&format!("v{number}"), &format!("/v{number}")))
            .collect();
        assert_eq!(refused(&many), "volumes");
        assert_eq!(validate_mounts(&many[1..]), Ok(()));
    }
}
