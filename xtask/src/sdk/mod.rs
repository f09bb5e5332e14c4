//! `cargo xtask ci --only sdk`: the SDKs against the built program.

mod jobs;
mod node;
mod ordinary;
mod python;

use crate::{process, skips, workspace};
use anyhow::{Context as _, Result};
use jobs::Job;
use ordinary::Place;
use python::Environment;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the SDKs are checked with; nothing happens where it is there.
pub(crate) fn install() -> Result<()> {
    let python = Environment::make().map(drop);
    node::demo().map(drop).and(python)
}

pub(crate) fn run() -> Result<()> {
    let program = program()?;
    let environment = match Environment::make() {
        Ok(environment) => environment,
        Err(error) => return skips::record("sdk", &[format!("SKIPPED sdk-python: {error:#}")]),
    };
    environment.install_sdk()?;
    let mut jobs = vec![Job { name: "python-checks", commands: environment.checks()? }];
    let place = Place::make(environment.folder(), &program)?;
    let mut runs = Runs { program: place.path("atoll"), folders: Vec::new() };
    let mut tests = environment.python();
    tests.args(["-m", "pytest", "-q"]);
    jobs.push(Job { name: "python-tests", commands: vec![runs.add("python", tests)?] });
    if rustix::process::geteuid().is_root() {
        let mut tests = place.command();
        tests.arg(place.path("tools/bin/python")).args(["-B", "-m", "pytest", "-q"]);
        tests.arg(place.path("repository/sdk/python"));
        jobs.push(Job {
            name: "python-tests-ordinary",
            commands: vec![runs.add("python", tests)?],
        });
    }
    let mut demo = environment.python();
    demo.args(["-m", "pytest", "-q", "../demo"]);
    match node::demo() {
        Ok(modules) => drop(demo.env("ATOLL_DEMO_MODULES", modules)),
        // The tests say that they are skipped.
        Err(error) => println!("no packages for the demo: {error:#}"),
    }
    jobs.push(Job { name: "demo", commands: vec![runs.add("demo", demo)?] });
    let outcome = jobs::run(jobs, &folder()?.join("logs"));
    let skipped = runs.skipped()?;
    for line in &skipped {
        println!("{line}");
    }
    skips::record("sdk", &skipped)?;
    outcome
}

/// What this step makes, and keeps from one run to the next.
fn folder() -> Result<PathBuf> {
    Ok(workspace::metadata()?.target_directory.join("sdk"))
}

/// The part of cargo's messages that says where a program is.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// The program as the other tests have it.
fn program() -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.args(["build", "--package", "atoll", "--bin", "atoll"]);
    let output = process::output(cargo.arg("--message-format=json-render-diagnostics"))?;
    let mut found = None;
    for line in output.lines() {
        let message: Message = serde_json::from_str(line).context("cargo printed no JSON")?;
        found = message.executable.or(found);
    }
    found.context("cargo built no atoll")
}

/// Runs of the same tests, by this user and that.
struct Runs {
    program: PathBuf,
    /// Of which tests, and where their skips are.
    folders: Vec<(&'static str, tempfile::TempDir)>,
}

impl Runs {
    /// Tells a test run which program to test, and where to write its skips.
    fn add(&mut self, of: &'static str, mut tests: Command) -> Result<Command> {
        let folder = tempfile::Builder::new().prefix("atoll-skips-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777))?;
        tests.env(skips::FOLDER_VARIABLE, folder.path()).env("ATOLL_PROGRAM", &self.program);
        self.folders.push((of, folder));
        Ok(tests)
    }

    /// Skips of all runs; what one of them tested is tested.
    fn skipped(&self) -> Result<Vec<String>> {
        let mut skipped: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (of, folder) in &self.folders {
            let lines = lines_below(folder.path())?;
            match skipped.get_mut(of) {
                Some(before) => before.retain(|line| lines.contains(line)),
                None => drop(skipped.insert(of, lines)),
            }
        }
        let all: BTreeSet<String> = skipped.into_values().flatten().collect();
        Ok(all.into_iter().collect())
    }
}

/// The lines of all files in a folder.
fn lines_below(folder: &Path) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        lines.extend(fs::read_to_string(entry?.path())?.lines().map(ToOwned::to_owned));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_run_tested_is_not_skipped() {
        let mut runs = Runs { program: PathBuf::new(), folders: Vec::new() };
        for root in [None, Some("ordinary")] {
            runs.add("python", Command::new("true")).unwrap();
            let folder = runs.folders.last().unwrap().1.path();
            fs::write(folder.join("pause.txt"), "SKIPPED pause: no group\n").unwrap();
            if let Some(reason) = root {
                fs::write(folder.join("root.txt"), format!("SKIPPED root: {reason}\n")).unwrap();
            }
        }
        runs.add("demo", Command::new("true")).unwrap();
        let folder = runs.folders.last().unwrap().1.path();
        fs::write(folder.join("root.txt"), "SKIPPED browser: none\n").unwrap();
        let skipped = runs.skipped().unwrap();
        assert_eq!(skipped, ["SKIPPED browser: none", "SKIPPED pause: no group"]);
    }
}
