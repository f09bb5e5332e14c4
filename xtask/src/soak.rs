//! `cargo xtask soak`: many runs in a row leave nothing behind.

use crate::bench::programs;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Run a command in a sandbox many times and look for what is left
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many runs
    #[arg(long, default_value_t = 10_000)]
    pub(crate) runs: u32,
}

/// An ordinary user that no machine has an account for.
const ORDINARY: u32 = 54_321;

/// The kernel frees network namespaces in a worker of its own.
const SETTLE: Duration = Duration::from_secs(60);

/// Every way of running, over and over. The one with a limit makes a control
/// group, where it may; every run but the last kind succeeds.
const KINDS: [&[&str]; 5] = [
    &["--workspace", "live"],
    &["--workspace", "none"],
    &["--workspace", "review"],
    &["--workspace", "live", "--memory", "64MiB"],
    &["--workspace", "live", "--timeout", "1ms"],
];
const SCRIPT: &str = "echo x > made; rm made; (setsid true &)";

pub(crate) fn run(args: &Args) -> Result<()> {
    let atoll = programs()?;
    let scratch = Scratch::make()?;
    let program = scratch.base.join("atoll");
    fs::copy(&atoll, &program).context("cannot copy atoll")?;
    let is_root = rustix::process::geteuid().is_root();
    let users: &[Option<u32>] = if is_root { &[None, Some(ORDINARY)] } else { &[None] };
    for user in users {
        let project = scratch.project(*user)?;
        // The first runs make what is kept on purpose: the project's cache.
        for kind in KINDS {
            once(&program, &project, *user, kind)?;
        }
        let before = Census::take(&project)?;
        let begin = Instant::now();
        for number in 0..args.runs / u32::try_from(users.len())? {
            let kind = KINDS[usize::try_from(number)? % KINDS.len()];
            once(&program, &project, *user, kind).with_context(|| format!("run {number}"))?;
        }
        let who = if user.is_none() && is_root { "root" } else { "an ordinary user" };
        before.compare(&project)?;
        println!(
            "{} runs by {who} in {:.0?} left nothing",
            args.runs / u32::try_from(users.len())?,
            begin.elapsed()
        );
    }
    Ok(())
}

fn once(program: &Path, project: &Project, user: Option<u32>, kind: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.arg("run").args(kind).args(["--", "/bin/sh", "-c", SCRIPT]);
    command.current_dir(&project.root).env_clear().env("HOME", &project.home);
    command.env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(uid) = user {
        command.uid(uid).gid(uid);
    }
    let output = command.stderr(Stdio::piped()).output().context("cannot start atoll")?;
    let is_timed = kind.contains(&"--timeout");
    let code = output.status.code();
    let expected = code == Some(0) || (is_timed && code == Some(124));
    ensure!(expected, "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(())
}

struct Project {
    root: PathBuf,
    home: PathBuf,
}

/// A directory that goes when this does.
struct Scratch {
    base: PathBuf,
}

impl Scratch {
    fn make() -> Result<Self> {
        let base = std::env::temp_dir().join(format!("atoll-soak-{}", std::process::id()));
        fs::create_dir(&base).with_context(|| format!("cannot make {}", base.display()))?;
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755))?;
        Ok(Self { base })
    }

    fn project(&self, user: Option<u32>) -> Result<Project> {
        let of = |name: &str| -> Result<PathBuf> {
            let path = self.base.join(format!("{name}-{}", user.unwrap_or(0)));
            fs::create_dir(&path)?;
            chown(&path, user, user)?;
            Ok(path)
        };
        Ok(Project { root: of("project")?, home: of("home")? })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.base).ok();
    }
}

/// Everything that a run could leave, counted or listed.
struct Census {
    processes: BTreeSet<String>,
    mounts: usize,
    groups: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    descriptors: usize,
    network_namespaces: Option<u64>,
}

impl Census {
    fn take(project: &Project) -> Result<Self> {
        let mut groups = BTreeSet::new();
        list(Path::new("/sys/fs/cgroup"), &mut groups, &|path| path.is_dir());
        groups.retain(|path| path.to_string_lossy().contains("atoll"));
        let mut files = BTreeSet::new();
        list(&project.root, &mut files, &|_| true);
        list(&project.home, &mut files, &|_| true);
        Ok(Self {
            processes: processes()?,
            mounts: fs::read_to_string("/proc/self/mountinfo")?.lines().count(),
            groups,
            files,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            network_namespaces: network_namespaces(),
        })
    }

    /// Waits, bounded, until nothing more is left than was there before.
    fn compare(&self, project: &Project) -> Result<()> {
        let deadline = Instant::now() + SETTLE;
        loop {
            let now = Self::take(project)?;
            let left = self.left(&now);
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("left behind: {}", left.join("; "));
            }
            std::thread::yield_now();
        }
    }

    fn left(&self, now: &Self) -> Vec<String> {
        let mut left = Vec::new();
        let new = |before: &BTreeSet<PathBuf>, now: &BTreeSet<PathBuf>| {
            now.difference(before).map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let processes: Vec<_> = now.processes.difference(&self.processes).cloned().collect();
        left.extend(processes.into_iter().map(|name| format!("process {name}")));
        left.extend(
            new(&self.groups, &now.groups).into_iter().map(|path| format!("cgroup {path}")),
        );
        left.extend(new(&self.files, &now.files).into_iter().map(|path| format!("file {path}")));
        if now.mounts > self.mounts {
            left.push(format!("{} mounts", now.mounts - self.mounts));
        }
        if now.descriptors > self.descriptors {
            left.push(format!("{} descriptors", now.descriptors - self.descriptors));
        }
        // Others on the machine may make a few meanwhile; a leak makes thousands.
        const OTHERS: u64 = 64;
        if let (Some(before), Some(after)) = (self.network_namespaces, now.network_namespaces)
            && after > before + OTHERS
        {
            left.push(format!("{} network namespaces", after - before));
        }
        left
    }
}

/// Processes that are ours by their name.
fn processes() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let Ok(name) = fs::read_to_string(path.join("comm")) else { continue };
        if name.trim() == "atoll" {
            found.insert(format!("{} ({})", path.display(), name.trim()));
        }
    }
    Ok(found)
}

fn list(directory: &Path, found: &mut BTreeSet<PathBuf>, keep: &dyn Fn(&Path) -> bool) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_symlink() || !keep(&path) {
            continue;
        }
        if path.is_dir() {
            list(&path, found, keep);
        }
        found.insert(path);
    }
}

/// How many the kernel holds, where root may ask: slabinfo(5).
fn network_namespaces() -> Option<u64> {
    let text = fs::read_to_string("/proc/slabinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("net_namespace "))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
