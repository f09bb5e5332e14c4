//! The first process of a machine that has nothing but cgroup v2: mounts it,
//! checks the cgroup code against it, and powers off. `archive MODULE...` writes
//! the machine's root file system: this program and kernel modules to load.

#[path = "archive.rs"]
mod archive;

use archive::archive;
use atoll_jail::cgroup::{CgroupError, Group, Kind, Layout, Limit, Limits, remove_stale, run_name};
use atoll_jail::features::{Facts, Probes, survey};
use rustix::mount::{MountFlags, mount};
use rustix::process::Pid;
use rustix::system::{RebootCommand, init_module, reboot};
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

type Check = Result<(), Box<dyn Error>>;
type Named = (&'static str, fn() -> Check);

const DEADLINE: Duration = Duration::from_secs(60);
const ORDINARY: u32 = 1000;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("archive") => archive(&arguments[1..]),
        Some("child") => child(arguments.get(1).map_or("", String::as_str)),
        Some("delegated") => delegated(),
        Some("login") => login(),
        _ if std::process::id() == 1 => machine(),
        _ => Err("usage: guest_v2 archive, or as the first process of a machine".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("NOTE {arguments:?}: {}", chain(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

/// Writes to the console; there is nobody to tell when that fails.
fn say(line: &str) {
    writeln!(io::stdout(), "{line}").ok();
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn expect(condition: bool, what: impl std::fmt::Debug) -> Check {
    if condition { Ok(()) } else { Err(format!("{what:?}").into()) }
}

// The machine.

fn machine() -> Check {
    let checks: &[Named] = &[
        ("the layout is v2 at its root", layout_is_v2),
        ("a child over the memory limit is killed, and its group with it", memory),
        ("a child within the memory limit is not killed", memory_control),
        ("forks beyond the pids limit fail", pids),
        ("forks within the pids limit succeed", pids_control),
        ("the cpu limit is written and cpu time counted", cpu),
        ("freeze, thaw and kill", freeze_and_kill),
        ("groups whose owner is gone are removed", stale),
        ("an ordinary user in a delegated scope has all limits", as_delegated),
        ("an ordinary user in a login scope is told what is missing", as_login),
        ("the probes of kernel features end and find what this kernel has", features),
        ("nothing is left behind", nothing_left),
    ];
    let ready = prepare();
    if let Err(error) = &ready {
        say(&format!("FAIL preparing the machine: {}", chain(error.as_ref())));
    }
    for (name, check) in checks {
        match check() {
            Ok(()) => say(&format!("PASS {name}")),
            Err(error) => say(&format!("FAIL {name}: {}", chain(error.as_ref()))),
        }
    }
    say(&format!("DONE {}", fs::read_to_string("/proc/uptime").unwrap_or_default().trim()));
    reboot(RebootCommand::PowerOff)?;
    Ok(())
}

fn prepare() -> Check {
    for dir in ["/proc", "/sys", "/dev"] {
        fs::create_dir_all(dir)?;
    }
    let mut modules = 0..;
    while let Ok(module) = fs::read(format!("/{}.ko", modules.next().unwrap_or(0))) {
        init_module(&module, c"")?;
    }
    mount("proc", "/proc", "proc", MountFlags::empty(), None)?;
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?;
    mount("devtmpfs", "/dev", "devtmpfs", MountFlags::empty(), None)?;
    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MountFlags::empty(), None)?;
    Ok(())
}

fn layout_is_v2() -> Check {
    let layout = Layout::detect(Path::new("/"))?;
    expect(layout.kind == Kind::V2 && layout.v2.len() == 1 && layout.v2[0].is_root, &layout)?;
    expect(layout.v2[0].available.len() == 3, &layout)
}

fn create(limits: Limits) -> Result<Group, Box<dyn Error>> {
    let layout = Layout::detect(Path::new("/"))?;
    let (group, unenforced) = Group::create(&layout, &run_name()?, &limits)?;
    expect(unenforced.is_empty(), &unenforced)?;
    Ok(group)
}

/// A copy of this program that waits for a line before it does `what`.
struct Held(Child);

impl Held {
    fn new(what: &str, group: &Group) -> Result<Self, Box<dyn Error>> {
        let child = Command::new("/proc/self/exe")
            .args(["child", what])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        group.attach_everywhere(Pid::from_child(&child))?;
        Ok(Self(child))
    }

    fn go(&mut self) -> io::Result<()> {
        self.0.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(b"\n"))
    }

    fn finish(mut self) -> io::Result<(ExitStatus, String)> {
        self.go()?;
        let output = self.0.wait_with_output()?;
        Ok((output.status, String::from_utf8_lossy(&output.stdout).into_owned()))
    }
}

fn memory() -> Check {
    let group = create(Limits { memory_bytes: Some(16 << 20), ..Limits::default() })?;
    let mut other = Held::new("wait", &group)?;
    other.go()?;
    let (status, _) = Held::new("allocate 64", &group)?.finish()?;
    expect(status.signal() == Some(9), status)?;
    expect(other.0.wait()?.signal() == Some(9), "the other process outlived the limit")?;
    let events = group.events()?;
    expect(events.oom_kills >= Some(1), events)?;
    expect(events.memory_peak_bytes >= Some(8 << 20), events)?;
    Ok(group.remove(DEADLINE)?)
}

fn memory_control() -> Check {
    let group = create(Limits { memory_bytes: Some(64 << 20), ..Limits::default() })?;
    let (status, _) = Held::new("allocate 16", &group)?.finish()?;
    expect(status.success(), status)?;
    expect(group.events()?.oom_kills == Some(0), group.events())?;
    Ok(group.remove(DEADLINE)?)
}

fn pids() -> Check {
    let group = create(Limits { pids: Some(4), ..Limits::default() })?;
    let (_, started) = Held::new("fork 8", &group)?.finish()?;
    expect(started.trim() == "3", &started)?;
    expect(group.events()?.pids_hits >= Some(1), group.events())?;
    Ok(group.remove(DEADLINE)?)
}

fn pids_control() -> Check {
    let group = create(Limits { pids: Some(40), ..Limits::default() })?;
    let (_, started) = Held::new("fork 8", &group)?.finish()?;
    expect(started.trim() == "8", &started)?;
    expect(group.events()?.pids_hits == Some(0), group.events())?;
    Ok(group.remove(DEADLINE)?)
}

fn cpu() -> Check {
    let group = create(Limits { cpus: Some(0.5), ..Limits::default() })?;
    let name = run_dirs("/sys/fs/cgroup")?.pop().ok_or("no group")?;
    let written = fs::read_to_string(format!("/sys/fs/cgroup/{name}/cpu.max"))?;
    expect(written == "50000 100000\n", &written)?;
    let (status, _) = Held::new("spin", &group)?.finish()?;
    expect(status.success(), status)?;
    expect(group.events()?.cpu_usage_us > Some(0), group.events())?;
    Ok(group.remove(DEADLINE)?)
}

fn freeze_and_kill() -> Check {
    let group = create(Limits::default())?;
    let mut child = Held::new("for ever", &group)?;
    child.go()?;
    group.freeze(DEADLINE)?;
    let frozen = group.events()?.cpu_usage_us;
    expect(group.events()?.cpu_usage_us == frozen, "it runs though frozen")?;
    group.thaw()?;
    let start = std::time::Instant::now();
    while group.events()?.cpu_usage_us == frozen {
        expect(start.elapsed() < DEADLINE, "it does not run though thawed")?;
        std::thread::yield_now();
    }
    group.freeze(DEADLINE)?;
    group.remove(DEADLINE)?;
    expect(child.0.wait()?.signal() == Some(9), "not killed")
}

fn stale() -> Check {
    let dir = Path::new("/sys/fs/cgroup/atoll-run-4194305-1");
    fs::create_dir(dir)?;
    let alive = create(Limits::default())?;
    let swept = remove_stale(&Layout::detect(Path::new("/"))?);
    expect(swept.removed == [dir] && swept.left.is_empty(), &swept)?;
    Ok(alive.remove(DEADLINE)?)
}

/// Runs `role` as an ordinary user in a scope of its own, as a service manager
/// would: `shared` files of the scope are the user's.
fn as_ordinary(role: &str, shared: &[&str]) -> Check {
    let scope = Path::new("/sys/fs/cgroup/user/scope");
    fs::create_dir_all(scope)?;
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +memory +pids")?;
    fs::write("/sys/fs/cgroup/user/cgroup.subtree_control", "+cpu +memory +pids")?;
    for file in shared {
        chown(scope.join(file), Some(ORDINARY), Some(ORDINARY))?;
    }
    let tasks = scope.join("cgroup.procs");
    let mut child = Command::new("/proc/self/exe")
        .args([role])
        .uid(ORDINARY)
        .gid(ORDINARY)
        .stdin(Stdio::piped())
        .spawn()?;
    fs::write(tasks, child.id().to_string())?;
    if let Some(stdin) = &mut child.stdin {
        stdin.write_all(b"\n")?;
    }
    let status = child.wait()?;
    expect(status.success(), status)?;
    expect(run_dirs("/sys/fs/cgroup/user/scope")?.is_empty(), "a group was left behind")?;
    let handed_on = fs::read_to_string(scope.join("cgroup.subtree_control"))?;
    expect(handed_on.trim().is_empty(), &handed_on)?;
    fs::remove_dir(scope)?;
    Ok(fs::remove_dir("/sys/fs/cgroup/user")?)
}

fn as_delegated() -> Check {
    as_ordinary("delegated", &["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"])
}

fn as_login() -> Check {
    as_ordinary("login", &[])
}

fn features() -> Check {
    let facts = Facts::read(Path::new("/"), Path::new("/init"));
    let probes = Probes::run(OsStr::new(""));
    for feature in survey(&facts, &probes) {
        say(&format!("NOTE {} {:?}: {}", feature.name, feature.state, feature.detail));
    }
    expect(facts.kernel.is_at_least(5, 19), &facts.kernel)?;
    expect(probes.user_namespace.works() && probes.namespaces.works(), probes.namespaces)?;
    expect(probes.proc_mount.works() && probes.notify.is_killable, probes.proc_mount)?;
    expect(!Path::new("/0.ko").exists() || probes.overlay.works(), probes.overlay)?;
    expect(probes.took < DEADLINE, probes.took)
}

fn nothing_left() -> Check {
    let left = run_dirs("/sys/fs/cgroup")?;
    expect(left.is_empty(), &left)
}

fn run_dirs(dir: &str) -> io::Result<Vec<String>> {
    let names = fs::read_dir(dir)?.flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    Ok(names.filter(|name| name.starts_with("atoll-run-")).collect())
}

// The other processes of the machine.

fn delegated() -> Check {
    wait_for_line()?;
    let group = create(Limits { memory_bytes: Some(16 << 20), pids: Some(4), cpus: Some(0.5) })?;
    let inside = fs::read_to_string("/proc/self/cgroup")?;
    expect(inside.trim().ends_with(".self"), &inside)?;
    let (status, _) = Held::new("allocate 64", &group)?.finish()?;
    expect(status.signal() == Some(9), status)?;
    let (_, started) = Held::new("fork 8", &group)?.finish()?;
    expect(started.trim() == "3", &started)?;
    group.remove(DEADLINE)?;
    let back = fs::read_to_string("/proc/self/cgroup")?;
    expect(back.trim() == "0::/user/scope", &back)
}

fn login() -> Check {
    wait_for_line()?;
    let layout = Layout::detect(Path::new("/"))?;
    let limits = Limits { memory_bytes: Some(16 << 20), pids: Some(4), cpus: Some(0.5) };
    let (group, unenforced) = Group::create(&layout, &run_name()?, &limits)?;
    let missing: Vec<_> = unenforced.iter().map(|missing| missing.limit).collect();
    expect(missing == [Limit::Memory, Limit::Pids, Limit::Cpu], &unenforced)?;
    expect(unenforced[0].reason.contains("not writable for user 1000"), &unenforced)?;
    expect(group.join_fd().is_none(), "a group was made")?;
    expect(matches!(group.freeze(DEADLINE), Err(CgroupError::NoFreezer)), "frozen")
}

fn wait_for_line() -> io::Result<()> {
    io::stdin().read_exact(&mut [0])
}

fn child(what: &str) -> Check {
    if what == "sleep" {
        loop {
            std::thread::park();
        }
    }
    wait_for_line()?;
    let (what, number) = what.split_once(' ').unwrap_or((what, ""));
    let number = number.parse().unwrap_or_default();
    match what {
        "allocate" => {
            let mut blocks = Vec::new();
            for _ in 0..number {
                // A value other than 0, so that each page is really written.
                blocks.push(vec![1_u8; 1 << 20]);
            }
            expect(blocks.iter().all(|block| block[12_345] == 1), "lost a block")
        }
        "fork" => {
            let fork = || {
                let mut command = Command::new("/proc/self/exe");
                command.args(["child", "sleep"]).stdin(Stdio::null()).stdout(Stdio::null());
                command.spawn()
            };
            let started: Vec<_> = (0..number).map_while(|_| fork().ok()).collect();
            say(&started.len().to_string());
            Ok(())
        }
        "spin" => {
            let total: u64 = (0..3_000_000_u64).fold(0, |sum, n| sum ^ n.rotate_left(7));
            expect(total != 1, total)
        }
        // Its input stays open until somebody kills it.
        "wait" => Ok(wait_for_line()?),
        _ => loop {
            std::hint::spin_loop();
        },
    }
}
