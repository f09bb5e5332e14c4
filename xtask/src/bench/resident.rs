//! Processes that stay, and do what they are told to: the floor, and who loads a gateway.

use anyhow::{Context as _, Result, bail, ensure};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// It takes an order a line and answers with microseconds, or why there are none; it ends when
/// nobody orders any more.
pub(super) struct Resident {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Resident {
    /// Starts the floor, whose jails have this project and end with it.
    pub(super) fn start(floor: &Path, project: &Path, home: &Path) -> Result<Self> {
        let mut command = Command::new(floor);
        command.arg("--resident").current_dir(project).env_clear().env("HOME", home);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        Self::of(&mut command)
    }

    /// Starts another program.
    pub(super) fn of(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_owned();
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.with_context(|| format!("cannot start {}", program.display()))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self { child, orders, answers })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it says of its own accord, or to an order before.
    pub(super) fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "it has ended");
        Ok(line.trim().to_owned())
    }

    /// Gives an order, and how long it took to be carried out.
    pub(super) fn order(&mut self, order: &str) -> Result<Duration> {
        let mut orders = self.orders.as_ref().context("it lives as long as this")?;
        writeln!(orders, "{order}").with_context(|| format!("nobody is left to {order}"))?;
        let said = self.hear().with_context(|| format!("told to {order}"))?;
        match said.parse::<f64>() {
            Ok(microseconds) => Ok(Duration::from_secs_f64(microseconds / 1e6)),
            Err(_) => bail!("told to {order}: {said}"),
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        drop(self.orders.take());
        self.child.wait().ok();
    }
}
