//! Who asks, and which user the workload is.

use crate::env;
use atoll_jail::spec::User;
use std::path::PathBuf;

/// The outside user of a workload whose project belongs to root, when root asks:
/// a number that systemd and Debian leave unused, so that nothing of the host
/// belongs to it. Root's project shows it its own files by an id-mapped mount.
const NOBODYS_ID: u32 = 65_533;

/// Who started us.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: PathBuf,
    pub(crate) shell: PathBuf,
}

/// Whom the workload is, and how the project is shown to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: User,
    /// The project's owner is not the outside user: its mount is id-mapped.
    pub(crate) maps_project: bool,
}

impl Caller {
    /// Looks the caller up: ids from the kernel, the shell from the environment.
    pub(crate) fn find(home: Option<PathBuf>) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let home = home.unwrap_or_else(|| "/root".into());
        let shell = env::SHELL.path().unwrap_or_else(|| "/bin/sh".into());
        Self { uid, gid, home, shell }
    }

    /// The account name inside.
    pub(crate) fn name_inside(&self, inside_uid: u32) -> String {
        let named = env::USER.get().and_then(|name| name.into_string().ok());
        match named {
            _ if inside_uid == 0 => "root".to_owned(),
            Some(name) if self.uid == inside_uid && is_plain(&name) => name,
            _ => "user".to_owned(),
        }
    }

    /// An ordinary caller stays itself. Root becomes the project's owner, since
    /// uid 0 without capabilities still owns what is root's; where that owner
    /// is root too, the workload looks like root inside and is nobody outside.
    pub(crate) fn identity(&self, owner: (u32, u32)) -> Identity {
        let same = |uid, gid| User {
            inside_uid: uid,
            inside_gid: gid,
            outside_uid: uid,
            outside_gid: gid,
        };
        match (self.uid, owner) {
            (0, (0, gid)) => Identity {
                user: User {
                    inside_uid: 0,
                    inside_gid: gid,
                    outside_uid: NOBODYS_ID,
                    outside_gid: NOBODYS_ID,
                },
                maps_project: true,
            },
            (0, (uid, gid)) => Identity { user: same(uid, gid), maps_project: false },
            (uid, _) => Identity { user: same(uid, self.gid), maps_project: false },
        }
    }
}

/// Says whether this user namespace has the user at all: a root that is alone in
/// its namespace, as in some containers, cannot become anybody else.
pub(crate) fn exists(uid: u32) -> bool {
    std::fs::read_to_string("/proc/self/uid_map").map_or(true, |map| holds(&map, uid))
}

/// Says whether root can become somebody else, and give files away: whoever started
/// us may have emptied the bounding set.
pub(crate) fn has_roots_rights() -> bool {
    use rustix::thread::CapabilitySet;
    let needed = CapabilitySet::CHOWN | CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|own| own.effective.contains(needed))
}

/// Lines of first id inside, first id outside, count (user_namespaces(7)).
fn holds(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
        match (numbers.next().flatten(), numbers.nth(1).flatten()) {
            (Some(first), Some(count)) => (first..first + count).contains(&u64::from(uid)),
            _ => false,
        }
    })
}

/// A name that can stand in an account file.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= 32 && name != "root" && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(uid: u32) -> Caller {
        Caller { uid, gid: uid, home: "/h".into(), shell: "/bin/sh".into() }
    }

    #[test]
    fn an_ordinary_caller_stays_itself_whoever_owns_the_project() {
        let identity = caller(1000).identity((1001, 1001));
        assert_eq!((identity.user.inside_uid, identity.user.outside_uid), (1000, 1000));
        assert!(!identity.maps_project);
    }

    #[test]
    fn ids_that_a_namespace_has() {
        let whole = "         0          0 4294967295\n";
        assert!(holds(whole, NOBODYS_ID) && holds(whole, 0));
        let alone = "         0       1000          1\n";
        assert!(holds(alone, 0) && !holds(alone, NOBODYS_ID));
        assert!(holds("0 100000 1000\n65533 165533 1\n", NOBODYS_ID));
    }

    #[test]
    fn root_becomes_the_owner_of_the_project() {
        let identity = caller(0).identity((1001, 1002));
        assert_eq!((identity.user.inside_uid, identity.user.outside_uid), (1001, 1001));
        assert_eq!((identity.user.inside_gid, identity.user.outside_gid), (1002, 1002));
    }

    #[test]
    fn for_roots_own_project_root_is_nobody_outside() {
        let identity = caller(0).identity((0, 0));
        assert_eq!((identity.user.inside_uid, identity.user.outside_uid), (0, NOBODYS_ID));
        assert!(identity.maps_project);
    }
}
