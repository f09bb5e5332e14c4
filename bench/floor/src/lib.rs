//! The floor: the cheapest way to make Atoll's jail by hand, as a yardstick.
//!
//! `floor COMMAND [ARG]...` runs one command in the working directory and gives
//! its exit status; with `--layer DIRECTORY` writes go there instead, and
//! `floor --resident` makes jails that stay. It makes the
//! same namespaces, view and restrictions as `atoll run` and nothing else: no policy,
//! no limits, no supervision, no explanations. What `atoll run` takes beyond it is the
//! price of those.

mod filter;
mod kernel;
mod landlock;
mod resident;
mod view;

use anyhow::{Context as _, Result};
use rustix::io::Errno;
use rustix::process::{Pid, RawPid, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use view::View;

/// Exit status for a failure of the floor's own, as in `atoll run`.
const EXIT_OURS: i32 = 125;

/// Variables that reach the command.
const ENVIRONMENT: &[&str] = &["HOME", "LANG", "PATH", "TERM"];

/// The program; gives its exit status.
#[must_use]
pub fn main() -> i32 {
    let mut args = std::env::args_os().skip(1).peekable();
    // The shortest program there is, to be run inside.
    if args.next_if_eq("--nothing").is_some() {
        return 0;
    }
    let is_resident = args.next_if_eq("--resident").is_some();
    let layer = args.next_if_eq("--layer").and_then(|_| args.next()).map(PathBuf::from);
    let outcome = match args.next() {
        None if is_resident => resident::serve().map(|()| 0),
        Some(command) => run(&command, args.collect(), layer),
        None => Err(anyhow::anyhow!("usage: floor [--layer NEW-DIRECTORY] COMMAND [ARG]...")),
    };
    outcome.unwrap_or_else(|error| {
        // A closed stderr leaves nobody to tell; the exit status still speaks.
        writeln!(std::io::stderr(), "floor: {error:#}").ok();
        EXIT_OURS
    })
}

/// Who owns the files that the command makes: the caller, or for root the owner
/// of the project.
struct Identity {
    uid: u32,
    gid: u32,
}

impl Identity {
    fn find() -> Result<Self> {
        if rustix::process::geteuid().is_root() {
            let project = fs::metadata(".").context("cannot read the working directory")?;
            return Ok(Self { uid: project.uid(), gid: project.gid() });
        }
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Ok(Self { uid: uid.as_raw(), gid: gid.as_raw() })
    }
}

fn run(command: &OsString, args: Vec<OsString>, layer: Option<PathBuf>) -> Result<i32> {
    let view = View::of_working_directory(layer)?;
    let identity = Identity::find()?;
    let (go, went) = rustix::pipe::pipe().context("cannot make a pipe")?;
    match kernel::clone_into_namespaces().context("cannot clone")? {
        None => {
            drop(went);
            first_process(&go, &identity, &view, command, args)
        }
        Some(child) => {
            write_id_maps(child, &identity)?;
            rustix::io::write(&went, b"!").context("cannot wake the child")?;
            wait(child)
        }
    }
}

/// Maps the one identity to itself.
fn write_id_maps(child: Pid, identity: &Identity) -> Result<()> {
    let folder = format!("/proc/{}", child.as_raw_nonzero());
    let Identity { uid, gid } = identity;
    let write = |file: &str, text: String| {
        fs::write(format!("{folder}/{file}"), text).with_context(|| format!("cannot write {file}"))
    };
    write("uid_map", format!("{uid} {uid} 1"))?;
    // An ordinary user may map a group only after giving up setgroups(2):
    // user_namespaces(7).
    write("setgroups", "deny".to_owned())?;
    write("gid_map", format!("{gid} {gid} 1"))
}

/// The child: makes the view, starts the command and, as PID 1, reaps until it
/// has ended. A command that were PID 1 itself would ignore its signals'
/// default actions and leave zombies: that is no jail to run a build in.
fn first_process(
    go: &OwnedFd,
    identity: &Identity,
    view: &View,
    command: &OsString,
    args: Vec<OsString>,
) -> Result<i32> {
    enter(go, identity, view)?;
    match kernel::fork().context("cannot fork")? {
        None => Err(workload(view, command, args)),
        Some(child) => loop {
            if let Some(code) = reap(None)?.filter(|(pid, _)| *pid == child).map(|(_, code)| code) {
                return Ok(code);
            }
        },
    }
}

/// Raises the walls and becomes the command. Returns only if that fails.
fn workload(view: &View, command: &OsString, args: Vec<OsString>) -> anyhow::Error {
    if let Err(error) = confine(view) {
        return error;
    }
    let mut command = Command::new(command);
    command.args(args).env_clear();
    for name in ENVIRONMENT {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    anyhow::Error::new(command.exec()).context("cannot execute the command")
}

fn enter(go: &OwnedFd, identity: &Identity, view: &View) -> Result<()> {
    while rustix::io::read(go, &mut [0_u8; 1]) == Err(Errno::INTR) {}
    if rustix::process::geteuid().as_raw() != identity.uid {
        kernel::become_user(identity.uid, identity.gid).context("cannot become the owner")?;
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot ask for a signal at the parent's death")?;
    view.enter()?;
    kernel::raise_loopback().context("cannot raise the loopback interface")
}

fn confine(view: &View) -> Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            // Beyond the newest that the kernel knows.
            Err(Errno::INVAL) => break,
            done => done.context("cannot empty the bounding set")?,
        }
    }
    rustix::thread::set_no_new_privs(true).context("cannot set no_new_privs")?;
    landlock::restrict(view)?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        },
    )
    .context("cannot drop capabilities")?;
    kernel::close_above_stderr().context("cannot close descriptors")?;
    kernel::install_filter(&filter::program()).context("cannot install the seccomp filter")
}

fn wait(child: Pid) -> Result<i32> {
    loop {
        if let Some((_, code)) = reap(Some(child))? {
            return Ok(code);
        }
    }
}

/// Waits for one child: which it was, and the exit status that stands for its end.
fn reap(child: Option<Pid>) -> Result<Option<(Pid, i32)>> {
    let waited = match child {
        Some(child) => rustix::process::waitpid(Some(child), WaitOptions::empty()),
        None => rustix::process::wait(WaitOptions::empty()),
    };
    let (pid, status) = match waited {
        Err(Errno::INTR) | Ok(None) => return Ok(None),
        Err(error) => return Err(error).context("cannot wait for the command"),
        Ok(Some(ended)) => ended,
    };
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => return Ok(None),
    };
    Ok(Some((pid, code)))
}

/// A pid as clone3 gives it.
fn pid(raw: i64) -> Option<Pid> {
    RawPid::try_from(raw).ok().and_then(Pid::from_raw)
}
