//! From a failed step to its probable cause and the command that fixes it.

use super::facts::Facts;
use rustix::io::Errno;

/// Why a step probably failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// In words.
    pub cause: String,
    /// For a shell; `None` where no command helps.
    pub command: Option<String>,
}

impl Fix {
    fn new(cause: impl Into<String>, command: impl Into<String>) -> Self {
        Self { cause: cause.into(), command: Some(command.into()) }
    }

    fn without_command(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), command: None }
    }
}

/// Explains why `step` failed with `errno`; `None` where that tells nothing.
///
/// Steps are those of the jail's errors and of the probes: `clone`, `unshare`,
/// `uid_map`, `setuid`, `lo`, the mount calls by their names (`fsopen`, `fsmount`, `open_tree`,
/// `move_mount`, `mount_setattr`, `pivot_root`, ...), `mount_proc`, `overlay`,
/// `idmap`, `loopback`, `landlock`, `seccomp`, `notify`, `nf_tables`, `tun`,
/// `open /dev/kvm`, `kvm`, and single calls such as `clone3`.
///
/// Pure: it knows what `facts` say and no more.
pub fn explain(step: &str, errno: i32, facts: &Facts) -> Option<Fix> {
    let errno = Errno::from_raw_os_error(errno);
    let is_refused = errno == Errno::PERM || errno == Errno::ACCESS;
    match step {
        "clone" | "unshare" => clone(errno, facts),
        "uid_map" | "gid_map" | "setgroups" | "setuid" | "loopback" | "lo" if is_refused => {
            refused(facts)
        }
        "mount_proc" if is_refused => proc(facts),
        "fsopen" | "fsconfig" | "fsmount" | "move_mount" | "open_tree" | "mount_setattr"
        | "pivot_root" | "mount" | "umount2" | "mkdir"
            if is_refused =>
        {
            refused(facts)
        }
        "fsopen" | "fsconfig" | "fsmount" | "move_mount" | "open_tree" if errno == Errno::NOSYS => {
            Some(too_old(facts, "mounting by descriptor", (5, 2)))
        }
        "mount_setattr" if errno == Errno::NOSYS => Some(too_old(facts, "mount_setattr", (5, 12))),
        "clone3" => Some(too_old(facts, "clone3", (5, 3))),
        "close_range" => Some(too_old(facts, "close_range", (5, 9))),
        "pidfd_open" => Some(too_old(facts, "pidfd_open", (5, 3))),
        "overlay" => overlay(errno, facts),
        "idmap" => Some(too_old(facts, "mapping the owners of a mounted tmpfs", (6, 3))),
        "landlock" => landlock(errno, facts),
        "seccomp" => Some(Fix::without_command("the kernel was built without seccomp filters")),
        "notify" => notify(errno, facts),
        "nf_tables" => nf_tables(errno, facts),
        "tun" => tun(errno, facts),
        "open /dev/kvm" | "kvm" => kvm(errno, facts),
        _ => None,
    }
}

fn clone(errno: Errno, facts: &Facts) -> Option<Fix> {
    match errno {
        Errno::PERM | Errno::ACCESS => refused(facts),
        // ENOSPC since Linux 4.9, EUSERS before and for nesting (clone(2)).
        Errno::NOSPC | Errno::USERS => Some(namespace_limit(facts)),
        Errno::AGAIN => Some(Fix::new(
            "this user is at the limit of processes (RLIMIT_NPROC, or a pids cgroup)",
            "ulimit -u unlimited",
        )),
        Errno::NOSYS if is_filtered_in(facts) => refused(facts),
        Errno::NOSYS => Some(too_old(facts, "clone3", (5, 3))),
        Errno::INVAL => {
            Some(Fix::without_command("the kernel was built without one of the namespaces"))
        }
        _ => None,
    }
}

