//! Hosts that are not here, by their facts.

use super::*;
use atoll_jail::cgroup::{Access, Controller, Kind, Layout, Occupants, Place};
use atoll_jail::features::{AppArmor, Attempt, Notify, Release, Tool};
use std::time::Duration;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;

fn all_work() -> Probes {
    Probes {
        user_namespace: Attempt::Works,
        namespaces: Attempt::Works,
        mount_api: Attempt::Works,
        mount_attributes: Attempt::Works,
        overlay: Attempt::Works,
        idmapped_mounts: Attempt::NotTried("only root needs it"),
        proc_mount: Attempt::Works,
        seccomp_filter: Attempt::Works,
        notify: Notify { sizes: Some([80, 24, 64]), is_killable: true },
        landlock_abi: Ok(4),
        nf_tables: Attempt::Works,
        tun: Attempt::Works,
        kvm: Attempt::Works,
        pidfd: Attempt::Works,
        close_range: Attempt::Works,
        clone3: Attempt::Works,
        time_namespace: Attempt::Works,
        runsc: None,
        criu: None,
        took: Duration::from_millis(12),
    }
}

fn failed(step: &'static str, errno: i32) -> Attempt {
    Attempt::Failed { step, errno }
}

/// A terminal of a desktop session: the user manager's slice is the user's.
fn v2(access: Access) -> Option<Layout> {
    use Controller::{Cpu, Memory, Pids};
    let place = Place {
        dir: "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice".into(),
        access,
        is_root: false,
        available: vec![Cpu, Memory, Pids],
        enabled: vec![Cpu, Memory, Pids],
        occupants: Occupants::Nobody,
    };
    Some(Layout { kind: Kind::V2, v2: vec![place], v1: vec![] })
}

fn host(kernel: &str, system: &str) -> Facts {
    Facts {
        kernel: Release::parse(kernel),
        system: Some(system.to_owned()),
        uid: 1000,
        own_path: "/usr/local/bin/atoll".into(),
        max_user_namespaces: Some(63_000),
        yama: Some(1),
        cgroups: v2(Access::Writable),
        ..Facts::default()
    }
}

fn shown(facts: Facts, probes: &Probes) -> String {
    let diagnosis = Diagnosis::new(facts, probes, false);
    let exit = if diagnosis.is_fit() { 0 } else { 1 };
    format!("{}\nexit {exit}", text(&diagnosis, Color::Plain))
}

