//! Where the runs happen, apart from whatever else goes on on the machine.

use super::census::reap;
use super::{ORDINARY, SETTLE};
use crate::process;
use anyhow::{Context as _, Result, ensure};
use rustix::event::Timespec;
use rustix::mount::MountFlags;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Directories that programs put temporary files into; in a pen they are its own.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run"];

/// How much apart the runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Pen {
    /// Only root can make one.
    None,
    /// Mounts, IPC objects and directories for temporary files of its own.
    Apart,
    /// A user namespace as well, in which ids are what they are outside: its limits tell
    /// how many namespaces are alive. Root of it is not root, so only others run there.
    Counted,
}

/// By whom, and in which pens.
pub(super) fn pens() -> &'static [(Pen, Option<u32>)] {
    if rustix::process::geteuid().is_root() {
        &[(Pen::Apart, None), (Pen::Apart, Some(ORDINARY)), (Pen::Counted, Some(ORDINARY))]
    } else {
        &[(Pen::None, None)]
    }
}

/// Runs this program again, in a pen, with these arguments.
pub(super) fn start(pen: Pen, arguments: &[OsString]) -> Result<()> {
    let mut flags = Vec::new();
    if pen != Pen::None {
        flags.extend(["--mount", "--ipc"]);
    }
    if pen == Pen::Counted {
        flags.push("--user");
    }
    let this = std::env::current_exe().context("cannot find this program")?;
    // Root of the namespace has its rights from when it is started anew.
    let script = "read go; exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(flags).args(["--", "/bin/sh", "-c", script, "sh"]).arg(this).args(arguments);
    let mut child = unshare.stdin(Stdio::piped()).spawn().context("cannot start unshare")?;
    let mut go = child.stdin.take().context("stdin is piped")?;
    if pen == Pen::Counted {
        map_ids(child.id())?;
    }
    go.write_all(b"go\n")?;
    drop(go);
    let status = child.wait()?;
    ensure!(status.success(), "runs in pen {pen:?}: {status}");
    Ok(())
}