/// The limit is per namespace, so an outer container may have used it up.
fn namespace_limit(facts: &Facts) -> Fix {
    let command = "sudo sysctl -w user.max_user_namespaces=15000";
    match facts.max_user_namespaces {
        Some(0) => {
            Fix::new("user namespaces are switched off (user.max_user_namespaces = 0)", command)
        }
        Some(_) if facts.is_in_user_namespace => Fix::without_command(
            "the surrounding sandbox has room for no more user namespaces; start atoll outside of \
             it",
        ),
        Some(limit) => Fix::new(
            format!("the limit of {limit} user namespaces (user.max_user_namespaces) is reached"),
            command,
        ),
        None => Fix::new("the limit of user namespaces is reached", command),
    }
}

/// Something forbids an ordinary process to use a user namespace. From the most
/// specific to the least.
fn refused(facts: &Facts) -> Option<Fix> {
    if facts.unprivileged_userns_clone == Some(false) {
        return Some(Fix::new(
            "ordinary users may not make user namespaces (kernel.unprivileged_userns_clone = 0)",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ));
    }
    if facts.max_user_namespaces == Some(0) {
        return Some(namespace_limit(facts));
    }
    if let Some(manager) = &facts.container {
        return Some(container(manager, facts));
    }
    if facts.apparmor.restricts_userns {
        return Some(apparmor(facts));
    }
    if facts.is_filtered {
        return Some(Fix::without_command(
            "a seccomp filter of the surrounding program forbids namespaces; start atoll outside \
             of it",
        ));
    }
    if facts.is_in_user_namespace {
        return Some(Fix::without_command(
            "the surrounding sandbox forbids namespaces; start atoll outside of it",
        ));
    }
    let label = facts.apparmor.label.as_deref().filter(|label| !label.starts_with("unconfined"));
    label.map(|label| {
        Fix::without_command(format!("the AppArmor profile {label} confines this process"))
    })
}

fn is_filtered_in(facts: &Facts) -> bool {
    facts.container.is_some() && facts.is_filtered
}

/// A container's own walls: filter, profile and masks are options of its
/// manager.
fn container(manager: &str, facts: &Facts) -> Fix {
    let mut walls = Vec::new();
    if facts.is_filtered {
        walls.push("its seccomp filter");
    }
    if facts.apparmor.label.as_deref().is_some_and(|label| !label.starts_with("unconfined")) {
        walls.push("its AppArmor profile");
    }
    if facts.is_proc_masked {
        walls.push("its masked /proc");
    }
    let forbid = if walls.len() == 1 { "forbids" } else { "forbid" };
    let walls = if walls.is_empty() { "its settings".to_owned() } else { walls.join(", ") };
    let cause = format!("this is a {manager} container, and {walls} {forbid} what a sandbox needs");
    match manager {
        "docker" => Fix::new(
            cause,
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined ...",
        ),
        "podman" => Fix::new(
            cause,
            "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL ...",
        ),
        "lxc" => Fix::new(cause, "lxc config set NAME security.nesting=true"),
        _ => Fix::without_command(cause),
    }
}

/// Ubuntu 23.10 and later let a process without a profile make a user
/// namespace, but without any capability in it.
fn apparmor(facts: &Facts) -> Fix {
    let path = facts.own_path.display();
    if let Some(file) = &facts.apparmor.profile_file {
        return Fix::new(
            format!("AppArmor restricts user namespaces and the profile for {path} is not loaded"),
            format!("sudo apparmor_parser -r {}", file.display()),
        );
    }
    Fix::new(
        format!("AppArmor restricts user namespaces and has no profile for {path}"),
        "atoll doctor --apparmor | sudo tee /etc/apparmor.d/atoll >/dev/null && \
         sudo apparmor_parser -r /etc/apparmor.d/atoll",
    )
}

/// A new procfs may show no more than the one that is there does.
fn proc(facts: &Facts) -> Option<Fix> {
    match &facts.container {
        _ if !facts.is_proc_masked => refused(facts),
        Some(manager) => Some(container(manager, facts)),
        None => Some(Fix::new(
            "something is mounted over a part of /proc, so no new one may be mounted",
            "findmnt --submounts /proc",
        )),
    }
}