#[test]
fn debian_12() {
    let facts = host("6.1.0-25-amd64", "Debian GNU/Linux 12 (bookworm)");
    let mut probes = all_work();
    probes.landlock_abi = Ok(2);
    let version = Some("runsc version release-20260101.0".to_owned());
    probes.runsc = Some(Tool { path: "/usr/bin/runsc".into(), version });
    insta::assert_snapshot!(shown(facts, &probes), @r#"
    Tiers
      container  works
      gvisor     does not work
                 this version of atoll does not have it
                 this host is ready for it
      microvm    does not work
                 this version of atoll does not have it
                 this host is ready for it
      wasm       does not work
                 this version of atoll does not have it
                 this host is ready for it

    Features
      kernel           yes      6.1.0-25-amd64 (Debian GNU/Linux 12 (bookworm))
      user-namespaces  yes      made one, own ids mapped
      apparmor         -        not enabled
      namespaces       yes      mount, pid, net, ipc, uts and cgroup made
      mount-api        yes      tmpfs mounted by descriptor
      mount-attributes yes      mount_setattr works
      proc             yes      a new one mounted
      overlay          yes      mounted with userxattr in a user namespace
      idmapped-mounts  -        only root needs it
      seccomp          yes      filters can be loaded
      seccomp-notify   yes      sizes 80, 24, 64; safe from signals
      landlock         yes      ABI 2
      cgroups          yes      v2: memory, pids and cpu limits hold
      clone3           yes      there
      pidfd            yes      there
      close-range      yes      there
      time-namespaces  yes      there
      yama             -        ptrace_scope 1
      nf-tables        yes      answers in a network namespace
      tun              yes      an interface made in a network namespace
      kvm              yes      an empty virtual machine made
      runsc            yes      runsc version release-20260101.0 (/usr/bin/runsc)
      criu             no       not installed

    exit 0
    "#);
}

#[test]
fn ubuntu_24_04_restricted() {
    let mut facts = host("6.8.0-45-generic", "Ubuntu 24.04.1 LTS");
    let label = Some("unconfined".to_owned());
    facts.apparmor =
        AppArmor { is_enabled: true, restricts_userns: true, label, profile_file: None };
    let mut probes = all_work();
    for attempt in [&mut probes.mount_api, &mut probes.mount_attributes, &mut probes.overlay] {
        *attempt = failed("fsopen", EPERM);
    }
    probes.user_namespace = failed("uid_map", EPERM);
    probes.namespaces = failed("uid_map", EPERM);
    probes.proc_mount = failed("fsopen", EPERM);
    probes.nf_tables = failed("nf_tables", EPERM);
    probes.tun = failed("tun", EPERM);
    probes.kvm = failed("open /dev/kvm", EACCES);
    insta::assert_snapshot!(shown(facts, &probes), @r#"
    Tiers
      container  does not work
                 user-namespaces: uid_map: Operation not permitted
                 AppArmor restricts user namespaces and has no profile for /usr/local/bin/atoll
                 fix: atoll doctor --apparmor | sudo tee /etc/apparmor.d/atoll >/dev/null && sudo apparmor_parser -r /etc/apparmor.d/atoll
      gvisor     does not work
                 this version of atoll does not have it
                 runsc: not installed
                 install runsc from https://gvisor.dev
      microvm    does not work
                 this version of atoll does not have it
                 kvm: open /dev/kvm: Permission denied
                 this user may not open /dev/kvm (log in again after the command)
                 fix: sudo usermod -aG kvm "$USER"
      wasm       does not work
                 this version of atoll does not have it
                 this host is ready for it

    Features
      kernel           yes      6.8.0-45-generic (Ubuntu 24.04.1 LTS)
      user-namespaces  no       uid_map: Operation not permitted
                                AppArmor restricts user namespaces and has no profile for /usr/local/bin/atoll
                                fix: atoll doctor --apparmor | sudo tee /etc/apparmor.d/atoll >/dev/null && sudo apparmor_parser -r /etc/apparmor.d/atoll
      apparmor         limited  restricts user namespaces; no profile for /usr/local/bin/atoll
      namespaces       no       uid_map: Operation not permitted
                                as user-namespaces
      mount-api        no       fsopen: Operation not permitted
                                as user-namespaces
      mount-attributes no       fsopen: Operation not permitted
                                as user-namespaces
      proc             no       fsopen: Operation not permitted
                                as user-namespaces
      overlay          no       fsopen: Operation not permitted
                                as user-namespaces
      idmapped-mounts  -        only root needs it
      seccomp          yes      filters can be loaded
      seccomp-notify   yes      sizes 80, 24, 64; safe from signals
      landlock         yes      ABI 4
      cgroups          yes      v2: memory, pids and cpu limits hold
      clone3           yes      there
      pidfd            yes      there
      close-range      yes      there
      time-namespaces  yes      there
      yama             -        ptrace_scope 1
      nf-tables        no       nf_tables: Operation not permitted
                                as user-namespaces
      tun              no       tun: Operation not permitted
                                as user-namespaces
      kvm              no       open /dev/kvm: Permission denied
                                this user may not open /dev/kvm (log in again after the command)
                                fix: sudo usermod -aG kvm "$USER"
      runsc            no       not installed
      criu             no       not installed

    exit 1
    "#);
}

#[test]
fn a_container_with_one_wall() {
    let mut facts = host("6.8.0-45-generic", "Debian GNU/Linux 12 (bookworm)");
    facts.container = Some("docker".to_owned());
    facts.is_filtered = true;
    let mut probes = all_work();
    probes.user_namespace = failed("clone", EPERM);
    let shown = shown(facts, &probes);
    assert!(shown.contains("container, and its seccomp filter forbids what"), "{shown}");
}

#[test]
fn docker() {
    let mut facts = host("6.8.0-45-generic", "Debian GNU/Linux 12 (bookworm)");
    facts.container = Some("docker".to_owned());
    facts.uid = 0;
    facts.is_filtered = true;
    facts.is_proc_masked = true;
    let label = Some("docker-default (enforce)".to_owned());
    facts.apparmor = AppArmor { is_enabled: true, label, ..AppArmor::default() };
    let dir = "/sys/fs/cgroup";
    facts.cgroups = v2(Access::Refused(format!("{dir} is mounted read-only")));
    let mut probes = all_work();
    let refused = failed("clone", EPERM);
    probes.user_namespace = refused;
    probes.namespaces = refused;
    probes.mount_api = refused;
    probes.mount_attributes = refused;
    probes.overlay = refused;
    probes.idmapped_mounts = refused;
    probes.proc_mount = refused;
    probes.nf_tables = refused;
    probes.tun = refused;
    probes.kvm = failed("open /dev/kvm", ENOENT);
    insta::assert_snapshot!(shown(facts, &probes), @r#"
    Tiers
      container  does not work
                 user-namespaces: clone: Operation not permitted
                 this is a docker container, and its seccomp filter, its AppArmor profile, its masked /proc forbid what a sandbox needs
                 fix: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined ...
      gvisor     does not work
                 this version of atoll does not have it
                 runsc: not installed
                 install runsc from https://gvisor.dev
      microvm    does not work
                 this version of atoll does not have it
                 kvm: open /dev/kvm: No such file or directory
                 the container was not given /dev/kvm
                 fix: docker run --device /dev/kvm ...
      wasm       does not work
                 this version of atoll does not have it
                 this host is ready for it

    Features
      kernel           yes      6.8.0-45-generic (Debian GNU/Linux 12 (bookworm))
      user-namespaces  no       clone: Operation not permitted
                                this is a docker container, and its seccomp filter, its AppArmor profile, its masked /proc forbid what a sandbox needs
                                fix: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined ...
      apparmor         yes      does not restrict user namespaces
      namespaces       no       clone: Operation not permitted
                                as user-namespaces
      mount-api        no       clone: Operation not permitted
                                as user-namespaces
      mount-attributes no       clone: Operation not permitted
                                as user-namespaces
      proc             no       clone: Operation not permitted
                                as user-namespaces
      overlay          no       clone: Operation not permitted
                                as user-namespaces
      idmapped-mounts  no       clone: Operation not permitted
                                as user-namespaces
      seccomp          yes      filters can be loaded
      seccomp-notify   yes      sizes 80, 24, 64; safe from signals
      landlock         yes      ABI 4
      cgroups          limited  v2: no limit for memory, pids, cpu
                                /sys/fs/cgroup is mounted read-only
                                fix: docker run --memory 4g --pids-limit 4096 --cpus 2 ...
      clone3           yes      there
      pidfd            yes      there
      close-range      yes      there
      time-namespaces  yes      there
      yama             -        ptrace_scope 1
      nf-tables        no       clone: Operation not permitted
                                as user-namespaces
      tun              no       clone: Operation not permitted
                                as user-namespaces
      kvm              no       open /dev/kvm: No such file or directory
                                the container was not given /dev/kvm
                                fix: docker run --device /dev/kvm ...
      runsc            no       not installed
      criu             no       not installed

    Here
      This is a docker container. A sandbox is made inside of it: it can use what the container was given, and the container's own settings decide whether it can be made.

    exit 1
    "#);
}

#[test]
fn wsl_2() {
    let mut facts = host("5.15.167.4-microsoft-standard-WSL2", "Ubuntu 22.04.5 LTS");
    facts.wsl = Some(2);
    facts.yama = None;
    let mut probes = all_work();
    probes.notify.is_killable = false;
    probes.landlock_abi = Err(EOPNOTSUPP);
    probes.kvm = failed("open /dev/kvm", ENOENT);
    insta::assert_snapshot!(shown(facts, &probes), @r#"
    Tiers
      container  works with limits
                 live mode cannot guard protected names and is refused
                 without Landlock, mounts alone decide what can be written
                 fix: atoll run --workspace review -- ...
      gvisor     does not work
                 this version of atoll does not have it
                 runsc: not installed
                 install runsc from https://gvisor.dev
      microvm    does not work
                 this version of atoll does not have it
                 kvm: open /dev/kvm: No such file or directory
                 /dev/kvm is missing; set nestedVirtualization=true in .wslconfig and restart WSL
      wasm       does not work
                 this version of atoll does not have it
                 this host is ready for it

    Features
      kernel           yes      5.15.167.4-microsoft-standard-WSL2 (Ubuntu 22.04.5 LTS)
      user-namespaces  yes      made one, own ids mapped
      apparmor         -        not enabled
      namespaces       yes      mount, pid, net, ipc, uts and cgroup made
      mount-api        yes      tmpfs mounted by descriptor
      mount-attributes yes      mount_setattr works
      proc             yes      a new one mounted
      overlay          yes      mounted with userxattr in a user namespace
      idmapped-mounts  -        only root needs it
      seccomp          yes      filters can be loaded
      seccomp-notify   limited  signals can make a judged call fail
                                live mode and --write need Linux 5.19 to judge calls that signals interrupt; this is 5.15.167.4-microsoft-standard-WSL2
                                fix: atoll run --workspace review -- ...
      landlock         no       Operation not supported
                                Landlock is switched off; add lsm=landlock,... to kernelCommandLine in .wslconfig
      cgroups          yes      v2: memory, pids and cpu limits hold
      clone3           yes      there
      pidfd            yes      there
      close-range      yes      there
      time-namespaces  yes      there
      yama             -        not there; the jail shields itself without it
      nf-tables        yes      answers in a network namespace
      tun              yes      an interface made in a network namespace
      kvm              no       open /dev/kvm: No such file or directory
                                /dev/kvm is missing; set nestedVirtualization=true in .wslconfig and restart WSL
      runsc            no       not installed
      criu             no       not installed

    Here
      This is WSL 2. Windows programs cannot be started from inside a sandbox. A project below /mnt lies on a Windows file system: slow, and not for review mode; keep it in the Linux home directory.

    exit 0
    "#);
}

#[test]
fn rhel_9() {
    let mut facts = host("5.14.0-427.el9.x86_64", "Red Hat Enterprise Linux 9.4 (Plow)");
    let own = "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/cgroup.procs";
    facts.cgroups = v2(Access::Refused(format!("{own} is not writable for user 1000")));
    let mut probes = all_work();
    probes.notify.is_killable = false;
    probes.landlock_abi = Err(ENOSYS);
    probes.tun = failed("tun", ENOENT);
    probes.nf_tables = failed("nf_tables", EINVAL);
    insta::assert_snapshot!(shown(facts, &probes), @r#"
    Tiers
      container  works with limits
                 live mode cannot guard protected names and is refused
                 without Landlock, mounts alone decide what can be written
                 limits that are not enforced: memory, pids, cpu (/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/cgroup.procs is not writable for user 1000)
                 fix: atoll run --workspace review -- ...
      gvisor     does not work
                 this version of atoll does not have it
                 runsc: not installed
                 install runsc from https://gvisor.dev
      microvm    does not work
                 this version of atoll does not have it
                 this host is ready for it
      wasm       does not work
                 this version of atoll does not have it
                 this host is ready for it

    Features
      kernel           yes      5.14.0-427.el9.x86_64 (Red Hat Enterprise Linux 9.4 (Plow))
      user-namespaces  yes      made one, own ids mapped
      apparmor         -        not enabled
      namespaces       yes      mount, pid, net, ipc, uts and cgroup made
      mount-api        yes      tmpfs mounted by descriptor
      mount-attributes yes      mount_setattr works
      proc             yes      a new one mounted
      overlay          yes      mounted with userxattr in a user namespace
      idmapped-mounts  -        only root needs it
      seccomp          yes      filters can be loaded
      seccomp-notify   limited  signals can make a judged call fail
                                live mode and --write need Linux 5.19 to judge calls that signals interrupt; this is 5.14.0-427.el9.x86_64
                                fix: atoll run --workspace review -- ...
      landlock         no       Function not implemented
                                the kernel was built without Landlock
      cgroups          limited  v2: no limit for memory, pids, cpu
                                /sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/cgroup.procs is not writable for user 1000
                                fix: systemd-run --user --scope --quiet -p Delegate=yes -- atoll run ...
      clone3           yes      there
      pidfd            yes      there
      close-range      yes      there
      time-namespaces  yes      there
      yama             -        ptrace_scope 1
      nf-tables        no       nf_tables: Invalid argument
                                the kernel module nf_tables is missing or not loaded
                                fix: sudo modprobe nf_tables
      tun              no       tun: No such file or directory
                                the kernel module tun is missing or not loaded
                                fix: sudo modprobe tun
      kvm              yes      an empty virtual machine made
      runsc            no       not installed
      criu             no       not installed

    exit 0
    "#);
}

#[test]
fn everything_lacking_is_still_told() {
    let facts = Facts::default();
    let mut probes = all_work();
    probes.user_namespace = Attempt::TimedOut;
    probes.namespaces = Attempt::Died;
    probes.notify = Notify { sizes: None, is_killable: false };
    let diagnosis = Diagnosis::new(facts, &probes, true);
    assert!(!diagnosis.is_fit());
    let text = text(&diagnosis, Color::Plain);
    assert!(text.contains("no answer in time") && text.contains("devcontainer.json"), "{text}");
}

#[test]
fn colour_adds_nothing_but_escapes() {
    let diagnosis = Diagnosis::new(host("6.1.0", "Debian"), &all_work(), false);
    let plain = text(&diagnosis, Color::Plain);
    let mut colored = text(&diagnosis, Color::Ansi);
    assert!(!plain.contains('\x1b'));
    for code in ["0", "2", "31", "32", "33"] {
        colored = colored.replace(&format!("\x1b[{code}m"), "");
    }
    // A word at the end of a line keeps its padding inside of the escapes.
    let trim = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(&colored), trim(&plain));
}

#[test]
fn json_holds_what_the_text_shows() {
    let mut facts = host("6.8.0", "Ubuntu 24.04.1 LTS");
    facts.apparmor.restricts_userns = true;
    let mut probes = all_work();
    probes.user_namespace = failed("uid_map", EPERM);
    let diagnosis = Diagnosis::new(facts, &probes, false);
    let line = json(&diagnosis);
    assert_eq!(line.matches('\n').count(), 1);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["ok"], false);
    assert_eq!(value["uid"], 1000);
    assert_eq!(value["tiers"][0]["name"], "container");
    assert_eq!(value["tiers"][0]["verdict"], "does_not_work");
    assert!(value["tiers"][0]["fix"].as_str().unwrap().contains("--apparmor"));
    let features = value["features"].as_array().unwrap();
    assert_eq!(features.len(), diagnosis.features.len());
    let userns = features.iter().find(|feature| feature["name"] == "user-namespaces").unwrap();
    assert_eq!(userns["state"], "no");
    assert!(userns["cause"].as_str().unwrap().contains("AppArmor"));
    assert_eq!(value["container"], serde_json::Value::Null);
}
