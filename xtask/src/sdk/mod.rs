//! `cargo xtask ci --only sdk`: the SDKs against the built program.

mod jobs;
mod node;
mod ordinary;
mod python;

use crate::{process, skips, workspace};
use anyhow::{Context as _, Result};
use jobs::Job;
use node::Package;
use ordinary::Place;
use python::Environment;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the SDKs are checked with; nothing happens where it is there.
pub(crate) fn install() -> [Result<()>; 3] {
    [Environment::make().map(drop), node::demo().map(drop), Package::install().map(drop)]
}

pub(crate) fn run() -> Result<()> {
    let place = Place::make(&folder()?.join("python"), &program()?)?;
    let runs = Runs { program: place.path("atoll"), folders: Vec::new() };
    let mut work = Work { place, runs, jobs: Vec::new(), skipped: Vec::new() };
    // Built first: the demo uses what is built.
    match Package::install() {
        Ok(package) => work.typescript(&package)?,
        Err(error) => work.skipped.push(format!("SKIPPED sdk-typescript: {error:#}")),
    }
    match Environment::make() {
        Ok(environment) => work.python(&environment)?,
        Err(error) => work.skipped.push(format!("SKIPPED sdk-python: {error:#}")),
    }
    let outcome = jobs::run(work.jobs, &folder()?.join("logs"));
    let skipped = [work.skipped, work.runs.skipped()?].concat();
    for line in &skipped {
        println!("{line}");
    }
    skips::record("sdk", &skipped)?;
    outcome
}

/// What is to be done, and what is not.
struct Work {
    place: Place,
    runs: Runs,
    jobs: Vec<Job>,
    skipped: Vec<String>,
}

impl Work {
    fn python(&mut self, environment: &Environment) -> Result<()> {
        environment.install_sdk()?;
        self.jobs.push(Job { name: "python-checks", commands: environment.checks()? });
        let mut tests = environment.python();
        tests.args(["-m", "pytest", "-q"]);
        self.test("python", "python-tests", tests)?;
        let mut ordinary = self.place.command();
        ordinary.arg(self.place.path("tools/bin/python")).args(["-B", "-m", "pytest", "-q"]);
        ordinary.arg(self.place.path("repository/sdk/python"));
        self.test_ordinary("python", "python-tests-ordinary", ordinary)?;
        let mut demo = environment.python();
        demo.args(["-m", "pytest", "-q", "../demo"]);
        match node::demo() {
            Ok(modules) => drop(demo.env("ATOLL_DEMO_MODULES", modules)),
            // The tests say that they are skipped.
            Err(error) => println!("no packages for the demo: {error:#}"),
        }
        self.test("demo", "demo", demo)
    }

    fn typescript(&mut self, package: &Package) -> Result<()> {
        process::run(package.npm().args(["run", "build"]))?;
        let mut checks = package.npm();
        checks.args(["run", "check"]);
        self.jobs.push(Job { name: "typescript-checks", commands: vec![checks] });
        let mut tests = package.npm();
        tests.arg("test");
        self.test("typescript", "typescript-tests", tests)?;
        let mut ordinary = self.place.command();
        // A copy that is theirs, as a checkout of their own would be.
        let script = "cp -r \"$1/sdk\" \"$1/openapi\" \"$HOME\" && cd ~/sdk/typescript && npm --no-update-notifier test";
        ordinary.args(["/bin/sh", "-c", script, "sh"]).arg(self.place.path("repository"));
        self.test_ordinary("typescript", "typescript-tests-ordinary", ordinary)
    }

    fn test(&mut self, of: &'static str, name: &'static str, tests: Command) -> Result<()> {
        let commands = vec![self.runs.add(of, tests)?];
        self.jobs.push(Job { name, commands });
        Ok(())
    }

    /// The same by an ordinary user, where that is not who runs the checks anyway.
    fn test_ordinary(
        &mut self,
        of: &'static str,
        name: &'static str,
        tests: Command,
    ) -> Result<()> {
        if rustix::process::geteuid().is_root() { self.test(of, name, tests) } else { Ok(()) }
    }
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
