//! Every way of running, over and over.

use super::Home;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::pty::OpenptFlags;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

enum End {
    /// The command's own.
    Exits(i32),
    /// With what it changed kept for a person, who throws it away.
    Discarded,
    /// By `--timeout`, wherever it was by then.
    TimedOut,
    /// The launcher is killed as soon as it was started.
    KilledAtOnce,
    /// The launcher is killed when the command runs.
    KilledRunning,
    /// The command's own, on a terminal.
    OnTerminal,
}

struct Kind {
    flags: &'static [&'static str],
    script: &'static str,
    end: End,
}

/// Makes and removes a file, and leaves a process in the background.
const WORK: &str = "echo x > made; rm made; (setsid sleep 1000 &)";
/// The same, told when it runs, and then runs on.
const LASTING: &str = "(setsid sleep 1000 &); echo ready; sleep 1000";

/// Limits make a control group, where there may be one.
const KINDS: [Kind; 10] = [
    Kind { flags: &["--workspace", "live"], script: WORK, end: End::Exits(0) },
    Kind { flags: &["--workspace", "none"], script: "(setsid sleep 1000 &)", end: End::Exits(0) },
    Kind { flags: &["--workspace", "review"], script: WORK, end: End::Exits(0) },
    Kind {
        flags: &["--workspace", "review"],
        script: "mkdir -p a/b; echo x > a/b/made",
        end: End::Discarded,
    },
    Kind { flags: &["--memory", "64MiB", "--pids", "50"], script: WORK, end: End::Exits(0) },
    Kind { flags: &["--workspace", "live"], script: "kill -9 $$", end: End::Exits(137) },
    Kind { flags: &["--timeout", "1ms"], script: WORK, end: End::TimedOut },
    // Under review what there was by then would be kept for a person.
    Kind { flags: &["--workspace", "live"], script: LASTING, end: End::KilledAtOnce },
    Kind { flags: &["--memory", "64MiB"], script: LASTING, end: End::KilledRunning },
    Kind { flags: &["--workspace", "live"], script: WORK, end: End::OnTerminal },
];

pub(super) fn count() -> u32 {
    u32::try_from(KINDS.len()).expect("there are few")
}

/// Run number so and so, in a fixed rotation.
pub(super) fn run(number: u32, program: &Path, home: &Home, user: Option<u32>) -> Result<()> {
    let kind = &KINDS[usize::try_from(number % count())?];
    kind.run(program, home, user).with_context(|| format!("{:?} {:?}", kind.flags, kind.script))
}

impl Kind {
    fn run(&self, program: &Path, home: &Home, user: Option<u32>) -> Result<()> {
        let atoll = || command(Command::new(program), home, user);
        let mut run = atoll();
        run.arg("run").args(self.flags).args(["--", "/bin/sh", "-c", self.script]);
        match self.end {
            End::Exits(code) => {
                let output = run.output()?;
                expect(output.status, &[code], &output.stderr)
            }
            End::TimedOut => {
                let output = run.output()?;
                expect(output.status, &[0, 124], &output.stderr)
            }
            End::Discarded => {
                let output = run.output()?;
                expect(output.status, &[0], &output.stderr)?;
                let output = atoll().args(["discard", "--yes"]).output()?;
                expect(output.status, &[0], &output.stderr)
            }
            End::KilledAtOnce => killed(run.stderr(Stdio::null()).spawn()?),
            End::KilledRunning => {
                let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
                let mut line = String::new();
                BufReader::new(child.stdout.take().context("piped")?).read_line(&mut line)?;
                if line != "ready\n" {
                    let output = child.wait_with_output()?;
                    bail!("not ready: {}", String::from_utf8_lossy(&output.stderr));
                }
                killed(child)
            }
            End::OnTerminal => on_terminal(program, &run, home, user),
        }
    }
}

fn command(mut command: Command, home: &Home, user: Option<u32>) -> Command {
    command.current_dir(&home.root).env_clear().env("HOME", &home.home);
    command.env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(uid) = user {
        command.uid(uid).gid(uid);
    }
    command
}

fn expect(status: ExitStatus, codes: &[i32], said: &[u8]) -> Result<()> {
    let is_expected = status.code().is_some_and(|code| codes.contains(&code));
    ensure!(is_expected, "{status}: {}", String::from_utf8_lossy(said));
    Ok(())
}

fn killed(mut child: Child) -> Result<()> {
    child.kill()?;
    let status = child.wait()?;
    ensure!(status.signal() == Some(9), "ended before it was killed: {status}");
    Ok(())
}

/// With a terminal for all three, which is the controlling one: setsid(1).
fn on_terminal(program: &Path, run: &Command, home: &Home, user: Option<u32>) -> Result<()> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    if let Some(uid) = user {
        rustix::fs::fchown(&slave, Some(rustix::fs::Uid::from_raw(uid)), None)?;
    }
    let slave = File::from(slave);
    let mut leader = command(Command::new("setsid"), home, user);
    leader.args(["--ctty", "--wait"]).arg(program).args(run.get_args());
    leader.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    let status = leader.status().context("cannot start setsid")?;
    expect(status, &[0], b"on a terminal")
}
