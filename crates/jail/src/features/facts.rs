//! What the host's files say, without trying anything.

use crate::cgroup::Layout;
use crate::mountinfo::{mounts, unescape};
use std::path::{Path, PathBuf};

/// No file that we read here is longer.
const READ_MAX: u64 = 256 << 10;
/// Profiles looked at, so that a strange directory cannot hold us up.
const PROFILES_MAX: usize = 2_000;

/// The inode numbers of the first namespaces, which are the same on every
/// machine (linux/proc_ns.h). A container has its own of at least one of these.
const INITIAL_NAMESPACES: [(&str, &str); 3] =
    [("pid", "4026531836"), ("uts", "4026531838"), ("ipc", "4026531839")];

/// A kernel's version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Release {
    pub major: u32,
    pub minor: u32,
    /// In full, as uname(2) gives it.
    pub text: String,
}

impl Release {
    /// Parses `6.8.0-45-generic`; a part that is no number counts as 0.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .map(|part| part.parse().unwrap_or(0))
            .chain(std::iter::repeat(0));
        let major = numbers.next().unwrap_or(0);
        let minor = numbers.next().unwrap_or(0);
        Self { major, minor, text: text.to_owned() }
    }

    /// Whether it is this version or a later one. Distributions carry features
    /// back, so this explains a failure but never predicts one.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

/// What AppArmor says about user namespaces and about us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppArmor {
    pub is_enabled: bool,
    /// `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu 23.10 and later).
    pub restricts_userns: bool,
    /// What we run under, such as `unconfined` or `docker-default (enforce)`.
    pub label: Option<String>,
    /// The file in `/etc/apparmor.d` that names our own path.
    pub profile_file: Option<PathBuf>,
}

