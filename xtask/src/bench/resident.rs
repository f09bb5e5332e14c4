//! The floor as a process that stays, and makes jails when it is told to.

use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// See `floor --resident`. Its jails end with it.
pub(super) struct Resident {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Resident {
    /// Starts one whose jails have this project.
    pub(super) fn start(floor: &Path, project: &Path, home: &Path) -> Result<Self> {
        let mut command = Command::new(floor);
        command.arg("--resident").current_dir(project).env_clear().env("HOME", home);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("no floor")?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self { child, orders, answers })
    }

    /// Gives an order, and how long it took to be carried out.
    pub(super) fn order(&mut self, order: &str) -> Result<Duration> {
        let mut orders = self.orders.as_ref().context("it lives as long as this")?;
        writeln!(orders, "{order}").context("the floor is gone")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim().parse::<f64>() {
            Ok(microseconds) => Ok(Duration::from_secs_f64(microseconds / 1e6)),
            Err(_) => bail!("the floor, told to {order}: {}", line.trim()),
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        drop(self.orders.take());
        self.child.wait().ok();
    }
}
