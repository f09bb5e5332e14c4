//! Commands that run beside each other, each with a log of its own.

use crate::process;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

/// Commands that run one after the other.
pub(super) struct Job {
    pub(super) name: &'static str,
    pub(super) commands: Vec<Command>,
}

/// Runs all of them at once; what one of them says is printed when it is over.
pub(super) fn run(jobs: Vec<Job>, logs: &Path) -> Result<()> {
    fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let failed: Vec<&str> = thread::scope(|scope| {
        let start = |job: Job| scope.spawn(move || (job.name, job.run(logs)));
        let running: Vec<_> = jobs.into_iter().map(start).collect();
        let ended = running.into_iter().map(|thread| thread.join().expect("a job does not panic"));
        ended.filter_map(|(name, outcome)| outcome.is_err().then_some(name)).collect()
    });
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

impl Job {
    fn run(self, logs: &Path) -> Result<()> {
        let begin = Instant::now();
        let log = logs.join(self.name).with_extension("log");
        let outcome = record(self.commands, &log);
        let said = fs::read_to_string(&log).unwrap_or_default();
        let took = begin.elapsed().as_secs_f64();
        let verdict = match &outcome {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("FAILED: {error:#}"),
        };
        println!("--- {} ---\n{said}{}: {verdict} in {took:.1} s", self.name, self.name);
        outcome
    }
}

/// Runs commands up to the first that fails, with all that they print in one file.
fn record(commands: Vec<Command>, log: &Path) -> Result<()> {
    let file = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    for mut command in commands {
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
        let line = process::line(&command);
        let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
        if !status.success() {
            bail!("`{line}`: {status}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_job_stops_at_its_first_failure_and_others_go_on() {
        let logs = tempfile::tempdir().unwrap();
        let jobs = vec![
            Job { name: "bad", commands: vec![shell("echo one; exit 3"), shell("echo two")] },
            Job { name: "good", commands: vec![shell("echo out; echo err >&2"), shell("cat")] },
        ];
        let error = run(jobs, logs.path()).unwrap_err();
        assert_eq!(error.to_string(), "failed: bad");
        let said = |name: &str| fs::read_to_string(logs.path().join(name)).unwrap();
        assert_eq!(said("bad.log"), "one\n");
        assert_eq!(said("good.log"), "out\nerr\n");
    }
}