fn overlay(errno: Errno, facts: &Facts) -> Option<Fix> {
    match errno {
        Errno::NODEV => Some(load_module("overlay", facts)),
        Errno::INVAL | Errno::PERM if !facts.kernel.is_at_least(5, 11) => {
            Some(too_old(facts, "overlay file systems in a user namespace", (5, 11)))
        }
        Errno::PERM | Errno::ACCESS => refused(facts),
        _ => None,
    }
}

/// Source: the kernel's userspace-api/landlock.rst, "Boot time configuration".
fn landlock(errno: Errno, facts: &Facts) -> Option<Fix> {
    match errno {
        Errno::NOSYS if is_filtered_in(facts) => refused(facts),
        Errno::NOSYS if !facts.kernel.is_at_least(5, 13) => {
            Some(too_old(facts, "Landlock", (5, 13)))
        }
        Errno::NOSYS => Some(Fix::without_command("the kernel was built without Landlock")),
        Errno::OPNOTSUPP => {
            let modules = facts.lsm.as_deref().unwrap_or("...");
            let place = match facts.wsl {
                Some(_) => "kernelCommandLine in .wslconfig",
                None => "the kernel's command line",
            };
            Some(Fix::without_command(format!(
                "Landlock is switched off; add lsm=landlock,{modules} to {place}"
            )))
        }
        _ => None,
    }
}

fn notify(errno: Errno, facts: &Facts) -> Option<Fix> {
    let review = "atoll run --workspace review -- ...";
    match errno {
        // SECCOMP_FILTER_FLAG_NEW_LISTENER, seccomp(2).
        Errno::BUSY => Some(Fix::without_command(
            "a sandbox around this one already judges its calls, and there can be only one",
        )),
        Errno::INVAL | Errno::NOSYS => Some(Fix::new(
            format!(
                "live mode and --write need Linux 5.19 to judge calls that signals interrupt; this is {}",
                facts.kernel.text
            ),
            review,
        )),
        _ => None,
    }
}

fn nf_tables(errno: Errno, facts: &Facts) -> Option<Fix> {
    match errno {
        // nfnetlink answers EINVAL for a subsystem that it does not have.
        Errno::INVAL | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::NOENT => {
            Some(load_module("nf_tables", facts))
        }
        Errno::PERM | Errno::ACCESS => refused(facts),
        _ => None,
    }
}

fn tun(errno: Errno, facts: &Facts) -> Option<Fix> {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => match facts.container.as_deref() {
            Some("docker") => Some(Fix::new(
                "the container was not given /dev/net/tun",
                "docker run --device /dev/net/tun ...",
            )),
            _ => Some(load_module("tun", facts)),
        },
        Errno::PERM | Errno::ACCESS => refused(facts),
        _ => None,
    }
}

fn kvm(errno: Errno, facts: &Facts) -> Option<Fix> {
    match errno {
        Errno::NOENT if facts.wsl == Some(2) => Some(Fix::without_command(
            "/dev/kvm is missing; set nestedVirtualization=true in .wslconfig and restart WSL",
        )),
        Errno::NOENT if facts.container.is_some() => Some(Fix::new(
            "the container was not given /dev/kvm",
            "docker run --device /dev/kvm ...",
        )),
        Errno::NOENT | Errno::NODEV | Errno::NXIO => Some(Fix::new(
            "there is no KVM: the module is not loaded, the firmware has virtualization switched \
             off, or this is a virtual machine without nesting",
            "sudo modprobe -a kvm_intel kvm_amd",
        )),
        Errno::PERM | Errno::ACCESS => Some(Fix::new(
            "this user may not open /dev/kvm (log in again after the command)",
            "sudo usermod -aG kvm \"$USER\"",
        )),
        _ => None,
    }
}