/// What the host's files say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    pub kernel: Release,
    /// `PRETTY_NAME` of os-release.
    pub system: Option<String>,
    pub uid: u32,
    /// This program's own file.
    pub own_path: PathBuf,
    /// `docker`, `podman`, `lxc` and the like, when inside one.
    pub container: Option<String>,
    /// 1 or 2 inside the Windows Subsystem for Linux.
    pub wsl: Option<u8>,
    /// `user.max_user_namespaces`; 0 switches them off.
    pub max_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone`, a switch of Debian's and Arch's.
    pub unprivileged_userns_clone: Option<bool>,
    pub apparmor: AppArmor,
    /// Security modules in order, where they can be read.
    pub lsm: Option<String>,
    /// `kernel.yama.ptrace_scope`.
    pub yama: Option<u8>,
    /// Whether a seccomp filter already binds this process.
    pub is_filtered: bool,
    /// Whether something is mounted over a part of `/proc`: then a new one may
    /// not be mounted, since it would show what was hidden.
    pub is_proc_masked: bool,
    /// Whether this process is already in a user namespace of somebody's.
    pub is_in_user_namespace: bool,
    pub cgroups: Option<Layout>,
}

impl Facts {
    /// Reads the files below `root`: `/`, or a made-up tree in tests. What is
    /// not there or cannot be read stays unknown.
    pub fn read(root: &Path, own_path: &Path) -> Self {
        let files = Files { root };
        let kernel = Release::parse(&files.text("proc/sys/kernel/osrelease").unwrap_or_default());
        Self {
            system: files.text("etc/os-release").and_then(|text| pretty_name(&text)),
            uid: rustix::process::geteuid().as_raw(),
            own_path: own_path.to_owned(),
            container: files.container(),
            wsl: wsl(&kernel.text),
            max_user_namespaces: files.number("proc/sys/user/max_user_namespaces"),
            unprivileged_userns_clone: files
                .number("proc/sys/kernel/unprivileged_userns_clone")
                .map(|value| value != 0),
            apparmor: files.apparmor(own_path),
            lsm: files.line("sys/kernel/security/lsm"),
            yama: files
                .number("proc/sys/kernel/yama/ptrace_scope")
                .and_then(|value| u8::try_from(value).ok()),
            is_filtered: files.text("proc/self/status").is_some_and(|text| is_filtered(&text)),
            is_proc_masked: files
                .text("proc/self/mountinfo")
                .is_some_and(|table| is_proc_masked(&table)),
            is_in_user_namespace: files
                .text("proc/self/uid_map")
                .is_some_and(|map| is_partial_map(&map)),
            cgroups: Layout::detect(root).ok(),
            kernel,
        }
    }
}

struct Files<'a> {
    root: &'a Path,
}

impl Files<'_> {
    fn text(&self, path: &str) -> Option<String> {
        read_bounded(&self.root.join(path))
    }

    fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.trim();
        (!line.is_empty()).then(|| without_controls(line))
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.line(path)?.parse().ok()
    }

    /// Sources: container managers mark their containers with these files;
    /// `/run/systemd/container` is systemd's "Container Interface".
    ///
    /// A virtual machine whose root file system was once a container's keeps the
    /// mark, so where it can be seen that we are in no namespace it counts for
    /// nothing.
    fn container(&self) -> Option<String> {
        if INITIAL_NAMESPACES.iter().all(|(name, inode)| self.is_namespace(name, inode)) {
            return None;
        }
        if let Some(manager) = self.line("run/systemd/container") {
            return Some(manager);
        }
        let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
        if let Some((_, manager)) = marks.iter().find(|(mark, _)| self.root.join(mark).exists()) {
            return Some((*manager).to_owned());
        }
        let cgroups = self.text("proc/self/cgroup")?;
        let managers = ["kubepods", "docker", "lxc", "containerd"];
        let found = managers
            .into_iter()
            .find(|manager| cgroups.lines().any(|line| line.contains(&format!("/{manager}"))))?;
        Some(if found == "kubepods" { "kubernetes" } else { found }.to_owned())
    }

    fn is_namespace(&self, name: &str, inode: &str) -> bool {
        let link = std::fs::read_link(self.root.join("proc/self/ns").join(name));
        link.is_ok_and(|target| target.as_os_str() == &*format!("{name}:[{inode}]"))
    }

    fn apparmor(&self, own_path: &Path) -> AppArmor {
        let is_enabled =
            self.line("sys/module/apparmor/parameters/enabled").as_deref() == Some("Y");
        if !is_enabled {
            return AppArmor::default();
        }
        let restricts = self.number("proc/sys/kernel/apparmor_restrict_unprivileged_userns");
        AppArmor {
            is_enabled,
            restricts_userns: restricts.is_some_and(|value| value != 0),
            label: self
                .line("proc/self/attr/apparmor/current")
                .or_else(|| self.line("proc/self/attr/current")),
            profile_file: self.profile_for(own_path),
        }
    }

    /// The kernel's list of loaded profiles is for root alone, so the files
    /// have to do; whether one is loaded shows when a namespace is tried.
    fn profile_for(&self, own_path: &Path) -> Option<PathBuf> {
        let own_path = own_path.to_str()?;
        let entries = std::fs::read_dir(self.root.join("etc/apparmor.d")).ok()?;
        let mut files: Vec<_> =
            entries.flatten().map(|entry| entry.path()).take(PROFILES_MAX).collect();
        files.sort();
        files.into_iter().find(|file| {
            let text = read_bounded(file).unwrap_or_default();
            text.lines().filter(|line| !line.trim_start().starts_with('#')).any(|line| {
                let mut words = line.split(|c: char| c.is_whitespace() || c == '"' || c == '=');
                words.any(|word| word == own_path)
            })
        })
    }
}

/// Reads a regular file or one of the kernel's, up to a bound.
fn read_bounded(path: &Path) -> Option<String> {
    use std::io::Read as _;
    // Opening a FIFO would wait for a writer.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(READ_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Facts are shown on terminals.
fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Source: os-release(5).
fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(without_controls(value.trim().trim_matches(['"', '\''])))
}

/// Microsoft's kernels say in their release what they are.
fn wsl(release: &str) -> Option<u8> {
    if release.contains("microsoft-standard") || release.contains("WSL2") {
        Some(2)
    } else if release.contains("Microsoft") {
        Some(1)
    } else {
        None
    }
}

/// Source: proc_pid_status(5): 2 is `SECCOMP_MODE_FILTER`.
fn is_filtered(status: &str) -> bool {
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// Anything over a part of `/proc`, but for the automount that every
/// distribution puts there, which the kernel lets pass (it is on an empty
/// directory).
fn is_proc_masked(mountinfo: &str) -> bool {
    mounts(mountinfo.as_bytes())
        .map(|mount| unescape(mount.at))
        .filter(|at| at != Path::new("/proc") && at.starts_with("/proc"))
        .any(|at| at != Path::new("/proc/sys/fs/binfmt_misc"))
}

/// The first user namespace alone maps all ids.
fn is_partial_map(map: &str) -> bool {
    let mut fields = map.split_whitespace();
    let whole = ["0", "0", "4294967295"];
    !whole.into_iter().all(|number| fields.next() == Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    fn facts(files: &[(&str, &str)]) -> Facts {
        Facts::read(tree(files).path(), Path::new("/opt/bin/atoll"))
    }

    #[test]
    fn releases_are_compared_by_number() {
        let release = Release::parse("5.15.167.4-microsoft-standard-WSL2\n");
        assert_eq!((release.major, release.minor), (5, 15));
        assert!(release.is_at_least(5, 9) && !release.is_at_least(5, 19));
        assert!(Release::parse("6.1").is_at_least(5, 19));
        assert_eq!(Release::parse("").major, 0);
    }

    #[test]
    fn ubuntu_restricts_user_namespaces() {
        let ubuntu = [
            ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
            ("etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\n"),
            ("sys/module/apparmor/parameters/enabled", "Y\n"),
            ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n"),
            ("proc/self/attr/current", "unconfined\n"),
            ("proc/sys/user/max_user_namespaces", "63000\n"),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            ("etc/apparmor.d/other", "# /opt/bin/atoll\nprofile x /opt/bin/atoll-guest {\n}\n"),
        ];
        let facts = facts(&ubuntu);
        assert_eq!(facts.system.as_deref(), Some("Ubuntu 24.04.1 LTS"));
        assert!(facts.apparmor.restricts_userns);
        assert_eq!(facts.apparmor.label.as_deref(), Some("unconfined"));
        assert_eq!(facts.apparmor.profile_file, None);
        assert_eq!(facts.max_user_namespaces, Some(63000));
        assert!(!facts.is_in_user_namespace && facts.container.is_none());

        let mut with_profile = ubuntu.to_vec();
        with_profile.push(("etc/apparmor.d/atoll", "@{atoll} = /opt/bin/atoll\nprofile a @{a} {}"));
        let file = self::facts(&with_profile).apparmor.profile_file.unwrap();
        assert_eq!(file.file_name().unwrap(), "atoll");
    }

    #[test]
    fn docker_shows_by_its_mark_its_filter_and_its_masks() {
        let facts = facts(&[
            (".dockerenv", ""),
            ("proc/self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"),
            (
                "proc/self/mountinfo",
                "20 1 0:5 / /proc rw - proc proc rw\n21 20 0:6 /null /proc/kcore rw - tmpfs t rw\n",
            ),
        ]);
        assert_eq!(facts.container.as_deref(), Some("docker"));
        assert!(facts.is_filtered && facts.is_proc_masked);
    }

    #[test]
    fn other_containers_and_wsl() {
        let container = |path: &str, text: &str| facts(&[(path, text)]).container;
        assert_eq!(container("run/.containerenv", "").as_deref(), Some("podman"));
        assert_eq!(container("run/systemd/container", "lxc\n").as_deref(), Some("lxc"));
        let pod = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n";
        assert_eq!(container("proc/self/cgroup", pod).as_deref(), Some("kubernetes"));
        assert_eq!(container("proc/self/cgroup", "0::/user.slice/my-docker\n"), None);
        assert_eq!(wsl("5.15.167.4-microsoft-standard-WSL2"), Some(2));
        assert_eq!(wsl("4.4.0-19041-Microsoft"), Some(1));
        assert_eq!(wsl("6.8.0-45-generic"), None);
    }

    #[test]
    fn a_mark_in_the_first_namespaces_is_no_container() {
        let root = tree(&[(".dockerenv", ""), ("proc/self/ns/x", "")]);
        let container = || Facts::read(root.path(), Path::new("/a")).container;
        for (name, inode) in INITIAL_NAMESPACES {
            assert_eq!(container().as_deref(), Some("docker"));
            let link = root.path().join("proc/self/ns").join(name);
            std::os::unix::fs::symlink(format!("{name}:[{inode}]"), link).unwrap();
        }
        assert_eq!(container(), None);
    }

    #[test]
    fn binfmt_is_no_mask() {
        let line = |target: &str| format!("9 8 0:4 / {target} rw - autofs systemd-1 rw\n");
        assert!(!is_proc_masked(&line("/proc/sys/fs/binfmt_misc")));
        assert!(!is_proc_masked(&line("/proc")));
        assert!(is_proc_masked(&line("/proc/sys")));
    }

    #[test]
    fn an_empty_tree_knows_nothing() {
        let facts = facts(&[]);
        assert_eq!(facts.kernel, Release::default());
        assert_eq!(facts.cgroups, None);
        assert!(!facts.is_filtered && !facts.is_proc_masked && !facts.is_in_user_namespace);
    }
}