/// Writes the id maps once the process is in a user namespace of its own: what this
/// one has, as it is.
fn map_ids(pid: u32) -> Result<()> {
    let file = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let ours = fs::read_link("/proc/self/ns/user")?;
    while fs::read_link(file("ns/user")).context("unshare is gone")? == ours {
        pause()?;
    }
    for name in ["uid_map", "gid_map"] {
        let map = fs::read_to_string(format!("/proc/self/{name}"))?;
        let same = map.lines().filter_map(|line| {
            let mut numbers = line.split_whitespace();
            let (first, count) = (numbers.next()?, numbers.nth(1)?);
            Some(format!("{first} {first} {count}\n"))
        });
        fs::write(file(name), same.collect::<String>())
            .with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Makes what is still shared the pen's own, and gives its directories.
pub(super) fn close() -> Result<Vec<PathBuf>> {
    let mut closed = Vec::new();
    for place in TEMPORARY.map(PathBuf::from) {
        if !place.is_dir() || place.is_symlink() {
            continue;
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("pen", &place, "tmpfs", flags, c"mode=1777")
            .with_context(|| format!("cannot mount {}", place.display()))?;
        closed.push(place);
    }
    Ok(closed)
}

/// Kinds of namespaces: the name of the limit in `/proc/sys/user`, and the flag of unshare(1).
const SPACES: [(&str, &str); 8] = [
    ("user", "--user"),
    ("mnt", "--mount"),
    ("pid", "--pid"),
    ("net", "--net"),
    ("ipc", "--ipc"),
    ("uts", "--uts"),
    ("cgroup", "--cgroup"),
    ("time", "--time"),
];

/// More than anybody ever has.
const SPACES_MAX: u64 = 10_000;

/// The kernel frees them a little later, those too that are made to count.
const FREED: Duration = Duration::from_secs(3);

/// How often they are counted where there are some: whoever counts makes namespaces, and those that
/// are not freed yet are counted with the next, up to three on a busy machine. So the least is true.
const COUNTS: u32 = 6;

/// How long nothing is made before each count.
const REST: Duration = Duration::from_millis(300);

/// The limits of the pen's user namespace, which are nobody else's.
struct Limits {
    /// Name, flag and file.
    kinds: Vec<(&'static str, &'static str, PathBuf)>,
    uid: u32,
}

impl Limits {
    fn new(uid: u32) -> Self {
        let with_file = |(kind, flag): &(&'static str, &'static str)| {
            let file = PathBuf::from(format!("/proc/sys/user/max_{kind}_namespaces"));
            file.exists().then_some((*kind, *flag, file))
        };
        Self { kinds: SPACES.iter().filter_map(with_file).collect(), uid }
    }

    fn flags(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().map(|(_, flag, _)| *flag)
    }

    /// Whether one more namespace of each kind can be made, if only so many of some kinds
    /// may be.
    fn fits(&self, allowed: impl Fn(&str) -> u64) -> Result<bool> {
        for (kind, _, file) in &self.kinds {
            fs::write(file, allowed(kind).to_string())
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        // One that ended still counts until it is collected.
        reap();
        let mut unshare = Command::new("unshare");
        unshare.args(self.flags()).arg("/bin/true").uid(self.uid).gid(self.uid);
        let fits = process::succeeds(&mut unshare);
        for (.., file) in &self.kinds {
            fs::write(file, SPACES_MAX.to_string())?;
        }
        Ok(fits)
    }

    /// Whether nobody has one, after a while at the latest.
    fn are_unused(&self, patience: Duration) -> Result<bool> {
        until(patience, || self.fits(|_| 1))
    }
}

/// How many namespaces of each kind this user has alive in the pen's user namespace: the
/// kernel does not tell, but refuses one more than the limit.
pub(super) fn spaces(uid: u32) -> Result<Vec<(String, u64)>> {
    let limits = Limits::new(uid);
    let unused = limits.are_unused(FREED)?;
    let count = |kind: &'static str| {
        let fits = |allowed| limits.fits(|one| if one == kind { allowed } else { SPACES_MAX });
        let count =
            if unused { 0 } else { least(COUNTS, || rest(REST), || first_that_fits(fits))? };
        Ok((kind.to_owned(), count))
    };
    limits.kinds.iter().map(|(kind, ..)| count(kind)).collect()
}

/// Shows that one of each kind that lives is counted, and that one that is gone is not.
pub(super) fn control(uid: u32) -> Result<()> {
    let limits = Limits::new(uid);
    ensure!(limits.are_unused(SETTLE)?, "namespaces are left: {:?}", spaces(uid)?);
    let mut planted = Command::new("unshare");
    // Ends with its input; PID 1 of its namespace goes with the program that waits for it.
    planted.args(limits.flags()).args(["--fork", "--kill-child", "/bin/sh", "-c"]);
    planted.arg("echo ready; read go").uid(uid).gid(uid);
    let mut planted = planted.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut ready = String::new();
    BufReader::new(planted.stdout.take().context("piped")?).read_line(&mut ready)?;
    let counted = spaces(uid);
    planted.kill()?;
    planted.wait()?;
    let counted = counted?;
    ensure!(counted.iter().all(|(_, count)| *count > 0), "planted, and not counted: {counted:?}");
    ensure!(limits.are_unused(SETTLE)?, "gone, and still counted: {:?}", spaces(uid)?);
    Ok(())
}

/// Whether it holds before patience ends.
fn until(patience: Duration, holds: impl Fn() -> Result<bool>) -> Result<bool> {
    let deadline = Instant::now() + patience;
    while !holds()? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        pause()?;
    }
    Ok(true)
}

/// The least of so many counts, of which none is too low; nothing is less than none.
fn least(
    times: u32,
    mut rest: impl FnMut() -> Result<()>,
    mut count: impl FnMut() -> Result<u64>,
) -> Result<u64> {
    let mut least = count()?;
    for _ in 1..times {
        if least == 0 {
            break;
        }
        rest()?;
        least = least.min(count()?);
    }
    Ok(least)
}

/// The limit that is just reached: one below the first that fits one more.
fn first_that_fits(fits: impl Fn(u64) -> Result<bool>) -> Result<u64> {
    let (mut low, mut high) = (0, 1);
    while !fits(high)? {
        low = high;
        high *= 2;
        ensure!(high <= SPACES_MAX, "no namespace can be made");
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle)? { high = middle } else { low = middle }
    }
    Ok(high - 1)
}

/// A moment, for what gives no event to wait on.
pub(super) fn pause() -> Result<()> {
    rest(Duration::from_millis(20))
}

fn rest(time: Duration) -> Result<()> {
    rustix::event::poll(&mut [], Some(&Timespec::try_from(time)?))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_leave_for_a_moment_is_not_counted() {
        let counted = |counts: &[u64]| {
            let mut counts = counts.iter().copied();
            least(3, || Ok(()), || Ok(counts.next().unwrap())).unwrap()
        };
        assert_eq!(counted(&[3, 1, 2]), 1);
        assert_eq!(counted(&[2, 2, 2]), 2);
        // There can be no less.
        assert_eq!(counted(&[0]), 0);
        assert!(least(3, || Ok(()), none_can_be_made).is_err());
    }

    fn none_can_be_made() -> Result<u64> {
        anyhow::bail!("no namespace can be made")
    }

    #[test]
    fn a_count_is_one_below_the_first_limit_that_fits() {
        for alive in [0, 1, 2, 3, 4, 7, 100, 4999] {
            let counted = first_that_fits(|allowed| Ok(allowed > alive));
            assert_eq!(counted.unwrap(), alive);
        }
        assert!(first_that_fits(|_| Ok(false)).is_err());
    }
}