/// The loaded module is there for everybody and stays.
fn load_module(name: &str, facts: &Facts) -> Fix {
    let place = if facts.container.is_some() { " on the host" } else { "" };
    let cause = format!("the kernel module {name} is missing or not loaded");
    Fix::new(format!("{cause}{place}"), format!("sudo modprobe {name}"))
}

fn too_old(facts: &Facts, what: &str, (major, minor): (u32, u32)) -> Fix {
    if is_filtered_in(facts)
        && let Some(fix) = refused(facts)
    {
        return fix;
    }
    let kernel = &facts.kernel.text;
    if facts.kernel.is_at_least(major, minor) {
        return Fix::without_command(format!("the kernel ({kernel}) was built without {what}"));
    }
    Fix::without_command(format!("{what} needs Linux {major}.{minor}; this is {kernel}"))
}

#[cfg(test)]
mod tests {
    use super::super::facts::{AppArmor, Release};
    use super::*;

    const EPERM: i32 = 1;
    const ENOENT: i32 = 2;
    const EAGAIN: i32 = 11;
    const EACCES: i32 = 13;
    const EBUSY: i32 = 16;
    const ENODEV: i32 = 19;
    const EINVAL: i32 = 22;
    const ENOSPC: i32 = 28;
    const ENOSYS: i32 = 38;
    const EOPNOTSUPP: i32 = 95;

    fn host() -> Facts {
        Facts {
            kernel: Release::parse("6.8.0"),
            own_path: "/usr/bin/atoll".into(),
            max_user_namespaces: Some(63_000),
            ..Facts::default()
        }
    }

    fn ubuntu() -> Facts {
        let label = Some("unconfined".to_owned());
        let apparmor =
            AppArmor { is_enabled: true, restricts_userns: true, label, profile_file: None };
        Facts { apparmor, ..host() }
    }

    fn docker() -> Facts {
        let label = Some("docker-default (enforce)".to_owned());
        Facts {
            container: Some("docker".into()),
            is_filtered: true,
            is_proc_masked: true,
            apparmor: AppArmor { is_enabled: true, label, ..AppArmor::default() },
            ..host()
        }
    }

    #[track_caller]
    fn check(step: &str, errno: i32, facts: &Facts, cause: &str, command: Option<&str>) {
        let fix = explain(step, errno, facts).expect("an explanation");
        assert!(fix.cause.contains(cause), "{fix:?}");
        match (fix.command.as_deref(), command) {
            (Some(fixed), Some(part)) => assert!(fixed.contains(part), "{fix:?}"),
            (fixed, part) => assert_eq!(fixed, part, "{fix:?}"),
        }
    }

    #[test]
    fn ubuntu_needs_the_profile() {
        for step in ["clone", "uid_map", "fsmount", "mount_proc", "overlay", "loopback"] {
            check(step, EPERM, &ubuntu(), "no profile for /usr/bin/atoll", Some("--apparmor"));
        }
        check("move_mount", EACCES, &ubuntu(), "no profile", Some("--apparmor"));
        let mut loaded = ubuntu();
        loaded.apparmor.profile_file = Some("/etc/apparmor.d/atoll".into());
        let command = Some("sudo apparmor_parser -r /etc/apparmor.d/atoll");
        check("uid_map", EPERM, &loaded, "is not loaded", command);
    }

    #[test]
    fn switches_of_the_kernel_are_named() {
        let off = Facts { unprivileged_userns_clone: Some(false), ..host() };
        check("clone", EPERM, &off, "userns_clone = 0", Some("kernel.unprivileged_userns_clone=1"));
        let none = Facts { max_user_namespaces: Some(0), ..host() };
        check("clone", ENOSPC, &none, "switched off", Some("user.max_user_namespaces=15000"));
        check("clone", EPERM, &none, "switched off", Some("user.max_user_namespaces"));
        check("clone", ENOSPC, &host(), "limit of 63000", Some("user.max_user_namespaces"));
        check("clone", EAGAIN, &host(), "RLIMIT_NPROC", Some("ulimit -u"));
        check("clone", EINVAL, &host(), "built without", None);
    }

