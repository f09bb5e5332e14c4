//! `floor --resident`: a process that stays and makes jails when it is told to, as a
//! server does, at the least price.
//!
//! Orders are lines of standard input and answers lines of standard output: microseconds
//! from the order to what it was for, or `failed: ` and why.
//!
//! | order | until |
//! |---|---|
//! | `make` | a jail is there whose first process waits for commands |
//! | `start PROGRAM` | the program has begun in the newest jail |
//! | `run PROGRAM` | it has ended there, and its output is read |
//! | `drop` | all jails are gone |
//!
//! The first process of such a jail raises the walls around itself, once, and its
//! commands inherit them.

use crate::view::View;
use crate::{ENVIRONMENT, Identity, confine, enter, kernel, write_id_maps};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, WaitOptions};
use std::io::{BufRead as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What the first process of a jail says.
const READY: &[u8] = b"ready";
const BEGUN: &[u8] = b"begun";
const ENDED: &[u8] = b"ended";

/// A jail whose first process waits for commands.
struct Jail {
    first: Pid,
    control: OwnedFd,
}

/// Serves orders until there are no more.
pub(crate) fn serve() -> Result<()> {
    let mut jails: Vec<Jail> = Vec::new();
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.context("cannot read orders")?;
        match obey(&line, &mut jails) {
            Ok(us) => writeln!(out, "{us:.1}"),
            Err(error) => writeln!(out, "failed: {error:#}"),
        }
        .context("cannot answer")?;
    }
    Ok(())
}

fn obey(line: &str, jails: &mut Vec<Jail>) -> Result<f64> {
    let begin = Instant::now();
    let (order, program) = line.split_once(' ').unwrap_or((line, ""));
    let newest = || jails.last().context("there is no jail");
    match order {
        "make" => jails.push(Jail::make()?),
        "start" => {
            let jail = newest()?;
            jail.say(program.as_bytes())?;
            jail.hear(BEGUN)?;
            let took = begin.elapsed();
            jail.hear(ENDED)?;
            return Ok(took.as_secs_f64() * 1e6);
        }
        "run" => {
            let jail = newest()?;
            jail.say(program.as_bytes())?;
            jail.hear(BEGUN)?;
            jail.hear(ENDED)?;
        }
        "drop" => {
            for Jail { first, control } in jails.drain(..) {
                rustix::process::kill_process(first, Signal::KILL).context("cannot kill")?;
                drop(control);
                rustix::process::waitpid(Some(first), WaitOptions::empty())
                    .context("cannot wait")?;
            }
        }
        _ => bail!("no such order: {order}"),
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6)
}

impl Jail {
    fn make() -> Result<Self> {
        let view = View::of_working_directory(None)?;
        let identity = Identity::find()?;
        let (go, went) = rustix::pipe::pipe().context("cannot make a pipe")?;
        let (control, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .context("cannot make a socket")?;
        let Some(first) = kernel::clone_into_namespaces().context("cannot clone")? else {
            drop((went, control));
            let code = match inside(&go, &identity, &view, &theirs) {
                Ok(()) => 0,
                Err(error) => {
                    say(&theirs, format!("{error:#}").as_bytes()).ok();
                    1
                }
            };
            std::process::exit(code)
        };
        drop(theirs);
        write_id_maps(first, &identity)?;
        rustix::io::write(&went, b"!").context("cannot wake the child")?;
        let jail = Self { first, control };
        jail.hear(READY)?;
        Ok(jail)
    }

    fn say(&self, message: &[u8]) -> Result<()> {
        say(&self.control, message)
    }

    fn hear(&self, expected: &[u8]) -> Result<()> {
        let mut buffer = [0; 256];
        let length = hear(&self.control, &mut buffer)?;
        let said = String::from_utf8_lossy(&buffer[..length]);
        ensure!(said.as_bytes() == expected, "the first process says {said:?}");
        Ok(())
    }
}

fn say(socket: &OwnedFd, message: &[u8]) -> Result<()> {
    let flags = SendFlags::NOSIGNAL;
    rustix::net::send(socket, message, flags).context("the other side is gone").map(drop)
}

fn hear(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize> {
    let (length, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())
        .context("the other side cannot be heard")?;
    Ok(length)
}

/// The first process: runs one command after the other.
fn inside(go: &OwnedFd, identity: &Identity, view: &View, control: &OwnedFd) -> Result<()> {
    enter(go, identity, view)?;
    confine(view)?;
    say(control, READY)?;
    let mut buffer = [0; 256];
    loop {
        let length = hear(control, &mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let line = str::from_utf8(&buffer[..length]).context("no name of a program")?;
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env_clear().stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in ENVIRONMENT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let child = command.spawn().with_context(|| format!("cannot start {line}"))?;
        say(control, BEGUN)?;
        let output = child.wait_with_output().context("cannot wait")?;
        ensure!(output.status.success(), "{line}: {}", output.status);
        say(control, ENDED)?;
    }
}