    #[test]
    fn docker_is_told_its_options() {
        check("clone", EPERM, &docker(), "its seccomp filter", Some("seccomp=unconfined"));
        check("clone", ENOSYS, &docker(), "its seccomp filter", Some("seccomp=unconfined"));
        check("mount_proc", EPERM, &docker(), "masked /proc", Some("systempaths=unconfined"));
        check("landlock", ENOSYS, &docker(), "docker", Some("seccomp=unconfined"));
        check("kvm", ENOENT, &docker(), "not given", Some("--device /dev/kvm"));
        check("tun", ENOENT, &docker(), "not given", Some("--device /dev/net/tun"));
        let podman = Facts { container: Some("podman".into()), ..docker() };
        check("mount_proc", EPERM, &podman, "podman container", Some("unmask=ALL"));
        let pod = Facts { container: Some("kubernetes".into()), ..docker() };
        check("clone", EPERM, &pod, "kubernetes container", None);
    }

    #[test]
    fn other_sandboxes_around_us() {
        let filtered = Facts { is_filtered: true, ..host() };
        check("clone", EPERM, &filtered, "surrounding program", None);
        let nested = Facts { is_in_user_namespace: true, ..host() };
        check("clone", EPERM, &nested, "surrounding sandbox", None);
        check("clone", ENOSPC, &nested, "surrounding sandbox", None);
        check("notify", EBUSY, &host(), "only one", None);
        let masked = Facts { is_proc_masked: true, ..host() };
        check("mount_proc", EPERM, &masked, "part of /proc", Some("findmnt"));
        let mut confined = host();
        confined.apparmor.label = Some("snap.code (enforce)".into());
        check("clone", EPERM, &confined, "snap.code", None);
    }

    #[test]
    fn old_kernels_are_told_what_is_missing() {
        let old = Facts { kernel: Release::parse("5.4.0-1"), ..host() };
        check("mount_setattr", ENOSYS, &old, "needs Linux 5.12; this is 5.4.0-1", None);
        check("close_range", ENOSYS, &old, "needs Linux 5.9", None);
        check("landlock", ENOSYS, &old, "needs Linux 5.13", None);
        check("overlay", EPERM, &old, "needs Linux 5.11", None);
        check("notify", EINVAL, &old, "5.19", Some("--workspace review"));
        check("landlock", ENOSYS, &host(), "built without", None);
        let off = Facts { lsm: Some("lockdown,yama".into()), ..host() };
        check("landlock", EOPNOTSUPP, &off, "lsm=landlock,lockdown,yama", None);
    }

    #[test]
    fn modules_and_devices() {
        check("overlay", ENODEV, &host(), "overlay", Some("modprobe overlay"));
        check("nf_tables", EINVAL, &host(), "nf_tables", Some("modprobe nf_tables"));
        check("tun", ENODEV, &host(), "tun", Some("modprobe tun"));
        check("kvm", ENOENT, &host(), "no KVM", Some("modprobe -a kvm_intel"));
        check("open /dev/kvm", EACCES, &host(), "may not open", Some("usermod -aG kvm"));
        let wsl = Facts { wsl: Some(2), ..host() };
        check("open /dev/kvm", ENOENT, &wsl, "nestedVirtualization=true", None);
    }

    #[test]
    fn what_tells_nothing_is_not_explained() {
        assert_eq!(explain("clone", EPERM, &host()), None);
        assert_eq!(explain("fsmount", EBUSY, &ubuntu()), None);
        assert_eq!(explain("no such step", EPERM, &ubuntu()), None);
        assert_eq!(explain("open /dev/kvm", EBUSY, &host()), None);
    }
}
